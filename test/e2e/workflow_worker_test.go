package e2e

import (
	"testing"

	"github.com/rotasched/rota"
)

// A worker is killed in the middle of a workflow: the nodes that it held run again elsewhere when their leases end, no
// other node runs again, and each completes once.
func TestWorkflowWorkerKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	flowQueue(t, c, "mid", "--set", "attempt_max=4", "--set", "lease_ms=5000")
	text, nodes := layered(12, 20, 150)
	workers := map[string]offered{"mid-1": {6, 4, 0, 0}, "mid-2": {6, 0, 0, 0}}
	victim := c.worker(t, workers["mid-1"].flags("mid-1", "mid")...)
	c.worker(t, workers["mid-2"].flags("mid-2", "mid")...)
	c.submitFlow(t, "mid", "mid", text).want(t, 0)
	c.halfDone(t, "mid", 60)
	victim.Kill()
	c.rota(t, "workflow", "wait", "mid", "--timeout", "90s").want(t, 0)
	a := newAccount("mid", nodes, workers)
	a.read(c.rota(t, "events", "tail", "-o", "jsonl").want(t, 0).stdout)
	w := c.flow(t, "mid")
	a.complete(w)
	a.judge(t)
	// The nodes that it held when it died, and only those: at most its slots and the prefetched ones.
	if most := 10; a.again == 0 || a.again > most {
		t.Errorf("%d nodes were assigned again, want 1 to %d", a.again, most)
	}
	for _, n := range w.Nodes {
		if n.Attempt > 2 || n.Attempt == 2 && n.Worker != "mid-2" {
			t.Errorf("node %s: attempt %d at %s", n.ID, n.Attempt, n.Worker)
		}
	}
	if w.State != rota.WorkflowCompleted {
		t.Errorf("it is %s", w.State)
	}
	c.verified(t, 3)
}
