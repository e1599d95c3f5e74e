package fsm

import (
	"bytes"
	"crypto/sha256"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/keys"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// leaseOp applies a verb of a worker on its lease, with the log of its handler if the verb ends the lease.
func (lg *leasing) leaseOp(op *fsmpb.LeaseOp) *fsmpb.Outcome {
	if err := checkLog(op); err != nil {
		return entry.Refused(err)
	}
	if len(op.GetLog()) > 0 {
		lg.bringing = op
	}
	o := lg.verb(op)
	lg.bringing = nil
	return o
}

// verb applies a verb of a worker on its lease. Only the lease's worker, in its live session, is accepted (SPEC §6.4).
// A lease is open until a sweep ends it (SPEC §3.7). A late verb is answered with the earlier result (SPEC §2.7).
func (lg *leasing) verb(op *fsmpb.LeaseOp) *fsmpb.Outcome {
	w := lg.fleet.workers.Get(rota.WorkerID(op.GetWorker()))
	if !planted.fencingOff() && (w == nil || w.Session != rota.Session(op.GetSession()) || w.Session == 0) {
		if l := lg.confirmed(op); l != nil {
			costs, err := lg.costs(l, op)
			if err != nil {
				return entry.Refused(err)
			}
			return lg.decline(lg.spend(l, costs), op)
		}
		return entry.Refused(rota.Refusef(rota.KindStale, "session", "worker %q has no live session %d: register again",
			op.GetWorker(), op.GetSession()))
	}
	l := lg.leases.Get(string(op.GetLease()))
	if l == nil {
		return lg.late(op)
	}
	if !planted.fencingOff() && (l.Worker != w.Spec.ID || l.Session != w.Session) {
		return entry.Refused(rota.Refusef(rota.KindStale, "lease", "lease %s belongs to another worker", l.ID))
	}
	costs, err := lg.costs(l, op)
	if err != nil {
		return entry.Refused(err)
	}
	if l.Ended != nil {
		return lg.confirm(l, op, costs)
	}
	switch rota.LeaseVerb(op.GetVerb()) {
	case rota.VerbAck:
		return lg.ack(l)
	case rota.VerbRenew:
		return lg.renew(l, op.GetOrdinal())
	case rota.VerbComplete:
		return lg.complete(l, op, costs)
	case rota.VerbFail:
		return lg.fail(l, op, costs)
	case rota.VerbDecline:
		return lg.decline(lg.spend(l, costs), op)
	case rota.VerbProgress:
		return lg.progress(l, op, costs)
	default:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "verb", "lease verb %d is unknown", op.GetVerb()))
	}
}

// confirm applies a worker's verb on a lease that has outlived its job. A verb that ends the lease confirms that the
// worker has stopped, whatever else it reports. A completion or a failure is answered like one after the lease's end,
// and its content is not kept.
func (lg *leasing) confirm(l *state.LeaseRow, op *fsmpb.LeaseOp, costs rota.Costs) *fsmpb.Outcome {
	l = lg.spend(l, costs)
	switch rota.LeaseVerb(op.GetVerb()) {
	case rota.VerbDecline:
		return &fsmpb.Outcome{JobState: uint32(lg.release(l, state.Tail(op.GetText(), limits.MaxErrorBytes)))}
	case rota.VerbComplete, rota.VerbFail:
		lg.bringing = nil
		lg.release(l, state.Tail(op.GetText(), limits.MaxErrorBytes))
		return lg.late(op)
	default:
		o := entry.Refused(rota.Refusef(rota.KindStale, "lease", "the lease is revoked (%s): stop and decline it",
			l.Revoked))
		o.JobState = uint32(lg.view.JobState(l.Job))
		return o
	}
}

// confirmed returns the revoked lease that its own worker declines from a session that a takeover ended. Such a session
// may send nothing else, but this confirms that the old process has stopped (SPEC §8.5).
func (lg *leasing) confirmed(op *fsmpb.LeaseOp) *state.LeaseRow {
	l := lg.leases.Get(string(op.GetLease()))
	if l == nil || l.Revoked == rota.ReasonNone || rota.LeaseVerb(op.GetVerb()) != rota.VerbDecline ||
		l.Worker != rota.WorkerID(op.GetWorker()) || l.Session != rota.Session(op.GetSession()) {
		return nil
	}
	return l
}

