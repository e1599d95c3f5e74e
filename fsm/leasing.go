package fsm

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/budgets"
	"github.com/rotasched/rota/fsm/internal/keys"
	"github.com/rotasched/rota/fsm/internal/schedules"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/internal/unique"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// leasing holds the open leases, from their grant to their end.
type leasing struct {
	s         *state.State
	admission *admission
	budgets   *budgets.Budgets
	ended     *ended
	fleet     *fleet
	flows     *flows
	keyring   *keys.Keyring
	life      *lifecycle
	placement *placement
	schedules *schedules.Schedules
	uniques   *unique.Keys
	view      *View
	leases    state.Table[string, state.LeaseRow, *state.LeaseRow]
	// bringing is the verb being applied if it carries its handler's log; otherwise nil.
	bringing *fsmpb.LeaseOp
	// latest is the outcome that the last call of open returned.
	latest *fsmpb.Outcome
	// outlived indexes the leases whose jobs have ended.
	outlived outlived
}

// closeLease removes a lease from the state and records its end in the job's attempts; j is editable. The caller must
// set the job's next state.
func (lg *leasing) closeLease(l *state.LeaseRow, j *state.JobRow, why rota.Reason, text string) {
	lg.free(l, &j.Spec.JobSpec, why)
	lg.noteEnd(l, j, why, text)
}

// free removes a lease from the state, and returns what it uses for its job.
func (lg *leasing) free(l *state.LeaseRow, s *rota.JobSpec, why rota.Reason) {
	key := l.Key
	lg.s.Timers.Lease.Refile(key, int64(l.Due), 0)
	lg.placement.dropGoing(l)
	lg.leases.Drop(key)
	w := lg.fleet.workers.Edit(l.Worker)
	w.Open--
	w.CPU -= l.CPU
	w.Memory -= l.Memory
	w.IO -= l.IO
	delete(w.Leases, key)
	lg.fleet.timeWorker(w)
	lg.placement.registry.supply.Give(l.Worker, l.Takes())
	lg.placement.registry.supply.Ended(l.Worker, lg.placement.runOf(l))
	if lg.runsAlone(l) {
		lg.placement.registry.supply.Isolate(l.Worker, false)
	}
	lg.placement.share(l.Queue, l.Tenant, -1)
	lg.placement.countEndless(l, &lg.s.QueueTable.Get(l.Queue).Policy, -1)
	lg.admission.closeTenant(l)
	lg.keyring.Opened(l, s, -1, why)
	lg.budgets.Closed(l, s)
}

// noteEnd records in a job's attempts that its lease has ended; j is editable.
func (lg *leasing) noteEnd(l *state.LeaseRow, j *state.JobRow, why rota.Reason, text string) {
	lg.flows.noteAttempt(l, j)

	lg.life.own(j)
	j.Lease = rota.LeaseID{}
	j.LastReason, j.LastError = why, text
	lg.noteSpent(l, j)
	attempts := j.Attempts
	if len(attempts) >= limits.MaxAttemptsKept {
		attempts = attempts[1:]
	}
	log := lg.broughtTo(l)
	if log != nil {
		lg.ended.keepLog(loggedBy(l), log)
	}
	j.Attempts = append(slices.Clip(attempts), rota.Attempt{Number: l.Attempt, Life: j.History().Life, Worker: l.Worker,
		Lease: l.ID, Token: l.Token,
		Started: l.Started, Acked: l.Acked, Ended: lg.s.Header.Now(), Renewals: l.Renewals, End: why, Error: text,
		Decision: l.Decision, Log: log != nil})
}

// endLease ends an attempt that did not complete, and gives the job its next state: DEAD if used up, a backoff if
// counted, a short delay if declined, otherwise QUEUED again at once (SPEC §8.4, §9.1, §16.1). A job of a workflow that
// is ending waits no longer.
func (lg *leasing) endLease(l *state.LeaseRow, why rota.Reason, text string) rota.JobState {
	return lg.endLeaseFor(l, why, text, 0)
}

