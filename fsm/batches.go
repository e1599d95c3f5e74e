package fsm

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// batches owns the table of batches: it counts what becomes of their jobs, and submits a job
// once all of a batch have ended (SPEC §24).
type batches struct {
	s         *state
	access    *authority
	admission *admission
	ended     *ended
	keyring   *keyring
	life      *lifecycle
	rows      table[rota.BatchID, batchRow, *batchRow]
	// toCome is what is counted of callbacks that are to come; derived.
	toCome pendingCallbacks
	// ready are the batches that may have ended in this entry.
	ready []rota.BatchID
}

// pendingCallbacks are those of batches that have not ended: how many, how many of them of sealed
// batches, their bytes, and how many go to each queue.
type pendingCallbacks struct {
	n, sealed, bytes int64
	naming           countsBy[rota.QueueName]
}

// open opens a batch; a repetition changes nothing.
func (b *batches) open(op *fsmpb.OpenBatch) *fsmpb.Outcome {
	if n := len(op.GetCallback().GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return entry.Refused(rota.Refusef(rota.KindInvalid, "labels", "labels are %d: at most %d are taken", n, rota.MaxLabels))
	}
	spec := entry.BatchWords(op)
	q := b.s.queues.get(spec.Callback.Queue)
	if err := spec.CheckShape(payloadMax(q)); err != nil {
		return entry.Refused(err)
	}
	content := b.s.specs.content(&spec.Callback)
	if old := b.rows.get(spec.ID); old != nil {
		if old.content == content && old.size == spec.Size {
			return &fsmpb.Outcome{Existed: true}
		}
		return entry.Refused(b.another(old, spec))
	}
	r := &batchRow{id: spec.ID, content: content, tenant: spec.Callback.Tenant, queue: spec.Callback.Queue, typ: spec.Callback.Type, size: spec.Size,
		by: b.s.journal.owner(), callback: b.s.specs.keep(&spec.Callback), opened: b.s.head.now(), touched: b.s.head.date()}
	if err := b.room(r, q); err != nil {
		return entry.Refused(err)
	}
	if b.rows.len() >= limits.MaxBatches {
		oldest, _ := b.s.timers.over.Min()
		b.fire(oldest.id)
	}
	r.number = b.s.journal.next()
	b.expect(r, 1)
	b.rows.insert(r.id, r)
	b.retime(r, batchTimes{})
	b.emit(r, rota.EventBatchOpened, "", batchEvent{})
	return &fsmpb.Outcome{}
}

// another refuses a batch whose id stands for another one. How they differ is for who may read that.
func (b *batches) another(r *batchRow, spec *rota.BatchSpec) error {
	how := ""
	if b.life.callerReads(r.tenant, r.queue) {
		before := rota.BatchSpec{ID: r.id, Size: r.size, Callback: spec.Callback} // of one that was submitted this is left
		before.Callback.Tenant, before.Callback.Queue, before.Callback.Type = r.tenant, r.queue, r.typ
		if r.callback != nil {
			before.Callback = r.callback.words()
		}
		how = spec.Difference(&before)
	}
	if how == "" {
		how = "what is opened now differs from it"
	}
	return rota.Refusef(rota.KindConflict, "id", "batch %s was opened before, and %s: open it under a new id, or as it was", r.id, how)
}

// room refuses a batch that the cluster has no room for, or no queue for its callback.
func (b *batches) room(r *batchRow, q *queueRow) error {
	done := rota.CallbackID(r.id)
	if err := b.life.placed(&r.callback.JobSpec, q); err != nil {
		return err
	}
	if b.s.jobs.get(done) != nil || b.ended.tombs.get(done) != nil {
		return rota.Refusef(rota.KindConflict, "id", "job %s is that of an earlier batch: choose another id", done)
	}
	if b.rows.len() >= limits.MaxBatches && b.s.timers.over.Len() == 0 {
		return exhausted("batch", "%d batches have not ended: no more are taken, seal some with `rota batch seal`", limits.MaxBatches)
	}
	if err := b.access.mayHold(r.by, access.OwnsBatch); err != nil {
		return err
	}
	if more := r.callback.bytes(); b.toCome.bytes+more > limits.MaxBatchBytes {
		return exhausted("batch", "callbacks of batches hold %d bytes, %d more are wanted: at most %d are taken", b.toCome.bytes, more, limits.MaxBatchBytes)
	}
	return b.admission.admitBytes(q, r.tenant, r.callback.bytes())
}

