package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/plans"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/internal/access"
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

// planOne applies a plan's verb to one job.
func (m *Machine) planOne(of plans.One) (existed bool, err error) {
	id, spec, caller, item := rota.JobID(of.Item.GetJob()), of.Spec, of.Caller, of.Item
	var op *fsmpb.Op
	switch spec.Verb {
	case rota.PlanCancel:
		op = &fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: item.GetJob()}}}
	case rota.PlanRetry:
		again := item.GetRetry()
		op = &fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: &fsmpb.Retry{Job: item.GetJob(), Spec: again.GetSpec(),
			Life: again.GetLife(), Past: again.GetPast()}}}
	case rota.PlanDelete:
		op = DeleteJobOp(id, item.GetNumber())
	case rota.PlanReprioritise:
		p := of.Live.History()
		op = ChangeJobOp(&rota.JobChange{ID: id, Priority: spec.Priority}, p.Life, p.Changes)
	case rota.PlanCancelWorkflows:
		op = entry.CancelWorkflowOp(rota.WorkflowID(id))
	case rota.PlanRetryWorkflows:
		op = entry.RetryWorkflowOp(rota.WorkflowID(id), "", m.flows.workflows.Get(rota.WorkflowID(id)).Runs)
	default:
		if of.Live.Spec.Queue == spec.To {
			return true, nil
		}
		m.Journal.Caller = caller
		return false, m.placement.moveTo(id, spec.To, caller)
	}
	op.Actor, op.Via, op.Request = string(caller.Actor), caller.Via, caller.Request
	o := m.applyFor(op, of.Term)
	return o.GetExisted(), entry.OutcomeError(o).OrNil()
}

// moveTo moves one pending job to another queue.
func (pl *placement) moveTo(id rota.JobID, into rota.QueueName, caller access.Caller) error {
	j := pl.s.JobTable.Get(id)
	if refusal := pl.access.Moves(caller, id, j.Spec.Tenant, into); refusal != nil {
		return refusal
	}
	to, spec := pl.s.QueueTable.Get(into), j.Spec.Words()
	spec.Queue = into
	switch {
	case to == nil:
		return refuse.NoQueue(into)
	case to.DrainTo != "":
		return refuse.Leaving(to)
	case j.Workflow != "":
		return rota.Refusef(rota.KindConflict, "job",
			"job %s is a node of workflow %s: what nodes are is settled when their workflow is submitted", id,
			j.Workflow)
	case j.State.Leased():
		return rota.Refusef(rota.KindConflict, "job", "job %s is %s: only a job that waits can be moved", id, j.State)
	case to.Pending() >= to.Policy.QueueCap:
		return refuse.Exhausted("queue", "queue %q holds %d pending jobs: queue_cap is %d", into, to.Pending(),
			to.Policy.QueueCap)
	case !pl.life.classFits(&spec):
		return refuse.Exhausted("requires", "queue %q holds jobs of %d different requirements: no more are taken", into,
			limits.MaxClassesPerQueue)
	}
	pl.moveJob(pl.s.JobTable.Edit(id), into)
	return nil
}
