package fsm

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// leasing holds the open leases: from their grant to their one end.
type leasing struct {
	s         *state
	admission *admission
	ended     *ended
	fleet     *fleet
	flows     *flows
	keyring   *keyring
	life      *lifecycle
	placement *placement
	schedules *schedules
	uniques   *uniques
	view      *View
	leases    table[string, leaseRow, *leaseRow]
	// bringing is the verb that is being applied, where it brings its handler's log; nil else.
	bringing *fsmpb.LeaseOp
	// latest is the outcome that the latest call of open returned.
	latest *fsmpb.Outcome
	// outlived finds the leases whose jobs have ended.
	outlived outlived
}

// closeLease takes a lease out of the state and notes its end in the job's
// attempts; j is editable. What becomes of the job is the caller's next line.
func (lg *leasing) closeLease(l *leaseRow, j *jobRow, why rota.Reason, text string) {
	lg.free(l, &j.spec.JobSpec)
	lg.noteEnd(l, j, why, text)
}

// free takes a lease out of the state, and gives back what it takes for its job.
func (lg *leasing) free(l *leaseRow, s *rota.JobSpec) {
	key := l.key
	lg.s.timers.lease.set(key, int64(l.due), 0)
	lg.placement.dropGoing(l)
	lg.leases.drop(key)
	w := lg.fleet.workers.edit(l.Worker)
	w.open--
	w.cpu -= l.cpu
	w.memory -= l.memory
	w.io -= l.io
	delete(w.leases, key)
	lg.fleet.timeWorker(w)
	lg.placement.registry.supply.Give(l.Worker, l.takes())
	lg.placement.registry.supply.Ended(l.Worker, lg.placement.runOf(l))
	if lg.runsAlone(l) {
		lg.placement.registry.supply.Isolate(l.Worker, false)
	}
	lg.placement.share(l.queue, l.tenant, -1)
	lg.placement.countEndless(l, &lg.s.queues.get(l.queue).policy, -1)
	lg.admission.closeTenant(l)
	lg.keyring.opened(s, -1)
}

// noteEnd notes in a job's attempts that its lease has ended for it; j is editable.
func (lg *leasing) noteEnd(l *leaseRow, j *jobRow, why rota.Reason, text string) {
	lg.flows.noteAttempt(l, j)

	lg.life.own(j)
	j.lease = rota.LeaseID{}
	j.lastReason, j.lastError = why, text
	attempts := j.attempts
	if len(attempts) >= limits.MaxAttemptsKept {
		attempts = attempts[1:]
	}
	log := lg.broughtTo(l)
	if log != nil {
		lg.ended.keepLog(loggedBy(l), log)
	}
	j.attempts = append(slices.Clip(attempts), rota.Attempt{Number: l.Attempt, Life: j.history().life, Worker: l.Worker, Lease: l.ID, Token: l.Token,
		Started: l.Started, Acked: l.Acked, Ended: lg.s.head.now(), Renewals: l.Renewals, End: why, Error: text,
		Decision: l.Decision, Log: log != nil})
}

// endLease ends an attempt that did not complete, and gives the job its next
// state: used up it is DEAD, counted it backs off, declined it waits a moment, else
// it is QUEUED again at once (SPEC §8.4, §9.1, §16.1). That of a workflow that is
// ending waits no more.
func (lg *leasing) endLease(l *leaseRow, why rota.Reason, text string) rota.JobState {
	return lg.endLeaseFor(l, why, text, 0)
}

// snooze has a handler's attempt be made again after a time, uncounted, so often as
// limits.MaxSnoozes.
func (lg *leasing) snooze(l *leaseRow, text string, wait rota.Clock) rota.JobState {
	if lg.s.jobs.get(l.Job).snoozes < limits.MaxSnoozes {
		return lg.endLeaseFor(l, rota.ReasonSnoozed, text, wait)
	}
	lg.fleet.outcome(l, outcomeFailure)
	return lg.endLease(l, rota.ReasonProviderFail, text)
}

