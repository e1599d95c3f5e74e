package fsm

import (
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/tidwall/btree"
)

// A job that is cancelled, or whose time to live ends, while a worker has it, ends at once. Its lease stays open until
// the worker confirms that it has stopped, or the lease ends as any other does (SPEC §8.8). Until then it uses its
// worker's room, its tenant's share and its keys' slots, and jobs that must not run at the same time wait.

// outlived indexes the leases whose jobs have ended, and the jobs that wait for them. All of it is derived.
type outlived struct {
	byJob    btree.Map[rota.JobID, string]
	byUnique map[state.UniqueKey]string
	// waiting are the waiting jobs, each under one of the leases that it waits for. A job that ended since may still be
	// in it.
	waiting *btree.BTreeG[waitsFor]
}

type waitsFor struct {
	lease string
	job   rota.JobID
}

func newOutlived() outlived {
	return outlived{byUnique: make(map[state.UniqueKey]string),
		waiting: btree.NewBTreeGOptions(func(a, b waitsFor) bool {
			if a.lease != b.lease {
				return a.lease < b.lease
			}
			return a.job < b.job
		}, btree.Options{NoLocks: true})}
}

func (o *outlived) add(l *state.LeaseRow) {
	o.byJob.Set(l.Job, l.Key)
	if l.Ended.Unique != (state.UniqueKey{}) {
		o.byUnique[l.Ended.Unique] = l.Key
	}
}

func (o *outlived) remove(l *state.LeaseRow) {
	o.byJob.Delete(l.Job)
	if o.byUnique[l.Ended.Unique] == l.Key {
		delete(o.byUnique, l.Ended.Unique)
	}
}

// outlive ends a leased job without its lease, which its worker is asked to give up; j is editable.
func (lg *leasing) outlive(j *state.JobRow, why rota.Reason) {
	l := lg.leases.Edit(string(j.Lease[:]))
	ended := &state.EndedJob{Spec: rota.JobSpec{ID: l.Job, Queue: l.Queue, Tenant: l.Tenant, Type: l.Typ,
		Keys: j.Spec.Keys, Costs: j.Spec.Costs}, Alone: j.Isolated()}
	if r := lg.uniques.Rows.Get(string(j.History().Unique[:])); r != nil && r.Job == l.Job {
		ended.Unique = j.History().Unique
	}
	supply := lg.placement.registry.supply
	supply.Ended(l.Worker, lg.placement.runOf(l))
	l.Ended, l.Revoked = ended, why
	supply.Began(l.Worker, lg.placement.runOf(l))
	lg.placement.noteGoing(l)
	lg.outlived.add(l)
	lg.noteEnd(l, j, why, "")
	lg.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventLeaseRevoked, Job: l.Job, Queue: l.Queue, Tenant: l.Tenant,
		Worker:  l.Worker,
		Session: l.Session, Lease: l.ID, Attempt: l.Attempt, Reason: why,
		Deadline: lg.s.Header.Now().At(l.Deadline.Clock)})
}

// release ends a lease that has outlived its job, and continues the jobs that waited for it.
func (lg *leasing) release(l *state.LeaseRow, text string) rota.JobState {
	lg.outlived.remove(l)
	lg.free(l, &l.Ended.Spec, l.Revoked)
	e := rota.Event{Kind: rota.EventLeaseCancelled, Job: l.Job, Queue: l.Queue, Tenant: l.Tenant, Type: l.Typ,
		Worker: l.Worker, Session: l.Session, Lease: l.ID, Attempt: l.Attempt, Reason: l.Revoked, Text: text,
		Payload: state.Spent(l.Spent)}
	if w, node, ok := rota.SplitNodeJobID(l.Job); ok {
		e.Run, e.Node = string(w), node
	}
	lg.s.Journal.Announce(&e)
	if log := lg.broughtTo(l); log != nil {
		lg.keepLogOf(l.Job, l.Worker, l.ID[:], log)
	}
	for _, id := range lg.waitingFor(l.Key) {
		lg.letGo(id)
	}
	return lg.view.JobState(l.Job)
}

