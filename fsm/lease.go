package fsm

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"unicode/utf8"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// leaseOp is one verb of a worker on its lease. Only the lease's worker, in its
// live session, is heard (SPEC §6.4); a lease is open until a sweep ends it
// (SPEC §3.7); what comes late is answered with what became of it (SPEC §2.7).
func (m *Machine) leaseOp(op *fsmpb.LeaseOp) *fsmpb.Outcome {
	w := m.workers.get(rota.WorkerID(op.GetWorker()))
	if !planted.fencingOff() && (w == nil || w.session != rota.Session(op.GetSession()) || w.session == 0) {
		if l := m.confirmed(op); l != nil {
			return m.decline(l, op)
		}
		return refused(rota.Refusef(rota.Stale, "session", "worker %q has no live session %d: register again",
			op.GetWorker(), op.GetSession()))
	}
	l := m.leases.get(string(op.GetLease()))
	if l == nil {
		return m.late(op)
	}
	if !planted.fencingOff() && (l.Worker != w.spec.ID || l.Session != w.session) {
		return refused(rota.Refusef(rota.Stale, "lease", "lease %s belongs to another worker", l.ID))
	}
	switch rota.LeaseVerb(op.GetVerb()) {
	case rota.VerbAck:
		return m.ack(l)
	case rota.VerbRenew:
		return m.renew(l, op.GetOrdinal())
	case rota.VerbComplete:
		return m.complete(l, op)
	case rota.VerbFail:
		return m.fail(l, op)
	case rota.VerbDecline:
		return m.decline(l, op)
	case rota.VerbProgress:
		return m.progress(l, op)
	default:
		return refused(rota.Refusef(rota.Invalid, "verb", "lease verb %d is unknown", op.GetVerb()))
	}
}

// confirmed gives the revoked lease that its own worker declines from a session
// that a takeover ended: nothing else is heard from there, but this says that
// the old process has stopped (SPEC §8.5).
func (m *Machine) confirmed(op *fsmpb.LeaseOp) *leaseRow {
	l := m.leases.get(string(op.GetLease()))
	if l == nil || l.Revoked == rota.ReasonNone || rota.LeaseVerb(op.GetVerb()) != rota.VerbDecline ||
		l.Worker != rota.WorkerID(op.GetWorker()) || l.Session != rota.Session(op.GetSession()) {
		return nil
	}
	return l
}

// late answers a verb on a lease that is over. The first outcome is told again
// to whoever brought it about; everybody else has lost the lease.
func (m *Machine) late(op *fsmpb.LeaseOp) *fsmpb.Outcome {
	id, verb := rota.JobID(op.GetJob()), rota.LeaseVerb(op.GetVerb())
	if t := m.tombs.get(id); t != nil {
		own := bytes.Equal(t.lease[:], op.GetLease()) && !t.lease.IsZero() && t.worker == rota.WorkerID(op.GetWorker())
		return lateOutcome(op, own, t.state, t.reason, verb == rota.VerbComplete && t.state == rota.Completed &&
			t.outputDigest == string(outputDigest(op)))
	}
	if j := m.jobs.get(id); j != nil {
		for i := len(j.attempts) - 1; i >= 0; i-- {
			a := &j.attempts[i]
			if bytes.Equal(a.Lease[:], op.GetLease()) && a.Worker == rota.WorkerID(op.GetWorker()) {
				return lateOutcome(op, true, j.state, a.End, false)
			}
		}
	}
	return refused(rota.Refusef(rota.Stale, "lease", "no such lease is open"))
}

// lateOutcome answers for a lease that ended for a reason; own says that it was
// the caller's, completed that this very completion ended it.
func lateOutcome(op *fsmpb.LeaseOp, own bool, state rota.JobState, why rota.Reason, completed bool) *fsmpb.Outcome {
	var o *fsmpb.Outcome
	verb := rota.LeaseVerb(op.GetVerb())
	switch {
	case own && (completed || verb == rota.VerbFail && (why == rota.ProviderFail || why == rota.TimedOut) ||
		verb == rota.VerbDecline && state != rota.Completed):
		return &fsmpb.Outcome{JobState: uint32(state), Existed: true}
	case own && verb == rota.VerbComplete && why == rota.ProofInvalid:
		o = refused(proofInvalid(outputDigest(op)))
	default:
		o = refused(rota.Refusef(rota.Stale, "lease", "the lease is over: %s, job %s is %s", why, op.GetJob(), state))
	}
	o.JobState = uint32(state)
	return o
}

func proofInvalid(digest []byte) error {
	return rota.Refusef(rota.Conflict, "output_digest", "output digest %x is not the expected one: PROOF_INVALID", digest)
}

// outputDigest is what a completion says of its output: SHA-256 of it unless the
// handler gave another.
func outputDigest(op *fsmpb.LeaseOp) []byte {
	if digest := op.GetOutputDigest(); len(digest) != 0 {
		return digest
	}
	sum := sha256.Sum256(op.GetOutput())
	return sum[:]
}

