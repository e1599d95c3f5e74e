package cluster

import (
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// gated returns a workflow of a gate and a node after it.
func gated(id rota.WorkflowID, terms rota.Gate) rota.WorkflowSpec {
	return rota.WorkflowSpec{ID: id, Nodes: []rota.NodeSpec{{ID: "gate", Gate: &terms,
		JobSpec: rota.NewJobSpec("", nil)}, rota.NewNodeSpec("after", "work", nil, "gate")}}
}

// TestSignalWorkflow_countsOnceWhicheverNodeIsAsked sends a signal at every node, and another one.
func TestSignalWorkflow_countsOnceWhicheverNodeIsAsked(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.submitFlow(b.follower(), gated("f", rota.Gate{}))
	s := rota.Signal{Workflow: "f", Node: "gate", ID: "s", Payload: []byte("yes")}
	taken := 0
	for _, id := range b.ids() {
		done, err := b.node(id).SignalWorkflow(within(t, ample), s)
		if err != nil || done.Index == 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		if !done.Existed {
			taken++
		}
	}
	other := s
	other.ID = "other"
	if _, err := b.follower().SignalWorkflow(within(t, ample), other); rota.KindOf(err) != rota.KindConflict ||
		taken != 1 {
		t.Fatalf("the signal was accepted %d times, another one: %v", taken, err)
	}
	j, _, err := b.follower().Job(within(t, ample), "f/gate", peer.ReadOptions{})
	if err != nil || j.State != rota.JobCompleted || string(j.Output) != "yes" {
		t.Fatalf("%+v, %v", j, err)
	}
	b.sound()
}

// TestGate_itsTimeoutWakesAClusterAtRest: no signal is sent, and nothing else happens.
func TestGate_itsTimeoutWakesAClusterAtRest(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.submitFlow(b.follower(), gated("f", rota.Gate{Timeout: 1500 * time.Millisecond}))
	b.eventually("the gate expires", func() bool { return b.flow(b.leader(), "f").State == rota.WorkflowFailed })
	if w := b.flow(b.follower(), "f"); w.FailedNode != "gate" || w.Reason != rota.ReasonGateTimeout {
		t.Fatalf("%+v", w)
	}
	b.sound()
}
