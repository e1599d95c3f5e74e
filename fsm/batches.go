package fsm

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// batches owns the table of batches: it counts the outcomes of their jobs, and submits a job once all jobs of a batch
// have ended (SPEC §24).
type batches struct {
	s         *state.State
	access    *authority
	admission *admission
	ended     *ended
	keyring   *keyring
	life      *lifecycle
	rows      state.Table[rota.BatchID, state.BatchRow, *state.BatchRow]
	// toCome counts the pending callbacks; derived.
	toCome pendingCallbacks
	// ready are the batches that may have ended in this entry.
	ready []rota.BatchID
}

// pendingCallbacks counts the callbacks of batches that have not ended: in total, of sealed batches, their bytes, and
// by queue.
type pendingCallbacks struct {
	n, sealed, bytes int64
	naming           state.CountsBy[rota.QueueName]
}

// open opens a batch; a repetition changes nothing.
func (b *batches) open(op *fsmpb.OpenBatch) *fsmpb.Outcome {
	if n := len(op.GetCallback().GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return entry.Refused(rota.Refusef(rota.KindInvalid, "labels", "too many labels: got %d, maximum %d", n,
			rota.MaxLabels))
	}
	spec := entry.BatchWords(op)
	q := b.s.QueueTable.Get(spec.Callback.Queue)
	if err := spec.CheckShape(payloadMax(q)); err != nil {
		return entry.Refused(err)
	}
	content := b.s.Specs.Content(&spec.Callback)
	if old := b.rows.Get(spec.ID); old != nil {
		if old.Content == content && old.Size == spec.Size {
			return &fsmpb.Outcome{Existed: true}
		}
		return entry.Refused(b.another(old, spec))
	}
	r := &state.BatchRow{ID: spec.ID, Content: content, Tenant: spec.Callback.Tenant, Queue: spec.Callback.Queue,
		Typ: spec.Callback.Type, Size: spec.Size,
		By: b.s.Journal.Owner(), Callback: b.s.Specs.Keep(&spec.Callback), Opened: b.s.Header.Now(),
		Touched: b.s.Header.Date()}
	if err := b.room(r, q); err != nil {
		return entry.Refused(err)
	}
	if b.rows.Len() >= limits.MaxBatches {
		oldest, _ := b.s.Timers.Over.Min()
		b.fire(oldest.ID)
	}
	r.Number = b.s.Journal.Next()
	b.expect(r, 1)
	b.rows.Insert(r.ID, r)
	b.retime(r, state.BatchTimes{})
	b.emit(r, rota.EventBatchOpened, "", batchEvent{})
	return &fsmpb.Outcome{}
}

// another refuses a batch whose id belongs to another one. Only callers that may read that batch learn the difference.
func (b *batches) another(r *state.BatchRow, spec *rota.BatchSpec) error {
	how := ""
	if b.life.callerReads(r.Tenant, r.Queue) {
		before := rota.BatchSpec{ID: r.ID, Size: r.Size, Callback: spec.Callback} // all that is left of a submitted one
		before.Callback.Tenant, before.Callback.Queue, before.Callback.Type = r.Tenant, r.Queue, r.Typ
		if r.Callback != nil {
			before.Callback = r.Callback.Words()
		}
		how = spec.Difference(&before)
	}
	if how == "" {
		how = "what is opened now differs from it"
	}
	return rota.Refusef(rota.KindConflict, "id",
		"batch %s was opened before, and %s: open it under a new id, or as it was", r.ID, how)
}

// room refuses a batch that the cluster has no room for, or whose callback has no queue.
func (b *batches) room(r *state.BatchRow, q *state.QueueRow) error {
	done := rota.CallbackID(r.ID)
	if err := b.life.placed(&r.Callback.JobSpec, q); err != nil {
		return err
	}
	if b.s.JobTable.Get(done) != nil || b.ended.tombs.Get(done) != nil {
		return rota.Refusef(rota.KindConflict, "id", "job %s is that of an earlier batch: choose another id", done)
	}
	if b.rows.Len() >= limits.MaxBatches && b.s.Timers.Over.Len() == 0 {
		return exhausted("batch", "%d batches have not ended: no more are taken, seal some with `rota batch seal`",
			limits.MaxBatches)
	}
	if err := b.access.mayHold(r.By, access.OwnsBatch); err != nil {
		return err
	}
	if more := r.Callback.Bytes(); b.toCome.bytes+more > limits.MaxBatchBytes {
		return exhausted("batch", "callbacks of batches hold %d bytes, %d more are wanted: at most %d are taken",
			b.toCome.bytes, more, limits.MaxBatchBytes)
	}
	return b.admission.admitBytes(q, r.Tenant, r.Callback.Bytes())
}

