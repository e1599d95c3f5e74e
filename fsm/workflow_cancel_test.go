package fsm

import (
	"testing"

	"github.com/rotasched/rota"
)

// TestWorkflowRetryCancelledAtOnce checks that a cancellation right after a retry, in one entry, finds nothing taken
// back yet, and that the workflow still ends.
func TestWorkflowRetryCancelledAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := newDAG("w", [][]uint32{{}, {0}})
	b.upload(d)
	b.ok(d.commit())
	b.ok(d.cancel())
	if w, _ := b.View.Workflow("w"); w.State != rota.WorkflowCancelled {
		t.Fatal(w.State)
	}
	b.entry(d.retry("", 1), d.cancel())
	b.ok(sweepOp())
	b.ok(sweepOp())
	if w, _ := b.View.Workflow("w"); w.State != rota.WorkflowCancelled {
		t.Fatalf("workflow is %s, ending %s: %v", w.State, w.Ending, w.Counts)
	}
	b.sound()
}

// TestWorkflowRetryCancelledUnderWay cancels while the retry's pass has found nothing yet to take back; the workflow is
// over, in snapshots too.
func TestWorkflowRetryCancelledUnderWay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.flows.flowIndex.looks, b.twin.flows.flowIndex.looks = 2, 2
	d := newDAG("w", make([][]uint32, 10))
	b.run(d)
	b.ok(d.cancel())
	b.over(d)
	b.ok(d.retry("n9", 1))
	b.stands(d, "RUNNING: XXXXXXXXXX")
	a := b.entry(d.cancel())
	b.stands(d, "CANCELLED: XXXXXXXXXX")
	if e := eventOf(t, a.Events, rota.EventWorkflowFinished); e.Run != "w" {
		t.Fatalf("%+v", e)
	}
	b.restored()
	b.sound()
}
