package fsm

import (
	"bytes"
	"unicode/utf8"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// jobRow is one live job. There may be ten million of them, most of which only wait:
// what a job has from its first lease on, or of a workflow, a delay or a tier, stands
// apart in its jobLife.
type jobRow struct {
	rowMeta
	// spec is replaced by a change of the job alone; specHash stands for it in the row's canonical bytes.
	spec     *keptSpec
	specHash rota.Digest
	// jobLife is noLife until own gave it one: fields of it are read as the row's own,
	// and written after own alone.
	*jobLife

	// seq numbers submissions: log order.
	seq           uint64
	submitted     rota.Clock
	enqueued      rota.Clock
	submittedDate rota.Date
	// queuedAt is since when it waits to be placed, for SPEC §7.8: the clock at which
	// it last became QUEUED, or at which a hold of it ended without effect.
	queuedAt rota.Clock
	// expireAbs is the moment of ttl_abs (SPEC §9.3), 0 for never.
	expireAbs rota.Clock
	item      *sched.Item
	// eventIncarnation, eventIndex and eventSeq are the newest event about it, the
	// parent of the next (SPEC §12.1); its parts fill a word where the whole would not.
	eventIncarnation uint64
	eventIndex       rota.Index
	eventSeq         uint32
	// class is derived, as item is: rebuilt on restore, no part of the encoding.
	class      sched.ClassID
	attempt    int32
	state      rota.JobState
	lastReason rota.Reason
}

// jobLife is what most jobs that wait have nothing of.
type jobLife struct {
	// attempts are those of all lives that ended, the newest MaxAttemptsKept.
	attempts []rota.Attempt
	lifeWords
}

// lifeWords is what of a jobLife can be compared.
type lifeWords struct {
	firstLease rota.Moment
	// enqueuedDate is that of the row's enqueued, where it is not that of submission.
	enqueuedDate rota.Date
	// due is when a DELAYED job wakes, on the cluster clock; dueDate when that
	// has passed and a date is still to come.
	due     rota.Clock
	dueDate rota.Date
	// ready is when it would wake if it did not wait for a lease that has outlived its job; 0 where it waits for none.
	ready rota.Clock
	// expireRel is the moment of ttl_rel (SPEC §9.3), 0 for never.
	expireRel rota.Clock
	// lease is the open lease's id. Invariant I1: set exactly when state.Leased().
	lease      rota.LeaseID
	lastError  string
	note       string
	progressAt rota.Clock
	// tier is where it stands in an adaptive queue, since tierAt, in log order by
	// tierSeq (SPEC §10.2); all 0 until it is first QUEUED.
	tierAt  rota.Clock
	tierSeq uint64
	// past is nil for most. It is shared by copies of the row, and never changes.
	past *jobPast
	// workflow and vertex say which node of which workflow it is; none for most.
	workflow rota.WorkflowID

	// data is derived: where its parents' outputs lie, while it is QUEUED.
	data *sched.Data

	declines int32
	// snoozes counts those of this attempt (SPEC §20.3).
	snoozes  int32
	progress int32
	// preempted counts how often it gave way (SPEC §7.9).
	preempted int32
	tier      int32
	vertex    uint32
}

// jobPast is what only a job has that was changed since it was submitted, is unique, is of a batch, or of which its queue keeps
// how long it should take.
type jobPast struct {
	// content is the hash of the spec as it was first submitted (SPEC §16.5).
	content rota.Digest
	// life counts the retries, retried is when the last was (SPEC §16.6).
	life    int32
	retried rota.Moment
	// since is from when its ttl_abs counts where that is not the submission: the last
	// retry, or the later end of what an earlier worker may believe.
	since rota.Clock
	// changes counts the changes in this life (SPEC §21.2).
	changes int32
	// unique is the key that it is unique by, whether it holds it or not (SPEC §18.1).
	unique uniqueKey
	// batch is the number of the batch that counts it, 0 for none (SPEC §24.2).
	batch uint64
	// estimate and part are what was known as it last became QUEUED: how long it should take, where that is learned,
	// in ms, and under smallest the part of all workers that it takes, in millionths; 0 elsewhere (SPEC §26.1, §26.2).
	estimate, part int64
	// losses are the sessions of the workers that were lost under it in this life (SPEC §9.7).
	losses []rota.Session
}

// firstLife is what a job is in that has no jobPast.
var firstLife jobPast

// history returns what was of the job before, as it is to be read.
func (r *jobRow) history() *jobPast {
	if r.past == nil {
		return &firstLife
	}
	return r.past
}

func (p *jobPast) canonical(e *encoder) {
	e.bool(p != nil)
	if p != nil {
		e.digest(p.content)
		e.int(int64(p.life))
		e.moment(p.retried)
		e.int(int64(p.since))
		e.int(int64(p.changes))
		e.b = append(e.b, p.unique[:]...)
		e.uint(p.batch)
	}
}

func decodePast(d *decoder) *jobPast {
	if !d.bool() {
		return nil
	}
	p := &jobPast{content: d.digest(), life: int32(d.int()), retried: d.moment(), since: rota.Clock(d.int()),
		changes: int32(d.int())}
	copy(p.unique[:], d.raw(uint64(len(p.unique))))
	p.batch = d.uint()
	return p
}

// noLife is what all jobs share that have no jobLife of their own. It stays empty
// (checker.lives).
var noLife = new(jobLife)

// detach makes the jobLife of a row's copy its own, so that the row in a frozen copy
// of the table keeps what it says.
func (r *jobRow) detach() {
	if r.jobLife != noLife {
		life := *r.jobLife
		r.jobLife = &life
	}
}

// submittedAt and enqueuedAt are those moments by both times.
func (r *jobRow) submittedAt() rota.Moment {
	return rota.Moment{Clock: r.submitted, Date: r.submittedDate}
}

func (r *jobRow) enqueuedAt() rota.Moment {
	if r.enqueuedDate != 0 {
		return rota.Moment{Clock: r.enqueued, Date: r.enqueuedDate}
	}
	return r.submittedAt().At(r.enqueued)
}

// firstContent is the hash of the spec as it was first submitted.
func (r *jobRow) firstContent() rota.Digest {
	if r.past != nil {
		return r.past.content
	}
	return r.specHash
}

func (r *jobRow) lastEvent() rota.EventID {
	return rota.EventID{Incarnation: r.eventIncarnation, Index: r.eventIndex, Seq: r.eventSeq}
}

func (r *jobRow) setLastEvent(id rota.EventID) {
	r.eventIncarnation, r.eventIndex, r.eventSeq = id.Incarnation, id.Index, id.Seq
}

func (r *jobRow) canonical(e *encoder) {
	e.str(string(r.spec.ID))
	e.digest(r.specHash)
	e.uint(uint64(r.state))
	e.int(int64(r.attempt))
	e.int(int64(r.declines))
	e.int(int64(r.snoozes))
	e.uint(r.seq)
	e.int(int64(r.submitted))
	e.int(int64(r.enqueued))
	e.moment(r.firstLease)
	e.int(int64(r.enqueuedDate))
	e.int(int64(r.due))
	e.int(int64(r.dueDate))
	e.int(int64(r.submittedDate))
	e.int(int64(r.expireAbs))
	e.int(int64(r.expireRel))
	e.b = append(e.b, r.lease[:]...)
	e.uint(uint64(r.lastReason))
	e.str(r.lastError)
	e.int(int64(r.progress))
	e.str(r.note)
	e.int(int64(r.progressAt))
	encodeAttempts(e, r.attempts)
	e.int(int64(r.queuedAt))
	e.int(int64(r.tier))
	e.int(int64(r.tierAt))
	e.uint(r.tierSeq)
	e.int(int64(r.preempted))
	e.eventID(r.lastEvent())
	e.str(string(r.workflow))
	e.uint(uint64(r.vertex))
	r.past.canonical(e)
	if headers, _ := r.spec.split(); len(headers) > 0 { // specHash says nothing of them
		e.digest(hashBytes(headers))
	}
	if h := r.history(); h.estimate|h.part != 0 || len(h.losses) > 0 || r.ready != 0 { // never by rules version 1
		e.int(h.estimate)
		e.int(h.part)
		e.uint(uint64(len(h.losses)))
		for _, s := range h.losses {
			e.uint(uint64(s))
		}
		if r.ready != 0 {
			e.int(int64(r.ready))
		}
	}
}

func decodeJob(d *decoder) *jobRow {
	var life jobLife
	r := &jobRow{spec: decodeSpec(d), jobLife: noLife}
	r.specHash = hashSpec(d.specs.encoder(), r.spec)
	if string(d.raw(d.uint())) != string(r.spec.ID) || d.digest() != r.specHash {
		d.fail()
	}
	r.state = rota.JobState(d.enum(uint64(rota.JobRunning)))
	r.attempt = int32(d.int())
	life.declines = int32(d.int())
	life.snoozes = int32(d.int())
	r.seq = d.uint()
	r.submitted = rota.Clock(d.int())
	r.enqueued = rota.Clock(d.int())
	life.firstLease = d.moment()
	life.enqueuedDate = rota.Date(d.int())
	life.due = rota.Clock(d.int())
	life.dueDate = rota.Date(d.int())
	r.submittedDate = rota.Date(d.int())
	r.expireAbs = rota.Clock(d.int())
	life.expireRel = rota.Clock(d.int())
	life.lease = d.leaseID()
	r.lastReason = rota.Reason(d.enum(uint64(rota.ReasonLast)))
	life.lastError = d.str()
	life.progress = int32(d.int())
	life.note = d.str()
	life.progressAt = rota.Clock(d.int())
	life.attempts = decodeAttempts(d)
	r.queuedAt = rota.Clock(d.int())
	life.tier = int32(d.int())
	life.tierAt = rota.Clock(d.int())
	life.tierSeq = d.uint()
	life.preempted = int32(d.int())
	r.setLastEvent(d.eventID())
	life.workflow = rota.WorkflowID(d.str())
	life.vertex = uint32(d.enum(rota.MaxWorkflowNodes - 1))
	life.past = decodePast(d)
	if headers, _ := r.spec.split(); len(headers) > 0 && d.digest() != hashBytes(headers) {
		d.fail()
	}
	if len(d.b) > 0 {
		estimate, part := d.int(), d.int()
		var losses []rota.Session
		for range d.count(rota.MaxWorkerLosses) {
			losses = append(losses, rota.Session(d.uint()))
		}
		if len(d.b) > 0 {
			if life.ready = rota.Clock(d.int()); life.ready <= 0 {
				d.fail()
			}
		}
		switch kept := estimate|part != 0 || losses != nil; {
		case !kept && life.ready == 0 || kept && life.past == nil:
			d.fail()
		case kept:
			life.past.estimate, life.past.part, life.past.losses = estimate, part, losses
		}
	}
	if !life.empty() {
		kept := life
		r.jobLife = &kept
	}
	return r
}

// empty reports whether a jobLife says nothing.
func (l *jobLife) empty() bool { return len(l.attempts) == 0 && l.lifeWords == lifeWords{} }

// revived reports whether a retry brought the job back and nothing happened since. A reason
// without any lease in this life can only come from an earlier one.
func (r *jobRow) revived() bool { return r.firstLease.IsZero() && r.lastReason != rota.ReasonNone }

// ask is what a job asks of its worker.
func (r *jobRow) ask() sched.Ask { return sched.Ask{Class: r.class, Tenant: r.spec.Tenant} }

// disprove notes at the attempt that completed the job that its proof was invalid.
func (r *jobRow) disprove(t *tombRow, text string) {
	for i := range r.attempts {
		if a := &r.attempts[i]; a.Lease == t.lease {
			a.End, a.Error = rota.ReasonProofInvalid, tail(text, limits.MaxErrorBytes)
			return
		}
	}
	last := rota.Attempt{Number: t.attempt, Life: t.life, Worker: t.worker, Lease: t.lease, Ended: t.finished,
		End: rota.ReasonProofInvalid, Error: text, Log: t.logged}
	r.attempts = append(r.attempts[max(0, len(r.attempts)+1-limits.MaxAttemptsKept):], last)
}

// givesWay reports whether a job's leases may be ended for a critical one.
func (r *jobRow) givesWay() bool { return r.spec.Priority >= limits.BackgroundPriority }

// isolated reports whether a job runs alone on its worker.
func (r *jobRow) isolated() bool { return len(r.history().losses) >= limits.IsolateAfter }

// tail keeps the last most bytes of a text, valid UTF-8.
func tail(s string, most int) string {
	if len(s) > most {
		s = s[len(s)-most:]
	}
	if utf8.ValidString(s) {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s), []byte("?")))
}