// expect counts the reserved room for a batch with a pending callback; by is -1 once it is no longer pending.
func (b *batches) expect(r *state.BatchRow, by int64) {
	b.toCome.count(r, by)
	b.access.hold(r.By, access.OwnsBatch, by)
}

// count adds by, 1 or -1, to the counts for a batch's callback.
func (c *pendingCallbacks) count(r *state.BatchRow, by int64) {
	c.n += by
	c.bytes += by * r.Callback.Bytes()
	if !r.Sealed.IsZero() {
		c.sealed += by
	}
	c.naming.Add(r.Queue, by)
}

// sealOp seals a batch: it no longer accepts jobs.
func (b *batches) sealOp(op *fsmpb.SealBatch) *fsmpb.Outcome {
	r := b.rows.Get(rota.BatchID(op.GetId()))
	if r == nil {
		return entry.Refused(unknownBatch(rota.BatchID(op.GetId())))
	}
	if r.State() != rota.BatchOpen {
		return &fsmpb.Outcome{Existed: true}
	}
	b.seal(b.rows.Edit(r.ID), "SEALED")
	return &fsmpb.Outcome{}
}

func unknownBatch(id rota.BatchID) *rota.Error {
	return rota.Refusef(rota.KindNotFound, "batch", "batch %.80q is not known: open it first", id)
}

// batch judges by the queue of a batch's callback.
func (j *judgement) batch(id string) {
	if r := j.ac.batches.rows.Get(rota.BatchID(id)); r != nil {
		if !j.known("batch", id, string(r.Tenant), string(r.Queue)) && j.refusal.Kind == rota.KindNotFound {
			j.refusal = unknownBatch(rota.BatchID(id))
		}
	}
}

// admit refuses a job that names a batch which does not exist, belongs to another tenant, or is sealed.
func (b *batches) admit(spec *rota.JobSpec) error {
	if spec.Batch == "" {
		return nil
	}
	r := b.rows.Get(spec.Batch)
	switch {
	case r == nil || r.Tenant != spec.Tenant:
		return unknownBatch(spec.Batch)
	case r.State() != rota.BatchOpen:
		return rota.Refusef(rota.KindConflict, "batch", "batch %s is %s since %s: it takes no more jobs", r.ID,
			r.State(), r.Sealed.Date)
	}
	return nil
}

// join counts an admitted job and returns the number of its batch; 0 for a job without a batch.
func (b *batches) join(id rota.BatchID) uint64 {
	if id == "" {
		return 0
	}
	r := b.rows.Edit(id)
	before := r.Times()
	r.Counts.Total++
	r.Counts.Live++
	r.Touched = b.s.Header.Date()
	b.retime(r, before)
	if r.Counts.Total == r.Size {
		b.seal(r, "FULL")
	}
	return r.Number
}

// rejoin counts an ended job that runs again as live, and returns the number of its batch; 0 if the batch no longer
// counts it.
func (b *batches) rejoin(id rota.BatchID, t *state.TombRow) uint64 {
	r := b.rows.Get(id)
	if r == nil || t.Batch == 0 || r.Number != t.Batch {
		return 0
	}
	r = b.rows.Edit(id)
	before := r.Times()
	*r.Counts.Of(t.State)--
	r.Counts.Live++
	b.retime(r, before)
	return r.Number
}

// jobEnded counts a job that has ended. A batch whose last live job this was ends with the entry.
func (b *batches) jobEnded(id rota.BatchID, state rota.JobState) {
	r := b.rows.Edit(id)
	before := r.Times()
	r.Counts.Live--
	*r.Counts.Of(state)++
	b.retime(r, before)
	b.await(r)
}

// seal closes a batch for new jobs; r is editable.
func (b *batches) seal(r *state.BatchRow, why string) {
	before := r.Times()
	r.Sealed = b.s.Header.Now()
	b.toCome.sealed++
	b.retime(r, before)
	b.emit(r, rota.EventBatchSealed, "", batchEvent{What: why})
	b.await(r)
}

// await schedules a batch that may have ended for the end of the entry.
func (b *batches) await(r *state.BatchRow) {
	if r.State() == rota.BatchSealed && (r.Counts.Live == 0 || planted.callbackEarly(r)) {
		b.ready = append(b.ready, r.ID)
	}
}

