package fsm

import (
	"math/bits"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/sched"
	"github.com/zeebo/xxh3"
)

// jobRow is one live job. There may be ten million of them, most of which only wait:
// what a job has from its first lease on, or of a workflow, a delay or a tier, stands
// apart in its jobLife.
type jobRow struct {
	rowMeta
	// spec gives way to another by a change alone; specHash stands for it in the row's canonical bytes.
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

	// freeAt is for its end alone, no part of the encoding: until when the worker of a
	// lease that was cancelled may go on believing in it.
	freeAt rota.Clock
	// data is derived: where its parents' outputs lie, while it is QUEUED.
	data *sched.Data

	declines int32
	progress int32
	// preempted counts how often it gave way (SPEC §7.9).
	preempted int32
	tier      int32
	vertex    uint32
}

// jobPast is what only a job has that was changed since it was submitted.
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
	}
}

func decodePast(d *decoder) *jobPast {
	if !d.bool() {
		return nil
	}
	return &jobPast{content: d.digest(), life: int32(d.int()), retried: d.moment(), since: rota.Clock(d.int()),
		changes: int32(d.int())}
}

// noLife is what all jobs share that have no jobLife of their own. It stays empty
// (checker.lives).
var noLife = new(jobLife)

// detach gives a copy of a row a jobLife of its own, so that the row in a frozen copy
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

// keptSpec is a job's spec as rows hold it: what every job says for itself, and all
// else, which most jobs leave out or say as others do, behind a pointer that many share. A
// whole rota.JobSpec was more than the payload of most jobs. It never changes, nor does
// what it shares.
type keptSpec struct {
	ID      rota.JobID
	Payload rota.Blob
	*sharedSpec
}

// sharedSpec has the fields of a spec that many jobs share; id and payload are empty in it.
type sharedSpec struct {
	rota.JobSpec
	// restBytes counts the bytes of their canonical form.
	restBytes int64
}

// specs keeps specs. What they say beside id and payload stands in shared, where a later
// one may find that it says the same; one that does not takes its place. It shows nowhere but
// in the memory that rows take.
type specs struct {
	shared [specsShared]*sharedSpec
	// last is what was found last: most say the same as the one before.
	last *sharedSpec
	// room is for the submission at hand, enc for hashing one that is read.
	room rota.JobSpec
	enc  encoder
}

func (k *specs) encoder() *encoder {
	if k == nil {
		return &encoder{}
	}
	return &k.enc
}

// specsShared is how many different ones can be found again: jobs of so many tenants and
// types come in any order.
const specsShared = 1 << 10

// read is specWords into room that the next one takes again.
func (k *specs) read(p *fsmpb.JobSpec) *rota.JobSpec {
	entry.ReadSpec(&k.room, p)
	return &k.room
}

// keep gives a spec the form that rows hold. Slices and maps are shared with s.
func (k *specs) keep(s *rota.JobSpec) *keptSpec {
	kept := &keptSpec{ID: s.ID, Payload: s.Payload}
	if k == nil {
		kept.sharedSpec = restOf(&encoder{}, s)
		return kept
	}
	if k.last == nil || !saysAlike(s, &k.last.JobSpec) {
		at := &k.shared[place(s)]
		if *at == nil || !saysAlike(s, &(*at).JobSpec) {
			*at = restOf(&k.enc, s)
		}
		k.last = *at
	}
	kept.sharedSpec = k.last
	return kept
}

// content is the hash of all that a submitter says of a job (SPEC §16.5).
func (k *specs) content(s *rota.JobSpec) rota.Digest {
	return hashSpec(k.encoder(), &keptSpec{ID: s.ID, Payload: s.Payload, sharedSpec: &sharedSpec{JobSpec: *s}})
}

// size counts the bytes of a spec's canonical form.
func (k *specs) size(s *rota.JobSpec) int64 {
	k.enc.b = k.enc.b[:0]
	encodeSpec(&k.enc, &keptSpec{ID: s.ID, sharedSpec: &sharedSpec{JobSpec: *s}})
	return int64(len(k.enc.b)) - textBytes(0) + textBytes(len(s.Payload))
}

// ContentOf returns the hash by which a submission is known again, as Ended has it.
func ContentOf(p *fsmpb.JobSpec) rota.Digest {
	var k specs
	return k.content(entry.SpecWords(p))
}

func restOf(e *encoder, s *rota.JobSpec) *sharedSpec {
	rest := &sharedSpec{JobSpec: *s}
	rest.ID, rest.Payload, rest.Minted = "", nil, false
	e.b = e.b[:0]
	encodeSpec(e, &keptSpec{sharedSpec: rest})
	rest.restBytes = int64(len(e.b)) - 2*textBytes(0)
	return rest
}

// place is where a spec looks for one that says the same.
func place(s *rota.JobSpec) uint64 {
	h := xxh3.HashString(string(s.Tenant))
	for _, v := range [...]uint64{xxh3.HashString(string(s.Type)), xxh3.HashString(string(s.Queue)), uint64(s.Priority),
		uint64(s.Fee), uint64(s.CPUMilli), uint64(s.MemoryBytes), uint64(s.IOBytesPerS), uint64(s.Units)} {
		h = (h ^ v) * 0x9e3779b97f4a7c15
	}
	return h >> 54 % specsShared
}

// words is the inverse of keep.
func (s *keptSpec) words() rota.JobSpec {
	w := s.JobSpec
	w.ID, w.Payload = s.ID, s.Payload
	return w
}

// bytes counts those of a spec's canonical form, without encoding it anew.
func (s *keptSpec) bytes() int64 {
	return s.restBytes + textBytes(len(s.ID)) + textBytes(len(s.Payload))
}

// textBytes counts those of a text of n bytes, with its length before it.
func textBytes(n int) int64 { return int64(n + (bits.Len64(uint64(n)|1)+6)/7) }