// releaseAll ends the leases that have outlived their jobs, as if their workers had confirmed, without events.
func (lg *leasing) releaseAll() {
	var leases []*state.LeaseRow
	lg.eachOutlived(func(l *state.LeaseRow) { leases = append(leases, l) })
	lg.s.Ledger.Gen++
	lg.s.Journal.Mute = true
	for _, l := range leases {
		lg.release(l, "")
	}
	lg.s.Journal.Mute = false
}

// waitingFor removes and returns the jobs that wait for a lease.
func (lg *leasing) waitingFor(key string) (ids []rota.JobID) {
	lg.outlived.waiting.Ascend(waitsFor{lease: key}, func(w waitsFor) bool {
		if w.lease == key {
			ids = append(ids, w.job)
		}
		return w.lease == key
	})
	for _, id := range ids {
		lg.outlived.waiting.Delete(waitsFor{key, id})
	}
	return ids
}

// bar returns the lease that a job must wait for, the one that may end last among those that have outlived their jobs;
// nil if there is none. It is a lease of the job's earlier life, of an earlier run of its schedule, or of the last
// holder of its unique key.
func (lg *leasing) bar(j *state.JobRow) (last *state.LeaseRow) {
	if lg.outlived.byJob.Len() == 0 {
		return nil
	}
	look := func(key string) {
		if l := lg.leases.Get(key); last == nil || l.Due > last.Due || l.Due == last.Due && l.Key > last.Key {
			last = l
		}
	}
	if key, ok := lg.outlived.byJob.Get(j.Spec.ID); ok {
		look(key)
	}
	if key, ok := lg.outlived.byUnique[j.History().Unique]; ok {
		look(key)
	}
	if name, ok := lg.schedules.InTurn(j); ok {
		from := string(name) + "@"
		lg.outlived.byJob.Ascend(rota.JobID(from), func(id rota.JobID, key string) bool {
			if !strings.HasPrefix(string(id), from) {
				return false
			}
			look(key)
			return true
		})
	}
	return last
}

// awaits is bar with the time until which its worker is awaited, which has not come; ok is false if the job waits for
// no lease. It files the job as waiting.
func (lg *leasing) awaits(j *state.JobRow) (until rota.Clock, ok bool) {
	l := lg.bar(j)
	if l == nil {
		return 0, false
	}
	lg.outlived.waiting.Set(waitsFor{l.Key, j.Spec.ID})
	return max(l.Due, lg.s.Header.Clock+1), true // a sweep may be late
}

// holdBack delays a job that would be ready at a time except for an awaited lease; j is editable.
func (lg *leasing) holdBack(j *state.JobRow, ready, until rota.Clock) {
	lg.life.own(j)
	j.Ready = max(ready, 1)
	lg.life.delayFor(j, max(ready, until))
}

// letGo ends a job's wait for a lease that has ended, unless it waits for another.
func (lg *leasing) letGo(id rota.JobID) {
	j := lg.s.JobTable.Get(id)
	if j == nil || j.Ready == 0 {
		return
	}
	if _, ok := lg.awaits(j); ok {
		return
	}
	j = lg.s.JobTable.Edit(id)
	lg.life.own(j)
	ready := j.Ready
	j.Ready = 0
	switch {
	case ready <= lg.s.Header.Clock:
		lg.life.wakeOrDate(j)
	case ready != j.Due:
		lg.s.Timers.Wake.Refile(string(id), int64(j.Due), int64(ready))
		j.Due = ready
	}
}

// void is release for a state that becomes another cluster's: jobs that wait for the worker, or are retried later, wait
// for the pause.
func (lg *leasing) void(l *state.LeaseRow, pause rota.Clock) {
	if until := lg.s.Header.Clock + pause; pause > 0 {
		ids := lg.waitingFor(l.Key)
		for _, id := range ids {
			if j := lg.s.JobTable.Edit(id); j != nil && j.Ready != 0 {
				lg.life.own(j)
				j.Ready = max(j.Ready, until)
			}
			lg.outlived.waiting.Set(waitsFor{l.Key, id})
		}
		if t := lg.ended.tombs.Get(l.Job); t != nil {
			lg.ended.tombs.Change(l.Job, func(t *state.TombRow) { t.FreeAt = max(t.FreeAt, until) })
		}
	}
	lg.release(l, "")
}

