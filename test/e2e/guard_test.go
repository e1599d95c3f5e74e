//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// A worker with --exec has a guard, which cleans up the processes that the worker leaves.
func TestGuard(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *nodes)
	}{
		{"killed_worker", guardKilledWorker},
		{"killed_guard", guardKilled},
		{"hangup_is_passed_on", guardHangup},
		{"ctrl_z_stops_nobody", guardStop},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.run(t, c)
		})
	}
}

// workerOf finds the worker of a guard: its child that also runs this binary. Orphans of commands are its children as
// well.
func workerOf(t *testing.T, guard *process) int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", guard.PID()))
	check(t, err)
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(text)) {
			if exe, _ := os.Readlink("/proc/" + child + "/exe"); exe == rotaBinary {
				pid, err := strconv.Atoi(child)
				check(t, err)
				return pid
			}
		}
	}
	t.Fatalf("guard %d has no worker", guard.PID())
	return 0
}

// A worker is killed while its command runs, which left a daemon behind in a separate session: that is dead before the
// job runs again, elsewhere, and long before the 40 s of silence.
func guardKilledWorker(t *testing.T, c *nodes) {
	execQueue(t, c, "guarded")
	// A long lease, so that its deadline has no effect.
	c.rota(t, "queue", "set", "guarded", "--set", "lease_ms=600000").want(t, 0)
	dir := t.TempDir()
	script := `if [ ! -e ` + dir + `/daemon ]; then
			(setsid sleep 600 >/dev/null 2>&1 & echo $! >` + dir + `/new; mv ` + dir + `/new ` + dir + `/daemon)
			sleep 600
		fi
		kill -0 $(cat ` + dir + `/daemon) 2>/dev/null && echo alive || echo dead`
	first := c.worker(t, "--queues", "guarded", "--id", "first", "--exec", script)
	c.rota(t, "job", "submit", "--queue", "guarded", "--type", "x", "--id", "guarded").want(t, 0)
	var daemon int
	eventually(t, 20*time.Second, "the daemon runs", func() error {
		text, err := os.ReadFile(filepath.Join(dir, "daemon"))
		if err != nil {
			return err
		}
		daemon, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err
	})
	t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
	c.awaitState(t, c.dial(t), "guarded", 20*time.Second, rota.JobRunning)
	c.worker(t, "--queues", "guarded", "--id", "second", "--exec", script)

	s, err := c.status(t)
	check(t, err)
	check(t, syscall.Kill(workerOf(t, first), syscall.SIGKILL))
	if code := first.end(t, 40*time.Second); code != 128+int(syscall.SIGKILL) {
		t.Errorf("the guard ended with exit code %d", code)
	}
	contains(t, "the guard", first.Stderr.String(), "signal: killed", "the cluster knows that worker first is gone")
	job := c.awaitState(t, c.dial(t), "guarded", 60*time.Second, rota.JobCompleted)
	if string(job.Output) != "dead\n" {
		t.Errorf("when the job ran again, the daemon was %q", job.Output)
	}
	if len(job.Attempts) != 2 {
		t.Fatalf("attempts %+v", job.Attempts)
	}
	one, two := job.Attempts[0], job.Attempts[1]
	if one.Worker != "first" || one.End != rota.ReasonWorkerLost || one.Number != 0 || two.Worker != "second" ||
		two.Number != 0 {
		t.Errorf("attempts %+v", job.Attempts)
	}
	contains(t, "the first attempt's error", one.Error, "guard")
	if took := one.Ended.Clock - s.Clock; took > 10_000 {
		t.Errorf("the lease ended %d ms of cluster clock after the kill", took)
	}
	if w := decode[rota.Worker](t, c.rota(t, "worker", "show", "first", "-o", "json")); w.Status != rota.WorkerRetired {
		t.Errorf("the worker is %s", w.Status)
	}
}

