package fsm

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/rotasched/rota"
)

// leasing holds the open leases: from their grant to their one end.
type leasing struct {
	m      *Machine
	leases table[string, leaseRow, *leaseRow]
}

// closeLease takes a lease out of the state and notes its end in the job's
// attempts; j is editable. What becomes of the job is the caller's next line.
func (lg *leasing) closeLease(l *leaseRow, j *jobRow, why rota.Reason, text string) {
	key := l.key
	lg.m.timers.lease.set(key, int64(l.due), 0)
	lg.m.placement.dropGoing(l)
	lg.leases.drop(key)
	w := lg.m.fleet.workers.edit(l.Worker)
	w.open--
	w.cpu -= l.cpu
	w.memory -= l.memory
	w.io -= l.io
	delete(w.leases, key)
	lg.m.fleet.timeWorker(w)
	lg.m.placement.registry.supply.Give(l.Worker, l.takes())
	lg.m.placement.share(l.queue, l.tenant, -1)
	lg.m.placement.countEndless(l, &lg.m.queues.get(l.queue).policy, -1)
	lg.m.limits.closeTenant(l)

	lg.m.flows.noteAttempt(l, j)

	lg.m.own(j)
	j.lease = rota.LeaseID{}
	j.lastReason, j.lastError = why, text
	attempts := j.attempts
	if len(attempts) >= rota.MaxAttemptsKept {
		attempts = attempts[1:]
	}
	j.attempts = append(slices.Clip(attempts), rota.Attempt{Number: l.Attempt, Life: j.history().life, Worker: l.Worker, Lease: l.ID, Token: l.Token,
		Started: l.Started, Acked: l.Acked, Ended: lg.m.head.now(), Renewals: l.Renewals, End: why, Error: text,
		Decision: l.Decision})
}

// endLease ends an attempt that did not complete, and gives the job its next
// state: used up it is DEAD, counted it backs off, declined it waits a moment, else
// it is QUEUED again at once (SPEC §8.4, §9.1, §16.1). That of a workflow that is
// ending waits no more.
func (lg *leasing) endLease(l *leaseRow, why rota.Reason, text string) rota.JobState {
	j := lg.m.jobs.edit(l.Job)
	lg.m.own(j)
	lg.closeLease(l, j, why, text)
	kind := rota.LeaseCancelledEvent
	switch why {
	case rota.LeaseExpiredReason:
		kind = rota.LeaseExpiredEvent
	case rota.Declined:
		kind = rota.LeaseDeclinedEvent
	}
	lg.m.journal.emitFor(j, &rota.Event{Kind: kind, Job: l.Job, Queue: l.queue, Tenant: l.tenant, Worker: l.Worker, Session: l.Session,
		Lease: l.ID, Attempt: l.Attempt, Reason: why, Text: text})
	if why == rota.Declined {
		if j.declines++; j.declines >= rota.MaxDeclines {
			why = rota.ProviderFail
			j.lastReason = why
		}
	}
	if why == rota.Preempted {
		j.preempted++ // not before: what ends well after all did not give way
	}
	if why.Counted() {
		return lg.useUp(j, why)
	}
	switch {
	case lg.m.flows.endsWith(j):
	case why == rota.Declined && !declineCools(&lg.m.queues.get(j.spec.Queue).policy):
		lg.backOff(j, declineDelay(j.declines), why)
	default:
		lg.m.enqueue(j)
	}
	return j.state
}

// revoke asks a worker to give up a lease (SPEC §8.5); l is editable.
func (fl *fleet) revoke(l *leaseRow, why rota.Reason) {
	if l.Revoked != rota.ReasonNone {
		return
	}
	l.Revoked = why
	fl.m.placement.noteGoing(l)
	fl.m.journal.emit(rota.Event{Kind: rota.LeaseRevoked, Job: l.Job, Queue: l.queue, Worker: l.Worker, Session: l.Session,
		Lease: l.ID, Attempt: l.Attempt, Reason: why, Deadline: l.Deadline})
}

// cutQuota revokes the newest leases beyond what a worker may now hold, of one
// queue or of all; those that were revoked before count as going already.
func (fl *fleet) cutQuota(w *workerRow, most int64, queue rota.QueueName) {
	over := int64(w.open) - most
	if over <= 0 {
		return
	}
	var newest []*leaseRow
	for _, id := range w.openLeases() {
		l := fl.m.leasing.leases.get(id)
		switch {
		case l.Revoked != rota.ReasonNone:
			over--
		case queue == "" || l.queue == queue:
			newest = append(newest, l)
		}
	}
	slices.SortFunc(newest, func(a, b *leaseRow) int {
		return cmp.Compare(b.Token.Counter, a.Token.Counter)
	})
	for _, l := range newest[:max(0, min(over, int64(len(newest))))] {
		fl.revoke(fl.m.leasing.leases.edit(l.key), rota.QuotaCut)
	}
}

// fireLease ends a lease whose time is up.
func (lg *leasing) fireLease(key string) {
	l := lg.leases.get(key)
	if l.Revoked != rota.ReasonNone {
		lg.endLease(l, l.Revoked, "") // uncounted, as if its worker had confirmed
		return
	}
	// What came first ended it, however late the sweep is.
	switch {
	case l.Acked.IsZero() && l.due == l.AckBy.Clock:
		lg.m.fleet.outcome(l, outcomeAckTimeout)
		lg.endLease(l, rota.AckTimeout, "")
	case l.due == l.endsBy:
		lg.timeOut(l, "", "")
	default:
		lg.m.fleet.outcome(l, outcomeExpired)
		lg.endLease(l, rota.LeaseExpiredReason, "")
	}
}

// timeLease puts a lease where it stands in the timers; l is editable.
func (lg *leasing) timeLease(l *leaseRow) {
	due := leaseDue(l, lg.m.fleet.workers.get(l.Worker))
	lg.m.timers.lease.set(l.key, int64(l.due), int64(due))
	l.due = due
}

// timeOut ends an attempt that took longer than its max_runtime, whoever noticed it
// (SPEC §20.2), which how says; text is what the handler says, if it does.
func (lg *leasing) timeOut(l *leaseRow, how, text string) rota.JobState {
	said := "timed out: max_runtime is " + strconv.FormatInt(l.maxRuntime(), 10) + " ms" + how
	if text != "" {
		said += ": " + tail(text, rota.MaxErrorBytes-len(said)-len(": "))
	}
	lg.m.fleet.outcome(l, outcomeTimedOut)
	return lg.endLease(l, rota.TimedOut, said)
}