// settle submits the callbacks of the batches that ended in this entry.
func (b *batches) settle() {
	if len(b.ready) == 0 {
		return
	}
	slices.SortFunc(b.ready, cmp.Compare)
	for _, id := range slices.Compact(b.ready) {
		r := b.rows.Get(id)
		if r != nil && r.State() == rota.BatchSealed && (r.Counts.Live == 0 || planted.callbackEarly(r)) {
			b.finish(b.rows.Edit(id))
		}
	}
	b.ready = b.ready[:0]
}

// finish submits a batch's callback, or schedules another attempt by a sweep a second later; r is editable. No cap,
// rate or budget bounds it: it was admitted with the batch.
func (b *batches) finish(r *state.BatchRow) {
	spec, before := r.Callback.Words(), r.Times()
	spec.ID, spec.Labels = rota.CallbackID(r.ID), r.Counts.Labels(spec.Labels)
	q := b.s.QueueTable.Get(r.Queue)
	if err := b.admitCallback(&spec, q); err != nil {
		r.Retry = b.s.Header.Date() + limits.BatchRetry
		b.retime(r, before)
		if why := state.Tail(err.Error(), limits.MaxReasonBytes); why != r.Why {
			r.Why = why
			b.emit(r, rota.EventBatchWaits, "", batchEvent{What: why})
		}
		return
	}
	b.expect(r, -1)
	j := b.life.insert(b.s.Specs.Keep(&spec), q)
	r.Callback, r.Retry, r.Why = nil, 0, ""
	r.Finished, r.Over, r.Forget = b.s.Header.Now(), j.Seq, b.ended.remembered(r.Queue, 0)
	r.Calling = b.s.Header.Rules >= callingRules
	b.retime(r, before)
	b.emit(r, rota.EventBatchFinished, spec.ID, batchEvent{})
	b.life.start(j)
}

// callingRules is the first rules version under which a batch is kept while its callback lives.
const callingRules = 2

// calls records that the callback of a batch lives again, or that it has ended: from then on the batch is remembered
// for as long as the callback.
func (b *batches) calls(id rota.JobID, lives bool) {
	of, callback := rota.SplitCallbackID(id)
	if !callback || b.s.Header.Rules < callingRules {
		return
	}
	r := b.rows.Get(of)
	if r == nil || r.State() != rota.BatchFinished || r.Calling == lives {
		return
	}
	r = b.rows.Edit(of)
	before := r.Times()
	if r.Calling = lives; !lives {
		r.Forget = b.ended.remembered(r.Queue, 0)
	}
	b.retime(r, before)
}

// admitCallback refuses a callback under the same conditions as an already admitted job: if its queue, its keys or its
// requirements have no room.
func (b *batches) admitCallback(spec *rota.JobSpec, q *state.QueueRow) error {
	if err := b.life.placed(spec, q); err != nil {
		return err
	}
	if err := b.keyring.admit(spec); err != nil {
		return err
	}
	return b.life.admitClass(spec)
}

// fire performs what a batch is due for: it is sealed, its callback is tried again, or it is forgotten.
func (b *batches) fire(name string) {
	r := b.rows.Edit(rota.BatchID(name))
	before := r.Times()
	switch r.State() {
	case rota.BatchOpen:
		b.seal(r, "IDLE")
	case rota.BatchSealed:
		r.Retry = 0
		b.retime(r, before)
		b.await(r)
	case rota.BatchFinished:
		b.s.Timers.Batch.Refile(name, before.Due, 0)
		b.s.Timers.Over.Refile(name, before.Over, 0)
		b.rows.Drop(r.ID)
	}
}

// retime updates a batch's timers.
func (b *batches) retime(r *state.BatchRow, before state.BatchTimes) {
	now := r.Times()
	b.s.Timers.Batch.Refile(string(r.ID), before.Due, now.Due)
	b.s.Timers.Over.Refile(string(r.ID), before.Over, now.Over)
}

// times adds all batches to the timers.
func (b *batches) times(t *state.Timers) {
	b.rows.Scan(func(id rota.BatchID, r *state.BatchRow) bool {
		at := r.Times()
		t.Batch.Refile(string(id), 0, at.Due)
		t.Over.Refile(string(id), 0, at.Over)
		return true
	})
}

// derive counts the contents of the rows.
func (b *batches) derive() {
	b.toCome = b.tally()
	b.times(&b.s.Timers)
}

// tally counts the pending callbacks.
func (b *batches) tally() (c pendingCallbacks) {
	b.rows.Scan(func(_ rota.BatchID, r *state.BatchRow) bool {
		if r.Callback != nil {
			c.count(r, 1)
		}
		return true
	})
	return c
}

// batchEvent is the payload of events about a batch.
type batchEvent struct {
	Batch rota.BatchID `json:"batch"`
	// What gives the reason why the batch was sealed, or why its callback waits.
	What string `json:"what,omitempty"`
	rota.BatchCounts
}

