package fsm

import (
	"math"
	"unicode/utf8"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/keys"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/internal/unique"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/internal/limits"
	"github.com/tidwall/btree"
)

// staging holds the full records of terminal jobs on their way to the node's archive (SPEC §10.5), by seq, which is
// dense. It is outside the digest, and no verb reads it: nodes flush at different times.
type staging struct {
	records btree.Map[uint64, *state.Record]
	bytes   int64
	// loose is derived: the records without a tombstone.
	loose looseRecords
	// queues is derived: the number of records per queue.
	queues state.CountsBy[rota.QueueName]
	// dropped counts the records removed from memory without archiving, because the archive did not keep up.
	dropped uint64
	// added counts the bytes of everything ever staged here. Its value differs between nodes; its growth in an entry
	// does not.
	added int64
}

func (s *staging) load(r *state.Record) (fresh bool) {
	if _, had := s.records.Get(r.Seq); had {
		return false
	}
	s.put(r)
	return true
}

// put stages a record whose number is free, and returns its bytes.
func (s *staging) put(r *state.Record) int64 {
	n := r.Bytes()
	s.records.Set(r.Seq, r)
	s.bytes += n
	s.queues.Add(r.Spec.Queue, 1)
	return n
}

func (s *staging) drop(seq uint64) bool {
	r, ok := s.records.Delete(seq)
	if ok {
		s.bytes -= r.Bytes()
		s.queues.Add(r.Spec.Queue, -1)
		s.loose.Delete(looseRecord{r.Spec.ID, seq})
	}
	return ok
}

// add stages a record. Beyond RecordBytesCap it drops the oldest: their tombstones stay, other nodes may have them, and
// dropped counts them.
func (s *staging) add(r *state.Record) {
	s.added += s.put(r)
	for s.bytes > limits.RecordBytesCap && s.records.Len() > 1 {
		oldest, _, _ := s.records.Min()
		s.drop(oldest)
		s.dropped++
	}
}

// looseRecord identifies a staged record whose tombstone was dropped, and its job: only this index finds it by id.
type looseRecord struct {
	id  rota.JobID
	seq uint64
}

type looseRecords struct{ *btree.BTreeG[looseRecord] }

func newLooseRecords() looseRecords {
	return looseRecords{btree.NewBTreeGOptions(func(a, b looseRecord) bool {
		if a.id != b.id {
			return a.id < b.id
		}
		return a.seq < b.seq
	}, btree.Options{NoLocks: true})}
}

// newest returns the greatest number of a job's records for which fits is true, 0 if there is none.
func (l looseRecords) newest(id rota.JobID, fits func(seq uint64) bool) (seq uint64) {
	l.Descend(looseRecord{id, math.MaxUint64}, func(r looseRecord) bool {
		if r.id == id && fits(r.seq) {
			seq = r.seq
		}
		return r.id == id && seq == 0
	})
	return seq
}

// StagedRecord is a terminal job that waits for the archive. It never changes, so it can be encoded and written while
// entries are applied.
type StagedRecord struct {
	Seq uint64
	ID  rota.JobID
	rec *state.Record
}

// Append appends the one encoding of the record, which DecodeEnded reads.
func (s StagedRecord) Append(b []byte) []byte {
	e := state.Encoder{B: b}
	encodeEnded(&e, s.rec)
	return e.B
}

// Mark returns the data that lists and retention need, without encoding the record.
func (s StagedRecord) Mark() (m Mark, ended rota.Date) {
	t := s.rec.Ended.Row()
	return Mark{ID: t.ID, Seq: t.Seq, Queue: t.Queue, Tenant: t.Tenant, Type: t.Typ, State: t.State}, t.Finished.Date
}

// Ended returns the record in its public form.
func (s StagedRecord) Ended() Ended { return wordsOf(s.rec) }

// Staged returns the oldest staged records: at most limit, about maxBytes in size, and at least one if there is any.
func (vw *View) Staged(limit int, maxBytes int64) []StagedRecord {
	list := make([]StagedRecord, 0, min(limit, vw.m.ended.staged.records.Len()))
	vw.m.ended.staged.records.Scan(func(seq uint64, r *state.Record) bool {
		if maxBytes -= r.Bytes(); len(list) >= limit || maxBytes < 0 && len(list) > 0 {
			return false
		}
		list = append(list, StagedRecord{seq, r.Spec.ID, r})
		return true
	})
	return list
}

// Archived drops records that are on disk. It ignores numbers that are not staged: a flush may be repeated.
func (vw *View) Archived(seqs []uint64) {
	for _, seq := range seqs {
		vw.m.ended.staged.drop(seq)
	}
}