func leaseOutcome(l *leaseRow, state rota.JobState) *fsmpb.Outcome {
	return &fsmpb.Outcome{JobState: uint32(state), DeadlineMs: int64(l.Deadline.Clock), Renewals: l.Renewals}
}

// ack makes an ASSIGNED job RUNNING; again, it changes nothing.
func (m *Machine) ack(l *leaseRow) *fsmpb.Outcome {
	if l.Acked.IsZero() {
		l = m.acknowledge(l, false)
	}
	return leaseOutcome(l, rota.Running)
}

// acknowledge makes a job RUNNING. A lease that its completion acknowledges is over
// within the operation: its timer stays where it is, to be taken out at once.
func (m *Machine) acknowledge(l *leaseRow, implied bool) *leaseRow {
	l = m.leases.change(l.key, l)
	l.Acked, l.implied = m.head.now(), implied
	if !implied {
		m.timeLease(l)
	}
	j := m.jobs.edit(l.Job)
	m.move(j, rota.Running)
	m.emitFor(j, &rota.Event{Kind: rota.LeaseAcked, Job: l.Job, Queue: l.queue, Worker: l.Worker, Lease: l.ID, Attempt: l.Attempt})
	m.emitFor(j, &rota.Event{Kind: rota.JobRunning, Job: l.Job, Queue: l.queue, Tenant: l.tenant, Worker: l.Worker,
		Attempt: l.Attempt})
	return l
}

// renew extends a lease (SPEC §8.2), by ordinal: a renewal that was counted
// already is answered with the deadline it brought.
func (m *Machine) renew(l *leaseRow, ordinal int32) *fsmpb.Outcome {
	p := &m.queues.get(l.queue).policy
	switch {
	case ordinal > 0 && ordinal <= l.Renewals:
		return leaseOutcome(l, rota.Running)
	case l.Revoked != rota.ReasonNone:
		return refused(rota.Refusef(rota.Stale, "lease", "the lease is revoked (%s): stop and decline it", l.Revoked))
	case ordinal <= 0 || ordinal != l.Renewals+1:
		return refused(rota.Refusef(rota.Invalid, "ordinal", "renewal %d does not follow renewal %d", ordinal, l.Renewals))
	// The lease stays the worker's in what follows: Conflict, not Stale.
	case p.RenewalsMax >= 0 && int64(l.Renewals) >= p.RenewalsMax:
		return refused(rota.Refusef(rota.Conflict, "lease", "the lease was renewed %d times: renewals_max is %d",
			l.Renewals, p.RenewalsMax))
	case l.endsBy != 0 && l.Deadline.Clock >= l.endsBy:
		return refused(rota.Refusef(rota.Conflict, "lease", "the lease has reached max_runtime: it ends at its deadline"))
	}
	l = m.leases.edit(l.key)
	if l.Acked.IsZero() {
		l = m.acknowledge(l, false)
	}
	now := m.head.clock
	if now > l.RenewBy.Clock {
		m.outcome(l, outcomeLateRenewal)
	}
	l.Renewals++
	l.State = rota.LeaseRenewed
	extended := min(l.Deadline.Clock+rota.Clock(p.LeaseMs*p.RenewBetaPermille/1000), now+rota.Clock(p.LeaseMs))
	l.Deadline.Clock = max(l.Deadline.Clock, extended) // a sweep that is late shortens no lease
	if l.endsBy != 0 {
		l.Deadline.Clock = min(l.Deadline.Clock, l.endsBy)
	}
	l.RenewBy.Clock = l.Deadline.Clock - rota.Clock(p.LeaseMs*(1000-p.RenewAlphaPermille)/1000)
	m.timeLease(l)
	m.emit(rota.Event{Kind: rota.LeaseRenewedEvent, Job: l.Job, Queue: l.queue, Worker: l.Worker, Lease: l.ID,
		Attempt: l.Attempt, Deadline: m.head.now().At(l.Deadline.Clock)})
	return leaseOutcome(l, rota.Running)
}

