package unique

import (
	"bytes"
	"crypto/sha256"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// Keys holds the unique keys of jobs (SPEC §18), and the submissions that were merged into the jobs that held their
// keys.
type Keys struct {
	s      *state.State
	ports  Ports
	Rows   state.Table[string, state.UniqueRow, *state.UniqueRow]
	Merged state.Table[rota.JobID, state.MergedRow, *state.MergedRow]
	// ready are the successors whose turn came in the current entry.
	ready []rota.JobID
}

// Ports is what the unique keys use of other parts.
type Ports struct {
	Tombs *state.Tombs
	// CallerReads reports whether the caller may read objects of a tenant and a queue.
	CallerReads func(rota.TenantID, rota.QueueName) bool
	// Known answers a submission whose id is known.
	Known func(id rota.JobID, st rota.JobState, same bool) *fsmpb.Outcome
	// Start gives a job its first state, Move another one; Own gives it a JobLife of its own, Respec another spec.
	Start  func(*state.JobRow)
	Move   func(*state.JobRow, rota.JobState)
	Own    func(*state.JobRow)
	Respec func(j *state.JobRow, q *state.QueueRow, spec *rota.JobSpec, timeToLive bool)
	// EmitDelayed emits that a job is delayed.
	EmitDelayed func(j *state.JobRow, until string)
}

// Init connects the unique keys to the state and the parts that they use.
func (un *Keys) Init(s *state.State, ports Ports) {
	un.s, un.ports = s, ports
	un.Rows.Init(state.TagUnique, &s.Ledger)
	un.Merged.Init(state.TagMerged, &s.Ledger)
	un.Rows.Mutable = true
}

// KeyOf returns the key of a job that is submitted, or retried, at a date: the first bytes of a hash of what it
// is unique by, and of the bucket of time in which it is to run.
func KeyOf(s *rota.JobSpec, at rota.Date) (key state.UniqueKey) {
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

// Judge answers a submission whose key another job holds. The outcome is nil if the submission continues, with its key:
// as the holder, or as the holder's successor if the key has a row.
func (un *Keys) Judge(spec *rota.JobSpec) (state.UniqueKey, *fsmpb.Outcome) {
	key := KeyOf(spec, un.s.Header.Date())
	r := un.Rows.Get(string(key[:]))
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

// Again returns the key of a job that is retried, which no other job may hold.
func (un *Keys) Again(spec *rota.JobSpec) (state.UniqueKey, *fsmpb.Outcome) {
	key := KeyOf(spec, un.s.Header.Date())
	if r := un.Rows.Get(string(key[:])); r != nil {
		return key, un.refuse(r)
	}
	if err := un.room(spec); err != nil {
		return key, entry.Refused(err)
	}
	return key, nil
}

// room refuses a job that needs a row if their limit is reached.
func (un *Keys) room(spec *rota.JobSpec) error {
	if un.Rows.Len() < limits.MaxUniqueKeys || !spec.Unique.Holds(rota.JobQueued) {
		return nil
	}
	return refuse.Exhausted("unique", "jobs hold %d unique keys, no more are kept: let some end, or submit without one",
		limits.MaxUniqueKeys)
}

// refuse names the holder to callers that may read it.
func (un *Keys) refuse(r *state.UniqueRow) *fsmpb.Outcome {
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
func (un *Keys) look(id rota.JobID, tenant rota.TenantID) (state rota.JobState, shown bool) {
	queue := rota.QueueName(access.Everything)
	if j := un.s.JobTable.Get(id); j != nil {
		queue, state = j.Spec.Queue, j.State
	} else if t := un.ports.Tombs.Get(id); t != nil {
		queue, state = t.Queue, t.State
	}
	return state, un.ports.CallerReads(tenant, queue)
}

// placeOf returns the queue of a job that holds a key, or held it: callers that may read the queue may read the job's
// fate. It is empty, which means all queues, for a job that the state no longer remembers.
func (un *Keys) placeOf(id rota.JobID) rota.QueueName {
	if j := un.s.JobTable.Get(id); j != nil {
		return j.Spec.Queue
	}
	if t := un.ports.Tombs.Get(id); t != nil {
		return t.Queue
	}
	return ""
}

// merge makes a submission part of the job that holds its key, or of that job's successor (SPEC §18.2). A pending job
// of the same queue and type takes the payload; any other job only answers.
func (un *Keys) merge(r *state.UniqueRow, spec *rota.JobSpec) *fsmpb.Outcome {
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
func (un *Keys) mergedInto(into rota.JobID, tenant rota.TenantID, merge rota.Merge) *fsmpb.Outcome {
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
func (un *Keys) give(j *state.JobRow, spec *rota.JobSpec, e *rota.Event) {
	un.ports.Own(j)
	if payload := given(j, spec); !bytes.Equal(j.Spec.Payload(), payload) {
		past := *j.History()
		past.Content, past.Changes = j.FirstContent(), past.Changes+1
		j.Past = &past
		now := j.Spec.Words()
		now.Payload = payload
		un.ports.Respec(j, un.s.QueueTable.Get(j.Spec.Queue), &now, false)
	}
	un.s.Journal.EmitFor(j, e)
	if how := spec.Unique.OnConflict; how == rota.UniqueExtend || how == rota.UniqueCollect {
		un.extend(j, rota.Clock(spec.Unique.Extension().Milliseconds()))
	}
}

// extend restarts the delay of a job that was never leased, at most `most` after its submission, and never shortens it;
// j is editable.
func (un *Keys) extend(j *state.JobRow, most rota.Clock) {
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
	un.ports.EmitDelayed(j, state.DueAt(un.s.Header.Now().At(due)))
}

// remember records a merged submission, so that it answers a repetition; the oldest record is dropped.
func (un *Keys) remember(spec *rota.JobSpec, holder rota.JobID, merge rota.Merge) {
	order := un.s.Timers.Merged
	last, _ := order.Max()
	r := &state.MergedRow{ID: spec.ID, Seq: uint64(last.Due) + 1, Holder: holder, Content: un.s.Specs.Content(spec),
		Merge: merge}
	un.Merged.Insert(r.ID, r)
	order.Refile(string(r.ID), 0, int64(r.Seq))
	if un.Merged.Len() > limits.MaxMerged {
		oldest, _ := order.Min()
		order.Refile(oldest.ID, oldest.Due, 0)
		un.Merged.Drop(rota.JobID(oldest.ID))
	}
}

// Repeated answers the repetition of a merged submission; nil if there was none.
func (un *Keys) Repeated(spec *rota.JobSpec) *fsmpb.Outcome {
	if un.Merged.Len() == 0 {
		return nil
	}
	r := un.Merged.Get(spec.ID)
	switch {
	case r == nil:
		return nil
	case r.Content != un.s.Specs.Content(spec):
		return un.ports.Known(spec.ID, rota.JobNone, false)
	}
	return un.mergedInto(r.Holder, spec.Tenant, r.Merge)
}

// Follow updates whether a job holds its unique key after a change of its state. Leaving the key's scope frees the key;
// coming back takes it unless another job holds it. A change between two states within the scope, or outside it,
// changes nothing, except for the date of a completed holder.
func (un *Keys) Follow(j *state.JobRow, from rota.JobState) {
	held, holds := j.Spec.Unique.Holds(from), j.Spec.Unique.Holds(j.State)
	if held == holds && from != rota.JobCompleted && j.State != rota.JobCompleted {
		return
	}
	r := un.Rows.Get(string(j.Past.Unique[:]))
	switch mine := r != nil && r.Job == j.Spec.ID; {
	case mine && holds:
		un.keep(un.Rows.Change(r.Key, r), j)
	case mine && !planted.uniqueLeftBehind(j.State):
		un.free(r)
	case r != nil && r.Next == j.Spec.ID && !holds: // it ended before its turn
		un.Rows.Change(r.Key, r).Next = ""
	case r == nil && holds && !held && un.Rows.Len() < limits.MaxUniqueKeys:
		r = un.Rows.Fresh()
		r.Key, r.Job, r.Tenant = string(j.Past.Unique[:]), j.Spec.ID, j.Spec.Tenant
		un.Rows.Insert(r.Key, r)
		un.keep(r, j)
	}
}

// keep sets until when the job holds the key of a row, which is editable.
func (un *Keys) keep(r *state.UniqueRow, j *state.JobRow) {
	until := rota.Date(0)
	if j.State == rota.JobCompleted {
		until = un.s.Header.Date() + rota.Date(j.Spec.Unique.Keep.Milliseconds())
	}
	un.s.Timers.Unique.Refile(r.Key, int64(r.Until), int64(until))
	r.Until = until
}

// Holds returns until when a completed job holds its key, 0 if it does not hold it.
func (un *Keys) Holds(id rota.JobID, key state.UniqueKey) rota.Date {
	if key == (state.UniqueKey{}) {
		return 0
	}
	if r := un.Rows.Get(string(key[:])); r != nil && r.Job == id {
		return r.Until
	}
	return 0
}

// Release frees the key of a job that is deleted.
func (un *Keys) Release(id rota.JobID, key state.UniqueKey) {
	if un.Holds(id, key) != 0 {
		un.free(un.Rows.Get(string(key[:])))
	}
}

// free releases a key: its successor gets it, if there is one.
func (un *Keys) free(r *state.UniqueRow) {
	un.s.Timers.Unique.Refile(r.Key, int64(r.Until), 0)
	if !un.succeed(r) {
		un.Rows.Drop(r.Key)
	}
}

// Fire frees the key of a completed job.
func (un *Keys) Fire(key string) { un.free(un.Rows.Get(key)) }

// Holder returns the job of a queue that holds a key, "" if none does.
func (un *Keys) Holder(key state.UniqueKey, queue rota.QueueName) rota.JobID {
	if key == (state.UniqueKey{}) {
		return ""
	}
	r := un.Rows.Get(string(key[:]))
	if r == nil {
		return ""
	}
	if j := un.s.JobTable.Get(r.Job); j != nil && j.Spec.Queue == queue {
		return r.Job
	}
	if t := un.ports.Tombs.Get(r.Job); t != nil && t.Queue == queue {
		return r.Job
	}
	return ""
}

// Times adds the rows to the timers.
func (un *Keys) Times(t *state.Timers) {
	un.Rows.Scan(func(key string, r *state.UniqueRow) bool {
		t.Unique.Refile(key, 0, int64(r.Until))
		return true
	})
	un.Merged.Scan(func(id rota.JobID, r *state.MergedRow) bool {
		t.Merged.Refile(string(id), 0, int64(r.Seq))
		return true
	})
}

// Check checks that the recorded jobs hold the keys.
func (un *Keys) Check(fault func(format string, args ...any)) {
	if n, merged := un.Rows.Len(), un.Merged.Len(); n > limits.MaxUniqueKeys || merged > limits.MaxMerged {
		fault("I9: %d unique keys are held and %d submissions merged, %d and %d may be", n, merged,
			limits.MaxUniqueKeys, limits.MaxMerged)
	}
	un.Rows.Scan(func(key string, r *state.UniqueRow) bool {
		j := un.s.JobTable.Get(r.Job)
		mine := j != nil && string(j.History().Unique[:]) == key && j.Spec.Tenant == r.Tenant
		if r.Until == 0 && (!mine || !j.Spec.Unique.Holds(j.State)) || r.Until != 0 && mine {
			fault("I4: job %s holds unique key %x until %d, and is not where it would", r.Job, key, r.Until)
		}
		return true
	})
	un.checkSuccessors(fault)
	un.s.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		key := j.History().Unique
		if (key == state.UniqueKey{}) != (j.Spec.Unique == nil) {
			fault("I4: job %s has unique key %x, its spec says %v", id, key, j.Spec.Unique)
		}
		return true
	})
}

// MergedInto returns the job that a submission was merged into, by the id of that submission, while the state remembers
// it.
func (un *Keys) MergedInto(id rota.JobID) (rota.JobID, bool) {
	r := un.Merged.Get(id)
	if r == nil {
		return "", false
	}
	return r.Holder, true
}