// Staging describes the records that wait for the archive.
type Staging struct {
	// Records and Bytes are in memory. Dropped counts the records dropped since this machine began, because the archive
	// did not keep up.
	Records int
	Bytes   int64
	Dropped uint64
	// Last is the number of the newest terminal job, Oldest that of the oldest staged one, 0 for none; Since is when
	// the oldest staged one ended.
	Last, Oldest uint64
	Since        rota.Clock
}

// Staging describes the records that wait for the archive.
func (vw *View) Staging() Staging {
	s := Staging{Records: vw.m.ended.staged.records.Len(), Bytes: vw.m.ended.staged.bytes,
		Dropped: vw.m.ended.staged.dropped, Last: vw.m.Header.TombSeq}
	if seq, r, ok := vw.m.ended.staged.records.Min(); ok {
		s.Oldest, s.Since = seq, r.Ended.Row().Finished.Clock
	}
	return s
}

// StagedJob returns the staged record of a terminal job: the one that its tombstone names, or, if retention dropped the
// tombstone first, the newest with that id. A deleted record does not count, and hides those of the job's earlier
// lives.
func (vw *View) StagedJob(id rota.JobID) (s StagedRecord, ok bool) {
	if t := vw.m.ended.tombs.Get(id); t != nil {
		r, ok := vw.m.ended.staged.records.Get(t.Seq)
		return StagedRecord{t.Seq, id, r}, ok
	}
	if vw.m.JobTable.Get(id) != nil {
		return s, false
	}
	seq := vw.m.ended.staged.loose.newest(id, func(uint64) bool { return true })
	if vw.Deleted(seq) {
		return s, false
	}
	r, ok := vw.m.ended.staged.records.Get(seq)
	return StagedRecord{seq, id, r}, ok
}

// Tombstone returns what the state remembers of a terminal job: its number, and whether retention or the cap may drop
// it within moments, so that an entry proposed now may no longer find it. ok is false if there is none.
func (vw *View) Tombstone(id rota.JobID) (seq uint64, fading, ok bool) {
	t := vw.m.ended.tombs.Get(id)
	if t == nil {
		return 0, false, false
	}
	const moments, near = rota.Date(60_000), 100_000
	fading = t.Due <= vw.m.Header.Date()+moments ||
		vw.m.ended.tombs.Len() > limits.TombstoneCap-near && vw.m.ended.tombs.Order.Before(t.Seq, near) < near
	return t.Seq, fading, true
}

// Forgetful reports whether a tombstone was ever dropped: only then may an id without job and tombstone have been known
// before (SPEC §9.4).
func (vw *View) Forgetful() bool { return vw.m.Header.DroppedTombs > 0 }

// remembered returns the date until which a job that ends now in a queue is remembered: until its gc_horizon has
// passed, and until freeAt, a clock time before which a worker may still be working on it, 0 for none. A change of the
// horizon moves no date (SPEC §9.4).
func (ed *ended) remembered(queue rota.QueueName, freeAt rota.Clock) rota.Date {
	horizon := rota.Clock(ed.s.QueueTable.Get(queue).Policy.GCHorizonMs)
	return ed.s.Header.Now().At(max(ed.s.Header.Clock+horizon, freeAt)).Date
}

// dropTomb drops a tombstone. If its record is still waiting for the archive, it is indexed by id from then on.
func (ed *ended) dropTomb(id rota.JobID, seq uint64) {
	ed.tombs.Drop(id, seq)
	if _, ok := ed.staged.records.Get(seq); ok {
		ed.staged.loose.Set(looseRecord{id, seq})
	}
}

// evictTombs drops the oldest tombstones beyond most, whatever their dates: those of a long horizon do not displace the
// newest of others (SPEC §9.4).
func (ed *ended) evictTombs(most int) {
	for ed.tombs.Len() > most {
		seq, oldest, ok := ed.tombs.Order.First()
		if !ok {
			return
		}
		ed.dropTomb(oldest, seq)
		ed.s.Header.DroppedTombs++
	}
}

// WithTombstone merges the state's tombstone of a terminal job into its archived form: a proof rejected since then
// changes the tombstone.
func WithTombstone(archived, tomb rota.Job) rota.Job {
	archived.State, archived.Reason = tomb.State, tomb.Reason
	return archived
}

// Ended is a terminal job as stored in an archive.
type Ended struct {
	Seq uint64
	// Content is the hash of the job as first submitted (SPEC §16.5), as ContentOf returns it.
	Content rota.Digest
	Job     rota.Job
}

