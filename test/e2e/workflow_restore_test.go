package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// layered returns a workflow in rota's own format: layers of equally many nodes, each with up to three parents in the
// layer before; and the demands of its nodes.
func layered(layers, width, ms int) (string, map[string]asked) {
	var text strings.Builder
	text.WriteString("nodes:\n")
	nodes := map[string]asked{}
	for l := range layers {
		for i := range width {
			id, n := fmt.Sprintf("l%d-%d", l, i), asked{}
			for k := range min(3, l*3) {
				n.parents = append(n.parents, fmt.Sprintf("l%d-%d", l-1, (i+k*7)%width))
			}
			fmt.Fprintf(&text, "  - {id: %s, type: t, simulate_ms: %d, parents: [%s]}\n", id, ms,
				strings.Join(n.parents, ", "))
			nodes[id] = n
		}
	}
	return text.String(), nodes
}

// halfDone waits until some of a workflow's nodes have completed, and not all.
func (c *nodes) halfDone(t *testing.T, id string, completed int64) {
	t.Helper()
	eventually(t, 60*time.Second, "a part of the workflow is done", func() error {
		w := c.countsOf(t, id)
		if w.State != rota.WorkflowRunning {
			t.Fatalf("it is %s: too soon for this test", w.State)
		}
		if w.Counts.Completed < completed {
			return errNotYet
		}
		return nil
	})
}

// Every node dies in the middle of a workflow; when started again they continue with it, and completed nodes do not run
// again.
func TestWorkflowAllKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	flowQueue(t, c, "all", "--set", "attempt_max=6")
	text, nodes := layered(20, 20, 100)
	workers := map[string]offered{"all-1": {8, 0, 0, 0}, "all-2": {8, 4, 0, 0}}
	for id, w := range workers {
		c.worker(t, w.flags(id, "all")...)
	}
	c.submitFlow(t, "all", "all", text).want(t, 0)
	c.halfDone(t, "all", 100)
	for _, n := range c.all {
		n.Kill()
	}
	for _, n := range c.all {
		n.start(t)
	}
	c.awaitReady()
	c.rota(t, "workflow", "wait", "all", "--timeout", "90s").want(t, 0)
	a := newAccount("all", nodes, workers)
	a.read(c.rota(t, "events", "tail", "-o", "jsonl").want(t, 0).stdout)
	a.complete(c.flow(t, "all"))
	a.judge(t)
	if a.terms == 0 {
		t.Error("no leadership began while it ran: the deaths did not test it")
	}
	c.verified(t, 3)
}

// A backup from the middle of a workflow becomes a cluster that runs the rest of it, including a failed one that is
// retried there.
func TestWorkflowRestored(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	flowQueue(t, c, "kept")
	file := filepath.Join(t.TempDir(), "fixed")
	c.worker(t, "--queues", "kept", "--slots", "2", "--id", "k0", "--exec", switched(file))
	c.submitFlow(t, "kept", "failed",
		"on_failure: continue\nnodes: [{id: ok, type: t}, {id: bad, type: t, parents: [ok]}, "+
			"{id: child, type: t, parents: [bad, ok]}]").want(t, 0)
	_, failed := c.awaitFlow(t, "failed", 6)
	states(t, failed, "ok:COMPLETED bad:DEAD child:SKIPPED")

	flowQueue(t, c, "run")
	text, asks := layered(20, 10, 100)
	c.worker(t, "--queues", "run", "--slots", "4", "--id", "r0")
	c.submitFlow(t, "run", "running", text).want(t, 0)
	c.halfDone(t, "running", 40)
	backup := filepath.Join(t.TempDir(), "backup")
	c.rota(t, "operator", "snapshot", "save", backup).want(t, 0)

	n := newNode(t, "b1", "--bootstrap-expect", "1")
	command(t, nil, "", "operator", "snapshot", "restore", backup, "--data", n.Dir, "--node", n.ID, "--raft",
		n.Raft).want(t, 0)
	n.start(t)
	n.awaitReady(t)
	second := &nodes{t: t, all: []*node{n}}
	w, before := second.showFlow(t, "running")
	if w.State != rota.WorkflowRunning || w.Counts.Completed < 40 || w.Counts.Running+w.Counts.Assigned > 0 {
		t.Errorf("in the restored cluster it is %s with %+v, want RUNNING without any lease", w.State, w.Counts)
	}
	second.worker(t, "--queues", "run", "--slots", "8", "--id", "r1")
	_, after := second.awaitFlow(t, "running", 0)
	for id := range asks {
		b, a := before[id], after[id]
		if a.State != rota.NodeState(rota.JobCompleted) {
			t.Errorf("node %s is %s", id, a.State)
		}
		if b.State == a.State && (a.FinishedIndex != b.FinishedIndex || a.Worker != b.Worker) {
			t.Errorf("node %s had completed and ran again: %+v, before %+v", id, a, b)
		}
		for _, p := range asks[id].parents {
			if after[p].FinishedIndex > a.AssignedIndex {
				t.Errorf("node %s was assigned at %d, its parent %s ended at %d", id, a.AssignedIndex, p,
					after[p].FinishedIndex)
			}
		}
	}
	writeFile(t, file, "")
	second.worker(t, "--queues", "kept", "--slots", "2", "--id", "k1", "--exec", switched(file))
	second.rota(t, "workflow", "retry", "failed").want(t, 0)
	_, mended := second.awaitFlow(t, "failed", 0)
	states(t, mended, "ok:COMPLETED bad:COMPLETED child:COMPLETED")
	second.verified(t, 1)
	c.awaitFlow(t, "running", 0) // the first cluster continued meanwhile
	c.verified(t, 3)
}