// late answers a verb on a lease that is over. The caller that caused the first outcome gets it again; all others have
// lost the lease.
func (lg *leasing) late(op *fsmpb.LeaseOp) *fsmpb.Outcome {
	id, verb := rota.JobID(op.GetJob()), rota.LeaseVerb(op.GetVerb())
	if t := lg.ended.tombs.Get(id); t != nil {
		own := bytes.Equal(t.Lease[:], op.GetLease()) && !t.Lease.IsZero() && t.Worker == rota.WorkerID(op.GetWorker())
		same := verb == rota.VerbComplete && t.State == rota.JobCompleted && t.OutputDigest == string(outputDigest(op))
		if own && same && !lg.flows.grewSo(op) {
			o := entry.Refused(rota.Refusef(rota.KindConflict, "children",
				"job %s completed with other children: the first ones count", id))
			o.JobState = uint32(t.State)
			return o
		}
		return lateOutcome(op, own, t.State, t.Reason, same)
	}
	if j := lg.s.JobTable.Get(id); j != nil {
		for i := len(j.Attempts) - 1; i >= 0; i-- {
			a := &j.Attempts[i]
			if bytes.Equal(a.Lease[:], op.GetLease()) && a.Worker == rota.WorkerID(op.GetWorker()) {
				return lateOutcome(op, true, j.State, a.End, false)
			}
		}
	}
	return entry.Refused(rota.Refusef(rota.KindStale, "lease", "no such lease is open"))
}

// lateOutcome answers for a lease that ended for a reason; own reports that it was the caller's, completed that this
// same completion ended it.
func lateOutcome(op *fsmpb.LeaseOp, own bool, state rota.JobState, why rota.Reason, completed bool) *fsmpb.Outcome {
	var o *fsmpb.Outcome
	verb := rota.LeaseVerb(op.GetVerb())
	switch {
	case own && (completed || verb == rota.VerbFail && failed(why) ||
		verb == rota.VerbDecline && state != rota.JobCompleted):
		return &fsmpb.Outcome{JobState: uint32(state), Existed: true}
	case own && verb == rota.VerbComplete && why == rota.ReasonProofInvalid:
		o = entry.Refused(proofInvalid(outputDigest(op)))
	default:
		o = entry.Refused(rota.Refusef(rota.KindStale, "lease", "the lease is over: %s, job %s is %s", why, op.GetJob(),
			state))
	}
	o.JobState = uint32(state)
	return o
}

// failed reports whether a worker's report of failure ends a lease with a reason.
func failed(why rota.Reason) bool {
	switch why {
	case rota.ReasonProviderFail, rota.ReasonTimedOut, rota.ReasonSnoozed, rota.ReasonCancelledByHandler:
		return true
	}
	return false
}

func proofInvalid(digest []byte) error {
	return rota.Refusef(rota.KindConflict, "output_digest", "output digest %x is not the expected one: PROOF_INVALID",
		digest)
}

// outputDigest returns the digest of a completion's output: its SHA-256 unless the handler gave another.
func outputDigest(op *fsmpb.LeaseOp) []byte {
	if digest := op.GetOutputDigest(); len(digest) != 0 {
		return digest
	}
	sum := sha256.Sum256(op.GetOutput())
	return sum[:]
}

// open answers for a lease that stays open. Most such answers at one moment are equal and share one outcome, as in
// Became.
func (lg *leasing) open(l *state.LeaseRow, state rota.JobState) *fsmpb.Outcome {
	o := lg.latest
	if o.GetJobState() != uint32(state) || o.GetDeadlineMs() != int64(l.Deadline.Clock) ||
		o.GetRenewals() != l.Renewals {
		o = &fsmpb.Outcome{JobState: uint32(state), DeadlineMs: int64(l.Deadline.Clock), Renewals: l.Renewals}
		lg.latest = o
	}
	return o
}

// ack makes an ASSIGNED job RUNNING; repeating it changes nothing.
func (lg *leasing) ack(l *state.LeaseRow) *fsmpb.Outcome {
	if l.Acked.IsZero() {
		l = lg.acknowledge(l, false)
	}
	return lg.open(l, rota.JobRunning)
}

