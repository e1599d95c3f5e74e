package fsm

import "github.com/rotasched/rota"

// WorkflowTotals are figures over all workflows, for whoever measures.
type WorkflowTotals struct {
	// ByState counts those that are kept, one whose nodes are still arriving too.
	ByState [rota.WorkflowCancelled + 1]int64
	// Blocked counts the nodes of RUNNING ones that wait for their parents, Live those
	// that have a job.
	Blocked, Live int64
	// Pending counts the nodes that next entries have to look at: to release, skip,
	// cancel, take back or forget them.
	Pending int64
}

// WorkflowTotals reads each workflow's row, and none of its nodes.
func (vw *View) WorkflowTotals() (t WorkflowTotals) {
	vw.m.flows.workflows.scan(func(_ rota.WorkflowID, r *workflowRow) bool {
		if r.leaving {
			t.Pending += int64(r.added - r.cursor)
			return true
		}
		t.ByState[r.state]++
		if r.state == rota.WorkflowRunning {
			t.Blocked += int64(r.blocked)
			t.Live += int64(r.live)
		}
		if r.passing() {
			t.Pending += int64(r.nodes - r.cursor)
		}
		return true
	})
	vw.m.flows.flowIndex.ready.Scan(func(_ uint64, f *flow) bool {
		t.Pending += int64(f.work.Len())
		return true
	})
	return t
}
