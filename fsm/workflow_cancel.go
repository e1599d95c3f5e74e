package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// committed returns a workflow that somebody may see; the error says that there is none.
func (fs *flows) committed(id rota.WorkflowID) (*workflowRow, error) {
	if r := fs.workflows.get(id); r != nil && !r.leaving && r.state != rota.WorkflowOpen {
		return r, nil
	}
	return nil, rota.Refusef(rota.KindNotFound, "workflow", "workflow %.80q is not known", id)
}

// cancelWorkflow ends what has not ended of a workflow, leases too; what is done
// stays. One that is failing is CANCELLED then.
func (fs *flows) cancelWorkflow(op *fsmpb.CancelWorkflow) *fsmpb.Outcome {
	r, err := fs.committed(rota.WorkflowID(op.GetId()))
	switch {
	case err != nil:
		return entry.Refused(err)
	case r.state == rota.WorkflowCancelled || r.ending == rota.WorkflowCancelled:
		return flowOutcome(r, true)
	case r.state != rota.WorkflowRunning:
		return flowRefused(r, rota.Refusef(rota.KindConflict, "workflow", "workflow %s is %s already", r.id, r.state))
	}
	r = fs.workflows.edit(r.id)
	f := fs.flowIndex.byID[r.id]
	fs.endFlow(f, r, rota.WorkflowCancelled)
	fs.finishFlow(f, r) // where a retry has taken nothing back yet there is nothing left to end
	return flowOutcome(r, false)
}

// flowRefused is a refusal that tells where the workflow stands.
func flowRefused(r *workflowRow, err error) *fsmpb.Outcome {
	o := entry.Refused(err)
	o.WorkflowState, o.Runs = uint32(r.state), r.runs
	return o
}