// acknowledge makes a job RUNNING. A lease that its completion acknowledges ends within the operation, so its timer
// stays in place, to be removed at once.
func (lg *leasing) acknowledge(l *state.LeaseRow, implied bool) *state.LeaseRow {
	l = lg.leases.Change(l.Key, l)
	l.Acked, l.Implied = lg.s.Header.Now(), implied
	if !implied {
		lg.timeLease(l)
	}
	j := lg.s.JobTable.Edit(l.Job)
	lg.placement.move(j, rota.JobRunning)
	lg.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventLeaseAcked, Job: l.Job, Queue: l.Queue, Worker: l.Worker,
		Lease: l.ID, Attempt: l.Attempt})
	lg.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobRunning, Job: l.Job, Queue: l.Queue, Tenant: l.Tenant,
		Worker:  l.Worker,
		Attempt: l.Attempt})
	return l
}

// renew extends a lease (SPEC §8.2), by ordinal: a renewal that was already counted is answered with the deadline it
// gave.
func (lg *leasing) renew(l *state.LeaseRow, ordinal int32) *fsmpb.Outcome {
	p := &lg.s.QueueTable.Get(l.Queue).Policy
	switch {
	case ordinal > 0 && ordinal <= l.Renewals:
		return lg.open(l, rota.JobRunning)
	case l.Revoked != rota.ReasonNone:
		return entry.Refused(rota.Refusef(rota.KindStale, "lease", "the lease is revoked (%s): stop and decline it",
			l.Revoked))
	case ordinal <= 0 || ordinal != l.Renewals+1:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "ordinal", "renewal %d does not follow renewal %d", ordinal,
			l.Renewals))
	// The lease stays the worker's in these cases: Conflict, not Stale.
	case p.RenewalsMax >= 0 && int64(l.Renewals) >= p.RenewalsMax:
		return entry.Refused(rota.Refusef(rota.KindConflict, "lease",
			"too many renewals: the lease was renewed %d times, renewals_max is %d",
			l.Renewals, p.RenewalsMax))
	case l.EndsBy != 0 && l.Deadline.Clock >= l.EndsBy:
		return entry.Refused(rota.Refusef(rota.KindConflict, "lease",
			"the lease has reached max_runtime: it ends at its deadline"))
	}
	l = lg.leases.Edit(l.Key)
	if l.Acked.IsZero() {
		l = lg.acknowledge(l, false)
	}
	now := lg.s.Header.Clock
	if now > l.RenewBy.Clock {
		lg.fleet.outcome(l, state.OutcomeLateRenewal)
	}
	l.Renewals++
	l.State = rota.LeaseRenewed
	extended := l.Deadline.Clock + rota.Clock(p.LeaseMs*p.RenewBetaPermille/1000)
	if !p.RenewAdds {
		extended = min(extended, now+rota.Clock(p.LeaseMs))
	}
	l.Deadline.Clock = max(l.Deadline.Clock, extended) // a late sweep shortens no lease
	if l.EndsBy != 0 {
		l.Deadline.Clock = min(l.Deadline.Clock, l.EndsBy)
	}
	l.RenewBy.Clock = l.Deadline.Clock - rota.Clock(p.LeaseMs*(1000-p.RenewAlphaPermille)/1000)
	lg.timeLease(l)
	lg.s.Journal.Emit(rota.Event{Kind: rota.EventLeaseRenewed, Job: l.Job, Queue: l.Queue, Worker: l.Worker,
		Lease: l.ID, Attempt: l.Attempt, Deadline: lg.s.Header.Now().At(l.Deadline.Clock)})
	return lg.open(l, rota.JobRunning)
}

