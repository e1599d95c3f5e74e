package plans

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/internal/limits"
)

// wordsOf is the inverse of StartPlanOp.
func wordsOf(op *fsmpb.StartPlan) *rota.PlanSpec {
	p := &rota.PlanSpec{ID: rota.PlanID(op.GetId()), Verb: rota.PlanVerb(min(op.GetVerb(),
		uint32(rota.PlanVerbLast)+1)), Filter: op.GetFilter(), To: rota.QueueName(op.GetTo()), Max: op.GetMax()}
	if op.Priority != nil {
		priority := op.GetPriority()
		p.Priority = &priority
	}
	return p
}

// Start starts a plan; a repetition changes nothing.
func (pn *Plans) Start(op *fsmpb.StartPlan) *fsmpb.Outcome {
	spec := wordsOf(op)
	f, err := Read(spec)
	if err != nil {
		return entry.Refused(err)
	}
	if old := pn.Rows.Get(spec.ID); old != nil {
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
	running, oldest, order := pn.Count()
	if running >= limits.MaxPlansRunning {
		return entry.Refused(refuse.Exhausted("plans",
			"%d plans run: no more are taken, wait for one, or end one with `rota plan cancel`", running))
	}
	if pn.Rows.Len() >= limits.MaxPlans {
		pn.Rows.Drop(oldest.spec.ID)
	}
	r := &Row{spec: spec, filter: &f, caller: pn.s.Journal.Owned(), order: order + 1, started: pn.s.Header.Now(),
		jobs: pn.newest(spec), ends: pn.s.Header.TombSeq}
	pn.Rows.Insert(spec.ID, r)
	pn.emit(r, rota.EventPlanStarted)
	return &fsmpb.Outcome{}
}

// mayRun refuses one more plan to a principal that has its maximum of running ones, which all principals share.
// Principals with all rights, and the account that the node runs as, may run as many as there can be.
func (pn *Plans) mayRun(by rota.Principal) error {
	if by == "" || by == rota.Local {
		return nil
	}
	if rights, refusal := pn.ports.RightsOf(by); refusal == nil && rights.All() {
		return nil
	}
	own := 0
	pn.Rows.Scan(func(_ rota.PlanID, r *Row) bool {
		if r.state == rota.PlanRunning && r.caller.Actor == by {
			own++
		}
		return true
	})
	if own < limits.MaxPlansOfOne {
		return nil
	}
	return refuse.Exhausted("plans",
		"%s has %d plans running, %d are allowed: wait for one, or end one with `rota plan cancel`", by, own,
		limits.MaxPlansOfOne)
}

// target refuses a plan that moves jobs to a queue that accepts none.
func (pn *Plans) target(spec *rota.PlanSpec) error {
	if spec.Verb != rota.PlanMove {
		return nil
	}
	switch q := pn.s.QueueTable.Get(spec.To); {
	case q == nil:
		return refuse.NoQueue(spec.To)
	case q.DrainTo != "":
		return refuse.Leaving(q)
	}
	return nil
}

// Cancel ends a plan at its present position; one that is over is not changed.
func (pn *Plans) Cancel(op *fsmpb.CancelPlan) *fsmpb.Outcome {
	r := pn.Rows.Get(rota.PlanID(op.GetId()))
	switch {
	case len(op.GetReason()) > limits.MaxReasonBytes:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "reason", "reason has %d bytes: at most %d are taken",
			len(op.GetReason()),
			limits.MaxReasonBytes))
	case r == nil:
		return entry.Refused(unknown(op.GetId()))
	case r.state != rota.PlanRunning:
		return &fsmpb.Outcome{Existed: true}
	}
	pn.finish(pn.Rows.Edit(r.spec.ID), rota.PlanCancelled, op.GetReason())
	return &fsmpb.Outcome{}
}

func unknown(id string) *rota.Error {
	return rota.Refusef(rota.KindNotFound, "plan", "plan %.80q is not known", id)
}
