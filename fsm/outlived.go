package fsm

import (
	"strings"

	"github.com/rotasched/rota"
	"github.com/tidwall/btree"
)

// A job that is cancelled, or whose time to live ends, while a worker has it, ends at once. Its lease stays open until
// the worker confirms that it has stopped, or the lease ends as any other does (SPEC §8.8): until then it takes its
// worker's room, its tenant's share and its keys' slots, and the jobs that must not run beside it wait.

// outlivingRules are the first rules under which a lease outlives its job.
const outlivingRules = 2

// outlived finds the leases whose jobs have ended, and the jobs that wait for them. All of it is derived.
type outlived struct {
	byJob    btree.Map[rota.JobID, string]
	byUnique map[uniqueKey]string
	// waiting are the jobs that wait, each under one of the leases that it waits for. One that ended since may stand
	// there still.
	waiting *btree.BTreeG[waitsFor]
}

type waitsFor struct {
	lease string
	job   rota.JobID
}

func newOutlived() outlived {
	return outlived{byUnique: make(map[uniqueKey]string), waiting: btree.NewBTreeGOptions(func(a, b waitsFor) bool {
		if a.lease != b.lease {
			return a.lease < b.lease
		}
		return a.job < b.job
	}, btree.Options{NoLocks: true})}
}

func (o *outlived) add(l *leaseRow) {
	o.byJob.Set(l.Job, l.key)
	if l.ended.unique != (uniqueKey{}) {
		o.byUnique[l.ended.unique] = l.key
	}
}

func (o *outlived) remove(l *leaseRow) {
	o.byJob.Delete(l.Job)
	if o.byUnique[l.ended.unique] == l.key {
		delete(o.byUnique, l.ended.unique)
	}
}

// outlive lets a leased job end without its lease, which its worker is asked to give up; j is editable.
func (lg *leasing) outlive(j *jobRow, why rota.Reason) {
	l := lg.leases.edit(string(j.lease[:]))
	ended := &endedJob{spec: rota.JobSpec{ID: l.Job, Queue: l.queue, Tenant: l.tenant, Type: l.typ, Keys: j.spec.Keys}, alone: j.isolated()}
	if r := lg.uniques.rows.get(string(j.history().unique[:])); r != nil && r.job == l.Job {
		ended.unique = j.history().unique
	}
	supply := lg.placement.registry.supply
	supply.Ended(l.Worker, lg.placement.runOf(l))
	l.ended, l.Revoked = ended, why
	supply.Began(l.Worker, lg.placement.runOf(l))
	lg.placement.noteGoing(l)
	lg.outlived.add(l)
	lg.noteEnd(l, j, why, "")
	lg.s.journal.emitFor(j, &rota.Event{Kind: rota.EventLeaseRevoked, Job: l.Job, Queue: l.queue, Tenant: l.tenant, Worker: l.Worker,
		Session: l.Session, Lease: l.ID, Attempt: l.Attempt, Reason: why, Deadline: lg.s.head.now().At(l.Deadline.Clock)})
}

// release ends a lease that has outlived its job, and lets the jobs go on that waited for it.
func (lg *leasing) release(l *leaseRow, text string) rota.JobState {
	lg.outlived.remove(l)
	lg.free(l, &l.ended.spec)
	e := rota.Event{Kind: rota.EventLeaseCancelled, Job: l.Job, Queue: l.queue, Tenant: l.tenant, Type: l.typ, Worker: l.Worker,
		Session: l.Session, Lease: l.ID, Attempt: l.Attempt, Reason: l.Revoked, Text: text}
	if w, node, ok := rota.SplitNodeJobID(l.Job); ok {
		e.Run, e.Node = string(w), node
	}
	lg.s.journal.announce(&e)
	if log := lg.broughtTo(l); log != nil {
		lg.keepLogOf(l.Job, l.Worker, l.ID[:], log)
	}
	for _, id := range lg.waitingFor(l.key) {
		lg.letGo(id)
	}
	return lg.view.JobState(l.Job)
}