// snooze repeats a handler's attempt after a time, uncounted, up to limits.MaxSnoozes times.
func (lg *leasing) snooze(l *state.LeaseRow, text string, wait rota.Clock) rota.JobState {
	if lg.s.JobTable.Get(l.Job).Snoozes < limits.MaxSnoozes {
		return lg.endLeaseFor(l, rota.ReasonSnoozed, text, wait)
	}
	lg.fleet.outcome(l, state.OutcomeFailure)
	return lg.endLease(l, rota.ReasonProviderFail, text)
}

// endLeaseFor is endLease with the job's next delay, 0 for the default of the reason.
func (lg *leasing) endLeaseFor(l *state.LeaseRow, why rota.Reason, text string, wait rota.Clock) rota.JobState {
	if l.Ended != nil {
		return lg.release(l, text)
	}
	j := lg.s.JobTable.Edit(l.Job)
	lg.life.own(j)
	lg.closeLease(l, j, why, text)
	kind := rota.EventLeaseCancelled
	switch why {
	case rota.ReasonLeaseExpired, rota.ReasonWorkerLost:
		kind = rota.EventLeaseExpired
	case rota.ReasonDeclined:
		kind = rota.EventLeaseDeclined
	}
	lg.s.Journal.EmitFor(j, &rota.Event{Kind: kind, Job: l.Job, Queue: l.Queue, Tenant: l.Tenant, Worker: l.Worker,
		Session: l.Session, Lease: l.ID, Attempt: l.Attempt, Reason: why, Text: text, Payload: state.Spent(l.Spent)})
	if why == rota.ReasonDeclined {
		if j.Declines++; j.Declines >= limits.MaxDeclines {
			why = rota.ReasonProviderFail
			j.LastReason = why
		}
	}
	if why == rota.ReasonPreempted {
		j.Preempted++ // not before: an attempt that completes after all was not preempted
	}
	switch {
	case why.Counted():
		return lg.useUp(j, why, wait)
	case why == rota.ReasonWorkerLost:
		return lg.countLoss(j, l.Session)
	}
	if why == rota.ReasonSnoozed {
		j.Snoozes++
	}
	switch {
	case lg.flows.endsWith(j):
	case wait > 0:
		lg.backOff(j, wait, why)
	case why == rota.ReasonDeclined && !declineCools(&lg.s.QueueTable.Get(j.Spec.Queue).Policy):
		lg.backOff(j, declineDelay(j.Declines), why)
	default:
		lg.life.enqueue(j)
	}
	return j.State
}

// revoke asks a worker to give up a lease (SPEC §8.5); l is editable.
func (fl *fleet) revoke(l *state.LeaseRow, why rota.Reason) {
	if l.Revoked != rota.ReasonNone {
		return
	}
	l.Revoked = why
	fl.placement.noteGoing(l)
	fl.s.Journal.Emit(rota.Event{Kind: rota.EventLeaseRevoked, Job: l.Job, Queue: l.Queue, Worker: l.Worker,
		Session: l.Session,
		Lease:   l.ID, Attempt: l.Attempt, Reason: why, Deadline: fl.s.Header.Now().At(l.Deadline.Clock)})
}

// cutQuota revokes a worker's newest leases beyond its present limit, of one queue or of all; leases revoked earlier
// count as ending already.
func (fl *fleet) cutQuota(w *state.WorkerRow, most int64, queue rota.QueueName) {
	over := int64(w.Open) - most
	if over <= 0 {
		return
	}
	var newest []*state.LeaseRow
	for _, id := range w.OpenLeases() {
		l := fl.leasing.leases.Get(id)
		switch {
		case l.Revoked != rota.ReasonNone:
			over--
		case queue == "" || l.Queue == queue:
			newest = append(newest, l)
		}
	}
	slices.SortFunc(newest, func(a, b *state.LeaseRow) int {
		return cmp.Compare(b.Token.Counter, a.Token.Counter)
	})
	for _, l := range newest[:max(0, min(over, int64(len(newest))))] {
		fl.revoke(fl.leasing.leases.Edit(l.Key), rota.ReasonQuotaCut)
	}
}