// complete ends a job successfully (SPEC §9.5); it acknowledges too (SPEC §8.1).
func (lg *leasing) complete(l *state.LeaseRow, op *fsmpb.LeaseOp, costs rota.Costs) *fsmpb.Outcome {
	output, digest, meta := op.GetOutput(), op.GetOutputDigest(), entry.PairWords(op.GetMeta())
	if err := rota.CheckMeta(meta); err != nil {
		return entry.Refused(err)
	}
	switch {
	case len(output) > rota.MaxPayloadBytes:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "output", "output too long: got %d bytes, maximum %d",
			len(output),
			rota.MaxPayloadBytes))
	case len(digest) != 0 && len(digest) != 32:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "output_digest",
			"output_digest: got %d bytes, want 32 or none",
			len(digest)))
	}
	grows, err := lg.flows.growing(l, op)
	if err != nil {
		return entry.Refused(err)
	}
	if l.Acked.IsZero() {
		l = lg.acknowledge(l, true)
	}
	l = lg.spend(l, costs)
	if len(digest) == 0 {
		lg.s.DigestRoom = sha256.Sum256(output)
		digest = lg.s.DigestRoom[:]
	}
	if want := lg.s.JobTable.Get(l.Job).Spec.ExpectedDigest; len(want) != 0 && !bytes.Equal(want, digest) {
		grows.drop()
		lg.fleet.outcome(l, state.OutcomeProofInvalid)
		state := lg.endLease(l, rota.ReasonProofInvalid, "output digest differs from expected_digest")
		o := entry.Refused(proofInvalid(digest))
		o.JobState = uint32(state)
		return o
	}
	j := lg.s.JobTable.Edit(l.Job)
	lg.fleet.outcome(l, state.OutcomeSuccess)
	lg.closeLease(l, j, rota.ReasonDone, "")
	lg.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobCompleted, Job: l.Job, Queue: l.Queue, Tenant: l.Tenant,
		Worker: l.Worker, Lease: l.ID, Attempt: l.Attempt, Reason: rota.ReasonDone,
		Payload: lg.s.Journal.Done(digest, l.Spent)})
	grows.grow()
	lg.life.finish(j, rota.JobCompleted, rota.ReasonDone, result{output, digest, meta})
	return lg.s.Became(rota.JobCompleted, false)
}

// fail ends an unsuccessful attempt as its handler requests (SPEC §20.3). A worker that ended the handler for its
// max_runtime reports that: by its own view that is earlier than by the clock.
func (lg *leasing) fail(l *state.LeaseRow, op *fsmpb.LeaseOp, costs rota.Costs) *fsmpb.Outcome {
	if err := checkFail(op); err != nil {
		return entry.Refused(err)
	}
	spec := &lg.s.JobTable.Get(l.Job).Spec.JobSpec
	if err := keys.CheckPause(op, spec); err != nil {
		return entry.Refused(err)
	}
	lg.keyring.PauseBy(l, spec, op)
	l = lg.spend(l, costs)
	if l.Acked.IsZero() {
		l = lg.leases.Change(l.Key, l)
		l.Implied = true // its handler began
	}
	text := state.Tail(op.GetText(), limits.MaxErrorBytes)
	became := func(state rota.JobState) *fsmpb.Outcome { return &fsmpb.Outcome{JobState: uint32(state)} }
	switch kind := peer.FailKind(op.GetFail()); {
	case kind == peer.FailTimedOut && l.EndsBy != 0:
		return became(lg.timeOut(l, endedEarly, text))
	case kind == peer.FailSnooze && l.Revoked != rota.ReasonNone:
		return became(lg.endLease(l, l.Revoked, text)) // the worker confirms
	case kind == peer.FailSnooze:
		return became(lg.snooze(l, text, rota.Clock(op.GetAfterMs())))
	case kind == peer.FailCancel:
		j := lg.s.JobTable.Edit(l.Job)
		lg.closeLease(l, j, rota.ReasonCancelledByHandler, text)
		lg.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobCancelled, Job: l.Job, Queue: l.Queue, Tenant: l.Tenant,
			Worker: l.Worker, Lease: l.ID, Attempt: l.Attempt, Reason: rota.ReasonCancelledByHandler, Text: text,
			Payload: state.Spent(l.Spent)})
		lg.life.finish(j, rota.JobCancelled, rota.ReasonCancelledByHandler, result{})
		return became(rota.JobCancelled)
	case kind == peer.FailNoRetry:
		lg.fleet.outcome(l, state.OutcomeFailure)
		j := lg.s.JobTable.Edit(l.Job)
		lg.closeLease(l, j, rota.ReasonProviderFail, text)
		lg.life.die(j, rota.ReasonProviderFail, l.Spent)
		return became(rota.JobDead)
	default:
		lg.fleet.outcome(l, state.OutcomeFailure)
		return became(lg.endLeaseFor(l, rota.ReasonProviderFail, text, rota.Clock(op.GetAfterMs())))
	}
}

