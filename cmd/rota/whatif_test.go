package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/foresight/whatif"
)

// recordedLoad is a load of jobs that come one by one, to workers that stay when all are done.
type recordedLoad struct {
	jobs, workers, slots int
	every, hold          time.Duration
	tenants              []rota.TenantID
}

// recordedCluster runs a load on three nodes, backs them up, stops them, and returns their data directory and the
// backup. The log ends a while after the last job, so that a replay whose last jobs end later than the record's still
// has its workers and enough time for them.
func recordedCluster(t *testing.T, load recordedLoad) (data, backup string) {
	t.Helper()
	backup = filepath.Join(t.TempDir(), "backup.rota")
	var addr, said string
	var stop func() error
	for tries := 0; stop == nil; tries++ { // another process may take the free ports that it finds
		data = t.TempDir()
		if addr, said, stop = threeNodes(t, data); stop == nil &&
			(tries == 3 || !strings.Contains(said, "in use") && !strings.Contains(said, "taken")) {
			t.Fatal(said)
		}
	}
	err := load.run(t, addr, func() error {
		var said bytes.Buffer
		if code := run([]string{"operator", "snapshot", "save", backup, "--addr", addr}, nil, strings.NewReader(""),
			io.Discard, &said); code != cli.ExitDone {
			return fmt.Errorf("exit code %d: %s", code, said.String())
		}
		return nil
	})
	if err := errors.Join(err, stop()); err != nil {
		t.Fatal(err)
	}
	return data, backup
}

// run runs all jobs, and calls back before the workers end.
func (l recordedLoad) run(t *testing.T, addr string, done func() error) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	c, err := client.Dial(strings.Split(addr, ","))
	if err != nil {
		cancel()
		return err
	}
	var workers sync.WaitGroup
	defer func() {
		cancel()
		workers.Wait()
		_ = c.Close()
	}()
	if _, err := c.SetQueue(ctx, "bench", "standard", nil); err != nil {
		return err
	}
	for i := range l.workers {
		w, err := client.NewWorker(c, rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprint("w", i)),
			Queues: []rota.QueueName{"bench"}, Slots: int32(l.slots)})
		if err != nil {
			return err
		}
		w.Handle("", func(context.Context, *client.Job) (client.Result, error) {
			time.Sleep(l.hold)
			return client.Result{}, nil
		})
		workers.Go(func() { _ = w.Run(ctx) })
	}
	ids := make([]rota.JobID, l.jobs)
	each := time.NewTicker(l.every)
	defer each.Stop()
	for i := range ids {
		<-each.C
		job := rota.NewJobSpec("bench", nil)
		job.ID, job.Queue, job.Tenant = rota.JobID(fmt.Sprintf("job-%d", i)), "bench", l.tenants[i%len(l.tenants)]
		if _, err := c.Submit(ctx, job); err != nil {
			return err
		}
		ids[i] = job.ID
	}
	for _, err := range c.Wait(ctx, ids...) {
		if err != nil {
			return err
		}
	}
	time.Sleep(time.Second)
	if _, err := c.SetQueue(ctx, "later", "standard", nil); err != nil {
		return err
	}
	return done()
}

// threeNodes starts a cluster; stop is nil if it does not start, and said holds its output.
func threeNodes(t *testing.T, data string) (addr, said string, stop func() error) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api := free.Addr().String()
	_ = free.Close()
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		a := &cli.App{Stdin: strings.NewReader(""), Stdout: out, Stderr: &cli.LockedWriter{W: io.Discard}}
		root := rootCommand(a)
		root.SetArgs([]string{"dev", "--nodes", "3", "--api", api, "--data", data})
		err := root.ExecuteContext(ctx)
		out.CloseWithError(io.EOF)
		done <- err
	}()
	lines := bufio.NewScanner(in)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "ready addr=") {
		cancel()
		return "", fmt.Sprintf("the cluster's first line is %q, and it ended with %v", lines.Text(), <-done), nil
	}
	return strings.TrimPrefix(lines.Text(), "ready addr="), "", func() error {
		cancel()
		return <-done
	}
}

