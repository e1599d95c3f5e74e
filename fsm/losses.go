package fsm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

// Lost workers (SPEC §9.7): an attempt whose worker was lost does not use up an attempt. The job keeps the sessions
// that were lost while running it. From limits.IsolateAfter on it runs alone on a worker, so that the next loss shows
// whether the job is the cause.

// lossRules is the first rules version under which a lost worker differs from an ordinary expiry.
const lossRules = 2

// Texts of attempts that ended because their worker was lost.
const (
	silentText = "its worker was lost: it fell silent, or its stream broke and it opened no other"
	takenText  = "its worker was lost: another process took its id over, and it never confirmed that it had stopped"
)

// runsAlone reports whether a lease's job runs alone, or did when it ended before its lease.
func (lg *leasing) runsAlone(l *state.LeaseRow) bool {
	if l.Ended != nil {
		return l.Ended.Alone
	}
	return lg.s.JobTable.Get(l.Job).Isolated()
}

// lossesMax returns how many lost workers end a job, 0 if each uses up an attempt. A job with one attempt is never
// tried again.
func lossesMax(q *state.QueueRow, j *state.JobRow) int64 {
	most := q.Policy.WorkerLossesMax
	if most > 0 && j.Spec.Retry.Over(&q.Policy).AttemptMax == 1 {
		return 1
	}
	return most
}

// lost reports whether a lease that ends by timer ends because its worker was lost: it is silent, its stream is broken,
// or its session was taken over and never confirmed.
func (lg *leasing) lost(l *state.LeaseRow) bool {
	w := lg.fleet.workers.Get(l.Worker)
	return l.SilentSince != 0 || l.Session == w.Session && (w.Status == rota.WorkerUnreachable ||
		!w.Disconnected.IsZero())
}

// losses reports whether lost workers are counted separately in a queue.
func (lg *leasing) losses(queue rota.QueueName) bool {
	return lg.s.Header.Rules >= lossRules && lg.s.QueueTable.Get(queue).Policy.WorkerLossesMax > 0
}

// lose ends an attempt whose worker was lost.
func (lg *leasing) lose(l *state.LeaseRow, text string) rota.JobState {
	lg.fleet.outcome(l, state.OutcomeExpired)
	if lg.losses(l.Queue) {
		return lg.endLease(l, rota.ReasonWorkerLost, text)
	}
	return lg.endLease(l, rota.ReasonLeaseExpired, text)
}

// countLoss counts a lost worker, whose lease is closed, against its job; j is editable. A job that reaches the limit
// is DEAD, and clears the sessions that were lost with it: its last attempt ran alone.
func (lg *leasing) countLoss(j *state.JobRow, session rota.Session) rota.JobState {
	q := lg.s.QueueTable.Get(j.Spec.Queue)
	was := j.History().Losses
	lg.placement.setLosses(j, append(slices.Clip(was), session))
	n := len(was) + 1
	if int64(n) >= lossesMax(q, j) {
		if n > limits.IsolateAfter {
			lg.placement.clearAccused(j)
		}
		lg.life.die(j, rota.ReasonWorkerLost, nil)
		return rota.JobDead
	}
	if n == limits.IsolateAfter {
		lg.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobIsolated, Job: j.Spec.ID, Attempt: j.Attempt,
			Reason:  rota.ReasonWorkerLost,
			Payload: lossesPayload(n)})
	}
	switch wait := rota.Clock(sched.BackoffMs(j.Spec.ID, int32(n-1), j.Spec.Retry.Over(&q.Policy))); {
	case lg.flows.endsWith(j):
	case wait > 0:
		lg.backOff(j, wait, rota.ReasonWorkerLost)
	default:
		lg.life.enqueue(j)
	}
	return j.State
}

func lossesPayload(n int) string { return fmt.Sprintf(`{"worker_losses":%d}`, n) }

// accusation is a live job indexed by a session that was lost while running it.
type accusation struct {
	session rota.Session
	job     rota.JobID
}

func newAccused() *btree.BTreeG[accusation] {
	return btree.NewBTreeGOptions(func(a, b accusation) bool {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.job, b.job)) < 0
	}, btree.Options{NoLocks: true})
}

// accuse indexes a job by the sessions that were lost while running it; acquit removes it.
func (pl *placement) accuse(j *state.JobRow) {
	for _, s := range j.History().Losses {
		pl.registry.accused.Set(accusation{s, j.Spec.ID})
	}
}

