package fsm

import (
	"bytes"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
)

// InterruptOp returns the operation that ends a job's current attempt (SPEC §21.9).
func InterruptOp(vw *View, id rota.JobID, counted bool) *fsmpb.Op {
	op := &fsmpb.InterruptJob{Job: string(id), Counted: counted}
	if j := vw.m.JobTable.Get(id); j != nil && !j.Lease.IsZero() {
		op.Lease = bytes.Clone(j.Lease[:])
	}
	return &fsmpb.Op{Op: &fsmpb.Op_InterruptJob{InterruptJob: op}}
}

// RunNowOp returns the operation that queues a DELAYED job now (SPEC §21.10).
func RunNowOp(vw *View, id rota.JobID) *fsmpb.Op {
	op := &fsmpb.RunJobNow{Job: string(id)}
	if j := vw.m.JobTable.Get(id); j != nil {
		op.Life, op.Attempt, op.DueClockMs, op.DueMs = j.History().Life, j.Attempt, int64(j.Due), int64(j.DueDate)
	}
	return &fsmpb.Op{Op: &fsmpb.Op_RunJobNow{RunJobNow: op}}
}

// apply is the switch over the verbs on leases and those on jobs that wait for one.
func (lg *leasing) apply(whole *fsmpb.Op) *fsmpb.Outcome {
	switch op := whole.GetOp().(type) {
	case *fsmpb.Op_Lease:
		return lg.leaseOp(op.Lease)
	case *fsmpb.Op_KeepLog:
		return lg.keepLog(op.KeepLog)
	case *fsmpb.Op_InterruptJob:
		return lg.interrupt(op.InterruptJob)
	default:
		return lg.runNow(op.(*fsmpb.Op_RunJobNow).RunJobNow)
	}
}

// interrupt revokes a job's lease, so that the job is tried again once its worker has confirmed.
func (lg *leasing) interrupt(op *fsmpb.InterruptJob) *fsmpb.Outcome {
	id, why := rota.JobID(op.GetJob()), rota.ReasonInterrupted
	if op.GetCounted() {
		why = rota.ReasonInterruptedCounted
	}
	j := lg.s.JobTable.Get(id)
	if j == nil {
		return notLive(lg.view, id, "only a job with an open lease can be interrupted")
	}
	refused := func(err error) *fsmpb.Outcome {
		o := entry.Refused(err)
		o.JobState = uint32(j.State)
		return o
	}
	existed := &fsmpb.Outcome{JobState: uint32(j.State), Existed: true}
	for i := range j.Attempts {
		if a := &j.Attempts[i]; bytes.Equal(a.Lease[:], op.GetLease()) {
			if a.End == rota.ReasonInterrupted || a.End == rota.ReasonInterruptedCounted {
				return existed
			}
			return refused(rota.Refusef(rota.KindStale, "lease",
				"the attempt of job %s ended already: %s; the job is %s", id, a.End, j.State))
		}
	}
	l := lg.leases.Get(string(op.GetLease()))
	switch {
	case l == nil || l.Job != id:
		return refused(rota.Refusef(rota.KindConflict, "job",
			"job %s is %s: only a job with an open lease can be interrupted", id, j.State))
	case l.Revoked == why:
		return existed
	case l.Revoked != rota.ReasonNone:
		return refused(rota.Refusef(rota.KindConflict, "lease",
			"the lease of job %s is revoked already (%s): it ends once its worker confirms", id, l.Revoked))
	}
	lg.fleet.revoke(lg.leases.Edit(l.Key), why)
	return &fsmpb.Outcome{JobState: uint32(j.State)}
}

// runNow queues a job before its time; its attempts stay as they are.
func (lg *leasing) runNow(op *fsmpb.RunJobNow) *fsmpb.Outcome {
	id := rota.JobID(op.GetJob())
	j := lg.s.JobTable.Get(id)
	if j == nil {
		return notLive(lg.view, id, "only a DELAYED job can be run now")
	}
	var err error
	switch same := j.History().Life == op.GetLife() && j.Attempt == op.GetAttempt(); {
	case same && (j.State == rota.JobQueued || j.State.Leased()):
		return &fsmpb.Outcome{JobState: uint32(j.State), Existed: true}
	case j.State != rota.JobDelayed:
		err = rota.Refusef(rota.KindConflict, "job", "job %s is %s: only a DELAYED job can be run now", id, j.State)
	case !same || int64(j.Due) != op.GetDueClockMs() || int64(j.DueDate) != op.GetDueMs():
		err = rota.Refusef(rota.KindStale, "due", "job %s waits for another moment by now: look at it again", id)
	case lg.waitsForWorker(j):
		err = rota.Refusef(rota.KindConflict, "job",
			"job %s waits until %s at the latest, because the worker of a cancelled lease has not confirmed "+
				"that it stopped: `rota job why %s` shows which", id, lg.s.Header.Now().At(j.Due).Date, id)
	}
	if err != nil {
		o := entry.Refused(err)
		o.JobState = uint32(j.State)
		return o
	}
	j = lg.s.JobTable.Edit(id)
	lg.life.own(j)
	lg.s.Timers.Wake.Refile(string(id), int64(j.Due), 0)
	lg.s.Timers.Dated.Refile(string(id), int64(j.DueDate), 0)
	j.Due, j.DueDate = 0, 0
	lg.life.enqueue(j)
	return &fsmpb.Outcome{JobState: uint32(j.State)}
}

// waitsForWorker reports whether a DELAYED job waits for a worker that may still be working on cancelled work (SPEC
// §8.8).
func (lg *leasing) waitsForWorker(j *state.JobRow) bool {
	return j.Ready != 0 || j.Due != 0 && j.Revived() || lg.flows.unheard(j)
}

// notLive refuses a verb on a job that has ended, is BLOCKED, or is unknown.
func notLive(vw *View, id rota.JobID, hint string) *fsmpb.Outcome {
	state := vw.JobState(id)
	if state == rota.JobNone {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id))
	}
	o := entry.Refused(rota.Refusef(rota.KindConflict, "job", "job %s is %s: %s", id, state, hint))
	o.JobState = uint32(state)
	return o
}