// releaseAll ends the leases that have outlived their jobs, as if their workers had confirmed; no events tell of it.
func (lg *leasing) releaseAll() {
	var leases []*leaseRow
	lg.outlived.byJob.Scan(func(_ rota.JobID, key string) bool {
		leases = append(leases, lg.leases.get(key))
		return true
	})
	lg.s.ledger.gen++
	lg.s.journal.mute = true
	for _, l := range leases {
		lg.release(l, "")
	}
	lg.s.journal.mute = false
}

// waitingFor takes the jobs that wait under a lease.
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

// bar returns the lease that has outlived its job and for whose end a job must wait, the one that may end last; nil
// where there is none: one of the job's earlier life, of an earlier run of its schedule, or of the last holder of the
// key that it is unique by.
func (lg *leasing) bar(j *jobRow) (last *leaseRow) {
	if lg.outlived.byJob.Len() == 0 {
		return nil
	}
	look := func(key string) {
		if l := lg.leases.get(key); last == nil || l.due > last.due || l.due == last.due && l.key > last.key {
			last = l
		}
	}
	if key, ok := lg.outlived.byJob.Get(j.spec.ID); ok {
		look(key)
	}
	if key, ok := lg.outlived.byUnique[j.history().unique]; ok {
		look(key)
	}
	if name, ok := lg.schedules.inTurn(j); ok {
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

// awaits is bar, with the moment until which its worker is waited for, which has not come; ok is false where the job waits
// for no lease. The job is filed as waiting.
func (lg *leasing) awaits(j *jobRow) (until rota.Clock, ok bool) {
	l := lg.bar(j)
	if l == nil {
		return 0, false
	}
	lg.outlived.waiting.Set(waitsFor{l.key, j.spec.ID})
	return max(l.due, lg.s.head.clock+1), true // a sweep may be late
}

// holdBack puts a job to sleep that would be ready at a moment but for a lease that is waited for; j is editable.
func (lg *leasing) holdBack(j *jobRow, ready, until rota.Clock) {
	lg.life.own(j)
	j.ready = max(ready, 1)
	lg.life.delayFor(j, max(ready, until))
}

// letGo has a job wait no more for a lease that has ended, unless it waits for another.
func (lg *leasing) letGo(id rota.JobID) {
	j := lg.s.jobs.get(id)
	if j == nil || j.ready == 0 {
		return
	}
	if _, ok := lg.awaits(j); ok {
		return
	}
	j = lg.s.jobs.edit(id)
	lg.life.own(j)
	ready := j.ready
	j.ready = 0
	switch {
	case ready <= lg.s.head.clock:
		lg.life.wakeOrDate(j)
	case ready != j.due:
		lg.s.timers.wake.set(string(id), int64(j.due), int64(ready))
		j.due = ready
	}
}

// void is release for a state that becomes another cluster's: what waits for the worker, or is retried later, waits for the
// pause.
func (lg *leasing) void(l *leaseRow, pause rota.Clock) {
	if until := lg.s.head.clock + pause; pause > 0 {
		ids := lg.waitingFor(l.key)
		for _, id := range ids {
			if j := lg.s.jobs.edit(id); j != nil && j.ready != 0 {
				lg.life.own(j)
				j.ready = max(j.ready, until)
			}
			lg.outlived.waiting.Set(waitsFor{l.key, id})
		}
		if t := lg.ended.tombs.get(l.Job); t != nil {
			lg.ended.tombs.change(l.Job, func(t *tombRow) { t.freeAt = max(t.freeAt, until) })
		}
	}
	lg.release(l, "")
}

// fireWake queues a job whose delay is over. One whose earlier worker is waited for longer than was seen sleeps on.
func (lg *leasing) fireWake(id string) {
	j := lg.s.jobs.edit(rota.JobID(id))
	if j.ready != 0 {
		lg.life.own(j)
		if until, ok := lg.awaits(j); ok {
			lg.s.timers.wake.set(id, int64(j.due), int64(until))
			j.due = until
			return
		}
		j.ready = 0
	}
	lg.life.wakeOrDate(j)
}

// believedUntil is the moment until which the worker of a job that has ended may go on believing in its lease, 0 for none.
func (lg *leasing) believedUntil(id rota.JobID) rota.Clock {
	if key, ok := lg.outlived.byJob.Get(id); ok {
		return lg.leases.get(key).due
	}
	return 0
}

// lingering returns a lease of a key's count whose job has ended, and how many such leases there are.
func (kr *keyring) lingering(count string) (one *leaseRow, n int) {
	lg := kr.leasing
	lg.outlived.byJob.Scan(func(_ rota.JobID, key string) bool {
		l := lg.leases.get(key)
		for _, h := range kr.of(&l.ended.spec, nil) {
			if h.count == count {
				one, n = l, n+1
			}
		}
		return true
	})
	return one, n
}

// lingers lists the leases whose jobs have ended and that a rule may be for.
func (kr *keyring) lingers(id keyRuleID) (list []*leaseRow) {
	lg := kr.leasing
	lg.outlived.byJob.Scan(func(_ rota.JobID, key string) bool {
		l := lg.leases.get(key)
		for _, k := range l.ended.spec.Keys {
			if (id.queue == "" || l.queue == id.queue) && id.covers(id.queue, k) {
				list = append(list, l)
				break
			}
		}
		return true
	})
	return list
}

// lingers counts the leases of a queue whose jobs have ended.
func (pl *placement) lingers(queue rota.QueueName) (n int64) {
	lg := pl.leasing
	lg.outlived.byJob.Scan(func(_ rota.JobID, key string) bool {
		if lg.leases.get(key).queue == queue {
			n++
		}
		return true
	})
	return n
}

// deriveOutlived files the leases whose jobs have ended, and who waits for them, once leases are timed.
func (lg *leasing) deriveOutlived() {
	lg.leases.scan(func(_ string, l *leaseRow) bool {
		if l.ended != nil {
			lg.outlived.add(l)
		}
		return true
	})
	lg.s.jobs.scan(func(_ rota.JobID, j *jobRow) bool {
		if j.ready != 0 {
			lg.awaits(j)
		}
		return true
	})
}

// outlived checks the leases whose jobs have ended, and that each job that waits for one is found by it.
func (c *checker) outlived() {
	lg, n, unique := &c.m.leasing, 0, 0
	lg.leases.scan(func(key string, l *leaseRow) bool {
		if l.ended == nil {
			return true
		}
		n++
		if at, _ := lg.outlived.byJob.Get(l.Job); at != key || l.Revoked == rota.ReasonNone || l.ended.spec.ID != l.Job {
			c.fault("I1: lease %s has outlived job %s, and is not found by it", l.ID, l.Job)
		}
		if l.ended.unique != (uniqueKey{}) {
			if unique++; lg.outlived.byUnique[l.ended.unique] != key {
				c.fault("I4: lease %s has outlived job %s, and is not found by its unique key", l.ID, l.Job)
			}
		}
		return true
	})
	if byJob, byUnique := lg.outlived.byJob.Len(), len(lg.outlived.byUnique); byJob != n || byUnique != unique {
		c.fault("I4: %d leases have outlived their jobs, %d with unique keys; filed are %d and %d", n, unique, byJob, byUnique)
	}
	waiting := make(map[rota.JobID]bool)
	lg.outlived.waiting.Scan(func(w waitsFor) bool {
		if l := lg.leases.get(w.lease); l == nil || l.ended == nil {
			c.fault("I4: job %s waits for a lease that has not outlived its job", w.job)
		}
		waiting[w.job] = true
		return true
	})
	c.m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		if l := lg.bar(j); j.ready != 0 && (j.state != rota.JobDelayed || j.due == 0 || l == nil || !waiting[id]) {
			c.fault("I4: job %s is %s and waits for the end of a lease that has outlived its job: %v", id, j.state, l != nil)
		}
		return true
	})
}