// endLeaseFor is endLease with how long the job then waits, 0 for what the reason asks for.
func (lg *leasing) endLeaseFor(l *leaseRow, why rota.Reason, text string, wait rota.Clock) rota.JobState {
	if l.ended != nil {
		return lg.release(l, text)
	}
	j := lg.s.jobs.edit(l.Job)
	lg.life.own(j)
	lg.closeLease(l, j, why, text)
	kind := rota.EventLeaseCancelled
	switch why {
	case rota.ReasonLeaseExpired, rota.ReasonWorkerLost:
		kind = rota.EventLeaseExpired
	case rota.ReasonDeclined:
		kind = rota.EventLeaseDeclined
	}
	lg.s.journal.emitFor(j, &rota.Event{Kind: kind, Job: l.Job, Queue: l.queue, Tenant: l.tenant, Worker: l.Worker, Session: l.Session,
		Lease: l.ID, Attempt: l.Attempt, Reason: why, Text: text})
	if why == rota.ReasonDeclined {
		if j.declines++; j.declines >= limits.MaxDeclines {
			why = rota.ReasonProviderFail
			j.lastReason = why
		}
	}
	if why == rota.ReasonPreempted {
		j.preempted++ // not before: what ends well after all did not give way
	}
	switch {
	case why.Counted():
		return lg.useUp(j, why, wait)
	case why == rota.ReasonWorkerLost:
		return lg.countLoss(j, l.Session)
	}
	if why == rota.ReasonSnoozed {
		j.snoozes++
	}
	switch {
	case lg.flows.endsWith(j):
	case wait > 0:
		lg.backOff(j, wait, why)
	case why == rota.ReasonDeclined && !declineCools(&lg.s.queues.get(j.spec.Queue).policy):
		lg.backOff(j, declineDelay(j.declines), why)
	default:
		lg.life.enqueue(j)
	}
	return j.state
}

// revoke asks a worker to give up a lease (SPEC §8.5); l is editable.
func (fl *fleet) revoke(l *leaseRow, why rota.Reason) {
	if l.Revoked != rota.ReasonNone {
		return
	}
	l.Revoked = why
	fl.placement.noteGoing(l)
	fl.s.journal.emit(rota.Event{Kind: rota.EventLeaseRevoked, Job: l.Job, Queue: l.queue, Worker: l.Worker, Session: l.Session,
		Lease: l.ID, Attempt: l.Attempt, Reason: why, Deadline: fl.s.head.now().At(l.Deadline.Clock)})
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
		l := fl.leasing.leases.get(id)
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
		fl.revoke(fl.leasing.leases.edit(l.key), rota.ReasonQuotaCut)
	}
}

// fireLease ends a lease whose time is up.
func (lg *leasing) fireLease(key string) {
	l := lg.leases.get(key)
	lost := lg.losses(l.queue) && lg.lost(l)
	if l.Revoked == rota.ReasonTakenOver && lost {
		lg.endLease(l, rota.ReasonWorkerLost, takenText)
		return
	}
	if l.Revoked != rota.ReasonNone {
		lg.endLease(l, l.Revoked, "") // uncounted, as if its worker had confirmed
		return
	}
	// What came first ended it, however late the sweep is.
	switch {
	case lost:
		lg.lose(l, silentText)
	case l.Acked.IsZero() && l.due == l.AckBy.Clock:
		lg.fleet.outcome(l, outcomeAckTimeout)
		lg.endLease(l, rota.ReasonAckTimeout, "")
	case l.due == l.endsBy:
		lg.timeOut(l, "", "")
	default:
		lg.fleet.outcome(l, outcomeExpired)
		lg.endLease(l, rota.ReasonLeaseExpired, "")
	}
}

// timeLease puts a lease where it stands in the timers; l is editable.
func (lg *leasing) timeLease(l *leaseRow) {
	due := leaseDue(l, lg.fleet.workers.get(l.Worker))
	lg.s.timers.lease.set(l.key, int64(l.due), int64(due))
	l.due = due
}

// timeOut ends an attempt that took longer than its max_runtime, whoever noticed it
// (SPEC §20.2), which how says; text is what the handler says, if it does.
func (lg *leasing) timeOut(l *leaseRow, how, text string) rota.JobState {
	said := "timed out: max_runtime is " + strconv.FormatInt(l.maxRuntime(), 10) + " ms" + how
	if text != "" {
		said += ": " + tail(text, limits.MaxErrorBytes-len(said)-len(": "))
	}
	lg.fleet.outcome(l, outcomeTimedOut)
	return lg.endLease(l, rota.ReasonTimedOut, said)
}

// backOff lets a job wait before it is QUEUED again, and tells why.
func (lg *leasing) backOff(j *jobRow, wait rota.Clock, why rota.Reason) {
	lg.life.delay(j, lg.s.head.clock+wait)
	lg.s.journal.emitFor(j, &rota.Event{Kind: rota.EventJobRetryScheduled, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant,
		Attempt: j.attempt, Reason: why, Deadline: lg.s.head.now().At(j.due), Payload: dueAt(lg.s.head.now().At(j.due))})
}

// useUp counts a failed attempt; wait is how long the job then waits, 0 for its backoff.
func (lg *leasing) useUp(j *jobRow, why rota.Reason, wait rota.Clock) rota.JobState {
	p := j.spec.Retry.Over(&lg.s.queues.get(j.spec.Queue).policy)
	failed := j.attempt
	lg.life.own(j)
	j.attempt, j.declines, j.snoozes = j.attempt+1, 0, 0
	if int64(j.attempt) >= p.AttemptMax {
		j.attempt = failed
		lg.life.die(j, why)
		return rota.JobDead
	}
	if lg.flows.endsWith(j) {
		return j.state
	}
	if wait == 0 {
		wait = rota.Clock(sched.BackoffMs(j.spec.ID, failed, p))
	}
	if wait > 0 {
		lg.backOff(j, wait, why)
		return j.state
	}
	lg.life.enqueue(j)
	return j.state
}