// checkFail refuses invalid fields of a failure.
func checkFail(op *fsmpb.LeaseOp) error {
	most := limits.MaxFailWait.Milliseconds()
	switch kind, after := op.GetFail(), op.GetAfterMs(); {
	case kind > uint32(peer.FailLast):
		return rota.Refusef(rota.KindInvalid, "fail", "fail: unknown failure kind %d; use 0 to %d", kind, peer.FailLast)
	case peer.FailKind(kind).Waits() && (after <= 0 || after > most):
		return rota.Refusef(rota.KindInvalid, "after_ms", "after_ms: got %d, want 1 to %d (30 days)", after, most)
	case !peer.FailKind(kind).Waits() && after != 0:
		return rota.Refusef(rota.KindInvalid, "after_ms", "after_ms: got %d; only RETRY_AFTER and SNOOZE have it",
			after)
	}
	return nil
}

// decline returns a lease, uncounted (SPEC §8.4) unless its max_runtime is about to end: so no handler can exceed it
// forever by declining.
func (lg *leasing) decline(l *state.LeaseRow, op *fsmpb.LeaseOp) *fsmpb.Outcome {
	text := state.Tail(op.GetText(), limits.MaxErrorBytes)
	why := rota.ReasonDeclined
	switch {
	case l.Revoked != rota.ReasonNone:
		why = l.Revoked // the worker confirms
	case l.EndsBy != 0 && lg.s.Header.Clock >= l.EndsBy-limits.DeclineTimesOut:
		return &fsmpb.Outcome{JobState: uint32(lg.timeOut(l, "", text))}
	default:
		lg.fleet.outcome(l, state.OutcomeDeclined)
	}
	return &fsmpb.Outcome{JobState: uint32(lg.endLease(l, why, text))}
}

// endedEarly is appended to a worker's report of a timeout: limits.ViewMargin, for people.
const endedEarly = "; its worker ends it 1 s before, to report it"

// finalRules is the first rules version under which a final report is kept whenever it arrives.
const finalRules = 2

// progress keeps a report, at most one per second and job, and in addition a final one: the last before the attempt
// ends (SPEC §8.7). A final report counts as made a second later, so that final ones are limited to one per second too.
func (lg *leasing) progress(l *state.LeaseRow, op *fsmpb.LeaseOp, costs rota.Costs) *fsmpb.Outcome {
	if p := op.GetProgress(); p < 0 || p > 100 {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "progress", "progress: got %d, want 0 to 100", p))
	}
	l = lg.spend(l, costs)
	j, at := lg.s.JobTable.Get(l.Job), lg.s.Header.Clock
	if len(op.GetCosts()) > 0 {
		lg.budgets.Stop(l, &j.Spec.JobSpec)
	}
	due := j.ProgressAt == 0 || at >= j.ProgressAt+limits.ProgressEvery || op.GetProgress() == 100 && j.Progress != 100
	note := state.Tail(op.GetText(), limits.MaxNoteBytes)
	final := op.GetOrdinal() == peer.FinalReport && lg.s.Header.Rules >= finalRules
	switch {
	case (final || len(op.GetCosts()) > 0) && op.GetProgress() == j.Progress && note == j.Note:
		due = false // it was kept when it first came, or reports costs alone
	case final && !due && at >= j.ProgressAt:
		due, at = true, at+limits.ProgressEvery
	}
	if due {
		j = lg.s.JobTable.Edit(l.Job)
		lg.life.own(j)
		j.Progress, j.Note, j.ProgressAt = op.GetProgress(), note, at
		lg.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobProgress, Job: l.Job, Queue: l.Queue, Worker: l.Worker,
			Lease: l.ID, Attempt: l.Attempt, Text: j.Note, Payload: state.Progressed(j.Progress)})
	}
	return lg.open(l, j.State)
}
