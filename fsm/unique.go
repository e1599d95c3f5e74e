package fsm

import (
	"bytes"
	"crypto/sha256"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// uniques holds the unique keys of jobs (SPEC §18), and the submissions that were merged into the jobs that held their
// keys.
type uniques struct {
	s         *state.State
	ended     *ended
	life      *lifecycle
	placement *placement
	rows      state.Table[string, state.UniqueRow, *state.UniqueRow]
	merged    state.Table[rota.JobID, state.MergedRow, *state.MergedRow]
	// ready are the successors whose turn came in the current entry.
	ready []rota.JobID
}

// uniqueKeyOf returns the key of a job that is submitted, or retried, at a date: the first bytes of a hash of what it
// is unique by, and of the bucket of time in which it is to run.
func uniqueKeyOf(s *rota.JobSpec, at rota.Date) (key state.UniqueKey) {
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

// judge answers a submission whose key another job holds. The outcome is nil if the submission continues, with its key:
// as the holder, or as the holder's successor if the key has a row.
func (un *uniques) judge(spec *rota.JobSpec) (state.UniqueKey, *fsmpb.Outcome) {
	key := uniqueKeyOf(spec, un.s.Header.Date())
	r := un.rows.Get(string(key[:]))
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
func (un *uniques) again(spec *rota.JobSpec) (state.UniqueKey, *fsmpb.Outcome) {
	key := uniqueKeyOf(spec, un.s.Header.Date())
	if r := un.rows.Get(string(key[:])); r != nil {
		return key, un.refuse(r)
	}
	if err := un.room(spec); err != nil {
		return key, entry.Refused(err)
	}
	return key, nil
}

// room refuses a job that needs a row if their limit is reached.
func (un *uniques) room(spec *rota.JobSpec) error {
	if un.rows.Len() < limits.MaxUniqueKeys || !spec.Unique.Holds(rota.JobQueued) {
		return nil
	}
	return exhausted("unique", "jobs hold %d unique keys, no more are kept: let some end, or submit without one",
		limits.MaxUniqueKeys)
}

// refuse names the holder to callers that may read it.
func (un *uniques) refuse(r *state.UniqueRow) *fsmpb.Outcome {
	who := "another job"
	state, shown := un.look(r.Job, r.Tenant)
	if shown {
		who = "job " + string(r.Job)
	}
	o := entry.Refused(rota.Refusef(rota.KindConflict, "unique",
		"%s holds the key that this one is unique by: let it end, or say with "+
			"unique.on_conflict what becomes of this one", who))
	if shown {
		o.Holder, o.JobState = string(r.Job), uint32(state)
	}
	return o
}

// look returns the state of a job that holds a key of a tenant, or held it; false if the caller may not read it.
// Callers that may read everything may read a job that the state no longer remembers.
func (un *uniques) look(id rota.JobID, tenant rota.TenantID) (state rota.JobState, shown bool) {
	queue := rota.QueueName(access.Everything)
	if j := un.s.JobTable.Get(id); j != nil {
		queue, state = j.Spec.Queue, j.State
	} else if t := un.ended.tombs.Get(id); t != nil {
		queue, state = t.Queue, t.State
	}
	return state, un.life.callerReads(tenant, queue)
}

// placeOf returns the queue of a job that holds a key, or held it: callers that may read the queue may read the job's
// fate. It is empty, which means all queues, for a job that the state no longer remembers.
func (un *uniques) placeOf(id rota.JobID) rota.QueueName {
	if j := un.s.JobTable.Get(id); j != nil {
		return j.Spec.Queue
	}
	if t := un.ended.tombs.Get(id); t != nil {
		return t.Queue
	}
	return ""
}

// merge makes a submission part of the job that holds its key, or of that job's successor (SPEC §18.2). A pending job
// of the same queue and type takes the payload; any other job only answers.
func (un *uniques) merge(r *state.UniqueRow, spec *rota.JobSpec) *fsmpb.Outcome {
	into, merge, refused := un.target(r, spec)
	if refused != nil {
		return refused
	}
	taken := merge == rota.MergeTaken
	if un.s.Header.Rules < mergeRules {
		merge = rota.MergeNone
	}
	un.remember(spec, into, merge)
	e := rota.Event{Kind: rota.EventJobMerged, Job: into, Queue: un.placeOf(into), Tenant: spec.Tenant,
		Payload: state.Payload(struct {
			Merged     rota.JobID `json:"merged"`
			OnConflict string     `json:"on_conflict"`
			Merge      rota.Merge `json:"merge,omitempty"`
		}{spec.ID, spec.Unique.OnConflict, merge})}
	if taken {
		un.give(un.s.JobTable.Edit(into), spec, &e)
	} else {
		un.s.Journal.Emit(e)
	}
	return un.mergedInto(into, r.Tenant, merge)
}

// mergedInto answers a merged submission with the job that represents it. Only callers that may read that job learn why
// it did not take the payload.
func (un *uniques) mergedInto(into rota.JobID, tenant rota.TenantID, merge rota.Merge) *fsmpb.Outcome {
	o := &fsmpb.Outcome{Existed: true, Merge: string(merge)}
	if state, shown := un.look(into, tenant); shown {
		o.Holder, o.JobState = string(into), uint32(state)
	} else if merge.Dropped() {
		o.Merge = string(rota.MergeNotTaken)
	}
	return o
}

// give gives a pending job the payload of a submission merged into it, and restarts its delay if the submission asks
// for that; j is editable.
func (un *uniques) give(j *state.JobRow, spec *rota.JobSpec, e *rota.Event) {
	un.life.own(j)
	if payload := given(j, spec); !bytes.Equal(j.Spec.Payload(), payload) {
		past := *j.History()
		past.Content, past.Changes = j.FirstContent(), past.Changes+1
		j.Past = &past
		now := j.Spec.Words()
		now.Payload = payload
		un.life.respec(j, un.s.QueueTable.Get(j.Spec.Queue), &now, false)
	}
	un.s.Journal.EmitFor(j, e)
	if how := spec.Unique.OnConflict; how == rota.UniqueExtend || how == rota.UniqueCollect {
		un.extend(j, rota.Clock(spec.Unique.Extension().Milliseconds()))
	}
}

// extend restarts the delay of a job that was never leased, at most `most` after its submission, and never shortens it;
// j is editable.
func (un *uniques) extend(j *state.JobRow, most rota.Clock) {
	id := string(j.Spec.ID)
	due := min(un.s.Header.Clock+rota.Clock(j.Spec.Delay.Milliseconds()), j.Submitted+most)
	own := j.Due
	if j.Ready != 0 {
		own = j.Ready // it waits for a worker to stop too
	}
	if j.State != rota.JobDelayed || !j.FirstLease.IsZero() || j.History().Life != 0 ||
		due <= max(own, un.s.Header.Clock) {
		return
	}
	if j.Ready != 0 {
		if j.Ready = due; due <= j.Due {
			return
		}
	}
	un.s.Timers.Wake.Refile(id, int64(j.Due), int64(due))
	un.s.Timers.Dated.Refile(id, int64(j.DueDate), 0) // checked again once the delay is over
	j.Due, j.DueDate = due, 0
	un.life.emitDelayed(j, state.DueAt(un.s.Header.Now().At(due)))
}

// remember records a merged submission, so that it answers a repetition; the oldest record is dropped.
func (un *uniques) remember(spec *rota.JobSpec, holder rota.JobID, merge rota.Merge) {
	order := un.s.Timers.Merged
	last, _ := order.Max()
	r := &state.MergedRow{ID: spec.ID, Seq: uint64(last.Due) + 1, Holder: holder, Content: un.s.Specs.Content(spec),
		Merge: merge}
	un.merged.Insert(r.ID, r)
	order.Refile(string(r.ID), 0, int64(r.Seq))
	if un.merged.Len() > limits.MaxMerged {
		oldest, _ := order.Min()
		order.Refile(oldest.ID, oldest.Due, 0)
		un.merged.Drop(rota.JobID(oldest.ID))
	}
}

// MergedInto returns the job that a submission was merged into, by the id of that submission, while the state remembers
// it.
func MergedInto(vw *View, id rota.JobID) (rota.JobID, bool) {
	r := vw.m.uniques.merged.Get(id)
	if r == nil {
		return "", false
	}
	return r.Holder, true
}

// repeated answers the repetition of a merged submission; nil if there was none.
func (un *uniques) repeated(spec *rota.JobSpec) *fsmpb.Outcome {
	if un.merged.Len() == 0 {
		return nil
	}
	r := un.merged.Get(spec.ID)
	switch {
	case r == nil:
		return nil
	case r.Content != un.s.Specs.Content(spec):
		return againOutcome(spec.ID, rota.JobNone, false)
	}
	return un.mergedInto(r.Holder, spec.Tenant, r.Merge)
}

// follow updates whether a job holds its unique key after a change of its state. Leaving the key's scope frees the key;
// coming back takes it unless another job holds it. A change between two states within the scope, or outside it,
// changes nothing, except for the date of a completed holder.
func (un *uniques) follow(j *state.JobRow, from rota.JobState) {
	held, holds := j.Spec.Unique.Holds(from), j.Spec.Unique.Holds(j.State)
	if held == holds && from != rota.JobCompleted && j.State != rota.JobCompleted {
		return
	}
	r := un.rows.Get(string(j.Past.Unique[:]))
	switch mine := r != nil && r.Job == j.Spec.ID; {
	case mine && holds:
		un.keep(un.rows.Change(r.Key, r), j)
	case mine && !planted.uniqueLeftBehind(j.State):
		un.free(r)
	case r != nil && r.Next == j.Spec.ID && !holds: // it ended before its turn
		un.rows.Change(r.Key, r).Next = ""
	case r == nil && holds && !held && un.rows.Len() < limits.MaxUniqueKeys:
		r = un.rows.Fresh()
		r.Key, r.Job, r.Tenant = string(j.Past.Unique[:]), j.Spec.ID, j.Spec.Tenant
		un.rows.Insert(r.Key, r)
		un.keep(r, j)
	}
}

// keep sets until when the job holds the key of a row, which is editable.
func (un *uniques) keep(r *state.UniqueRow, j *state.JobRow) {
	until := rota.Date(0)
	if j.State == rota.JobCompleted {
		until = un.s.Header.Date() + rota.Date(j.Spec.Unique.Keep.Milliseconds())
	}
	un.s.Timers.Unique.Refile(r.Key, int64(r.Until), int64(until))
	r.Until = until
}

// holds returns until when a completed job holds its key, 0 if it does not hold it.
func (un *uniques) holds(id rota.JobID, key state.UniqueKey) rota.Date {
	if key == (state.UniqueKey{}) {
		return 0
	}
	if r := un.rows.Get(string(key[:])); r != nil && r.Job == id {
		return r.Until
	}
	return 0
}

// release frees the key of a job that is deleted.
func (un *uniques) release(id rota.JobID, key state.UniqueKey) {
	if un.holds(id, key) != 0 {
		un.free(un.rows.Get(string(key[:])))
	}
}

// free releases a key: its successor gets it, if there is one.
func (un *uniques) free(r *state.UniqueRow) {
	un.s.Timers.Unique.Refile(r.Key, int64(r.Until), 0)
	if !un.succeed(r) {
		un.rows.Drop(r.Key)
	}
}

// fire frees the key of a completed job.
func (un *uniques) fire(key string) { un.free(un.rows.Get(key)) }

// holder returns the job of a queue that holds a key, "" if none does.
func (un *uniques) holder(key state.UniqueKey, queue rota.QueueName) rota.JobID {
	if key == (state.UniqueKey{}) {
		return ""
	}
	r := un.rows.Get(string(key[:]))
	if r == nil {
		return ""
	}
	if j := un.s.JobTable.Get(r.Job); j != nil && j.Spec.Queue == queue {
		return r.Job
	}
	if t := un.ended.tombs.Get(r.Job); t != nil && t.Queue == queue {
		return r.Job
	}
	return ""
}

// times adds the rows to the timers.
func (un *uniques) times(t *state.Timers) {
	un.rows.Scan(func(key string, r *state.UniqueRow) bool {
		t.Unique.Refile(key, 0, int64(r.Until))
		return true
	})
	un.merged.Scan(func(id rota.JobID, r *state.MergedRow) bool {
		t.Merged.Refile(string(id), 0, int64(r.Seq))
		return true
	})
}

// uniques checks that the recorded jobs hold the keys.
func (c *checker) uniques() {
	m, un := c.m, &c.m.uniques
	if n, merged := un.rows.Len(), un.merged.Len(); n > limits.MaxUniqueKeys || merged > limits.MaxMerged {
		c.fault("I9: %d unique keys are held and %d submissions merged, %d and %d may be", n, merged,
			limits.MaxUniqueKeys, limits.MaxMerged)
	}
	un.rows.Scan(func(key string, r *state.UniqueRow) bool {
		j := m.JobTable.Get(r.Job)
		mine := j != nil && string(j.History().Unique[:]) == key && j.Spec.Tenant == r.Tenant
		if r.Until == 0 && (!mine || !j.Spec.Unique.Holds(j.State)) || r.Until != 0 && mine {
			c.fault("I4: job %s holds unique key %x until %d, and is not where it would", r.Job, key, r.Until)
		}
		return true
	})
	c.successors()
	m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		key := j.History().Unique
		if (key == state.UniqueKey{}) != (j.Spec.Unique == nil) {
			c.fault("I4: job %s has unique key %x, its spec says %v", id, key, j.Spec.Unique)
		}
		return true
	})
}