// Again answers a submission of the id: equal content is a repetition, different content is refused (SPEC §16.5). If
// the record is lost, only the state is returned.
func (e *Ended) Again(spec *fsmpb.JobSpec) *fsmpb.Outcome {
	return againOutcome(rota.JobID(spec.GetId()), e.Job.State, e.Content == (rota.Digest{}) ||
		e.Content == state.ContentOf(spec))
}

// encodeEnded writes a complete terminal job: its tombstone, then its record.
func encodeEnded(e *state.Encoder, r *state.Record) {
	e.B = append(e.B, r.Ended...)
	state.EncodeRecord(e, r)
}

func decodeEnded(d *state.Decoder) *state.Record {
	t := state.DecodeTomb(d)
	r := state.DecodeRecord(d)
	r.Seq, r.Ended = t.Seq, t.Keep(&state.Encoder{}, nil)
	if s := r.Spec; s.ID != t.ID || s.Queue != t.Queue || s.Type != t.Typ || s.Tenant != t.Tenant ||
		!t.State.Terminal() {
		d.Fail()
	}
	return r
}

// DecodeEnded reads what StagedRecord.Append wrote. Any other bytes are an error.
func DecodeEnded(b []byte) (Ended, error) {
	d := &state.Decoder{B: b}
	r := decodeEnded(d)
	if err := d.Done(); err != nil {
		return Ended{}, err
	}
	return wordsOf(r), nil
}

// DecodeMark reads the data that lists and retention need from what StagedRecord.Append wrote, without decoding all of
// it.
func DecodeMark(b []byte) (m Mark, err error) {
	d := &state.Decoder{B: b}
	t := state.DecodeTomb(d)
	return Mark{ID: t.ID, Seq: t.Seq, Queue: t.Queue, Tenant: t.Tenant, Type: t.Typ, State: t.State}, d.Err
}

// isDeleted reports whether a number is in one of the ranges.
func isDeleted(t *tree.Tree[string, *state.DeletedRow], seq uint64) bool {
	r := rangeFrom(t, seq)
	return seq != 0 && r != nil && r.From <= seq
}

// Deleted reports whether the job that ended under a number was deleted.
func (vw *View) Deleted(seq uint64) bool { return isDeleted(&vw.m.ended.deleted.Tree, seq) }

// rangeFrom returns the first range that ends at seq or later, nil if there is none.
func rangeFrom(t *tree.Tree[string, *state.DeletedRow], seq uint64) (first *state.DeletedRow) {
	t.Ascend(state.DeletedKey(seq), func(_ string, r *state.DeletedRow) bool {
		first = r
		return false
	})
	return first
}

// ended holds the ended jobs: a tombstone of each remembered one, and the full records that the archive does not have
// yet.
type ended struct {
	s       *state.State
	flows   *flows
	keyring *keys.Keyring
	leasing *leasing
	uniques *unique.Keys
	view    *View
	tombs   state.Tombs
	// staged are complete terminal jobs, outside the digest.
	staged staging
	// deleted are ranges of numbers of ended jobs that no archive shows any longer.
	deleted state.Table[string, state.DeletedRow, *state.DeletedRow]
	// freeAt belongs to the job that is being ended: until when the worker of a lease cancelled with it, or before it,
	// may still believe in that lease; 0 for none.
	freeAt rota.Clock
}

// Mark is what a history knows about a terminal job without reading its record.
type Mark struct {
	ID     rota.JobID
	Seq    uint64
	Queue  rota.QueueName
	Tenant rota.TenantID
	Type   rota.JobType
	State  rota.JobState
}

func deadJob(t *state.TombRow, r *state.Record) rota.Job {
	job := rota.Job{State: t.State, Attempt: t.Attempt, Submitted: t.Submitted, Finished: t.Finished,
		Life: t.Life, Retried: t.Retried, Reason: t.Reason, RecordDropped: r == nil}
	if t.OutputDigest != "" {
		job.OutputDigest = []byte(t.OutputDigest)
	}
	if t.Fingerprint != "" {
		job.Fingerprint = []byte(t.Fingerprint)
	}
	if r == nil {
		job.ID, job.Queue, job.Type, job.Tenant = t.ID, t.Queue, t.Typ, t.Tenant
		return job
	}
	job.JobSpec = r.Spec.Words()
	job.Enqueued, job.FirstLease, job.Error = r.Enqueued, r.FirstLease, r.Err
	job.Attempts, job.Progress, job.ProgressNote, job.Output = r.Attempts, r.Progress, r.Note, r.Output
	job.Meta, job.Spent = r.Meta, r.Spent
	return job
}

