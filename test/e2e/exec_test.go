package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// Programs that know nothing of rota are workers by --exec.
func TestWorkerExec(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *nodes)
	}{
		{"environment_stdin_and_stdout", execIO},
		{"exit_codes", execExit},
		{"no_secret_is_passed", execEnvironment},
		{"output_has_a_bound", execTooMuch},
		{"cancelled_job_ends_its_process_group", execCancelled},
		{"sigterm_drains", execDrains},
		{"second_sigterm_gives_back", execGivesBack},
		{"same_id_twice", execSameID},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.run(t, c)
		})
	}
}

// execQueue makes a queue for one subtest, with retries that do not wait.
func execQueue(t *testing.T, c *nodes, name string) {
	t.Helper()
	c.rota(t, "queue", "set", name, "--set", "backoff_base_ms=100", "--set", "backoff_cap_ms=100",
		"--set", "attempt_max=2").want(t, 0)
}

// A worker's environment is not passed on, except the named variables.
func execEnvironment(t *testing.T, c *nodes) {
	execQueue(t, c, "env")
	c.worker(t, "--queues", "env", "--id", "env", "--pass-env", "SHOWN", "--exec", "env")
	r := command(t, []string{c.env()}, "", "job", "submit", "--queue", "env", "--type", "env", "--id", "env-1",
		"--wait", "-o", "json", "--timeout", "20s")
	job := decode[rota.Job](t, r)
	if out := string(job.Output); !strings.Contains(out, "PATH=") || !strings.Contains(out, "ROTA_JOB_ID=env-1") ||
		strings.Contains(out, "ROTA_ADDR") ||
		strings.Contains(out, "SECRET_OF_THE_WORKER") {
		t.Errorf("the command's environment is\n%s", out)
	}
}

func execIO(t *testing.T, c *nodes) {
	execQueue(t, c, "io")
	c.worker(t, "--queues", "io", "--id", "io", "--exec",
		`printf '%s|%s|%s|%s|' "$ROTA_JOB_ID" "$ROTA_JOB_TYPE" "$ROTA_ATTEMPT" "$ROTA_LEASE_TOKEN"; cat; echo talk >&2`)
	payload := "line one\nline two: ä\x01"
	r := command(t, []string{c.env()}, payload, "job", "submit", "--queue", "io", "--type", "print", "--id", "io-1",
		"--payload", "-", "--wait", "-o", "json", "--timeout", "20s")
	job := decode[rota.Job](t, r)
	want := fmt.Sprintf("io-1|print|0|%s|%s", job.Attempts[0].Token, payload)
	if string(job.Output) != want {
		t.Errorf("got output %q, want %q", job.Output, want)
	}
	if job.Attempts[0].Worker != "io" || job.Attempts[0].End != rota.ReasonDone {
		t.Errorf("attempts %+v", job.Attempts)
	}
}

func execExit(t *testing.T, c *nodes) {
	execQueue(t, c, "exits")
	// The first try of "again" fails, that of "decline" is given back.
	seen := t.TempDir()
	script := `
		case "$ROTA_JOB_TYPE" in
		ok) exit 0;;
		bad) echo first >&2; echo "the reason" >&2; exit 3;;
		signal) kill -9 $$;;
		decline) [ -e ` + seen + `/$ROTA_JOB_ID ] && echo "$ROTA_ATTEMPT" && exit 0; touch ` + seen + `/$ROTA_JOB_ID; exit 75;;
		again) [ "$ROTA_ATTEMPT" = 1 ] || exit 1;;
		esac`
	c.worker(t, "--queues", "exits", "--slots", "4", "--exec", script)
	submit := func(typ string) *result {
		return c.rota(t, "job", "submit", "--queue", "exits", "--type", typ, "--wait", "-o", "json", "--timeout", "60s")
	}
	bad := parse[rota.Job](t, submit("bad").want(t, 6))
	if bad.State != rota.JobDead || len(bad.Attempts) != 2 || bad.Attempts[0].End != rota.ReasonProviderFail {
		t.Errorf("a job that always fails is %s after %+v", bad.State, bad.Attempts)
	}
	contains(t, "the job's error", bad.Error, "exit status 3", "the reason")
	signal := parse[rota.Job](t, submit("signal").want(t, 6))
	contains(t, "the job's error", signal.Error, "killed")
	submit("ok").want(t, 0)
	again := decode[rota.Job](t, submit("again"))
	if again.Attempt != 1 || len(again.Attempts) != 2 {
		t.Errorf("a job that failed once is at attempt %d of %+v", again.Attempt, again.Attempts)
	}
	// A decline costs no attempt: the job comes back a moment later, here to the same worker.
	declined := decode[rota.Job](t, submit("decline"))
	if strings.TrimSpace(string(declined.Output)) != "0" {
		t.Errorf("a declined job came again as attempt %q", declined.Output)
	}
}

