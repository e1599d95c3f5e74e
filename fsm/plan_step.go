package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"google.golang.org/protobuf/proto"
)

// StepOf returns the step that takes a plan over its next jobs: as many as fit in the bytes, at least one.
func StepOf(w *PlanWork, next *Members) *fsmpb.PlanStep {
	step := &fsmpb.PlanStep{Plan: string(w.Spec.ID), From: string(w.Cursor), To: string(next.To), End: next.End}
	size := 0
	for i := range next.Jobs {
		job := &next.Jobs[i]
		item := &fsmpb.PlanItem{Job: string(job.ID), Number: next.Numbers[i]}
		if w.Spec.Verb == rota.PlanRetry {
			item.Retry = &fsmpb.Retry{Life: job.Life}
			if !job.RecordDropped {
				item.Retry.Spec, item.Retry.Past = entry.SpecOp(&job.JobSpec), PastOp(job)
			}
		}
		if size += proto.Size(item); size > limits.PlanStepBytes && i > 0 {
			step.To, step.End = step.GetItems()[i-1].GetJob(), false
			break
		}
		step.Items = append(step.Items, item)
	}
	return step
}

// planStep moves a plan forward to another job (SPEC §21.8). Each job is processed by the same verb as a single job, as
// if the plan's starter had called it now. A leader proposes it. A step that does not begin at the plan's cursor is
// STALE, so that each job is processed once, whichever node leads.
func (m *Machine) planStep(op *fsmpb.PlanStep, term uint64) *fsmpb.Outcome {
	if o := m.Internal(); o != nil {
		return o
	}
	r := m.plans.rows.Get(rota.PlanID(op.GetPlan()))
	if r == nil {
		return entry.Refused(unknownPlan(op.GetPlan()))
	}
	if err := r.takes(op); err != nil {
		return entry.Refused(err)
	}
	r = m.plans.rows.Edit(r.spec.ID)
	if refusal := m.stillMay(r); refusal != nil {
		m.plans.finish(r, rota.PlanCancelled, "who started it may go on no more: "+refusal.Error())
		return &fsmpb.Outcome{}
	}
	to, end := rota.JobID(op.GetTo()), op.GetEnd()
	for i, item := range op.GetItems() {
		if m.planItem(r, item, term) {
			continue
		}
		if to, end = r.cursor, false; i > 0 { // the next step continues with it
			to = rota.JobID(op.GetItems()[i-1].GetJob())
		}
		break
	}
	m.Journal.Caller = r.caller
	r.cursor = to
	if end || r.spec.Max > 0 && r.done == r.spec.Max {
		m.plans.finish(r, rota.PlanDone, "")
	}
	return &fsmpb.Outcome{}
}

// stillMay refuses a step of a plan whose starter is no longer valid.
func (m *Machine) stillMay(r *planRow) *rota.Error {
	if r.caller.Actor == "" {
		return nil
	}
	_, refusal := m.access.rightsOf(r.caller.Actor)
	return refusal
}

// takes refuses a step that does not begin at the plan's cursor, or that no leader makes.
func (r *planRow) takes(op *fsmpb.PlanStep) error {
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
func (m *Machine) planItem(r *planRow, item *fsmpb.PlanItem, term uint64) bool {
	id, was := rota.JobID(item.GetJob()), item.GetNumber()
	live, ended := m.JobTable.Get(id), m.ended.tombs.Get(id)
	switch {
	case r.spec.Verb.Workflows():
		if !m.flows.fitsPlan(r, rota.WorkflowID(id), was) {
			r.passed++
			return true
		}
	case r.spec.Verb.Ended() && (live != nil || was > r.ends || !r.fitsEnded(ended, was)), !r.spec.Verb.Ended() &&
		!m.fitsLive(r, live, was):
		r.passed++
		return true
	}
	existed, err := m.planOne(r, live, item, term)
	switch {
	case ManyAtOnce(err):
		return false
	case err != nil:
		if r.refused++; len(r.refusals) < limits.MaxPlanRefusals {
			r.refusals = append(r.refusals, rota.PlanRefusal{Job: id,
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
func (m *Machine) fitsLive(r *planRow, j *state.JobRow, number uint64) bool {
	if j == nil || j.Seq != number || j.Seq > r.jobs {
		return false
	}
	job := liveJob(j, nil, m.Header.Now())
	return r.fits(&job, false)
}

// fitsEnded is fitsLive for a job that has ended. Of one that only archives contain, only its number is known here.
func (r *planRow) fitsEnded(t *state.TombRow, number uint64) bool {
	if t == nil {
		return r.spec.Verb == rota.PlanDelete
	}
	job := deadJob(t, nil)
	return t.Seq == number && r.fits(&job, true)
}

// planOne applies a plan's verb to one job.
func (m *Machine) planOne(r *planRow, live *state.JobRow, item *fsmpb.PlanItem, term uint64) (existed bool, err error) {
	id := rota.JobID(item.GetJob())
	var op *fsmpb.Op
	switch r.spec.Verb {
	case rota.PlanCancel:
		op = &fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: item.GetJob()}}}
	case rota.PlanRetry:
		again := item.GetRetry()
		op = &fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: &fsmpb.Retry{Job: item.GetJob(), Spec: again.GetSpec(),
			Life: again.GetLife(), Past: again.GetPast()}}}
	case rota.PlanDelete:
		op = DeleteJobOp(id, item.GetNumber())
	case rota.PlanReprioritise:
		p := live.History()
		op = ChangeJobOp(&rota.JobChange{ID: id, Priority: r.spec.Priority}, p.Life, p.Changes)
	case rota.PlanCancelWorkflows:
		op = entry.CancelWorkflowOp(rota.WorkflowID(id))
	case rota.PlanRetryWorkflows:
		op = entry.RetryWorkflowOp(rota.WorkflowID(id), "", m.flows.workflows.Get(rota.WorkflowID(id)).Runs)
	default:
		if live.Spec.Queue == r.spec.To {
			return true, nil
		}
		m.Journal.Caller = r.caller
		return false, m.placement.moveTo(id, r.spec.To, r.caller)
	}
	op.Actor, op.Via, op.Request = string(r.caller.Actor), r.caller.Via, r.caller.Request
	o := m.applyFor(op, term)
	return o.GetExisted(), entry.OutcomeError(o).OrNil()
}