// askWhatIf runs rota what-if.
func askWhatIf(args ...string) (out, said string, code int) {
	var o, e bytes.Buffer
	code = run(append([]string{"what-if"}, args...), nil, strings.NewReader(""), &o, &e)
	return o.String(), e.String(), code
}

// TestWhatIf replays the log of three real nodes: the unchanged policy repeats every one of its decisions exactly, and
// with one more worker jobs wait no longer.
func TestWhatIf(t *testing.T) {
	t.Parallel()
	const jobs = 60
	data, backup := recordedCluster(t, recordedLoad{jobs: jobs, workers: 2, slots: 1, every: 25 * time.Millisecond,
		hold: 60 * time.Millisecond, tenants: []rota.TenantID{rota.DefaultTenant, "bench-1"}})
	var first whatif.Report
	for _, from := range []string{filepath.Join(data, "n1"), filepath.Join(data, "n3"), backup} {
		out, said, code := askWhatIf("--from", from, "--workers", "+8xslots=1,queues=bench", "-o", "json")
		var r whatif.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != cli.ExitDone {
			t.Fatalf("%s: %v, exit code %d: %s", from, err, code, said)
		}
		if c := r.Control; c.Difference != nil || c.Decisions != jobs || c.Equal != jobs {
			t.Errorf("%s: control %+v, %+v", from, c, c.Difference)
		}
		if r.Parting == nil || len(r.Histories) != 3 || r.Partial {
			t.Fatalf("%s: %s", from, out)
		}
		record, control, changed := r.Histories[0], r.Histories[1], r.Histories[2]
		t.Logf("waits of %.3f s, control %.3f s with %d decisions in common, changed %.3f s", record.WaitMeanS,
			control.WaitMeanS, control.Common, changed.WaitMeanS)
		if record.Completed != jobs || control.Completed != jobs || changed.Completed != jobs || changed.Filled != 0 ||
			len(changed.Tenants) != 2 {
			t.Errorf("%s: recorded %+v, control %+v, changed %+v", from, record, control, changed)
		}
		if changed.WaitMeanS >= control.WaitMeanS/2 || control.WaitMeanS < record.WaitMeanS*0.5 ||
			control.WaitMeanS > record.WaitMeanS*1.5 {
			t.Errorf("%s: jobs waited for %g s, in the control for %g s, and with eight workers more for %g s", from,
				record.WaitMeanS, control.WaitMeanS, changed.WaitMeanS)
		}
		if first.To == 0 {
			first = r
		} else if first.Parting.Index != r.Parting.Index || first.Parting.WhatIf.Worker != r.Parting.WhatIf.Worker {
			t.Errorf("%s: the histories differ at %+v, elsewhere at %+v", from, r.Parting, first.Parting)
		}
	}
	out, said, code := askWhatIf("--from", backup, "--without-tenant", "bench-1", "--until", first.Until.String())
	for _, want := range []string{"all 60 decisions as recorded", "first difference", "in the record",
		"tenant default"} {
		if code != cli.ExitDone || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q: %s%s", code, want, out, said)
		}
	}
	if _, said, code := askWhatIf("--from", backup, "--set", "batch.ranking=fifo"); code != cli.ExitFailed ||
		!strings.Contains(said, `no queue "batch"`) {
		t.Errorf("an unknown queue: exit code %d, %s", code, said)
	}
	if _, said, code := askWhatIf("--from", backup, "--set", "bench.ranking=fifo", "--since",
		"2100-01-01T00:00:00Z"); code == cli.ExitDone || !strings.Contains(said, "the log ends at") {
		t.Errorf("a date behind the log: exit code %d, %s", code, said)
	}
	interrupted(t, backup)
}

