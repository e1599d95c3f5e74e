package fsm

import (
	"bytes"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// logged identifies the attempt that a log belongs to.
type logged struct {
	lease   rota.LeaseID
	worker  rota.WorkerID
	attempt int32
	queue   rota.QueueName
	tenant  rota.TenantID
	typ     rota.JobType
}

func loggedBy(l *state.LeaseRow) logged {
	return logged{l.ID, l.Worker, l.Attempt, l.Queue, l.Tenant, l.Typ}
}

// unloggedOf returns the unlogged attempts. A verb of the worker that ended an attempt carried its log, or there was
// none.
func unloggedOf(attempts []rota.Attempt) (list []state.Unlogged) {
	for i := range attempts {
		a := &attempts[i]
		switch a.End {
		case rota.ReasonProviderFail, rota.ReasonDeclined, rota.ReasonSnoozed, rota.ReasonProofInvalid, rota.ReasonDone:
			continue
		}
		if !a.Log {
			list = append(list, state.Unlogged{Lease: a.Lease, Worker: a.Worker, Attempt: a.Number})
		}
	}
	return list
}

// keepLog stages a log for the archives, under its own number. Like all staged records it is outside the digest; the
// fact that it was kept is in the digest.
func (ed *ended) keepLog(of logged, packed []byte) {
	h := &ed.s.Header
	h.TombSeq++
	h.Logs++
	id := peer.LogID(of.lease)
	t := state.TombRow{ID: id, Queue: of.queue, Typ: of.typ, Tenant: of.tenant, State: rota.JobCompleted,
		Reason:  rota.ReasonDone,
		Attempt: of.attempt, Lease: of.lease, Worker: of.worker, Finished: h.Now(), Due: h.Date(), Seq: h.TombSeq}
	spec := ed.s.Specs.Keep(&rota.JobSpec{ID: id, Queue: of.queue, Type: of.typ, Tenant: of.tenant})
	ed.staged.add(&state.Record{Seq: t.Seq, Ended: t.Keep(&state.Encoder{}, nil), Spec: spec, Output: packed})
	ed.staged.loose.Set(looseRecord{id, t.Seq})
}

// broughtTo returns the log that the verb being applied carries for a lease. Other leases that the verb ends, such as
// those of a worker that is jailed for it, get none.
func (lg *leasing) broughtTo(l *state.LeaseRow) []byte {
	if lg.bringing == nil || !bytes.Equal(lg.bringing.GetLease(), l.ID[:]) {
		return nil
	}
	return lg.bringing.GetLog()
}

// checkLog refuses a log that a verb cannot carry.
func checkLog(op *fsmpb.LeaseOp) error {
	if len(op.GetLog()) == 0 {
		return nil
	}
	switch verb := rota.LeaseVerb(op.GetVerb()); verb {
	case rota.VerbComplete, rota.VerbFail, rota.VerbDecline:
		return checkPacked(op.GetLog())
	default:
		return rota.Refusef(rota.KindInvalid, "log", "lease verb %d brings no log: the verb that ends the lease does",
			verb)
	}
}

func checkPacked(log []byte) error {
	if len(log) > limits.MaxLogPacked {
		return rota.Refusef(rota.KindInvalid, "log", "log too long: got %d bytes, maximum %d", len(log),
			limits.MaxLogPacked)
	}
	return nil
}

// KeepLogOp returns the operation that keeps a log of an attempt whose worker did not end its lease itself.
func KeepLogOp(job rota.JobID, lease rota.LeaseID, worker rota.WorkerID, packed []byte) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_KeepLog{KeepLog: &fsmpb.KeepLog{Job: string(job), Lease: lease[:],
		Worker: string(worker), Log: packed}}}
}

// keepLog keeps the log that a node has of a known attempt that is over: once, and never instead of one that its
// worker sent. The node proposes it.
func (lg *leasing) keepLog(op *fsmpb.KeepLog) *fsmpb.Outcome {
	switch err := checkPacked(op.GetLog()); {
	case err != nil:
		return entry.Refused(err)
	case len(op.GetLog()) == 0:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "log", "the log is empty"))
	case lg.leases.Get(string(op.GetLease())) != nil:
		return entry.Refused(rota.Refusef(rota.KindConflict, "lease",
			"the lease is open: the verb that ends it brings the log"))
	}
	return lg.keepLogOf(rota.JobID(op.GetJob()), rota.WorkerID(op.GetWorker()), op.GetLease(), op.GetLog())
}

// keepLogOf keeps the log of the attempt with this lease.
func (lg *leasing) keepLogOf(id rota.JobID, worker rota.WorkerID, lease, packed []byte) *fsmpb.Outcome {
	if t := lg.ended.tombs.Get(id); t != nil {
		if a := t.AttemptBy(lease, worker); a != nil {
			return lg.ended.keepEnded(t, *a, packed)
		}
	}
	if j := lg.s.JobTable.Get(id); j != nil {
		if at := slices.IndexFunc(j.Attempts, func(a rota.Attempt) bool {
			return bytes.Equal(a.Lease[:], lease) && a.Worker == worker
		}); at >= 0 {
			return lg.keepLive(j, at, packed)
		}
	}
	return entry.Refused(rota.Refusef(rota.KindNotFound, "lease", "job %q has no such attempt among the last %d", id,
		limits.MaxAttemptsKept))
}

// keepEnded keeps the log of an attempt of an ended job.
func (ed *ended) keepEnded(t *state.TombRow, of state.Unlogged, packed []byte) *fsmpb.Outcome {
	o := &fsmpb.Outcome{Existed: of.Logged, JobState: uint32(t.State)}
	if o.Existed {
		return o
	}
	ed.tombs.Change(t.ID, func(t *state.TombRow) {
		t.Logged = t.Logged || t.Lease == of.Lease
		for i := range t.Earlier {
			t.Earlier[i].Logged = t.Earlier[i].Logged || t.Earlier[i].Lease == of.Lease
		}
	})
	ed.flows.noteLog(t.ID, of.Lease)
	ed.keepLog(logged{of.Lease, of.Worker, of.Attempt, t.Queue, t.Tenant, t.Typ}, packed)
	return o
}

// keepLive keeps the log of an attempt of a live job.
func (lg *leasing) keepLive(j *state.JobRow, at int, packed []byte) *fsmpb.Outcome {
	o := &fsmpb.Outcome{Existed: j.Attempts[at].Log, JobState: uint32(j.State)}
	if o.Existed {
		return o
	}
	j = lg.s.JobTable.Edit(j.Spec.ID)
	lg.life.own(j)
	j.Attempts = slices.Clone(j.Attempts)
	a := &j.Attempts[at]
	a.Log = true
	lg.ended.keepLog(logged{a.Lease, a.Worker, a.Number, j.Spec.Queue, j.Spec.Tenant, j.Spec.Type}, packed)
	return o
}