// fireWake queues a job whose delay is over. If its earlier worker is awaited longer than expected, it sleeps on.
func (lg *leasing) fireWake(id string) {
	j := lg.s.JobTable.Edit(rota.JobID(id))
	if j.Ready != 0 {
		lg.life.own(j)
		if until, ok := lg.awaits(j); ok {
			lg.s.Timers.Wake.Refile(id, int64(j.Due), int64(until))
			j.Due = until
			return
		}
		j.Ready = 0
	}
	lg.life.wakeOrDate(j)
}

// believedUntil returns the time until which the worker of an ended job may still believe in its lease, 0 for none.
func (lg *leasing) believedUntil(id rota.JobID) rota.Clock {
	if key, ok := lg.outlived.byJob.Get(id); ok {
		return lg.leases.Get(key).Due
	}
	return 0
}

// eachOutlived visits the leases whose jobs have ended.
func (lg *leasing) eachOutlived(visit func(*state.LeaseRow)) {
	lg.outlived.byJob.Scan(func(_ rota.JobID, key string) bool {
		visit(lg.leases.Get(key))
		return true
	})
}

// lingers counts the leases of a queue whose jobs have ended.
func (lg *leasing) lingers(queue rota.QueueName) (n int64) {
	lg.eachOutlived(func(l *state.LeaseRow) {
		if l.Queue == queue {
			n++
		}
	})
	return n
}

// deriveOutlived indexes the leases whose jobs have ended, and the jobs that wait for them, once leases have timers.
func (lg *leasing) deriveOutlived() {
	lg.leases.Scan(func(_ string, l *state.LeaseRow) bool {
		if l.Ended != nil {
			lg.outlived.add(l)
		}
		return true
	})
	lg.s.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.Ready != 0 {
			lg.awaits(j)
		}
		return true
	})
}

// outlived checks the leases whose jobs have ended, and that each job that waits for one is indexed under it.
func (c *checker) outlived() {
	lg, n, unique := &c.m.leasing, 0, 0
	lg.leases.Scan(func(key string, l *state.LeaseRow) bool {
		if l.Ended == nil {
			return true
		}
		n++
		if at, _ := lg.outlived.byJob.Get(l.Job); at != key || l.Revoked == rota.ReasonNone ||
			l.Ended.Spec.ID != l.Job {
			c.fault("I1: lease %s has outlived job %s, and is not found by it", l.ID, l.Job)
		}
		if l.Ended.Unique != (state.UniqueKey{}) {
			if unique++; lg.outlived.byUnique[l.Ended.Unique] != key {
				c.fault("I4: lease %s has outlived job %s, and is not found by its unique key", l.ID, l.Job)
			}
		}
		return true
	})
	if byJob, byUnique := lg.outlived.byJob.Len(), len(lg.outlived.byUnique); byJob != n || byUnique != unique {
		c.fault("I4: %d leases have outlived their jobs, %d with unique keys; filed are %d and %d", n, unique, byJob,
			byUnique)
	}
	waiting := make(map[rota.JobID]bool)
	lg.outlived.waiting.Scan(func(w waitsFor) bool {
		if l := lg.leases.Get(w.lease); l == nil || l.Ended == nil {
			c.fault("I4: job %s waits for a lease that has not outlived its job", w.job)
		}
		waiting[w.job] = true
		return true
	})
	c.m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if l := lg.bar(j); j.Ready != 0 && (j.State != rota.JobDelayed || j.Due == 0 || l == nil || !waiting[id]) {
			c.fault("I4: job %s is %s and waits for the end of a lease that has outlived its job: %v", id, j.State,
				l != nil)
		}
		return true
	})
}