// fireLease ends a lease whose time is up.
func (lg *leasing) fireLease(key string) {
	l := lg.leases.Get(key)
	lost := lg.losses(l.Queue) && lg.lost(l)
	if l.Revoked == rota.ReasonTakenOver && lost {
		lg.endLease(l, rota.ReasonWorkerLost, takenText)
		return
	}
	if l.Revoked != rota.ReasonNone {
		lg.endLease(l, l.Revoked, "") // uncounted, as if its worker had confirmed
		return
	}
	// The earliest cause ended it, however late the sweep is.
	switch {
	case lost:
		lg.lose(l, silentText)
	case l.Acked.IsZero() && l.Due == l.AckBy.Clock:
		lg.fleet.outcome(l, state.OutcomeAckTimeout)
		lg.endLease(l, rota.ReasonAckTimeout, "")
	case l.Due == l.EndsBy:
		lg.timeOut(l, "", "")
	default:
		lg.fleet.outcome(l, state.OutcomeExpired)
		lg.endLease(l, rota.ReasonLeaseExpired, "")
	}
}

// timeLease updates a lease's timer; l is editable.
func (lg *leasing) timeLease(l *state.LeaseRow) {
	due := state.LeaseDue(l, lg.fleet.workers.Get(l.Worker))
	lg.s.Timers.Lease.Refile(l.Key, int64(l.Due), int64(due))
	l.Due = due
}

// timeOut ends an attempt that exceeded its max_runtime (SPEC §20.2). how is what detected it; text is the handler's
// text, if any.
func (lg *leasing) timeOut(l *state.LeaseRow, how, text string) rota.JobState {
	said := "timed out: max_runtime is " + strconv.FormatInt(l.MaxRuntime(), 10) + " ms" + how
	if text != "" {
		said += ": " + state.Tail(text, limits.MaxErrorBytes-len(said)-len(": "))
	}
	lg.fleet.outcome(l, state.OutcomeTimedOut)
	return lg.endLease(l, rota.ReasonTimedOut, said)
}

// backOff makes a job wait before it is QUEUED again, and records why.
func (lg *leasing) backOff(j *state.JobRow, wait rota.Clock, why rota.Reason) {
	lg.life.delay(j, lg.s.Header.Clock+wait)
	lg.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobRetryScheduled, Job: j.Spec.ID, Queue: j.Spec.Queue,
		Tenant:  j.Spec.Tenant,
		Attempt: j.Attempt, Reason: why, Deadline: lg.s.Header.Now().At(j.Due),
		Payload: state.DueAt(lg.s.Header.Now().At(j.Due))})
}

// useUp counts a failed attempt; wait is the job's next delay, 0 for its backoff.
func (lg *leasing) useUp(j *state.JobRow, why rota.Reason, wait rota.Clock) rota.JobState {
	p := j.Spec.Retry.Over(&lg.s.QueueTable.Get(j.Spec.Queue).Policy)
	failed := j.Attempt
	lg.life.own(j)
	j.Attempt, j.Declines, j.Snoozes = j.Attempt+1, 0, 0
	if int64(j.Attempt) >= p.AttemptMax {
		j.Attempt = failed
		lg.life.die(j, why, nil)
		return rota.JobDead
	}
	if lg.flows.endsWith(j) {
		return j.State
	}
	if wait == 0 {
		wait = rota.Clock(sched.BackoffMs(j.Spec.ID, failed, p))
	}
	if wait > 0 {
		lg.backOff(j, wait, why)
		return j.State
	}
	lg.life.enqueue(j)
	return j.State
}

// die ends a job whose attempts are used up. spent is what its last attempt used, if no other event reports it.
func (m *lifecycle) die(j *state.JobRow, why rota.Reason, spent rota.Costs) {
	m.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobDead, Job: j.Spec.ID, Queue: j.Spec.Queue,
		Tenant: j.Spec.Tenant, Attempt: j.Attempt, Reason: why, Text: j.LastError,
		Payload: state.Spent(spent)})
	m.finish(j, rota.JobDead, why, result{})
}

// result is what a completion leaves; empty for any other end.
type result struct {
	output, digest []byte
	meta           map[string]string
}