// A guard that is killed takes its worker along: running jobs end and are given back.
func guardKilled(t *testing.T, c *nodes) {
	execQueue(t, c, "unguarded")
	dir := t.TempDir()
	w := c.worker(t, "--queues", "unguarded", "--exec", stubborn(dir))
	c.rota(t, "job", "submit", "--queue", "unguarded", "--type", "x", "--id", "unguarded").want(t, 0)
	ids := append(processes(t, dir), workerOf(t, w))
	c.awaitState(t, c.dial(t), "unguarded", 20*time.Second, rota.JobRunning)
	w.Kill()
	gone(t, 40*time.Second, ids)
	if job := c.job(t, "unguarded"); job.State != rota.JobQueued || job.Attempt != 0 ||
		job.Attempts[0].End != rota.ReasonDeclined {
		t.Errorf("the job is %s, attempt %d after %+v", job.State, job.Attempt, job.Attempts)
	}
}

// SIGHUP ends a worker that does not expect it; its guard cleans up.
func guardHangup(t *testing.T, c *nodes) {
	// Under nohup SIGHUP is ignored, also by all processes that are started from here: a caught signal is not.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	execQueue(t, c, "hangup")
	dir := t.TempDir()
	w := c.worker(t, "--queues", "hangup", "--id", "hangup", "--exec", stubborn(dir))
	c.rota(t, "job", "submit", "--queue", "hangup", "--type", "x", "--id", "hangup").want(t, 0)
	ids := processes(t, dir)
	w.Signal(syscall.SIGHUP)
	if code := w.end(t, 40*time.Second); code != 128+int(syscall.SIGHUP) {
		t.Errorf("it ended with exit code %d", code)
	}
	for _, id := range ids { // it waited for them
		if err := syscall.Kill(id, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d outlives the guard: %v", id, err)
		}
	}
	if job := c.job(t, "hangup"); job.Attempt != 0 || job.WorkerLosses != 1 ||
		job.Attempts[0].End != rota.ReasonWorkerLost {
		t.Errorf("the job is %s, attempt %d after %+v", job.State, job.Attempt, job.Attempts)
	}
}

// Ctrl-Z reaches only the guard: it reports that the worker continues, and still watches it.
func guardStop(t *testing.T, c *nodes) {
	execQueue(t, c, "stop")
	dir := t.TempDir()
	w := c.worker(t, "--queues", "stop", "--id", "stop", "--exec", stubborn(dir))
	c.rota(t, "job", "submit", "--queue", "stop", "--type", "x", "--id", "stop").want(t, 0)
	processes(t, dir)
	w.Signal(syscall.SIGTSTP)
	w.says(t, 20*time.Second, "Ctrl-C drains it")
	check(t, syscall.Kill(workerOf(t, w), syscall.SIGKILL))
	if code := w.end(t, 40*time.Second); code != 128+int(syscall.SIGKILL) {
		t.Errorf("it ended with exit code %d", code)
	}
}

// A guard that finds no cluster reports that and ends; a signal ends it at once.
func TestGuard_withoutCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	dir := t.TempDir()
	w := c.worker(t, "--queues", "default", "--id", "alone", "--exec", stubborn(dir))
	c.rota(t, "job", "submit", "--type", "x").want(t, 0)
	ids := processes(t, dir)
	c.all[0].Kill()
	check(t, syscall.Kill(workerOf(t, w), syscall.SIGKILL))
	w.says(t, 40*time.Second, "processes that it left")
	for _, id := range ids {
		if err := syscall.Kill(id, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", id, err)
		}
	}
	w.Signal(syscall.SIGTERM)
	if code := w.end(t, 20*time.Second); code != 128+int(syscall.SIGKILL) {
		t.Errorf("the guard ended with exit code %d", code)
	}
	contains(t, "the guard", w.Stderr.String(), "end by its silence")
}

// With --guard=false there is no guard: the process is the worker.
func TestGuard_none(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	w := c.worker(t, "--queues", "default", "--guard=false", "--exec", "echo $PPID")
	r := c.rota(t, "job", "submit", "--type", "x", "--wait", "-o", "json", "--timeout", "30s")
	if job := decode[rota.Job](t, r); strings.TrimSpace(string(job.Output)) != strconv.Itoa(w.PID()) {
		t.Errorf("the command's parent is %s, the worker %d", job.Output, w.PID())
	}
}
