package state

import (
	"bytes"
	"unicode/utf8"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// JobRow is one live job. There may be ten million of them, most of which are pending. The data that a job only has
// from its first lease on, or in a workflow, a delay or a tier, is therefore in its jobLife.
type JobRow struct {
	RowMeta
	// Spec is replaced only by a change of the job; its hash, specHash, replaces it in the row's canonical bytes.
	Spec     *KeptSpec
	SpecHash rota.Digest
	// jobLife is noLife until own creates one. Its fields are read as the row's own, and written only after own.
	*JobLife

	// Seq numbers submissions in log order.
	Seq           uint64
	Submitted     rota.Clock
	Enqueued      rota.Clock
	SubmittedDate rota.Date
	// QueuedAt is when it began to wait for placement (SPEC §7.8): the clock at which it last became QUEUED, or at
	// which a hold of it ended without effect.
	QueuedAt rota.Clock
	// ExpireAbs is the time of ttl_abs (SPEC §9.3), 0 for never.
	ExpireAbs rota.Clock
	Item      *sched.Item
	// eventIncarnation, eventIndex and eventSeq identify its newest event, the parent of the next (SPEC §12.1). As
	// separate fields they fill a word, which the whole id would not.
	eventIncarnation uint64
	eventIndex       rota.Index
	eventSeq         uint32
	// Class and item are derived: rebuilt on restore, not part of the encoding.
	Class      sched.ClassID
	Attempt    int32
	State      rota.JobState
	LastReason rota.Reason
}

// JobLife holds the data that most pending jobs do not have.
type JobLife struct {
	// Attempts are those of all lives that ended, the newest MaxAttemptsKept.
	Attempts []rota.Attempt
	LifeWords
}

// LifeWords holds the fields of a JobLife that == can compare.
type LifeWords struct {
	FirstLease rota.Moment
	// EnqueuedDate is the date of the row's enqueued, if it differs from that of submission.
	EnqueuedDate rota.Date
	// Due is when a DELAYED job wakes, on the cluster clock; dueDate is set once that has passed and a date is still to
	// come.
	Due     rota.Clock
	DueDate rota.Date
	// Ready is when the job would wake if it did not wait for a lease that outlived it; 0 if it waits for none.
	Ready rota.Clock
	// ExpireRel is the time of ttl_rel (SPEC §9.3), 0 for never.
	ExpireRel rota.Clock
	// Lease is the open lease's id. Invariant I1: set exactly when state.Leased().
	Lease      rota.LeaseID
	LastError  string
	Note       string
	ProgressAt rota.Clock
	// tier is its tier in an adaptive queue, entered at tierAt, in log order by tierSeq (SPEC §10.2); all are 0 until
	// it is first QUEUED.
	TierAt  rota.Clock
	TierSeq uint64
	// Past is nil for most. Copies of the row share it, and it never changes.
	Past *JobPast
	// Workflow and vertex identify the workflow node that it runs; empty for most.
	Workflow rota.WorkflowID

	// Data is derived: the workers that hold its parents' outputs, while it is QUEUED.
	Data *sched.Data

	Declines int32
	// Snoozes counts the snoozes of this attempt (SPEC §20.3).
	Snoozes  int32
	Progress int32
	// Preempted counts how often it was preempted (SPEC §7.9).
	Preempted int32
	Tier      int32
	Vertex    uint32
}

// JobPast holds the data of a job that was changed since submission, is unique, is in a batch, or has an estimate that
// its queue stores.
type JobPast struct {
	// Content is the hash of the spec as first submitted (SPEC §16.5).
	Content rota.Digest
	// Life counts the retries; retried is when the last one was (SPEC §16.6).
	Life    int32
	Retried rota.Moment
	// Since is when its ttl_abs starts if that is not the submission: at the last retry, or later, when an earlier
	// worker can no longer believe in its lease.
	Since rota.Clock
	// Changes counts the changes in this life (SPEC §21.2).
	Changes int32
	// Unique is the job's unique key, whether it holds it or not (SPEC §18.1).
	Unique UniqueKey
	// Batch is the number of the batch that counts it, 0 for none (SPEC §24.2).
	Batch uint64
	// Estimate and part were set when it last became QUEUED: its learned duration in ms, and under smallest the part of
	// all workers that it uses, in millionths; 0 elsewhere (SPEC §26.1, §26.2).
	Estimate, Part int64
	// Losses are the sessions of the workers that were lost while running it in this life (SPEC §9.7).
	Losses []rota.Session
	// Spent is what the attempts that ended have reported, over all lives (SPEC §30.1). It never changes.
	Spent rota.Costs
}

// firstLife is the past of a job without a jobPast.
var firstLife JobPast

// History returns the job's past, read-only.
func (r *JobRow) History() *JobPast {
	if r.Past == nil {
		return &firstLife
	}
	return r.Past
}

func (p *JobPast) canonical(e *Encoder) {
	e.Bool(p != nil)
	if p != nil {
		e.digest(p.Content)
		e.Int(int64(p.Life))
		e.Moment(p.Retried)
		e.Int(int64(p.Since))
		e.Int(int64(p.Changes))
		e.B = append(e.B, p.Unique[:]...)
		e.Uint(p.Batch)
	}
}

func decodePast(d *Decoder) *JobPast {
	if !d.Bool() {
		return nil
	}
	p := &JobPast{Content: d.digest(), Life: int32(d.Int()), Retried: d.Moment(), Since: rota.Clock(d.Int()),
		Changes: int32(d.Int())}
	copy(p.Unique[:], d.raw(uint64(len(p.Unique))))
	p.Batch = d.Uint()
	return p
}

// NoLife is shared by all jobs without a jobLife of their own. It stays empty (checker.lives).
var NoLife = new(JobLife)

// Detach gives a row's copy its own jobLife, so that the row in a frozen copy of the table does not change.
func (r *JobRow) Detach() {
	if r.JobLife != NoLife {
		life := *r.JobLife
		r.JobLife = &life
	}
}

// SubmittedAt returns the moment of submission as clock and date.
func (r *JobRow) SubmittedAt() rota.Moment {
	return rota.Moment{Clock: r.Submitted, Date: r.SubmittedDate}
}

// EnqueuedAt returns the moment since which the job waits.
func (r *JobRow) EnqueuedAt() rota.Moment {
	if r.EnqueuedDate != 0 {
		return rota.Moment{Clock: r.Enqueued, Date: r.EnqueuedDate}
	}
	return r.SubmittedAt().At(r.Enqueued)
}

// FirstContent returns the hash of the spec as first submitted.
func (r *JobRow) FirstContent() rota.Digest {
	if r.Past != nil {
		return r.Past.Content
	}
	return r.SpecHash
}

// LastEvent returns the id of the newest event of the job.
func (r *JobRow) LastEvent() rota.EventID {
	return rota.EventID{Incarnation: r.eventIncarnation, Index: r.eventIndex, Seq: r.eventSeq}
}

func (r *JobRow) setLastEvent(id rota.EventID) {
	r.eventIncarnation, r.eventIndex, r.eventSeq = id.Incarnation, id.Index, id.Seq
}

// Canonical appends the canonical form for digests and snapshots.
func (r *JobRow) Canonical(e *Encoder) {
	e.Str(string(r.Spec.ID))
	e.digest(r.SpecHash)
	e.Uint(uint64(r.State))
	e.Int(int64(r.Attempt))
	e.Int(int64(r.Declines))
	e.Int(int64(r.Snoozes))
	e.Uint(r.Seq)
	e.Int(int64(r.Submitted))
	e.Int(int64(r.Enqueued))
	e.Moment(r.FirstLease)
	e.Int(int64(r.EnqueuedDate))
	e.Int(int64(r.Due))
	e.Int(int64(r.DueDate))
	e.Int(int64(r.SubmittedDate))
	e.Int(int64(r.ExpireAbs))
	e.Int(int64(r.ExpireRel))
	e.B = append(e.B, r.Lease[:]...)
	e.Uint(uint64(r.LastReason))
	e.Str(r.LastError)
	e.Int(int64(r.Progress))
	e.Str(r.Note)
	e.Int(int64(r.ProgressAt))
	EncodeAttempts(e, r.Attempts)
	e.Int(int64(r.QueuedAt))
	e.Int(int64(r.Tier))
	e.Int(int64(r.TierAt))
	e.Uint(r.TierSeq)
	e.Int(int64(r.Preempted))
	e.eventID(r.LastEvent())
	e.Str(string(r.Workflow))
	e.Uint(uint64(r.Vertex))
	r.Past.canonical(e)
	if headers, _ := r.Spec.Split(); len(headers) > 0 { // specHash does not cover them
		e.digest(HashBytes(headers))
	}
	h := r.History()
	if h.Estimate|h.Part != 0 || len(h.Losses) > 0 || r.Ready != 0 || len(h.Spent) > 0 { // never under rules version 1
		e.Int(h.Estimate)
		e.Int(h.Part)
		e.Uint(uint64(len(h.Losses)))
		for _, s := range h.Losses {
			e.Uint(uint64(s))
		}
		if r.Ready != 0 || len(h.Spent) > 0 {
			e.Int(int64(r.Ready))
		}
		if len(h.Spent) > 0 {
			encodeLimits(e, h.Spent)
		}
	}
}

// DecodeJob reads what Canonical wrote.
func DecodeJob(d *Decoder) *JobRow {
	var life JobLife
	r := &JobRow{Spec: decodeSpec(d), JobLife: NoLife}
	r.SpecHash = HashSpec(d.Specs.encoder(), r.Spec)
	if string(d.raw(d.Uint())) != string(r.Spec.ID) || d.digest() != r.SpecHash {
		d.Fail()
	}
	r.State = rota.JobState(d.Enum(uint64(rota.JobRunning)))
	r.Attempt = int32(d.Int())
	life.Declines = int32(d.Int())
	life.Snoozes = int32(d.Int())
	r.Seq = d.Uint()
	r.Submitted = rota.Clock(d.Int())
	r.Enqueued = rota.Clock(d.Int())
	life.FirstLease = d.Moment()
	life.EnqueuedDate = rota.Date(d.Int())
	life.Due = rota.Clock(d.Int())
	life.DueDate = rota.Date(d.Int())
	r.SubmittedDate = rota.Date(d.Int())
	r.ExpireAbs = rota.Clock(d.Int())
	life.ExpireRel = rota.Clock(d.Int())
	life.Lease = d.leaseID()
	r.LastReason = rota.Reason(d.Enum(uint64(rota.ReasonLast)))
	life.LastError = d.Str()
	life.Progress = int32(d.Int())
	life.Note = d.Str()
	life.ProgressAt = rota.Clock(d.Int())
	life.Attempts = DecodeAttempts(d)
	r.QueuedAt = rota.Clock(d.Int())
	life.Tier = int32(d.Int())
	life.TierAt = rota.Clock(d.Int())
	life.TierSeq = d.Uint()
	life.Preempted = int32(d.Int())
	r.setLastEvent(d.eventID())
	life.Workflow = rota.WorkflowID(d.Str())
	life.Vertex = uint32(d.Enum(rota.MaxWorkflowNodes - 1))
	life.Past = decodePast(d)
	if headers, _ := r.Spec.Split(); len(headers) > 0 && d.digest() != HashBytes(headers) {
		d.Fail()
	}
	if len(d.B) > 0 {
		estimate, part := d.Int(), d.Int()
		var losses []rota.Session
		for range d.Count(rota.MaxWorkerLosses) {
			losses = append(losses, rota.Session(d.Uint()))
		}
		var spent rota.Costs
		if len(d.B) > 0 {
			life.Ready = rota.Clock(d.Int())
			spent = decodeSpent(d)
			if life.Ready < 0 || life.Ready == 0 && spent == nil {
				d.Fail()
			}
		}
		switch kept := estimate|part != 0 || losses != nil || spent != nil; {
		case !kept && life.Ready == 0 || kept && life.Past == nil:
			d.Fail()
		case kept:
			life.Past.Estimate, life.Past.Part, life.Past.Losses, life.Past.Spent = estimate, part, losses, spent
		}
	}
	if !life.Empty() {
		kept := life
		r.JobLife = &kept
	}
	return r
}

// Empty reports whether a jobLife holds no data.
func (l *JobLife) Empty() bool { return len(l.Attempts) == 0 && l.LifeWords == LifeWords{} }

// Revived reports whether a retry brought the job back and nothing happened since. A reason without a lease in this
// life can only come from an earlier life.
func (r *JobRow) Revived() bool { return r.FirstLease.IsZero() && r.LastReason != rota.ReasonNone }

// Ask returns what the job requires of its worker.
func (r *JobRow) Ask() sched.Ask { return sched.Ask{Class: r.Class, Tenant: r.Spec.Tenant} }

// Disprove records at the attempt that completed the job that its proof was invalid.
func (r *JobRow) Disprove(t *TombRow, text string) {
	for i := range r.Attempts {
		if a := &r.Attempts[i]; a.Lease == t.Lease {
			a.End, a.Error = rota.ReasonProofInvalid, Tail(text, limits.MaxErrorBytes)
			return
		}
	}
	last := rota.Attempt{Number: t.Attempt, Life: t.Life, Worker: t.Worker, Lease: t.Lease, Ended: t.Finished,
		End: rota.ReasonProofInvalid, Error: text, Log: t.Logged}
	r.Attempts = append(r.Attempts[max(0, len(r.Attempts)+1-limits.MaxAttemptsKept):], last)
}

// GivesWay reports whether a critical job may preempt the job's leases.
func (r *JobRow) GivesWay() bool { return r.Spec.Priority >= limits.BackgroundPriority }

// Isolated reports whether a job runs alone on its worker.
func (r *JobRow) Isolated() bool { return len(r.History().Losses) >= limits.IsolateAfter }

// Tail returns the last `most` bytes of a text as valid UTF-8.
func Tail(s string, most int) string {
	if len(s) > most {
		s = s[len(s)-most:]
	}
	if utf8.ValidString(s) {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s), []byte("?")))
}
