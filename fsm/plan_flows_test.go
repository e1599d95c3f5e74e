package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
)

// labelled gives a workflow a label.
func labelled(value string) func(*dag) {
	return func(d *dag) { d.Labels = map[string]string{"team": value} }
}

// TestPlan_workflows checks that a plan cancels workflows by filter, with their nodes and waiting gates, and retries
// those that FAILED or were CANCELLED; each workflow is one unit, and later ones do not belong to the plan.
func TestPlan_workflows(t *testing.T) {
	t.Parallel()
	b := secondRules(t)
	var all []*dag
	for i := range 5 {
		d := newDAG(fmt.Sprint("wf", i), [][]uint32{nil, {0}, {0}}, gateAt(2, rota.Gate{}),
			labelled([]string{"film", "news"}[i%2]))
		all = append(all, d)
		b.upload(d)
		if i < 4 {
			b.ok(d.commit())
		}
	}
	b.refuses(rota.KindInvalid, "filter", planOp("x", rota.PlanCancelWorkflows, ""))
	b.refuses(rota.KindInvalid, "filter", planOp("x", rota.PlanCancelWorkflows, "type=work"))
	b.refuses(rota.KindInvalid, "filter", planOp("x", rota.PlanCancelWorkflows, "state=FAILED"))
	b.refuses(rota.KindInvalid, "filter", planOp("x", rota.PlanRetryWorkflows, "state=DEAD"))
	b.ok(planOp("stop", rota.PlanCancelWorkflows, "label.team=film"))
	b.ok(all[4].commit()) // it was invisible when the plan began, but is older
	p := b.runPlan("stop", 2)
	if p.State != rota.PlanDone || p.Done != 3 || p.Refused+p.Passed != 0 {
		t.Fatalf("%+v", p)
	}
	b.pass(250)
	for i, d := range all {
		want := rota.WorkflowRunning
		if i%2 == 0 {
			want = rota.WorkflowCancelled
			b.nodeStates(d, "CANCELLED", "CANCELLED", "CANCELLED")
		}
		b.flowState(d, want)
	}
	b.ok(planOp("again", rota.PlanRetryWorkflows, "state=FAILED,CANCELLED id=wf*", most(2)))
	later := newDAG("wf9", [][]uint32{nil})
	b.upload(later)
	b.ok(later.commit())
	b.ok(later.cancel())
	if p := b.runPlan("again", 10); p.State != rota.PlanDone || p.Done != 2 {
		t.Fatalf("%+v", p)
	}
	b.flowState(all[0], rota.WorkflowRunning)
	b.flowState(all[4], rota.WorkflowCancelled) // beyond the plan's max
	b.flowState(later, rota.WorkflowCancelled)
	b.sound()
	old := newBench(t)
	old.refuses(rota.KindConflict, SubjectRules, planOp("x", rota.PlanRetryWorkflows, "id=*"))
}