// expect counts what is there for a batch whose callback is to come; by is -1 where it is to come
// no more.
func (b *batches) expect(r *batchRow, by int64) {
	b.toCome.count(r, by)
	b.access.hold(r.by, access.OwnsBatch, by)
}

// count counts a batch's callback, or by -1 counts it no more.
func (c *pendingCallbacks) count(r *batchRow, by int64) {
	c.n += by
	c.bytes += by * r.callback.bytes()
	if !r.sealed.IsZero() {
		c.sealed += by
	}
	c.naming.add(r.queue, by)
}

// sealOp has a batch take no more jobs.
func (b *batches) sealOp(op *fsmpb.SealBatch) *fsmpb.Outcome {
	r := b.rows.get(rota.BatchID(op.GetId()))
	if r == nil {
		return entry.Refused(unknownBatch(rota.BatchID(op.GetId())))
	}
	if r.state() != rota.BatchOpen {
		return &fsmpb.Outcome{Existed: true}
	}
	b.seal(b.rows.edit(r.id), "SEALED")
	return &fsmpb.Outcome{}
}

func unknownBatch(id rota.BatchID) *rota.Error {
	return rota.Refusef(rota.KindNotFound, "batch", "batch %.80q is not known: open it first", id)
}

// batch judges by where a batch's callback goes.
func (j *judgement) batch(id string) {
	if r := j.ac.batches.rows.get(rota.BatchID(id)); r != nil {
		if !j.known("batch", id, string(r.tenant), string(r.queue)) && j.refusal.Kind == rota.KindNotFound {
			j.refusal = unknownBatch(rota.BatchID(id))
		}
	}
}

// admit refuses a job that names a batch which is not there, is another tenant's, or takes no
// more.
func (b *batches) admit(spec *rota.JobSpec) error {
	if spec.Batch == "" {
		return nil
	}
	r := b.rows.get(spec.Batch)
	switch {
	case r == nil || r.tenant != spec.Tenant:
		return unknownBatch(spec.Batch)
	case r.state() != rota.BatchOpen:
		return rota.Refusef(rota.KindConflict, "batch", "batch %s is %s since %s: it takes no more jobs", r.id, r.state(), r.sealed.Date)
	}
	return nil
}

// join counts a job that was admitted, and returns the number of its batch; 0 of a job without.
func (b *batches) join(id rota.BatchID) uint64 {
	if id == "" {
		return 0
	}
	r := b.rows.edit(id)
	before := r.times()
	r.counts.Total++
	r.counts.Live++
	r.touched = b.s.head.date()
	b.retime(r, before)
	if r.counts.Total == r.size {
		b.seal(r, "FULL")
	}
	return r.number
}

// rejoin counts an ended job that runs again as one that lives, and returns the number of its
// batch; 0 where that does not count it any more.
func (b *batches) rejoin(id rota.BatchID, t *tombRow) uint64 {
	r := b.rows.get(id)
	if r == nil || t.batch == 0 || r.number != t.batch {
		return 0
	}
	r = b.rows.edit(id)
	before := r.times()
	*r.counts.Of(t.state)--
	r.counts.Live++
	b.retime(r, before)
	return r.number
}

// ended counts a job that has ended. A batch that lives on for it alone ends with the entry.
func (b *batches) jobEnded(id rota.BatchID, state rota.JobState) {
	r := b.rows.edit(id)
	before := r.times()
	r.counts.Live--
	*r.counts.Of(state)++
	b.retime(r, before)
	b.await(r)
}

// seal has a batch take no more jobs; r is editable.
func (b *batches) seal(r *batchRow, why string) {
	before := r.times()
	r.sealed = b.s.head.now()
	b.toCome.sealed++
	b.retime(r, before)
	b.emit(r, rota.EventBatchSealed, "", batchEvent{What: why})
	b.await(r)
}

// await has the end of the entry look at a batch that may have ended.
func (b *batches) await(r *batchRow) {
	if r.state() == rota.BatchSealed && (r.counts.Live == 0 || planted.callbackEarly(r)) {
		b.ready = append(b.ready, r.id)
	}
}

