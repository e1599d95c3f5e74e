package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/filter"
)

// A plan of workflows uses workflows where a plan of jobs uses jobs: its filter treats a workflow as a job with its id,
// its numbers are those of workflows (SPEC §21.7).

// flowMark returns a workflow as such a filter sees it.
func flowMark(r *state.WorkflowRow) rota.Job {
	state := rota.JobRunning
	switch r.State {
	case rota.WorkflowCompleted:
		state = rota.JobCompleted
	case rota.WorkflowFailed:
		state = rota.JobDead
	case rota.WorkflowCancelled:
		state = rota.JobCancelled
	}
	return rota.Job{JobSpec: rota.JobSpec{ID: rota.JobID(r.ID), Queue: r.Queue, Tenant: r.Tenant, Labels: r.Labels},
		State:     state,
		Submitted: r.Submitted}
}

// planned reports whether a plan's filter selects a workflow. A workflow whose nodes are still arriving is never
// selected.
func planned(r *state.WorkflowRow, f *filter.Filter, started rota.Clock) bool {
	if r.Leaving || r.State == rota.WorkflowOpen {
		return false
	}
	job := flowMark(r)
	return f.Early(&job) && f.Late(&job, started)
}

// fitsPlan reports whether a workflow is the one that a step names, and still belongs to the plan.
func (fs *flows) fitsPlan(p *planRow, id rota.WorkflowID, number uint64) bool {
	r := fs.workflows.Get(id)
	return r != nil && r.Seq == number && r.Seq <= p.jobs && planned(r, p.filter, p.started.Clock)
}
