package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// closeLease takes a lease out of the state and notes its end in the job's
// attempts; j is editable. What becomes of the job is the caller's next line.
func (m *Machine) closeLease(l *leaseRow, j *jobRow, why rota.Reason, text string) {
	key := l.key
	m.timers.lease.set(key, int64(l.due), 0)
	m.dropGoing(l)
	m.leases.drop(key)
	w := m.workers.edit(l.Worker)
	w.open--
	w.cpu -= l.cpu
	w.memory -= l.memory
	w.io -= l.io
	delete(w.leases, key)
	m.timeWorker(w)
	m.registry.supply.Give(l.Worker, l.takes())
	m.share(l.queue, l.tenant, -1)
	m.countEndless(l, &m.queues.get(l.queue).policy, -1)
	m.closeTenant(l)

	m.noteAttempt(l, j)

	m.own(j)
	j.lease = rota.LeaseID{}
	j.lastReason, j.lastError = why, text
	attempts := j.attempts
	if len(attempts) >= rota.MaxAttemptsKept {
		attempts = attempts[1:]
	}
	j.attempts = append(slices.Clip(attempts), rota.Attempt{Number: l.Attempt, Life: j.history().life, Worker: l.Worker, Lease: l.ID, Token: l.Token,
		Started: l.Started, Acked: l.Acked, Ended: m.head.now(), Renewals: l.Renewals, End: why, Error: text,
		Decision: l.Decision})
}

// endLease ends an attempt that did not complete, and gives the job its next
// state: used up it is DEAD, counted it backs off, declined it waits a moment, else
// it is QUEUED again at once (SPEC §8.4, §9.1, §16.1). That of a workflow that is
// ending waits no more.
func (m *Machine) endLease(l *leaseRow, why rota.Reason, text string) rota.JobState {
	j := m.jobs.edit(l.Job)
	m.own(j)
	m.closeLease(l, j, why, text)
	kind := rota.LeaseCancelledEvent
	switch why {
	case rota.LeaseExpiredReason:
		kind = rota.LeaseExpiredEvent
	case rota.Declined:
		kind = rota.LeaseDeclinedEvent
	}
	m.emitFor(j, &rota.Event{Kind: kind, Job: l.Job, Queue: l.queue, Tenant: l.tenant, Worker: l.Worker, Session: l.Session,
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
		return m.useUp(j, why)
	}
	switch {
	case m.endsWith(j):
	case why == rota.Declined && !declineCools(&m.queues.get(j.spec.Queue).policy):
		m.backOff(j, declineDelay(j.declines), why)
	default:
		m.enqueue(j)
	}
	return j.state
}

// backOff lets a job wait before it is QUEUED again, and tells why.
func (m *Machine) backOff(j *jobRow, wait rota.Clock, why rota.Reason) {
	m.delay(j, m.head.clock+wait)
	m.emitFor(j, &rota.Event{Kind: rota.JobRetryScheduled, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant,
		Attempt: j.attempt, Reason: why, Deadline: m.head.now().At(j.due), Payload: dueAt(m.head.now().At(j.due))})
}

// useUp counts a failed attempt.
func (m *Machine) useUp(j *jobRow, why rota.Reason) rota.JobState {
	p := &m.queues.get(j.spec.Queue).policy
	failed := j.attempt
	m.own(j)
	j.attempt, j.declines = j.attempt+1, 0
	if int64(j.attempt) >= p.AttemptMax {
		j.attempt = failed
		m.die(j, why)
		return rota.Dead
	}
	if m.endsWith(j) {
		return j.state
	}
	if wait := sched.BackoffMs(j.spec.ID, failed, p); wait > 0 {
		m.backOff(j, rota.Clock(wait), why)
		return j.state
	}
	m.enqueue(j)
	return j.state
}

// die ends a job whose attempts are used up.
func (m *Machine) die(j *jobRow, why rota.Reason) {
	m.emitFor(j, &rota.Event{Kind: rota.JobDead, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Attempt: j.attempt,
		Reason: why, Text: j.lastError})
	m.finish(j, rota.Dead, why, result{})
}

// result is what a completion leaves behind; empty of any other end.
type result struct {
	output, digest []byte
	meta           map[string]string
}

// finish makes a job terminal: its row gives way to a tombstone and a record.
// Its lease is closed already. j is editable and leaves the state here.
func (m *Machine) finish(j *jobRow, state rota.JobState, why rota.Reason, r result) {
	id := j.spec.ID
	m.timers.wake.set(string(id), int64(j.due), 0)
	m.timers.dated.set(string(id), int64(j.dueDate), 0)
	m.timers.expire.set(string(id), int64(j.expires()), 0)
	m.move(j, state)
	m.registry.supply.Release(j.class)
	m.jobs.drop(id)

	m.evictTombs(rota.TombstoneCap - 1)
	m.head.tombSeq++
	t := tombRow{id: id, queue: j.spec.Queue, typ: j.spec.Type, tenant: j.spec.Tenant, state: state, reason: why,
		attempt: j.attempt, outputDigest: string(r.digest), submitted: j.submittedAt(), finished: m.head.now(),
		seq: m.head.tombSeq, content: j.firstContent(), life: j.history().life, retried: j.history().retried,
		freeAt: j.freeAt, due: m.remembered(j.spec.Queue, j.freeAt)}
	if n := len(j.attempts); n > 0 {
		t.lease, t.worker = j.attempts[n-1].Lease, j.attempts[n-1].Worker
	}
	m.staged.add(&record{seq: t.seq, ended: m.tombs.insert(&t), spec: j.spec, enqueued: j.enqueuedAt(), firstLease: j.firstLease,
		err: j.lastError, attempts: j.attempts, progress: j.progress, note: j.note, output: r.output, meta: r.meta})
	m.endVertex(j, state, why)
}

// remembered returns the date until which what ends now in a queue is remembered: until
// its gc_horizon has passed, and until a moment of the clock before which a worker may
// still be at it, 0 for none. A change of the horizon moves no date (SPEC §9.4).
func (m *Machine) remembered(queue rota.QueueName, freeAt rota.Clock) rota.Date {
	horizon := rota.Clock(m.queues.get(queue).policy.GCHorizonMs)
	return m.head.now().At(max(m.head.clock+horizon, freeAt)).Date
}

// dropTomb forgets a tombstone. Where its record waits for the archive still, that is found
// by its id from then on.
func (m *Machine) dropTomb(id rota.JobID, seq uint64) {
	m.tombs.drop(id, seq)
	if _, ok := m.staged.records.Get(seq); ok {
		m.staged.loose.Set(looseRecord{id, seq})
	}
}

// evictTombs forgets the oldest tombstones beyond most, whatever their dates: those of a
// long horizon keep nobody's newest out (SPEC §9.4).
func (m *Machine) evictTombs(most int) {
	for m.tombs.len() > most {
		seq, oldest, ok := m.tombs.order.first()
		if !ok {
			return
		}
		m.dropTomb(oldest, seq)
		m.head.droppedTombs++
	}
}