// settle submits the callbacks of the batches that ended in this entry.
func (b *batches) settle() {
	if len(b.ready) == 0 {
		return
	}
	slices.SortFunc(b.ready, cmp.Compare)
	for _, id := range slices.Compact(b.ready) {
		r := b.rows.get(id)
		if r != nil && r.state() == rota.BatchSealed && (r.counts.Live == 0 || planted.callbackEarly(r)) {
			b.finish(b.rows.edit(id))
		}
	}
	b.ready = b.ready[:0]
}

// finish submits a batch's callback, or has a sweep try again a second later; r is editable.
// No cap bounds it, no rate and no budget: it was admitted with the batch.
func (b *batches) finish(r *batchRow) {
	spec, before := r.callback.words(), r.times()
	spec.ID, spec.Labels = rota.CallbackID(r.id), r.counts.Labels(spec.Labels)
	q := b.s.queues.get(r.queue)
	if err := b.admitCallback(&spec, q); err != nil {
		r.retry = b.s.head.date() + limits.BatchRetry
		b.retime(r, before)
		if why := tail(err.Error(), limits.MaxReasonBytes); why != r.why {
			r.why = why
			b.emit(r, rota.EventBatchWaits, "", batchEvent{What: why})
		}
		return
	}
	b.expect(r, -1)
	j := b.life.insert(b.s.specs.keep(&spec), q)
	r.callback, r.retry, r.why = nil, 0, ""
	r.finished, r.over, r.forget = b.s.head.now(), j.seq, b.ended.remembered(r.queue, 0)
	r.calling = b.s.head.rules >= callingRules
	b.retime(r, before)
	b.emit(r, rota.EventBatchFinished, spec.ID, batchEvent{})
	b.life.start(j)
}

// callingRules are the first rules under which a batch is kept while its callback lives.
const callingRules = 2

// calls notes that the callback of a batch lives again, or that it has ended: from then on it is remembered for as
// long as the callback.
func (b *batches) calls(id rota.JobID, lives bool) {
	of, callback := rota.SplitCallbackID(id)
	if !callback || b.s.head.rules < callingRules {
		return
	}
	r := b.rows.get(of)
	if r == nil || r.state() != rota.BatchFinished || r.calling == lives {
		return
	}
	r = b.rows.edit(of)
	before := r.times()
	if r.calling = lives; !lives {
		r.forget = b.ended.remembered(r.queue, 0)
	}
	b.retime(r, before)
}

// admitCallback refuses a callback as what was admitted before is refused: where its queue, its
// keys or its requirements have no place.
func (b *batches) admitCallback(spec *rota.JobSpec, q *queueRow) error {
	if err := b.life.placed(spec, q); err != nil {
		return err
	}
	if err := b.keyring.admit(spec); err != nil {
		return err
	}
	return b.life.admitClass(spec)
}

// fire does what a batch is due for: it is sealed, its callback tried again, or it is forgotten.
func (b *batches) fire(name string) {
	r := b.rows.edit(rota.BatchID(name))
	before := r.times()
	switch r.state() {
	case rota.BatchOpen:
		b.seal(r, "IDLE")
	case rota.BatchSealed:
		r.retry = 0
		b.retime(r, before)
		b.await(r)
	case rota.BatchFinished:
		b.s.timers.batch.set(name, before.due, 0)
		b.s.timers.over.set(name, before.over, 0)
		b.rows.drop(r.id)
	}
}

// retime moves a batch to where it stands now among the timers.
func (b *batches) retime(r *batchRow, before batchTimes) {
	now := r.times()
	b.s.timers.batch.set(string(r.id), before.due, now.due)
	b.s.timers.over.set(string(r.id), before.over, now.over)
}

// times puts all batches where they stand among the timers.
func (b *batches) times(t *timers) {
	b.rows.scan(func(id rota.BatchID, r *batchRow) bool {
		at := r.times()
		t.batch.set(string(id), 0, at.due)
		t.over.set(string(id), 0, at.over)
		return true
	})
}

// derive counts what the rows hold.
func (b *batches) derive() {
	b.toCome = b.tally()
	b.times(&b.s.timers)
}

// tally counts the callbacks that are to come.
func (b *batches) tally() (c pendingCallbacks) {
	b.rows.scan(func(_ rota.BatchID, r *batchRow) bool {
		if r.callback != nil {
			c.count(r, 1)
		}
		return true
	})
	return c
}

// batchEvent is the payload of events about a batch.
type batchEvent struct {
	Batch rota.BatchID `json:"batch"`
	// What says why it was sealed, or why its callback waits.
	What string `json:"what,omitempty"`
	rota.BatchCounts
}