// complete ends a job well (SPEC §9.5); it acknowledges too (SPEC §8.1).
func (m *Machine) complete(l *leaseRow, op *fsmpb.LeaseOp) *fsmpb.Outcome {
	output, digest, meta := op.GetOutput(), op.GetOutputDigest(), pairWords(op.GetMeta())
	if err := rota.CheckMeta(meta); err != nil {
		return refused(err)
	}
	switch {
	case len(output) > rota.MaxPayloadBytes:
		return refused(rota.Refusef(rota.Invalid, "output", "output has %d bytes: at most %d are taken", len(output),
			rota.MaxPayloadBytes))
	case len(digest) != 0 && len(digest) != 32:
		return refused(rota.Refusef(rota.Invalid, "output_digest", "output_digest has %d bytes: 32 or none are wanted",
			len(digest)))
	}
	if l.Acked.IsZero() {
		l = m.acknowledge(l, true)
	}
	if len(digest) == 0 {
		m.digest = sha256.Sum256(output)
		digest = m.digest[:]
	}
	if want := m.jobs.get(l.Job).spec.ExpectedDigest; len(want) != 0 && !bytes.Equal(want, digest) {
		m.outcome(l, outcomeProofInvalid)
		state := m.endLease(l, rota.ProofInvalid, "output digest differs from expected_digest")
		o := refused(proofInvalid(digest))
		o.JobState = uint32(state)
		return o
	}
	j := m.jobs.edit(l.Job)
	m.outcome(l, outcomeSuccess)
	m.closeLease(l, j, rota.Done, "")
	m.emitFor(j, &rota.Event{Kind: rota.JobCompleted, Job: l.Job, Queue: l.queue, Tenant: l.tenant, Worker: l.Worker, Lease: l.ID,
		Attempt: l.Attempt, Reason: rota.Done, Payload: m.done(digest)})
	m.finish(j, rota.Completed, rota.Done, result{output, digest, meta})
	return m.became(rota.Completed, false)
}

// fail ends an attempt badly: PROVIDER_FAIL, and DEAD at once if the handler
// knows that another try is pointless. A worker that ended the handler for its
// max_runtime says so: by its view that is earlier than by the clock.
func (m *Machine) fail(l *leaseRow, op *fsmpb.LeaseOp) *fsmpb.Outcome {
	text := tail(op.GetText(), rota.MaxErrorBytes)
	if op.GetTimedOut() && l.endsBy != 0 {
		return &fsmpb.Outcome{JobState: uint32(m.timeOut(l, endedEarly, text))}
	}
	m.outcome(l, outcomeFailure)
	if op.GetNoRetry() {
		j := m.jobs.edit(l.Job)
		m.closeLease(l, j, rota.ProviderFail, text)
		m.die(j, rota.ProviderFail)
		return &fsmpb.Outcome{JobState: uint32(rota.Dead)}
	}
	return &fsmpb.Outcome{JobState: uint32(m.endLease(l, rota.ProviderFail, text))}
}

// decline gives a lease back, uncounted (SPEC §8.4) unless its max_runtime is about
// to end: so no handler outruns it for ever by declining.
func (m *Machine) decline(l *leaseRow, op *fsmpb.LeaseOp) *fsmpb.Outcome {
	text := tail(op.GetText(), rota.MaxErrorBytes)
	why := rota.Declined
	switch {
	case l.Revoked != rota.ReasonNone:
		why = l.Revoked // the worker confirms
	case l.endsBy != 0 && m.head.clock >= l.endsBy-rota.DeclineTimesOut:
		return &fsmpb.Outcome{JobState: uint32(m.timeOut(l, "", text))}
	default:
		m.outcome(l, outcomeDeclined)
	}
	return &fsmpb.Outcome{JobState: uint32(m.endLease(l, why, text))}
}

// endedEarly is what a worker's word on a time-out adds: rota.ViewMargin, for people.
const endedEarly = "; its worker ends it 1 s before, to report it"

// timeOut ends an attempt that took longer than its max_runtime, whoever noticed it
// (SPEC §20.2), which how says; text is what the handler says, if it does.
func (m *Machine) timeOut(l *leaseRow, how, text string) rota.JobState {
	said := "timed out: max_runtime is " + strconv.FormatInt(l.maxRuntime(), 10) + " ms" + how
	if text != "" {
		said += ": " + tail(text, rota.MaxErrorBytes-len(said)-len(": "))
	}
	m.outcome(l, outcomeTimedOut)
	return m.endLease(l, rota.TimedOut, said)
}

// progress keeps a report, at most one a second a job (SPEC §8.7).
func (m *Machine) progress(l *leaseRow, op *fsmpb.LeaseOp) *fsmpb.Outcome {
	if p := op.GetProgress(); p < 0 || p > 100 {
		return refused(rota.Refusef(rota.Invalid, "progress", "progress is %d: 0 to 100 is wanted", p))
	}
	j := m.jobs.get(l.Job)
	if j.progressAt == 0 || m.head.clock >= j.progressAt+rota.ProgressEvery || op.GetProgress() == 100 && j.progress != 100 {
		j = m.jobs.edit(l.Job)
		m.own(j)
		j.progress, j.note, j.progressAt = op.GetProgress(), tail(op.GetText(), rota.MaxNoteBytes), m.head.clock
		m.emitFor(j, &rota.Event{Kind: rota.JobProgress, Job: l.Job, Queue: l.queue, Worker: l.Worker, Lease: l.ID,
			Attempt: l.Attempt, Text: j.note, Payload: progressed(j.progress)})
	}
	return leaseOutcome(l, j.state)
}

// tail keeps the last most bytes of a text, valid UTF-8.
func tail(s string, most int) string {
	if len(s) > most {
		s = s[len(s)-most:]
	}
	if utf8.ValidString(s) {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s), []byte("?")))
}
