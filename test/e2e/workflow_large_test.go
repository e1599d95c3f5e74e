package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

const (
	largeNodes = 100_000
	largeEdges = 1_000_000
	largeLayer = 10_000
)

// largeFlow returns a workflow with the maximum number of nodes and edges, in layers, each node with 11 or 12 parents
// in the layer before.
func largeFlow() string {
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	text.WriteString(`{"nodes":[`)
	edges := 0
	for i := range largeNodes {
		if i > 0 {
			text.WriteString(",\n")
		}
		fmt.Fprintf(&text, `{"id":"n%d","type":"t"`, i)
		if i >= largeLayer {
			// With this number all edges are used up at the last node.
			parents := (largeEdges - edges) / (largeNodes - i)
			text.WriteString(`,"parents":[`)
			first, step := random.IntN(largeLayer), 1+random.IntN(largeLayer/20)
			for k := range parents {
				if k > 0 {
					text.WriteString(",")
				}
				fmt.Fprintf(&text, `"n%d"`, (i/largeLayer-1)*largeLayer+(first+k*step)%largeLayer)
			}
			text.WriteString("]")
			edges += parents
		}
		text.WriteString("}")
	}
	text.WriteString("]}")
	return text.String()
}

// The largest workflow is accepted, ends when it is cancelled, and runs to its end.
func TestWorkflowLargest(t *testing.T) {
	if !whole() {
		t.Skip("runs for an hour: ROTA_E2E=whole runs it")
	}
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "large", "--preset", "dag").want(t, 0)
	path := writeFile(t, filepath.Join(t.TempDir(), "large.json"), largeFlow())
	submit := func(id string) {
		t.Helper()
		r := c.rota(t, "workflow", "submit", path, "--queue", "large", "--id", id, "-o", "json", "--timeout", "90s")
		if done := decode[rota.WorkflowSubmitted](t, r); done.Nodes != largeNodes || done.Edges != largeEdges {
			t.Errorf("the submission returns %+v", done)
		}
		t.Logf("%s: submitted in %s", id, r.took.Round(time.Millisecond))
	}
	submit("cancelled")
	began := time.Now()
	c.rota(t, "workflow", "cancel", "cancelled", "--timeout", "60s").want(t, 0)
	c.rota(t, "workflow", "wait", "cancelled", "--timeout", "60s").want(t, 6)
	t.Logf("cancelled in %s", time.Since(began).Round(time.Millisecond))
	if w := c.countsOf(t, "cancelled"); w.State != rota.WorkflowCancelled || w.Counts.Cancelled != largeNodes {
		t.Errorf("it is %s, %+v", w.State, w.Counts)
	}

	submit("run")
	for i := range 4 {
		c.worker(t, "--queues", "large", "--id", fmt.Sprintf("large-%d", i), "--slots", "256")
	}
	began = time.Now()
	eventually(t, 240*time.Second, "all nodes have completed", func() error {
		time.Sleep(time.Second) // each reading is work for the cluster too
		if w := c.countsOf(t, "run"); w.State != rota.WorkflowCompleted {
			return fmt.Errorf("it is %s: %+v", w.State, w.Counts)
		}
		return nil
	})
	w := c.countsOf(t, "run")
	t.Logf("%d nodes and %d edges ran in %s, %d ms by the cluster clock", w.NodeCount, w.EdgeCount,
		time.Since(began).Round(time.Millisecond), w.Finished.Clock-w.Submitted.Clock)
	if w.Counts.Completed != largeNodes {
		t.Errorf("it is %s with %+v", w.State, w.Counts)
	}
	began = time.Now()
	whole := c.flow(t, "run")
	t.Logf("shown by three nodes in %s", time.Since(began).Round(time.Millisecond))
	ends := make(map[string]rota.Index, largeNodes)
	for i := range whole.Nodes {
		n := &whole.Nodes[i]
		for _, p := range n.Parents {
			if ends[p] == 0 || ends[p] > n.AssignedIndex {
				t.Fatalf("node %s was assigned at %d, its parent %s ended at %d", n.ID, n.AssignedIndex, p, ends[p])
			}
		}
		ends[n.ID] = n.FinishedIndex
	}
	c.verified(t, 3)
}

// countsOf reads a workflow without its nodes.
func (c *nodes) countsOf(t testing.TB, id string) rota.Workflow {
	t.Helper()
	for _, w := range decode[rota.WorkflowPage](t, c.rota(t, "workflow", "list", "-o", "json", "--limit",
		"1000")).Workflows {
		if string(w.ID) == id {
			return w
		}
	}
	t.Fatalf("workflow %s is not listed", id)
	return rota.Workflow{}
}

// A submission whose leader dies while nodes arrive is continued by the next one, and is complete.
func TestWorkflowUploadLeaderKilled(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "large", "--preset", "dag").want(t, 0)
	path := writeFile(t, filepath.Join(t.TempDir(), "large.json"), largeFlow())
	leader := c.leader(t)
	cl := c.dial(t, leader)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	before, err := cl.Status(ctx)
	check(t, err)
	p := launch(t, "submit", []string{c.env()}, "workflow", "submit", path, "--queue", "large", "--id", "upload", "-o",
		"json", "--timeout", "90s")
	// Some twenty entries carry it, the first opens it.
	for s := before; s.AppliedIndex < before.AppliedIndex+2; {
		s, err = cl.Status(ctx)
		check(t, err)
	}
	leader.Kill()
	if code := p.end(t, 95*time.Second); code != 0 {
		t.Fatalf("the submission ended with exit code %d", code)
	}
	leader.start(t)
	leader.awaitReady(t)
	// Its roots are queued some at a time, in entries behind the one that answers.
	eventually(t, 30*time.Second, "it is whole", func() error {
		if w := c.countsOf(t, "upload"); w.NodeCount != largeNodes || w.EdgeCount != largeEdges ||
			w.Counts.Blocked != largeNodes-largeLayer {
			return fmt.Errorf("it has %d nodes and %d edges, %+v", w.NodeCount, w.EdgeCount, w.Counts)
		}
		return nil
	})
	kinds := c.rota(t, "events", "tail", "-o", "jsonl", "--kind", "leadershipBegan", "--kind",
		"workflowStarted").want(t, 0).stdout
	whole := strings.Index(kinds, "workflowStarted")
	if whole < 0 || strings.Count(kinds[:whole], "leadershipBegan") < 2 {
		t.Errorf("the leader did not die before the workflow was complete: %s", kinds)
	}
	contains(t, "the submission", p.Stdout.String(), `"nodes": 100000`, `"edges": 1000000`)
	c.verified(t, 3)
}
