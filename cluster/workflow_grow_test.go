package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// grows completes leases until all are answered: each node up to a depth adds wide others, which join it.
func (h *hand) grows(leases []rota.Assignment, depth, wide int) {
	h.t.Helper()
	commands := make([]peer.LeaseCommand, len(leases))
	for i, a := range leases {
		commands[i] = peer.LeaseCommand{Verb: rota.VerbComplete, Lease: a.Lease.ID, Job: a.Lease.Job,
			Output: []byte(a.Lease.Job)}
		_, node, _ := rota.SplitNodeJobID(a.Lease.Job)
		if node == "after" || strings.Count(node, ".") >= depth {
			continue
		}
		g := &rota.Growth{}
		for k := range wide {
			g.Children = append(g.Children, rota.NewNodeSpec(fmt.Sprint(node, ".", k), "work", nil))
		}
		commands[i].Growth = g
	}
	for { // leaders change
		answers, err := h.s.Do(within(h.t, ample), commands)
		left := commands[:0]
		for i := range answers {
			switch e := answers[i].Err; {
			case e == nil:
			case e.Kind == rota.KindUnavailable || e.Kind == rota.KindTimeout:
				left = append(left, commands[i])
			default:
				h.t.Fatalf("job %s: %v", commands[i].Job, e)
			}
		}
		if err == nil {
			commands = left
		}
		if len(commands) == 0 {
			return
		}
		h.beat()
	}
}

// TestGrow_joinsOnceThoughTheLeaderDies nests fan-outs to 156 nodes, and stops the leader in between.
func TestGrow_joinsOnceThoughTheLeaderDies(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	f := b.follower()
	b.submitFlow(f, flowOf("f", []string{"n"}, []string{"after", "n"}))
	h := newHand(t, f, "w", 200)
	done, led := 0, rota.NodeID("")
	for width, depth := 1, 0; depth <= 3; depth++ {
		leases := h.take(width)
		if depth == 2 { // half goes to one leader, half to the next
			h.grows(leases[:width/2], 3, 5)
			leases = leases[width/2:]
			led = b.leader().cfg.Node
			b.stop(led)
		}
		h.grows(leases, 3, 5)
		done += width
		width *= 5
	}
	after := h.take(1)
	if len(after) != 1 || after[0].Lease.Job != "f/after" || done != 156 {
		t.Fatalf("%d have completed, then come %+v", done, after)
	}
	outputs := 0
	err := f.ParentOutputs(within(t, ample), "f/after", func(rota.ParentOutput) error { outputs++; return nil })
	if err != nil || outputs != 156 {
		t.Fatalf("%d outputs: %v", outputs, err)
	}
	h.grows(after, 3, 5)
	b.eventually("the workflow completes", func() bool { return b.flow(f, "f").State == rota.WorkflowCompleted })
	if w := b.flow(f, "f"); w.NodeCount != 157 || w.Counts.Completed != 157 {
		t.Fatalf("%+v", w.Counts)
	}
	b.start(led)
	b.sound()
}
