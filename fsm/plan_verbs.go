package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// StartPlanOp returns the operation that starts a plan.
func StartPlanOp(p *rota.PlanSpec) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_StartPlan{StartPlan: &fsmpb.StartPlan{Id: string(p.ID), Verb: uint32(p.Verb),
		Filter: p.Filter, To: string(p.To), Priority: p.Priority, Max: p.Max}}}
}

// planWords is the inverse of StartPlanOp.
func planWords(op *fsmpb.StartPlan) *rota.PlanSpec {
	p := &rota.PlanSpec{ID: rota.PlanID(op.GetId()), Verb: rota.PlanVerb(min(op.GetVerb(),
		uint32(rota.PlanVerbLast)+1)), Filter: op.GetFilter(), To: rota.QueueName(op.GetTo()), Max: op.GetMax()}
	if op.Priority != nil {
		priority := op.GetPriority()
		p.Priority = &priority
	}
	return p
}

// start starts a plan; a repetition changes nothing.
func (pn *plans) start(op *fsmpb.StartPlan) *fsmpb.Outcome {
	spec := planWords(op)
	f, err := ReadPlan(spec)
	if err != nil {
		return entry.Refused(err)
	}
	if old := pn.rows.Get(spec.ID); old != nil {
		how := spec.Difference(old.spec)
		if old.caller.Actor != pn.s.Journal.Owner() {
			how = "by somebody else" // another caller must not see its filter
		}
		if how != "" {
			return entry.Refused(rota.Refusef(rota.KindConflict, "id",
				"plan %s was started before, and %s: start it under a new id, or as it was",
				spec.ID, how))
		}
		return &fsmpb.Outcome{Existed: true}
	}
	if err := pn.target(spec); err != nil {
		return entry.Refused(err)
	}
	if err := pn.mayRun(pn.s.Journal.Owner()); err != nil {
		return entry.Refused(err)
	}
	running, oldest, order := pn.count()
	if running >= limits.MaxPlansRunning {
		return entry.Refused(exhausted("plans",
			"%d plans run: no more are taken, wait for one, or end one with `rota plan cancel`", running))
	}
	if pn.rows.Len() >= limits.MaxPlans {
		pn.rows.Drop(oldest.spec.ID)
	}
	r := &planRow{spec: spec, filter: &f, caller: pn.s.Journal.Owned(), order: order + 1, started: pn.s.Header.Now(),
		jobs: pn.newest(spec), ends: pn.s.Header.TombSeq}
	pn.rows.Insert(spec.ID, r)
	pn.emit(r, rota.EventPlanStarted)
	return &fsmpb.Outcome{}
}

// mayRun refuses one more plan to a principal that has its maximum of running ones, which all principals share.
// Principals with all rights, and the account that the node runs as, may run as many as there can be.
func (pn *plans) mayRun(by rota.Principal) error {
	if by == "" || by == rota.Local {
		return nil
	}
	if rights, refusal := pn.access.rightsOf(by); refusal == nil && rights.All() {
		return nil
	}
	own := 0
	pn.rows.Scan(func(_ rota.PlanID, r *planRow) bool {
		if r.state == rota.PlanRunning && r.caller.Actor == by {
			own++
		}
		return true
	})
	if own < limits.MaxPlansOfOne {
		return nil
	}
	return exhausted("plans",
		"%s has %d plans running, %d are allowed: wait for one, or end one with `rota plan cancel`", by, own,
		limits.MaxPlansOfOne)
}

// target refuses a plan that moves jobs to a queue that accepts none.
func (pn *plans) target(spec *rota.PlanSpec) error {
	if spec.Verb != rota.PlanMove {
		return nil
	}
	switch q := pn.s.QueueTable.Get(spec.To); {
	case q == nil:
		return noQueue(spec.To)
	case q.DrainTo != "":
		return leaving(q)
	}
	return nil
}

// cancel ends a plan at its present position; one that is over is not changed.
func (pn *plans) cancel(op *fsmpb.CancelPlan) *fsmpb.Outcome {
	r := pn.rows.Get(rota.PlanID(op.GetId()))
	switch {
	case len(op.GetReason()) > limits.MaxReasonBytes:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "reason", "reason has %d bytes: at most %d are taken",
			len(op.GetReason()),
			limits.MaxReasonBytes))
	case r == nil:
		return entry.Refused(unknownPlan(op.GetId()))
	case r.state != rota.PlanRunning:
		return &fsmpb.Outcome{Existed: true}
	}
	pn.finish(pn.rows.Edit(r.spec.ID), rota.PlanCancelled, op.GetReason())
	return &fsmpb.Outcome{}
}

func unknownPlan(id string) *rota.Error {
	return rota.Refusef(rota.KindNotFound, "plan", "plan %.80q is not known", id)
}

// moveTo moves one pending job to another queue.
func (pl *placement) moveTo(id rota.JobID, into rota.QueueName, caller access.Caller) error {
	j := pl.s.JobTable.Get(id)
	if refusal := pl.access.moves(caller, id, j.Spec.Tenant, into); refusal != nil {
		return refusal
	}
	to, spec := pl.s.QueueTable.Get(into), j.Spec.Words()
	spec.Queue = into
	switch {
	case to == nil:
		return noQueue(into)
	case to.DrainTo != "":
		return leaving(to)
	case j.Workflow != "":
		return rota.Refusef(rota.KindConflict, "job",
			"job %s is a node of workflow %s: what nodes are is settled when their workflow is submitted", id,
			j.Workflow)
	case j.State.Leased():
		return rota.Refusef(rota.KindConflict, "job", "job %s is %s: only a job that waits can be moved", id, j.State)
	case to.Pending() >= to.Policy.QueueCap:
		return exhausted("queue", "queue %q holds %d pending jobs: queue_cap is %d", into, to.Pending(),
			to.Policy.QueueCap)
	case !pl.life.classFits(&spec):
		return exhausted("requires", "queue %q holds jobs of %d different requirements: no more are taken", into,
			limits.MaxClassesPerQueue)
	}
	pl.moveJob(pl.s.JobTable.Edit(id), into)
	return nil
}