func (pl *placement) acquit(j *state.JobRow) {
	for _, s := range j.History().Losses {
		pl.registry.accused.Delete(accusation{s, j.Spec.ID})
	}
}

// setLosses replaces a job's losses and, if that changes whether it runs alone, its class; j is editable.
func (pl *placement) setLosses(j *state.JobRow, losses []rota.Session) {
	pl.acquit(j)
	was := j.Isolated()
	past := *j.History()
	past.Content, past.Losses = j.FirstContent(), losses
	pl.life.own(j)
	j.Past = &past
	pl.accuse(j)
	if j.Isolated() != was {
		pl.reclassify(j)
	}
}

// clearAccused removes the sessions that were lost while running a culprit from the losses of other jobs.
func (pl *placement) clearAccused(culprit *state.JobRow) {
	sessions := culprit.History().Losses
	var ids []rota.JobID
	for _, s := range sessions {
		pl.registry.accused.Ascend(accusation{session: s}, func(a accusation) bool {
			if a.session == s && a.job != culprit.Spec.ID {
				ids = append(ids, a.job)
			}
			return a.session == s
		})
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		pl.clear(pl.s.JobTable.Edit(id), culprit.Spec.ID, func(s rota.Session) bool {
			return slices.Contains(sessions, s)
		})
	}
}

// clearQueue removes all losses from the jobs of a queue that no longer counts them.
func (pl *placement) clearQueue(name rota.QueueName) {
	var ids []rota.JobID
	pl.registry.accused.Scan(func(a accusation) bool {
		if pl.s.JobTable.Get(a.job).Spec.Queue == name {
			ids = append(ids, a.job)
		}
		return true
	})
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		pl.clear(pl.s.JobTable.Edit(id), "", func(rota.Session) bool { return true })
	}
}

// clear removes sessions from a job's losses; culprit is the job that lost them, "" for none. j is editable.
func (pl *placement) clear(j *state.JobRow, culprit rota.JobID, gone func(rota.Session) bool) {
	was := j.Isolated()
	pl.setLosses(j, slices.DeleteFunc(slices.Clone(j.History().Losses), gone))
	if !was || j.Isolated() {
		return
	}
	pl.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobCleared, Job: j.Spec.ID, Attempt: j.Attempt,
		Payload: state.Payload(struct {
			WorkerLosses int        `json:"worker_losses"`
			Culprit      rota.JobID `json:"culprit,omitempty"`
		}{len(j.History().Losses), culprit})})
}

// reclassify files a job under its present class: in its lane while QUEUED, and at its worker while leased. j is
// editable.
func (pl *placement) reclassify(j *state.JobRow) {
	queued := j.State == rota.JobQueued
	q := pl.s.QueueTable.Get(j.Spec.Queue)
	if queued {
		i := pl.registry.queues[q.Name]
		i.pending.Remove(j.Item)
		i.countTier(j, &q.Policy, -1)
	}
	pl.registry.supply.Release(j.Class)
	pl.classify(j)
	if l := pl.leasing.leases.Get(string(j.Lease[:])); l != nil {
		pl.registry.supply.Isolate(l.Worker, j.Isolated())
	}
	if queued {
		pl.putBack(j, q)
	}
}

// accused checks the index of jobs by lost sessions, and which workers run a job alone.
func (c *checker) accused() {
	m, want := c.m, newAccused()
	m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		losses := j.History().Losses
		if n := len(losses); n > rota.MaxWorkerLosses || n > 0 && m.Header.Rules < lossRules {
			c.fault("I9: %d workers were lost under job %s", n, id)
		}
		for _, s := range losses {
			if want.Set(accusation{s, id}); s == 0 || uint64(s) > m.Header.Sessions {
				c.fault("I9: session %d was lost under job %s, the counter is at %d", s, id, m.Header.Sessions)
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
	m.fleet.workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		if w.Open > 1 && m.leasing.worksAlone(w) {
			c.fault("I3: worker %s has %d leases open, one of a job that runs alone", id, w.Open)
		}
		return true
	})
}

// worksAlone reports whether a worker has a lease of a job that runs alone.
func (lg *leasing) worksAlone(w *state.WorkerRow) bool {
	for _, key := range w.OpenLeases() {
		if l := lg.leases.Get(key); l != nil && (l.Ended != nil || lg.s.JobTable.Get(l.Job) != nil) && lg.runsAlone(l) {
			return true
		}
	}
	return false
}