// finish makes a job terminal: a tombstone and a record replace its row. Its lease is closed already. j is editable and
// leaves the state here.
func (m *lifecycle) finish(j *state.JobRow, st rota.JobState, why rota.Reason, r result) {
	id := j.Spec.ID
	m.s.Timers.Wake.Refile(string(id), int64(j.Due), 0)
	m.s.Timers.Dated.Refile(string(id), int64(j.DueDate), 0)
	m.s.Timers.Expire.Refile(string(id), int64(j.Expires()), 0)
	m.placement.move(j, st)
	m.placement.acquit(j)
	m.placement.registry.supply.Release(j.Class)
	m.s.JobTable.Drop(id)
	m.keyring.Leave(j, st)
	m.budgets.Ended(id, &j.Spec.JobSpec, false)

	m.ended.evictTombs(limits.TombstoneCap - 1)
	m.s.Header.TombSeq++
	t := state.TombRow{ID: id, Queue: j.Spec.Queue, Typ: j.Spec.Type, Tenant: j.Spec.Tenant, State: st, Reason: why,
		Attempt: j.Attempt, OutputDigest: string(r.digest), Submitted: j.SubmittedAt(), Finished: m.s.Header.Now(),
		Seq: m.s.Header.TombSeq, Number: j.Seq, Content: j.FirstContent(), Life: j.History().Life,
		Retried: j.History().Retried,
		FreeAt:  m.ended.freeAt, Due: m.ended.remembered(j.Spec.Queue,
			max(m.ended.freeAt, m.leasing.believedUntil(id)))}
	if st == rota.JobDead {
		t.Fingerprint = state.Fingerprint(t.Typ, why, j.LastError)
	}
	if st == rota.JobCompleted {
		t.Unique = j.History().Unique
		t.Due = max(t.Due, m.uniques.Holds(id, t.Unique))
	}
	if t.Batch = j.History().Batch; t.Batch != 0 {
		m.batches.JobEnded(j.Spec.Batch, st)
	}
	if n := len(j.Attempts); n > 0 {
		t.Lease, t.Worker, t.Logged = j.Attempts[n-1].Lease, j.Attempts[n-1].Worker, j.Attempts[n-1].Log
		t.Earlier = unloggedOf(j.Attempts[:n-1])
	}
	m.ended.staged.add(&state.Record{Seq: t.Seq, Ended: m.ended.tombs.Insert(&t), Spec: j.Spec,
		Enqueued: j.EnqueuedAt(), FirstLease: j.FirstLease,
		Err: j.LastError, Attempts: j.Attempts, Progress: j.Progress, Note: j.Note, Output: r.output, Meta: r.meta,
		Spent: j.History().Spent})
	m.flows.endVertex(j, st, why)
	m.schedules.JobEnded(j, st, why)
	m.batches.Calls(id, false)
	m.hooks.JobEnded(j, st)
}

// expel ends a job in any state: CANCELLED or EXPIRED.
func (m *lifecycle) expel(j *state.JobRow, st rota.JobState, why rota.Reason) {
	kind := rota.EventJobCancelled
	if st == rota.JobExpired {
		kind = rota.EventJobExpired
	}
	if h := m.placement.holds.Get(j.Spec.ID); h != nil {
		m.placement.endHold(h, holdEnd(st)) // no event about a job follows its end
	}
	switch {
	case j.State.Leased() && m.s.Header.Rules >= state.OutlivingRules:
		m.leasing.outlive(j, why)
	case j.State.Leased():
		l := m.leasing.leases.Get(string(j.Lease[:]))
		// The worker is notified, but may not receive it: a retry must not run next to it.
		m.ended.freeAt = state.UnbrokenDue(l, m.fleet.workers.Get(l.Worker))
		m.leasing.closeLease(l, j, why, "")
		m.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventLeaseCancelled, Job: l.Job, Queue: l.Queue, Tenant: l.Tenant,
			Worker: l.Worker, Session: l.Session, Lease: l.ID, Attempt: l.Attempt, Reason: why})
	}
	if j.State == rota.JobDelayed && j.Revived() { // the worker of an earlier life may not know yet
		if m.ended.freeAt = j.Due; j.Ready != 0 {
			m.ended.freeAt = j.Ready
		}
	}
	m.s.Journal.EmitFor(j, &rota.Event{Kind: kind, Job: j.Spec.ID, Queue: j.Spec.Queue, Tenant: j.Spec.Tenant,
		Attempt: j.Attempt, Reason: why})
	m.finish(j, st, why, result{})
	m.ended.freeAt = 0
}