func execTooMuch(t *testing.T, c *nodes) {
	execQueue(t, c, "much")
	c.worker(t, "--queues", "much", "--exec", `head -c $ROTA_JOB_TYPE /dev/zero`)
	c.rota(t, "job", "submit", "--queue", "much", "--type", fmt.Sprint(rota.MaxPayloadBytes), "--wait", "--timeout",
		"30s").want(t, 0)
	over := c.rota(t, "job", "submit", "--queue", "much", "--type", fmt.Sprint(rota.MaxPayloadBytes+1), "--wait", "-o",
		"json", "--timeout", "30s")
	contains(t, "the job's error", parse[rota.Job](t, over.want(t, 6)).Error, fmt.Sprint(rota.MaxPayloadBytes))
}

// stubborn is a command that ignores SIGTERM, records it, and has a child that does the same. It ends by itself after a
// minute at the latest.
func stubborn(dir string) string {
	return `trap 'echo got >>` + dir + `/term' TERM
		(trap '' TERM; echo $(exec sh -c 'echo $PPID') >` + dir + `/child; for i in $(seq 60); do sleep 1; done) &
		echo $$ >` + dir + `/parent
		for i in $(seq 120); do sleep 0.5; done`
}

// processes waits until a stubborn command runs and returns its processes.
func processes(t *testing.T, dir string) []int {
	t.Helper()
	var ids []int
	eventually(t, 20*time.Second, "the command runs", func() error {
		ids = nil
		for _, name := range []string{"parent", "child"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			id, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	t.Cleanup(func() {
		for _, id := range ids {
			_ = syscall.Kill(id, syscall.SIGKILL)
		}
	})
	return ids
}

// gone waits until none of the processes is left.
func gone(t *testing.T, most time.Duration, ids []int) {
	t.Helper()
	eventually(t, most, "the command's processes are gone", func() error {
		for _, id := range ids {
			if syscall.Kill(id, 0) == nil {
				return fmt.Errorf("process %d lives", id)
			}
		}
		return nil
	})
}

func execCancelled(t *testing.T, c *nodes) {
	execQueue(t, c, "cancel")
	dir := t.TempDir()
	c.worker(t, "--queues", "cancel", "--exec", stubborn(dir))
	c.rota(t, "job", "submit", "--queue", "cancel", "--type", "x", "--id", "stubborn").want(t, 0)
	ids := processes(t, dir)
	c.awaitState(t, c.dial(t), "stubborn", 10*time.Second, rota.JobRunning)
	told := time.Now() // before: the signal may go out before the command has ended
	c.rota(t, "job", "cancel", "stubborn").want(t, 0)
	eventually(t, 10*time.Second, "SIGTERM came", func() error {
		_, err := os.Stat(filepath.Join(dir, "term"))
		return err
	})
	gone(t, 15*time.Second, ids)
	if took := time.Since(told); took < 3*time.Second {
		t.Errorf("the group was killed %s after the cancellation: it had no time to end", took)
	}
	if job := c.job(t, "stubborn"); job.State != rota.JobCancelled {
		t.Errorf("the job is %s", job.State)
	}
}

func execDrains(t *testing.T, c *nodes) {
	execQueue(t, c, "drain")
	dir := t.TempDir()
	w := c.worker(t, "--queues", "drain", "--id", "drainer", "--exec",
		`touch `+dir+`/began; until [ -e `+dir+`/go ]; do sleep 0.1; done; echo finished`)
	c.rota(t, "job", "submit", "--queue", "drain", "--type", "x", "--id", "drained").want(t, 0)
	began := func() error { _, err := os.Stat(filepath.Join(dir, "began")); return err }
	eventually(t, 20*time.Second, "the command runs", began)
	w.Signal(syscall.SIGTERM)
	eventually(t, 10*time.Second, "the worker is DRAINING", func() error {
		if w := decode[rota.Worker](t, c.rota(t, "worker", "show", "drainer", "-o",
			"json")); w.Status != rota.WorkerDraining {
			return fmt.Errorf("it is %s", w.Status)
		}
		return nil
	})
	c.rota(t, "job", "submit", "--queue", "drain", "--type", "x", "--id", "later").want(t, 0)
	if !w.Running() {
		t.Error("the worker ended while its command ran")
	}
	writeFile(t, filepath.Join(dir, "go"), "")
	if code := w.end(t, 20*time.Second); code != 0 {
		t.Errorf("a drained worker ended with exit code %d", code)
	}
	if job := c.job(t, "drained"); job.State != rota.JobCompleted || string(job.Output) != "finished\n" {
		t.Errorf("the job that ran is %s with output %q", job.State, job.Output)
	}
	if job := c.job(t, "later"); job.State != rota.JobQueued {
		t.Errorf("a job submitted after the drain is %s", job.State)
	}
}

func execGivesBack(t *testing.T, c *nodes) {
	execQueue(t, c, "back")
	dir := t.TempDir()
	w := c.worker(t, "--queues", "back", "--exec", stubborn(dir))
	c.rota(t, "job", "submit", "--queue", "back", "--type", "x", "--id", "given-back").want(t, 0)
	ids := processes(t, dir)
	w.Signal(syscall.SIGTERM)
	w.says(t, 10*time.Second, "draining")
	w.Signal(syscall.SIGTERM)
	w.end(t, 30*time.Second)
	gone(t, 5*time.Second, ids)
	// A lease given back is a decline: the job is DELAYED a moment (SPEC §16.1).
	if job := c.awaitState(t, c.dial(t), "given-back", 20*time.Second, rota.JobQueued); job.Attempt != 0 {
		t.Errorf("the job given back is at attempt %d, want 0", job.Attempt)
	}
}

func execSameID(t *testing.T, c *nodes) {
	// A long lease, so that its deadline has no effect.
	c.rota(t, "queue", "set", "same", "--set", "lease_ms=600000").want(t, 0)
	first := c.worker(t, "--queues", "same", "--id", "same")
	c.rota(t, "job", "submit", "--queue", "same", "--type", "x", "--id", "held", "--simulate-ms", "60000").want(t, 0)
	cl := c.dial(t)
	before := c.awaitState(t, cl, "held", 20*time.Second, rota.JobRunning)

	second := launch(t, "the same worker again", []string{c.env()}, "worker", "run", "--queues", "same", "--id", "same")
	if code := second.end(t, 20*time.Second); code == 0 {
		t.Error("a worker with a live id of another process ended with exit code 0")
	}
	contains(t, "the refusal", second.Stderr.String(), "same", "--takeover")
	if job := c.job(t, "held"); job.State != rota.JobRunning || job.Attempt != 0 {
		t.Errorf("the first worker's job is %s, attempt %d", job.State, job.Attempt)
	}

	third := c.worker(t, "--queues", "same", "--id", "same", "--takeover")
	if code := first.end(t, 20*time.Second); code == 0 {
		t.Error("a worker that was taken over ended with exit code 0")
	}
	tookOver := time.Now()
	eventually(t, 55*time.Second, "the job runs at the one that took over", func() error {
		job := c.job(t, "held")
		if job.State != rota.JobRunning || before.Lease.Token.Compare(job.Lease.Token) >= 0 {
			return fmt.Errorf("it is %s, %+v, %+v", job.State, job.Lease, job.Attempts)
		}
		return nil
	})
	t.Logf("the job ran at the one that took over after %s", time.Since(tookOver))
	if !third.Running() {
		t.Error("the worker that took over ended")
	}
	c.rota(t, "job", "cancel", "held").want(t, 0)
}