// PastOp returns the past of a terminal job for the entry that revives it (SPEC §16.6).
func PastOp(job *rota.Job) *fsmpb.Past {
	var e state.Encoder
	state.EncodeAttempts(&e, job.Attempts)
	return &fsmpb.Past{Attempts: e.B, Spent: entry.CostOps(job.Spent)}
}

// past is what a job that runs again has behind it.
type past struct {
	attempts []rota.Attempt
	spent    rota.Costs
}

// revival checks what an entry carries for a terminal job. The spec must equal the submitted one. It never reads a
// record, as nodes differ in what they have flushed.
func revival(t *state.TombRow, p *fsmpb.JobSpec, behind *fsmpb.Past) (*rota.JobSpec, past, error) {
	if p == nil {
		return nil, past{}, rota.Refusef(rota.KindOutOfRange, "job",
			"the payload of job %s was dropped by retention: submit it again "+
				"under a new id", t.ID)
	}
	if n := len(p.GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return nil, past{}, rota.Refusef(rota.KindInvalid, "labels", "labels are %d: at most %d are taken", n,
			rota.MaxLabels)
	}
	spec := entry.SpecWords(p)
	if spec.ID != t.ID || spec.Queue != t.Queue || spec.Type != t.Typ || spec.Tenant != t.Tenant {
		return nil, past{}, rota.Refusef(rota.KindInvalid, "spec",
			"the payload given for job %s (queue %s, type %s, tenant %s) is that of "+
				"job %q (queue %q, type %q, tenant %q)", t.ID, t.Queue, t.Typ, t.Tenant, spec.ID, spec.Queue, spec.Type,
			spec.Tenant)
	}
	if err := spec.CheckAgain(rota.MaxPayloadBytes); err != nil {
		return nil, past{}, err
	}
	was, err := readPast(t, behind)
	if err != nil {
		return nil, past{}, err
	}
	spent, err := costsOf(behind.GetSpent())
	return spec, past{was, spent}, err
}

// readPast checks a job's past in an entry to the extent that the state must be able to hold it.
func readPast(t *state.TombRow, p *fsmpb.Past) ([]rota.Attempt, error) {
	if len(p.GetAttempts()) == 0 {
		return nil, nil
	}
	d := &state.Decoder{B: p.GetAttempts()}
	attempts := state.DecodeAttempts(d)
	sound := d.Done() == nil
	for i := range attempts {
		a := &attempts[i]
		a.Log = a.Log || t.HasLog(a.Lease) // its record is older if its node provided the log
		sound = sound && a.Life >= 0 && a.Life <= t.Life && rota.ValidID(string(a.Worker)) &&
			a.Ended.Clock <= t.Finished.Clock &&
			len(a.Error) <= limits.MaxErrorBytes && utf8.ValidString(a.Error) &&
			len(a.Decision.Seed) <= len(rota.LeaseID{})
	}
	if !sound {
		return nil, rota.Refusef(rota.KindInvalid, "past",
			"the attempts given for job %s are none that it can have had", t.ID)
	}
	return attempts, nil
}

func wordsOf(r *state.Record) Ended {
	t := r.Ended.Row()
	return Ended{r.Seq, t.Content, deadJob(&t, r)}
}

// liveJob returns a live job in its public form, with its future times calculated from now.
func liveJob(j *state.JobRow, l *state.LeaseRow, now rota.Moment) rota.Job {
	job := rota.Job{JobSpec: j.Spec.Words(), State: j.State, Attempt: j.Attempt, Submitted: j.SubmittedAt(),
		Enqueued: j.EnqueuedAt(), FirstLease: j.FirstLease, Due: now.At(j.Due), Expires: now.At(j.Expires()),
		Reason: j.LastReason, Error: j.LastError,
		Life: j.History().Life, Retried: j.History().Retried, Changes: j.History().Changes,
		Attempts: j.Attempts, Progress: j.Progress, ProgressNote: j.Note, Tier: j.Tier, Preempted: j.Preempted,
		WorkerLosses: int32(len(j.History().Losses)), Isolated: j.Isolated(), Spent: j.History().Spent}
	if j.DueDate != 0 {
		job.Due = now.On(j.DueDate)
	}
	if l != nil {
		lease := l.Words(now)
		job.Lease = &lease
		job.Spent = state.AddCosts(job.Spent, l.Spent)
	}
	return job
}
