package fsm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

// Lost workers (SPEC §9.7): an attempt whose worker was lost uses up no attempt. The job keeps the sessions that were
// lost under it; from limits.IsolateAfter on it runs alone on a worker, so that the next loss shows whose fault it is.

// lossRules are the first rules under which a lost worker is no ordinary expiry.
const lossRules = 2

// What attempts say that ended because their worker was lost.
const (
	silentText = "its worker was lost: it fell silent, or its stream broke and it opened no other"
	takenText  = "its worker was lost: another process took its id over, and it never confirmed that it had stopped"
)

// runsAlone reports whether a lease's job runs alone, or did when it ended without its lease.
func (lg *leasing) runsAlone(l *leaseRow) bool {
	if l.ended != nil {
		return l.ended.alone
	}
	return lg.s.jobs.get(l.Job).isolated()
}

// lossesMax is how many lost workers end a job, 0 where each uses up an attempt. A job of one attempt is never tried again.
func lossesMax(q *queueRow, j *jobRow) int64 {
	most := q.policy.WorkerLossesMax
	if most > 0 && j.spec.Retry.Over(&q.policy).AttemptMax == 1 {
		return 1
	}
	return most
}

// lost reports whether a lease that ends unasked ends because its worker was lost: it is silent, its stream is broken, or
// its session was taken over and never confirmed.
func (lg *leasing) lost(l *leaseRow) bool {
	w := lg.fleet.workers.get(l.Worker)
	return l.silentSince != 0 || l.Session == w.session && (w.status == rota.WorkerUnreachable || !w.disconnected.IsZero())
}

// losses reports whether lost workers are counted apart in a queue.
func (lg *leasing) losses(queue rota.QueueName) bool {
	return lg.s.head.rules >= lossRules && lg.s.queues.get(queue).policy.WorkerLossesMax > 0
}

// lose ends an attempt whose worker was lost.
func (lg *leasing) lose(l *leaseRow, text string) rota.JobState {
	lg.fleet.outcome(l, outcomeExpired)
	if lg.losses(l.queue) {
		return lg.endLease(l, rota.ReasonWorkerLost, text)
	}
	return lg.endLease(l, rota.ReasonLeaseExpired, text)
}

// countLoss counts a lost worker, whose lease is closed, against its job; j is editable. A job without losses left is DEAD, and
// clears those that were lost with it: its last attempt ran alone.
func (lg *leasing) countLoss(j *jobRow, session rota.Session) rota.JobState {
	q := lg.s.queues.get(j.spec.Queue)
	was := j.history().losses
	lg.placement.setLosses(j, append(slices.Clip(was), session))
	n := len(was) + 1
	if int64(n) >= lossesMax(q, j) {
		if n > limits.IsolateAfter {
			lg.placement.clearAccused(j)
		}
		lg.life.die(j, rota.ReasonWorkerLost)
		return rota.JobDead
	}
	if n == limits.IsolateAfter {
		lg.s.journal.emitFor(j, &rota.Event{Kind: rota.EventJobIsolated, Job: j.spec.ID, Attempt: j.attempt, Reason: rota.ReasonWorkerLost,
			Payload: lossesPayload(n)})
	}
	switch wait := rota.Clock(sched.BackoffMs(j.spec.ID, int32(n-1), j.spec.Retry.Over(&q.policy))); {
	case lg.flows.endsWith(j):
	case wait > 0:
		lg.backOff(j, wait, rota.ReasonWorkerLost)
	default:
		lg.life.enqueue(j)
	}
	return j.state
}

func lossesPayload(n int) string { return fmt.Sprintf(`{"worker_losses":%d}`, n) }

// accusation files a live job under a session that was lost under it.
type accusation struct {
	session rota.Session
	job     rota.JobID
}

func newAccused() *btree.BTreeG[accusation] {
	return btree.NewBTreeGOptions(func(a, b accusation) bool {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.job, b.job)) < 0
	}, btree.Options{NoLocks: true})
}

// accuse files a job under the sessions that were lost under it, acquit takes it out.
func (pl *placement) accuse(j *jobRow) {
	for _, s := range j.history().losses {
		pl.registry.accused.Set(accusation{s, j.spec.ID})
	}
}

func (pl *placement) acquit(j *jobRow) {
	for _, s := range j.history().losses {
		pl.registry.accused.Delete(accusation{s, j.spec.ID})
	}
}