// emit adds an event about a batch.
func (b *batches) emit(r *state.BatchRow, kind rota.EventKind, id rota.JobID, p batchEvent) {
	p.Batch, p.BatchCounts = r.ID, r.Counts
	b.s.Journal.Announce(&rota.Event{Kind: kind, Job: id, Queue: r.Queue, Tenant: r.Tenant, Payload: state.Payload(p)})
}

// ofBatches refuses to delete a queue that is the target of callbacks.
func ofBatches(queue rota.QueueName) *rota.Error {
	return rota.Refusef(rota.KindConflict, "queue",
		"callbacks of batches that have not ended go to queue %q: seal them with `rota batch seal`, and let "+
			"their jobs end", queue)
}

// batches checks the batches against the jobs that they count, and the derived data.
func (c *checker) batches() {
	m := c.m
	live, gone := make(map[uint64]int64), make(map[uint64]rota.BatchCounts)
	m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		n := j.History().Batch
		if r := m.batches.rows.Get(j.Spec.Batch); n != 0 && (r == nil || r.Number != n) {
			c.fault("I4: job %s is counted by batch %q of number %d, which is not there", id, j.Spec.Batch, n)
		}
		live[n]++
		return true
	})
	m.ended.tombs.Scan(func(_ rota.JobID, t *state.TombRow) bool {
		if t.Batch != 0 {
			counts := gone[t.Batch]
			*counts.Of(t.State)++
			gone[t.Batch] = counts
		}
		return true
	})
	m.batches.rows.Scan(func(id rota.BatchID, r *state.BatchRow) bool {
		n, least := r.Counts, gone[r.Number]
		if n.Live != live[r.Number] || n.Total != n.Live+n.Completed+n.Dead+n.Expired+n.Cancelled ||
			n.Completed < least.Completed ||
			n.Dead < least.Dead || n.Expired < least.Expired || n.Cancelled < least.Cancelled {
			c.fault("I4: batch %s counts %+v, of its jobs %d live, and of those that ended %+v are known", id, n,
				live[r.Number], least)
		}
		c.batch(r)
		return true
	})
	b, want := &m.batches, m.batches.tally()
	naming, wanted := b.toCome.naming.Whole(), want.naming.Whole()
	if got := b.toCome; got.n != want.n || got.sealed != want.sealed || got.bytes != want.bytes ||
		!maps.Equal(naming, wanted) ||
		len(b.ready) > 0 || b.rows.Len() > limits.MaxBatches {
		c.fault("I4: %d batches have %d callbacks to come, %d of sealed ones, of %d bytes for %d queues; %d, %d, %d and %d are counted, %d are ready",
			b.rows.Len(), want.n, want.sealed, want.bytes, len(wanted), got.n, got.sealed, got.bytes, len(naming),
			len(b.ready))
	}
}

// batch checks that a batch's callback was submitted as soon as it had to be, and not earlier.
func (c *checker) batch(r *state.BatchRow) {
	state, done := r.State(), rota.CallbackID(r.ID)
	over := state == rota.BatchFinished
	if over != (r.Over != 0) || over == r.Finished.IsZero() || state == rota.BatchOpen != r.Sealed.IsZero() ||
		r.Number == 0 || r.Number > c.m.Header.Events || r.Over > c.m.Header.JobSeq || r.Touched > c.m.Header.Date() {
		c.fault("I4: batch %s of number %d is %s, sealed %v, finished %v by job number %d", r.ID, r.Number, state,
			r.Sealed, r.Finished, r.Over)
	}
	if stuck := state == rota.BatchSealed && r.Counts.Live == 0; stuck != (r.Retry != 0) {
		c.fault("I4: batch %s is %s with %d live jobs, and tries again on %d", r.ID, state, r.Counts.Live, r.Retry)
	}
	if r.Calling && (!over || c.m.JobTable.Get(done) == nil) {
		c.fault("I4: batch %s is %s, and is kept for job %s, which does not live", r.ID, state, done)
	}
	if !over && (c.m.JobTable.Get(done) != nil || c.m.ended.tombs.Get(done) != nil) {
		c.fault("I4: batch %s is %s, and job %s is known", r.ID, state, done)
	}
	if !over && (c.m.QueueTable.Get(r.Queue) == nil || r.Callback.Queue != r.Queue || r.Callback.Tenant != r.Tenant) {
		c.fault("I4: the callback of batch %s goes to queue %s of tenant %s, which is not there", r.ID, r.Queue,
			r.Tenant)
	}
}