// die ends a job whose attempts are used up.
func (m *lifecycle) die(j *jobRow, why rota.Reason) {
	m.s.journal.emitFor(j, &rota.Event{Kind: rota.EventJobDead, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Attempt: j.attempt,
		Reason: why, Text: j.lastError})
	m.finish(j, rota.JobDead, why, result{})
}

// result is what a completion leaves behind; empty of any other end.
type result struct {
	output, digest []byte
	meta           map[string]string
}

// finish makes a job terminal: its row gives way to a tombstone and a record.
// Its lease is closed already. j is editable and leaves the state here.
func (m *lifecycle) finish(j *jobRow, st rota.JobState, why rota.Reason, r result) {
	id := j.spec.ID
	m.s.timers.wake.set(string(id), int64(j.due), 0)
	m.s.timers.dated.set(string(id), int64(j.dueDate), 0)
	m.s.timers.expire.set(string(id), int64(j.expires()), 0)
	m.placement.move(j, st)
	m.placement.acquit(j)
	m.placement.registry.supply.Release(j.class)
	m.s.jobs.drop(id)
	m.keyring.leave(j, st)

	m.ended.evictTombs(limits.TombstoneCap - 1)
	m.s.head.tombSeq++
	t := tombRow{id: id, queue: j.spec.Queue, typ: j.spec.Type, tenant: j.spec.Tenant, state: st, reason: why,
		attempt: j.attempt, outputDigest: string(r.digest), submitted: j.submittedAt(), finished: m.s.head.now(),
		seq: m.s.head.tombSeq, number: j.seq, content: j.firstContent(), life: j.history().life, retried: j.history().retried,
		freeAt: m.ended.freeAt, due: m.ended.remembered(j.spec.Queue, max(m.ended.freeAt, m.leasing.believedUntil(id)))}
	if st == rota.JobDead {
		t.fingerprint = fingerprint(t.typ, why, j.lastError)
	}
	if st == rota.JobCompleted {
		t.unique = j.history().unique
		t.due = max(t.due, m.uniques.holds(id, t.unique))
	}
	if t.batch = j.history().batch; t.batch != 0 {
		m.batches.jobEnded(j.spec.Batch, st)
	}
	if n := len(j.attempts); n > 0 {
		t.lease, t.worker, t.logged = j.attempts[n-1].Lease, j.attempts[n-1].Worker, j.attempts[n-1].Log
		t.earlier = unloggedOf(j.attempts[:n-1])
	}
	m.ended.staged.add(&record{seq: t.seq, ended: m.ended.tombs.insert(&t), spec: j.spec, enqueued: j.enqueuedAt(), firstLease: j.firstLease,
		err: j.lastError, attempts: j.attempts, progress: j.progress, note: j.note, output: r.output, meta: r.meta})
	m.flows.endVertex(j, st, why)
	m.schedules.jobEnded(j, st, why)
	m.batches.calls(id, false)
	m.hooks.jobEnded(j, st)
}

// expel ends a job from whatever state it is in: CANCELLED or EXPIRED.
func (m *lifecycle) expel(j *jobRow, st rota.JobState, why rota.Reason) {
	kind := rota.EventJobCancelled
	if st == rota.JobExpired {
		kind = rota.EventJobExpired
	}
	if h := m.placement.holds.get(j.spec.ID); h != nil {
		m.placement.endHold(h, holdEnd(st)) // nothing is told of a job after its end
	}
	switch {
	case j.state.Leased() && m.s.head.rules >= outlivingRules:
		m.leasing.outlive(j, why)
	case j.state.Leased():
		l := m.leasing.leases.get(string(j.lease[:]))
		// The worker is told, and may not hear: a retry must not meet it at work.
		m.ended.freeAt = unbrokenDue(l, m.fleet.workers.get(l.Worker))
		m.leasing.closeLease(l, j, why, "")
		m.s.journal.emitFor(j, &rota.Event{Kind: rota.EventLeaseCancelled, Job: l.Job, Queue: l.queue, Tenant: l.tenant, Worker: l.Worker,
			Session: l.Session, Lease: l.ID, Attempt: l.Attempt, Reason: why})
	}
	if j.state == rota.JobDelayed && j.revived() { // the worker of an earlier life may not have heard yet
		if m.ended.freeAt = j.due; j.ready != 0 {
			m.ended.freeAt = j.ready
		}
	}
	m.s.journal.emitFor(j, &rota.Event{Kind: kind, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Attempt: j.attempt, Reason: why})
	m.finish(j, st, why, result{})
	m.ended.freeAt = 0
}