// setLosses replaces a job's losses and, where that changes whether it runs alone, its class; j is editable.
func (pl *placement) setLosses(j *jobRow, losses []rota.Session) {
	pl.acquit(j)
	was := j.isolated()
	past := *j.history()
	past.content, past.losses = j.firstContent(), losses
	pl.life.own(j)
	j.past = &past
	pl.accuse(j)
	if j.isolated() != was {
		pl.reclassify(j)
	}
}

// clearAccused takes the sessions that were lost under a culprit from the other jobs that they were lost under.
func (pl *placement) clearAccused(culprit *jobRow) {
	sessions := culprit.history().losses
	var ids []rota.JobID
	for _, s := range sessions {
		pl.registry.accused.Ascend(accusation{session: s}, func(a accusation) bool {
			if a.session == s && a.job != culprit.spec.ID {
				ids = append(ids, a.job)
			}
			return a.session == s
		})
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		pl.clear(pl.s.jobs.edit(id), culprit.spec.ID, func(s rota.Session) bool { return slices.Contains(sessions, s) })
	}
}

// clearQueue takes all losses from the jobs of a queue that counts none any more.
func (pl *placement) clearQueue(name rota.QueueName) {
	var ids []rota.JobID
	pl.registry.accused.Scan(func(a accusation) bool {
		if pl.s.jobs.get(a.job).spec.Queue == name {
			ids = append(ids, a.job)
		}
		return true
	})
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		pl.clear(pl.s.jobs.edit(id), "", func(rota.Session) bool { return true })
	}
}

// clear takes sessions from a job's losses; culprit is the job that lost them, "" for none. j is editable.
func (pl *placement) clear(j *jobRow, culprit rota.JobID, gone func(rota.Session) bool) {
	was := j.isolated()
	pl.setLosses(j, slices.DeleteFunc(slices.Clone(j.history().losses), gone))
	if !was || j.isolated() {
		return
	}
	pl.s.journal.emitFor(j, &rota.Event{Kind: rota.EventJobCleared, Job: j.spec.ID, Attempt: j.attempt, Payload: payload(struct {
		WorkerLosses int        `json:"worker_losses"`
		Culprit      rota.JobID `json:"culprit,omitempty"`
	}{len(j.history().losses), culprit})})
}

// reclassify files a job under the class that it has now: in its lane while QUEUED, and at its worker while leased. j is
// editable.
func (pl *placement) reclassify(j *jobRow) {
	queued := j.state == rota.JobQueued
	q := pl.s.queues.get(j.spec.Queue)
	if queued {
		i := pl.registry.queues[q.name]
		i.pending.Remove(j.item)
		i.countTier(j, &q.policy, -1)
	}
	pl.registry.supply.Release(j.class)
	pl.classify(j)
	if l := pl.leasing.leases.get(string(j.lease[:])); l != nil {
		pl.registry.supply.Isolate(l.Worker, j.isolated())
	}
	if queued {
		pl.putBack(j, q)
	}
}

// accused checks the index of jobs by the sessions that were lost under them, and which workers run a job alone.
func (c *checker) accused() {
	m, want := c.m, newAccused()
	m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		losses := j.history().losses
		if n := len(losses); n > rota.MaxWorkerLosses || n > 0 && m.head.rules < lossRules {
			c.fault("I9: %d workers were lost under job %s", n, id)
		}
		for _, s := range losses {
			if want.Set(accusation{s, id}); s == 0 || uint64(s) > m.head.sessions {
				c.fault("I9: session %d was lost under job %s, the counter is at %d", s, id, m.head.sessions)
			}
		}
		return true
	})
	same := want.Len() == m.placement.registry.accused.Len()
	want.Scan(func(a accusation) bool {
		_, ok := m.placement.registry.accused.Get(a)
		same = same && ok
		return same
	})
	if !same {
		c.fault("I4: jobs are filed otherwise by the sessions that were lost under them than their rows say")
	}
	m.fleet.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		if w.open > 1 && m.leasing.worksAlone(w) {
			c.fault("I3: worker %s has %d leases open, one of a job that runs alone", id, w.open)
		}
		return true
	})
}

// worksAlone reports whether a lease of a worker is of a job that runs alone.
func (lg *leasing) worksAlone(w *workerRow) bool {
	for _, key := range w.openLeases() {
		if l := lg.leases.get(key); l != nil && (l.ended != nil || lg.s.jobs.get(l.Job) != nil) && lg.runsAlone(l) {
			return true
		}
	}
	return false
}
