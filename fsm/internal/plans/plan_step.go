package plans

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// Step moves a plan forward to another job (SPEC §21.8). Each job is processed by the same verb as a single job, as
// if the plan's starter had called it now. A leader proposes it. A step that does not begin at the plan's cursor is
// STALE, so that each job is processed once, whichever node leads. one applies the verb to a job.
func (pn *Plans) Step(op *fsmpb.PlanStep, term uint64, one func(One) (existed bool, err error)) *fsmpb.Outcome {
	if o := pn.s.Internal(); o != nil {
		return o
	}
	r := pn.Rows.Get(rota.PlanID(op.GetPlan()))
	if r == nil {
		return entry.Refused(unknown(op.GetPlan()))
	}
	if err := r.takes(op); err != nil {
		return entry.Refused(err)
	}
	r = pn.Rows.Edit(r.spec.ID)
	if refusal := pn.stillMay(r); refusal != nil {
		pn.finish(r, rota.PlanCancelled, "who started it may go on no more: "+refusal.Error())
		return &fsmpb.Outcome{}
	}
	to, end := rota.JobID(op.GetTo()), op.GetEnd()
	for i, item := range op.GetItems() {
		if pn.planItem(r, item, term, one) {
			continue
		}
		if to, end = r.cursor, false; i > 0 { // the next step continues with it
			to = rota.JobID(op.GetItems()[i-1].GetJob())
		}
		break
	}
	pn.s.Journal.Caller = r.caller
	r.cursor = to
	if end || r.spec.Max > 0 && r.done == r.spec.Max {
		pn.finish(r, rota.PlanDone, "")
	}
	return &fsmpb.Outcome{}
}

// stillMay refuses a step of a plan whose starter is no longer valid.
func (pn *Plans) stillMay(r *Row) *rota.Error {
	if r.caller.Actor == "" {
		return nil
	}
	_, refusal := pn.ports.RightsOf(r.caller.Actor)
	return refusal
}

// takes refuses a step that does not begin at the plan's cursor, or that no leader makes.
func (r *Row) takes(op *fsmpb.PlanStep) error {
	from, to, items := op.GetFrom(), op.GetTo(), op.GetItems()
	switch {
	case r.state != rota.PlanRunning:
		return rota.Refusef(rota.KindStale, "plan", "plan %s is %s", r.spec.ID, r.state)
	case from != string(r.cursor):
		return rota.Refusef(rota.KindStale, "from", "plan %s stands at job %.80q, not at %.80q", r.spec.ID, r.cursor,
			from)
	case to < from || len(to) > rota.MaxIDBytes+1+rota.MaxNodeIDBytes:
		return rota.Refusef(rota.KindInvalid, "to", "a step from job %.80q to %.80q is none", from, to)
	case len(items) > limits.MaxPlanItems:
		return rota.Refusef(rota.KindInvalid, "items", "%d jobs are in one step: at most %d are taken", len(items),
			limits.MaxPlanItems)
	case r.spec.Max > 0 && int64(len(items)) > r.spec.Max-r.done:
		return rota.Refusef(rota.KindInvalid, "items", "%d jobs are in a step of a plan that ends after %d more",
			len(items), r.spec.Max-r.done)
	}
	last := from
	for _, item := range items {
		if item.GetJob() <= last || item.GetJob() > to {
			return rota.Refusef(rota.KindInvalid, "items", "job %.80q lies not between %.80q and %.80q, in order",
				item.GetJob(), last, to)
		}
		last = item.GetJob()
	}
	return nil
}

// planItem processes one job and reports whether it did: false if the job has to wait for the next entry. r is
// editable.
func (pn *Plans) planItem(r *Row, item *fsmpb.PlanItem, term uint64,
	one func(One) (existed bool, err error),
) bool {
	id, was := rota.JobID(item.GetJob()), item.GetNumber()
	live, ended := pn.s.JobTable.Get(id), pn.ports.Tombs.Get(id)
	switch {
	case r.spec.Verb.Workflows():
		if !pn.fitsFlow(r, rota.WorkflowID(id), was) {
			r.passed++
			return true
		}
	case r.spec.Verb.Ended() && (live != nil || was > r.ends || !pn.fitsEnded(r, ended, was)), !r.spec.Verb.Ended() &&
		!pn.fitsLive(r, live, was):
		r.passed++
		return true
	}
	existed, err := one(One{r.spec, r.caller, live, item, term})
	switch {
	case pn.ports.Wait(err):
		return false
	case err != nil:
		if r.refused++; len(r.Refusals) < limits.MaxPlanRefusals {
			r.Refusals = append(r.Refusals, rota.PlanRefusal{Job: id,
				Text: state.Tail(err.Error(), limits.MaxReasonBytes)})
		}
	case existed:
		r.passed++
	default:
		r.done++
	}
	return true
}

// fitsLive reports whether a live job is the one that a step names, and still belongs to the plan.
func (pn *Plans) fitsLive(r *Row, j *state.JobRow, number uint64) bool {
	if j == nil || j.Seq != number || j.Seq > r.jobs {
		return false
	}
	job := pn.ports.LiveJob(j)
	return r.fits(&job, false)
}

// fitsEnded is fitsLive for a job that has ended. Of one that only archives contain, only its number is known here.
func (pn *Plans) fitsEnded(r *Row, t *state.TombRow, number uint64) bool {
	if t == nil {
		return r.spec.Verb == rota.PlanDelete
	}
	job := pn.ports.DeadJob(t)
	return t.Seq == number && r.fits(&job, true)
}

// fitsFlow is fitsLive for a workflow.
func (pn *Plans) fitsFlow(p *Row, id rota.WorkflowID, number uint64) bool {
	r := pn.ports.Workflow(id)
	return r != nil && r.Seq == number && r.Seq <= p.jobs && Planned(r, p.filter, p.started.Clock)
}
