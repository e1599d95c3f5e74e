package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestInterrupted: a command that waits is quiet when a person interrupts it, and ends with
// 130 as a shell has it; with 143 after SIGTERM.
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
		t.Errorf("exit code %d, it says %q: 130 and the new id are wanted", got, p.Stderr.String())
	}
	for i, line := range [][]string{
		{"job", "wait", "waits"}, {"job", "submit", "--type", "x", "--id", "more", "--wait"}, {"workflow", "wait", "flow"},
		{"events", "tail", "--follow", "-o", "jsonl"},
	} {
		for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			t.Run(fmt.Sprintf("%s by %s", strings.Join(line[:2], " "), sig), func(t *testing.T) {
				t.Parallel()
				p := launch(t, fmt.Sprintf("waiter-%d", i), []string{c.env()}, line...)
				eventually(t, time.Minute, "it is connected", p.connected)
				p.Signal(sig)
				if got := p.end(t, time.Minute); got != code {
					t.Errorf("exit code %d, %d is wanted", got, code)
				}
				if said := p.Stderr.String(); said != "" {
					t.Errorf("it says %q", said)
				}
			})
		}
	}
}
