package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestInterrupted: a command that waits prints nothing when a user interrupts it, and ends with 130 as shells expect;
// with 143 after SIGTERM.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "job", "submit", "--type", "x", "--id", "waits").want(t, 0)
	flow := writeFile(t, t.TempDir()+"/f.yaml", "id: flow\nqueue: default\nnodes: [{id: n, type: x}]\n")
	c.rota(t, "workflow", "submit", flow).want(t, 0)
	p := launch(t, "waiter-of-a-new-id", []string{c.env()}, "job", "submit", "--type", "x", "--wait")
	eventually(t, time.Minute, "it is connected", p.connected)
	eventually(t, time.Minute, "its job is known", func() error {
		if q := decode[rota.Queue](t, c.rota(t, "queue", "show", "default", "-o", "json")); q.Pending < 3 {
			return fmt.Errorf("%d jobs are pending", q.Pending)
		}
		return nil
	})
	p.Signal(syscall.SIGINT)
	if got := p.end(t, time.Minute); got != 130 || !strings.Contains(p.Stderr.String(), "was submitted") {
		t.Errorf("exit code %d, stderr %q: want 130 and the new id", got, p.Stderr.String())
	}
	for i, line := range [][]string{
		{"job", "wait", "waits"}, {"job", "submit", "--type", "x", "--id", "more", "--wait"},
		{"workflow", "wait", "flow"}, {"events", "tail", "--follow", "-o", "jsonl"},
	} {
		for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			t.Run(fmt.Sprintf("%s by %s", strings.Join(line[:2], " "), sig), func(t *testing.T) {
				t.Parallel()
				p := launch(t, fmt.Sprintf("waiter-%d", i), []string{c.env()}, line...)
				eventually(t, time.Minute, "it is connected", p.connected)
				p.Signal(sig)
				if got := p.end(t, time.Minute); got != code {
					t.Errorf("exit code %d, want %d", got, code)
				}
				if said := p.Stderr.String(); said != "" {
					t.Errorf("stderr is %q", said)
				}
			})
		}
	}
}

// TestInterrupted_bench: an interrupted load reports its progress, and the command that it names cancels the remaining
// jobs and nothing else.
func TestInterrupted_bench(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for queue, line := range map[string][]string{
		"waiting": {"fill", "--jobs", "20000", "--batch", "1", "--producers", "1"},
		"busy":    {"jobs", "--jobs", "64", "--queue", "busy", "--workers", "1", "--slots", "1", "--hold", "1h"},
	} {
		p := launch(t, "bench "+line[0], []string{c.env()}, append([]string{"bench"}, line...)...)
		eventually(t, time.Minute, "it is in progress", func() error {
			r := c.rota(t, "queue", "show", queue, "-o", "json")
			if r.code != 0 {
				return errors.New(r.stderr)
			}
			if q := parse[rota.Queue](t, r); q.SubmittedTotal < 2 {
				return fmt.Errorf("%d jobs are submitted", q.SubmittedTotal)
			}
			return nil
		})
		c.rota(t, "job", "submit", "--queue", queue, "--type", "x", "--id", queue+"-stays").want(t, 0)
		p.Signal(syscall.SIGINT)
		if got := p.end(t, time.Minute); got != 130 {
			t.Errorf("%s: exit code %d, want 130", line[0], got)
		}
		said := p.Stderr.String()
		_, rest, ok := strings.Cut(said, " goes with: ")
		if !ok || !strings.Contains(said, " of "+line[2]+" jobs were submitted, ") {
			t.Fatalf("%s: stderr is %q", line[0], said)
		}
		clean := exec.Command("sh", "-c", `rota() { "$ROTA" "$@"; }; `+rest)
		clean.Env = append(os.Environ(), c.env(), "ROTA="+rotaBinary)
		if out, err := clean.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line[0], err, out)
		}
		if q := decode[rota.Queue](t, c.rota(t, "queue", "show", queue, "-o", "json")); q.Pending != 1 ||
			q.Running != 0 {
			t.Errorf("%s: %d jobs are pending and %d run: want only the other submitter's job", line[0], q.Pending,
				q.Running)
		}
	}
}