// TestWhatIf_quiet: where jobs come one after the other to a worker that has room for all, the control repeats the
// decisions of three real nodes with entries of its own, too, from the first on: the same jobs to the same worker in
// the same order, however busy the machine is.
func TestWhatIf_quiet(t *testing.T) {
	t.Parallel()
	data, _ := recordedCluster(t, recordedLoad{jobs: 20, workers: 1, slots: 64, every: 100 * time.Millisecond,
		hold:    20 * time.Millisecond,
		tenants: []rota.TenantID{rota.DefaultTenant}})
	out, said, code := askWhatIf("--from", filepath.Join(data, "n2"), "--set", "bench.paused=on", "-o", "json")
	var r whatif.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != cli.ExitDone || len(r.Histories) != 3 {
		t.Fatalf("%v, exit code %d: %s", err, code, said)
	}
	h := r.Histories[1]
	if c := r.Control; c.Difference != nil || c.Equal != 20 || h.Completed != 20 || h.Common != 20 ||
		r.Histories[2].Started != 0 {
		t.Fatalf("control %+v, %+v, changed %+v", c, h, r.Histories[2])
	}
}

// interrupted ends a run with Ctrl-C.
func interrupted(t *testing.T, from string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cli.SignalError{Signal: syscall.SIGINT})
	var out, said bytes.Buffer
	a := &cli.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said}
	root := rootCommand(a)
	root.SetArgs([]string{"what-if", "--from", from, "--set", "bench.ranking=fifo", "-o", "json"})
	err := root.ExecuteContext(ctx)
	var silent *cli.SilentExit
	if !errors.As(err, &silent) || silent.Code != 130 || !strings.Contains(out.String(), `"partial": true`) ||
		!strings.Contains(said.String(), "interrupted: 0 of 3") {
		t.Errorf("%v: %s%s", err, out.String(), said.String())
	}
}

func TestWhatIf_refuses(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, test := range []struct {
		args []string
		want string
		code int
	}{
		{nil, "--from is missing", cli.ExitUsage},
		{[]string{"--from", empty}, "nothing is changed", cli.ExitUsage},
		{[]string{"--from", empty, "--set", "q.rankin=fifo"}, `did you mean "ranking"`, cli.ExitUsage},
		{[]string{"--from", empty, "--set", "ranking=fifo"}, "use QUEUE.key=value", cli.ExitUsage},
		{[]string{"--from", empty, "--set", "q.ranking=best"}, `unknown ranking "best"`, cli.ExitUsage},
		{[]string{"--from", empty, "--workers", "4xw"}, "use +4xSPEC", cli.ExitUsage},
		{[]string{"--from", empty, "--set-budget", "acme"}, `set-budget: got "acme"; use NAME=LIMIT`, cli.ExitUsage},
		{[]string{"--from", empty, "--set-budget", "=5"}, `set-budget: got ""; use 1 to`, cli.ExitUsage},
		{[]string{"--from", empty, "--set-budget", "acme=-1"}, `limit: got "-1"; use a decimal`, cli.ExitUsage},
		{[]string{"--from", empty, "--set-budget", "acme=1e-9"}, `limit: got "1e-9"; use a decimal`, cli.ExitUsage},
		{[]string{"--from", empty, "--without-tenant", "a b"}, `got "a b"; use 1 to`, cli.ExitUsage},
		{[]string{"--from", empty, "--set", "q.ranking=fifo", "--since", "2026-01-02T00:00:00Z", "--until",
			"2026-01-01T00:00:00Z"}, "must be after --since", cli.ExitUsage},
		{[]string{"--from", empty, "--set", "q.ranking=fifo"}, "holds no log", cli.ExitFailed},
		{[]string{"--from", filepath.Join(empty, "gone"), "--set", "q.ranking=fifo"}, "file not found", cli.ExitFailed},
	} {
		if out, said, code := askWhatIf(test.args...); out != "" || code != test.code ||
			!strings.Contains(said, test.want) {
			t.Errorf("%v: exit code %d, want %d; stderr %q, want %q; %s", test.args, code, test.code, said, test.want,
				out)
		}
	}
}
