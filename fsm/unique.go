package fsm

import (
	"bytes"
	"crypto/sha256"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// uniques holds the keys that jobs are unique by (SPEC §18), and the submissions that were
// merged into the jobs that held theirs.
type uniques struct {
	s         *state
	ended     *ended
	life      *lifecycle
	placement *placement
	rows      table[string, uniqueRow, *uniqueRow]
	merged    table[rota.JobID, mergedRow, *mergedRow]
	// ready are the successors whose turn came in the entry at hand.
	ready []rota.JobID
}

// uniqueKeyOf returns the key of a job that is submitted, or retried, at a date: the first bytes
// of a hash of what it is unique by, and of the bucket of time in which it is to run.
func uniqueKeyOf(s *rota.JobSpec, at rota.Date) (key uniqueKey) {
	u := s.Unique
	mask := u.PartsMask()
	t := max(at, at+rota.Date(s.Delay.Milliseconds()), rota.DateOf(s.NotBefore))
	bucket := int64(0)
	if period := u.Period.Milliseconds(); period > 0 {
		bucket = int64(t) / period
	}
	var m sched.Message
	m.Text("rota|unique")
	m.Text(string(s.Tenant))
	m.Number(mask)
	if mask == 0 {
		m.Text(u.Key)
	}
	if mask&1 != 0 {
		m.Text(string(s.Queue))
	}
	if mask&2 != 0 {
		m.Text(string(s.Type))
	}
	if mask&4 != 0 {
		args := sha256.Sum256(s.Payload)
		m.Bytes(args[:])
	}
	m.Number(uint64(bucket))
	h := m.Sum()
	copy(key[:], h[:])
	return key
}

// judge answers a submission whose key another job holds; nil where it goes on, with its key: as the holder, or as the
// holder's successor where there is a row of the key.
func (un *uniques) judge(spec *rota.JobSpec) (uniqueKey, *fsmpb.Outcome) {
	key := uniqueKeyOf(spec, un.s.head.date())
	r := un.rows.get(string(key[:]))
	switch {
	case r == nil:
		if err := un.room(spec); err != nil {
			return key, entry.Refused(err)
		}
		return key, nil
	case un.succeeds(r, spec):
		return key, nil
	case spec.Unique.Merges():
		return key, un.merge(r, spec)
	default:
		return key, un.refuse(r)
	}
}

// again returns the key of a job that is retried, which no other job may hold.
func (un *uniques) again(spec *rota.JobSpec) (uniqueKey, *fsmpb.Outcome) {
	key := uniqueKeyOf(spec, un.s.head.date())
	if r := un.rows.get(string(key[:])); r != nil {
		return key, un.refuse(r)
	}
	if err := un.room(spec); err != nil {
		return key, entry.Refused(err)
	}
	return key, nil
}

// room refuses a job that needs a row where there are as many as are kept.
func (un *uniques) room(spec *rota.JobSpec) error {
	if un.rows.len() < limits.MaxUniqueKeys || !spec.Unique.Holds(rota.JobQueued) {
		return nil
	}
	return exhausted("unique", "jobs hold %d unique keys, no more are kept: let some end, or submit without one", limits.MaxUniqueKeys)
}

// refuse names the holder to who may read it.
func (un *uniques) refuse(r *uniqueRow) *fsmpb.Outcome {
	who := "another job"
	state, shown := un.look(r.job, r.tenant)
	if shown {
		who = "job " + string(r.job)
	}
	o := entry.Refused(rota.Refusef(rota.KindConflict, "unique", "%s holds the key that this one is unique by: let it end, or say with "+
		"unique.on_conflict what becomes of this one", who))
	if shown {
		o.Holder, o.JobState = string(r.job), uint32(state)
	}
	return o
}

// look returns the state of a job that holds a key of a tenant, or held it; false where the
// caller may not read it. One that nothing remembers may be read by who may read everything.
func (un *uniques) look(id rota.JobID, tenant rota.TenantID) (state rota.JobState, shown bool) {
	queue := rota.QueueName(access.Everything)
	if j := un.s.jobs.get(id); j != nil {
		queue, state = j.spec.Queue, j.state
	} else if t := un.ended.tombs.get(id); t != nil {
		queue, state = t.queue, t.state
	}
	return state, un.life.callerReads(tenant, queue)
}

// placeOf returns the queue of a job that holds a key, or held it: who reads that may read what
// becomes of the job. It is empty, which is all queues, of one that nothing remembers.
func (un *uniques) placeOf(id rota.JobID) rota.QueueName {
	if j := un.s.jobs.get(id); j != nil {
		return j.spec.Queue
	}
	if t := un.ended.tombs.get(id); t != nil {
		return t.queue
	}
	return ""
}

// merge makes a submission part of the job that holds its key, or of that one's successor (SPEC §18.2). A job of the
// same queue and type that waits takes the payload; any other only answers.
func (un *uniques) merge(r *uniqueRow, spec *rota.JobSpec) *fsmpb.Outcome {
	into, merge, refused := un.target(r, spec)
	if refused != nil {
		return refused
	}
	taken := merge == rota.MergeTaken
	if un.s.head.rules < mergeRules {
		merge = rota.MergeNone
	}
	un.remember(spec, into, merge)
	e := rota.Event{Kind: rota.EventJobMerged, Job: into, Queue: un.placeOf(into), Tenant: spec.Tenant,
		Payload: payload(struct {
			Merged     rota.JobID `json:"merged"`
			OnConflict string     `json:"on_conflict"`
			Merge      rota.Merge `json:"merge,omitempty"`
		}{spec.ID, spec.Unique.OnConflict, merge})}
	if taken {
		un.give(un.s.jobs.edit(into), spec, &e)
	} else {
		un.s.journal.emit(e)
	}
	return un.mergedInto(into, r.tenant, merge)
}

// mergedInto answers a merged submission by the job that stands for it. Why that did not take the payload is for
// callers that may read it.
func (un *uniques) mergedInto(into rota.JobID, tenant rota.TenantID, merge rota.Merge) *fsmpb.Outcome {
	o := &fsmpb.Outcome{Existed: true, Merge: string(merge)}
	if state, shown := un.look(into, tenant); shown {
		o.Holder, o.JobState = string(into), uint32(state)
	} else if merge.Dropped() {
		o.Merge = string(rota.MergeNotTaken)
	}
	return o
}

// give gives a job that waits the payload of one that is merged into it, and restarts its
// delay where that asks for it; j is editable.
func (un *uniques) give(j *jobRow, spec *rota.JobSpec, e *rota.Event) {
	un.life.own(j)
	if payload := given(j, spec); !bytes.Equal(j.spec.Payload(), payload) {
		past := *j.history()
		past.content, past.changes = j.firstContent(), past.changes+1
		j.past = &past
		now := j.spec.words()
		now.Payload = payload
		un.life.respec(j, un.s.queues.get(j.spec.Queue), &now, false)
	}
	un.s.journal.emitFor(j, e)
	if how := spec.Unique.OnConflict; how == rota.UniqueExtend || how == rota.UniqueCollect {
		un.extend(j, rota.Clock(spec.Unique.Extension().Milliseconds()))
	}
}

// extend restarts the delay of a job that was never leased, at most so long after its
// submission, and never ends it sooner; j is editable.
func (un *uniques) extend(j *jobRow, most rota.Clock) {
	id := string(j.spec.ID)
	due := min(un.s.head.clock+rota.Clock(j.spec.Delay.Milliseconds()), j.submitted+most)
	own := j.due
	if j.ready != 0 {
		own = j.ready // it waits for a worker to stop too
	}
	if j.state != rota.JobDelayed || !j.firstLease.IsZero() || j.history().life != 0 || due <= max(own, un.s.head.clock) {
		return
	}
	if j.ready != 0 {
		if j.ready = due; due <= j.due {
			return
		}
	}
	un.s.timers.wake.set(id, int64(j.due), int64(due))
	un.s.timers.dated.set(id, int64(j.dueDate), 0) // looked at again once the delay is over
	j.due, j.dueDate = due, 0
	un.life.emitDelayed(j, dueAt(un.s.head.now().At(due)))
}

// remember keeps a merged submission, so that it answers a repetition; the oldest gives way.
func (un *uniques) remember(spec *rota.JobSpec, holder rota.JobID, merge rota.Merge) {
	order := un.s.timers.merged
	last, _ := order.Max()
	r := &mergedRow{id: spec.ID, seq: uint64(last.due) + 1, holder: holder, content: un.s.specs.content(spec), merge: merge}
	un.merged.insert(r.id, r)
	order.set(string(r.id), 0, int64(r.seq))
	if un.merged.len() > limits.MaxMerged {
		oldest, _ := order.Min()
		order.set(oldest.id, oldest.due, 0)
		un.merged.drop(rota.JobID(oldest.id))
	}
}

// MergedInto returns the job that a submission was merged into, by the id of that submission, while the state remembers it.
func MergedInto(vw *View, id rota.JobID) (rota.JobID, bool) {
	r := vw.m.uniques.merged.get(id)
	if r == nil {
		return "", false
	}
	return r.holder, true
}

// repeated answers the repetition of a merged submission; nil where there was none.
func (un *uniques) repeated(spec *rota.JobSpec) *fsmpb.Outcome {
	if un.merged.len() == 0 {
		return nil
	}
	r := un.merged.get(spec.ID)
	switch {
	case r == nil:
		return nil
	case r.content != un.s.specs.content(spec):
		return againOutcome(spec.ID, rota.JobNone, false)
	}
	return un.mergedInto(r.holder, spec.Tenant, r.merge)
}

// follow lets a job that is unique by a key hold it where its state has come to. What leaves
// its scope frees the key; what comes back takes it where nobody else does. Between states that
// are both within it, or both without, nothing changes, but for the date of a completed holder.
func (un *uniques) follow(j *jobRow, from rota.JobState) {
	held, holds := j.spec.Unique.Holds(from), j.spec.Unique.Holds(j.state)
	if held == holds && from != rota.JobCompleted && j.state != rota.JobCompleted {
		return
	}
	r := un.rows.get(string(j.past.unique[:]))
	switch mine := r != nil && r.job == j.spec.ID; {
	case mine && holds:
		un.keep(un.rows.change(r.key, r), j)
	case mine && !planted.uniqueLeftBehind(j.state):
		un.free(r)
	case r != nil && r.next == j.spec.ID && !holds: // it ended before its turn
		un.rows.change(r.key, r).next = ""
	case r == nil && holds && !held && un.rows.len() < limits.MaxUniqueKeys:
		r = un.rows.fresh()
		r.key, r.job, r.tenant = string(j.past.unique[:]), j.spec.ID, j.spec.Tenant
		un.rows.insert(r.key, r)
		un.keep(r, j)
	}
}

// keep sets until when the job holds the key of a row, which is editable.
func (un *uniques) keep(r *uniqueRow, j *jobRow) {
	until := rota.Date(0)
	if j.state == rota.JobCompleted {
		until = un.s.head.date() + rota.Date(j.spec.Unique.Keep.Milliseconds())
	}
	un.s.timers.unique.set(r.key, int64(r.until), int64(until))
	r.until = until
}

// holds returns until when a completed job holds the key that it has, 0 where it does not.
func (un *uniques) holds(id rota.JobID, key uniqueKey) rota.Date {
	if key == (uniqueKey{}) {
		return 0
	}
	if r := un.rows.get(string(key[:])); r != nil && r.job == id {
		return r.until
	}
	return 0
}

// release frees the key of a job that is deleted.
func (un *uniques) release(id rota.JobID, key uniqueKey) {
	if un.holds(id, key) != 0 {
		un.free(un.rows.get(string(key[:])))
	}
}

// free lets go of a key: its successor takes it, where it has one.
func (un *uniques) free(r *uniqueRow) {
	un.s.timers.unique.set(r.key, int64(r.until), 0)
	if !un.succeed(r) {
		un.rows.drop(r.key)
	}
}

// fire frees the key of a completed job.
func (un *uniques) fire(key string) { un.free(un.rows.get(key)) }

// holder returns the job of a queue that holds a key, "" where none of it does.
func (un *uniques) holder(key uniqueKey, queue rota.QueueName) rota.JobID {
	if key == (uniqueKey{}) {
		return ""
	}
	r := un.rows.get(string(key[:]))
	if r == nil {
		return ""
	}
	if j := un.s.jobs.get(r.job); j != nil && j.spec.Queue == queue {
		return r.job
	}
	if t := un.ended.tombs.get(r.job); t != nil && t.queue == queue {
		return r.job
	}
	return ""
}

// times puts rows where they stand in the timers.
func (un *uniques) times(t *timers) {
	un.rows.scan(func(key string, r *uniqueRow) bool {
		t.unique.set(key, 0, int64(r.until))
		return true
	})
	un.merged.scan(func(id rota.JobID, r *mergedRow) bool {
		t.merged.set(string(id), 0, int64(r.seq))
		return true
	})
}

// uniques checks that keys are held by the jobs that they say.
func (c *checker) uniques() {
	m, un := c.m, &c.m.uniques
	if n, merged := un.rows.len(), un.merged.len(); n > limits.MaxUniqueKeys || merged > limits.MaxMerged {
		c.fault("I9: %d unique keys are held and %d submissions merged, %d and %d may be", n, merged, limits.MaxUniqueKeys, limits.MaxMerged)
	}
	un.rows.scan(func(key string, r *uniqueRow) bool {
		j := m.jobs.get(r.job)
		mine := j != nil && string(j.history().unique[:]) == key && j.spec.Tenant == r.tenant
		if r.until == 0 && (!mine || !j.spec.Unique.Holds(j.state)) || r.until != 0 && mine {
			c.fault("I4: job %s holds unique key %x until %d, and is not where it would", r.job, key, r.until)
		}
		return true
	})
	c.successors()
	m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		key := j.history().unique
		if (key == uniqueKey{}) != (j.spec.Unique == nil) {
			c.fault("I4: job %s has unique key %x, its spec says %v", id, key, j.spec.Unique)
		}
		return true
	})
}