// emit adds an event about a batch.
func (b *batches) emit(r *batchRow, kind rota.EventKind, id rota.JobID, p batchEvent) {
	p.Batch, p.BatchCounts = r.id, r.counts
	b.s.journal.announce(&rota.Event{Kind: kind, Job: id, Queue: r.queue, Tenant: r.tenant, Payload: payload(p)})
}

// ofBatches refuses to delete a queue that callbacks are to go to.
func ofBatches(queue rota.QueueName) *rota.Error {
	return rota.Refusef(rota.KindConflict, "queue", "callbacks of batches that have not ended go to queue %q: seal them with `rota batch seal`, and let "+
		"their jobs end", queue)
}

// batches checks the batches against the jobs that they count, and what is derived of them.
func (c *checker) batches() {
	m := c.m
	live, gone := make(map[uint64]int64), make(map[uint64]rota.BatchCounts)
	m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		n := j.history().batch
		if r := m.batches.rows.get(j.spec.Batch); n != 0 && (r == nil || r.number != n) {
			c.fault("I4: job %s is counted by batch %q of number %d, which is not there", id, j.spec.Batch, n)
		}
		live[n]++
		return true
	})
	m.ended.tombs.scan(func(_ rota.JobID, t *tombRow) bool {
		if t.batch != 0 {
			counts := gone[t.batch]
			*counts.Of(t.state)++
			gone[t.batch] = counts
		}
		return true
	})
	m.batches.rows.scan(func(id rota.BatchID, r *batchRow) bool {
		n, least := r.counts, gone[r.number]
		if n.Live != live[r.number] || n.Total != n.Live+n.Completed+n.Dead+n.Expired+n.Cancelled || n.Completed < least.Completed ||
			n.Dead < least.Dead || n.Expired < least.Expired || n.Cancelled < least.Cancelled {
			c.fault("I4: batch %s counts %+v, of its jobs %d live, and of those that ended %+v are known", id, n, live[r.number], least)
		}
		c.batch(r)
		return true
	})
	b, want := &m.batches, m.batches.tally()
	naming, wanted := b.toCome.naming.whole(), want.naming.whole()
	if got := b.toCome; got.n != want.n || got.sealed != want.sealed || got.bytes != want.bytes || !maps.Equal(naming, wanted) ||
		len(b.ready) > 0 || b.rows.len() > limits.MaxBatches {
		c.fault("I4: %d batches have %d callbacks to come, %d of sealed ones, of %d bytes for %d queues; %d, %d, %d and %d are counted, %d are ready",
			b.rows.len(), want.n, want.sealed, want.bytes, len(wanted), got.n, got.sealed, got.bytes, len(naming), len(b.ready))
	}
}

// batch checks that a batch's callback was submitted once it had to be, and no sooner.
func (c *checker) batch(r *batchRow) {
	state, done := r.state(), rota.CallbackID(r.id)
	over := state == rota.BatchFinished
	if over != (r.over != 0) || over == r.finished.IsZero() || state == rota.BatchOpen != r.sealed.IsZero() ||
		r.number == 0 || r.number > c.m.head.events || r.over > c.m.head.jobSeq || r.touched > c.m.head.date() {
		c.fault("I4: batch %s of number %d is %s, sealed %v, finished %v by job number %d", r.id, r.number, state, r.sealed, r.finished, r.over)
	}
	if stuck := state == rota.BatchSealed && r.counts.Live == 0; stuck != (r.retry != 0) {
		c.fault("I4: batch %s is %s with %d live jobs, and tries again on %d", r.id, state, r.counts.Live, r.retry)
	}
	if r.calling && (!over || c.m.jobs.get(done) == nil) {
		c.fault("I4: batch %s is %s, and is kept for job %s, which does not live", r.id, state, done)
	}
	if !over && (c.m.jobs.get(done) != nil || c.m.ended.tombs.get(done) != nil) {
		c.fault("I4: batch %s is %s, and job %s is known", r.id, state, done)
	}
	if !over && (c.m.queues.get(r.queue) == nil || r.callback.Queue != r.queue || r.callback.Tenant != r.tenant) {
		c.fault("I4: the callback of batch %s goes to queue %s of tenant %s, which is not there", r.id, r.queue, r.tenant)
	}
}
