package batches

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// Batches owns the table of batches: it counts the outcomes of their jobs, and submits a job once all jobs of a batch
// have ended (SPEC §24).
type Batches struct {
	s     *state.State
	ports Ports
	Rows  state.Table[rota.BatchID, state.BatchRow, *state.BatchRow]
	// ToCome counts the pending callbacks; derived.
	ToCome pendingCallbacks
	// ready are the batches that may have ended in this entry.
	ready []rota.BatchID
}

// Ports is what the batches use of other parts.
type Ports struct {
	// AdmitBytes refuses a number of bytes more if the state has no room for them, AdmitKeys a job whose keys have
	// none, AdmitClass one of too many kinds, MayHold one more row of a principal.
	AdmitBytes func(q *state.QueueRow, tenant rota.TenantID, more int64) error
	AdmitKeys  func(*rota.JobSpec) error
	AdmitClass func(*rota.JobSpec) error
	MayHold    func(by rota.Principal, what access.Owned) error
	// Hold counts rows of a principal.
	Hold  func(by rota.Principal, what access.Owned, n int64)
	Tombs *state.Tombs
	// Remembered returns until when a job of a queue is remembered that ends now.
	Remembered func(queue rota.QueueName, freeAt rota.Clock) rota.Date
	// CallerReads reports whether the caller may read objects of a tenant and a queue.
	CallerReads func(rota.TenantID, rota.QueueName) bool
	// Placed checks that a queue exists for a job; Insert adds the job, Start gives it its first state.
	Placed func(*rota.JobSpec, *state.QueueRow) error
	Insert func(*state.KeptSpec, *state.QueueRow) *state.JobRow
	Start  func(*state.JobRow)
}

// Init connects the batches to the state and the parts that they use.
func (b *Batches) Init(s *state.State, ports Ports) {
	b.s, b.ports = s, ports
	b.Rows.Init(state.TagBatch, &s.Ledger)
}

// pendingCallbacks counts the callbacks of batches that have not ended: in total, of sealed batches, their bytes, and
// by queue.
type pendingCallbacks struct {
	n, sealed, bytes int64
	Naming           state.CountsBy[rota.QueueName]
}

// Open opens a batch; a repetition changes nothing.
func (b *Batches) Open(op *fsmpb.OpenBatch) *fsmpb.Outcome {
	if n := len(op.GetCallback().GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return entry.Refused(rota.Refusef(rota.KindInvalid, "labels", "too many labels: got %d, maximum %d", n,
			rota.MaxLabels))
	}
	spec := entry.BatchWords(op)
	q := b.s.QueueTable.Get(spec.Callback.Queue)
	if err := spec.CheckShape(state.PayloadMax(q)); err != nil {
		return entry.Refused(err)
	}
	content := b.s.Specs.Content(&spec.Callback)
	if old := b.Rows.Get(spec.ID); old != nil {
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
	if b.Rows.Len() >= limits.MaxBatches {
		oldest, _ := b.s.Timers.Over.Min()
		b.Fire(oldest.ID)
	}
	r.Number = b.s.Journal.Next()
	b.expect(r, 1)
	b.Rows.Insert(r.ID, r)
	b.retime(r, state.BatchTimes{})
	b.emit(r, rota.EventBatchOpened, "", event{})
	return &fsmpb.Outcome{}
}

// another refuses a batch whose id belongs to another one. Only callers that may read that batch learn the difference.
func (b *Batches) another(r *state.BatchRow, spec *rota.BatchSpec) error {
	how := ""
	if b.ports.CallerReads(r.Tenant, r.Queue) {
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
func (b *Batches) room(r *state.BatchRow, q *state.QueueRow) error {
	done := rota.CallbackID(r.ID)
	if err := b.ports.Placed(&r.Callback.JobSpec, q); err != nil {
		return err
	}
	if b.s.JobTable.Get(done) != nil || b.ports.Tombs.Get(done) != nil {
		return rota.Refusef(rota.KindConflict, "id", "job %s is that of an earlier batch: choose another id", done)
	}
	if b.Rows.Len() >= limits.MaxBatches && b.s.Timers.Over.Len() == 0 {
		return refuse.Exhausted("batch",
			"%d batches have not ended: no more are taken, seal some with `rota batch seal`",
			limits.MaxBatches)
	}
	if err := b.ports.MayHold(r.By, access.OwnsBatch); err != nil {
		return err
	}
	if more := r.Callback.Bytes(); b.ToCome.bytes+more > limits.MaxBatchBytes {
		return refuse.Exhausted("batch", "callbacks of batches hold %d bytes, %d more are wanted: at most %d are taken",
			b.ToCome.bytes, more, limits.MaxBatchBytes)
	}
	return b.ports.AdmitBytes(q, r.Tenant, r.Callback.Bytes())
}

// expect counts the reserved room for a batch with a pending callback; by is -1 once it is no longer pending.
func (b *Batches) expect(r *state.BatchRow, by int64) {
	b.ToCome.count(r, by)
	b.ports.Hold(r.By, access.OwnsBatch, by)
}

// count adds by, 1 or -1, to the counts for a batch's callback.
func (c *pendingCallbacks) count(r *state.BatchRow, by int64) {
	c.n += by
	c.bytes += by * r.Callback.Bytes()
	if !r.Sealed.IsZero() {
		c.sealed += by
	}
	c.Naming.Add(r.Queue, by)
}

// SealOp seals a batch: it no longer accepts jobs.
func (b *Batches) SealOp(op *fsmpb.SealBatch) *fsmpb.Outcome {
	r := b.Rows.Get(rota.BatchID(op.GetId()))
	if r == nil {
		return entry.Refused(refuse.UnknownBatch(rota.BatchID(op.GetId())))
	}
	if r.State() != rota.BatchOpen {
		return &fsmpb.Outcome{Existed: true}
	}
	b.seal(b.Rows.Edit(r.ID), "SEALED")
	return &fsmpb.Outcome{}
}

// Admit refuses a job that names a batch which does not exist, belongs to another tenant, or is sealed.
func (b *Batches) Admit(spec *rota.JobSpec) error {
	if spec.Batch == "" {
		return nil
	}
	r := b.Rows.Get(spec.Batch)
	switch {
	case r == nil || r.Tenant != spec.Tenant:
		return refuse.UnknownBatch(spec.Batch)
	case r.State() != rota.BatchOpen:
		return rota.Refusef(rota.KindConflict, "batch", "batch %s is %s since %s: it takes no more jobs", r.ID,
			r.State(), r.Sealed.Date)
	}
	return nil
}

// Join counts an admitted job and returns the number of its batch; 0 for a job without a batch.
func (b *Batches) Join(id rota.BatchID) uint64 {
	if id == "" {
		return 0
	}
	r := b.Rows.Edit(id)
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

// Rejoin counts an ended job that runs again as live, and returns the number of its batch; 0 if the batch no longer
// counts it.
func (b *Batches) Rejoin(id rota.BatchID, t *state.TombRow) uint64 {
	r := b.Rows.Get(id)
	if r == nil || t.Batch == 0 || r.Number != t.Batch {
		return 0
	}
	r = b.Rows.Edit(id)
	before := r.Times()
	*r.Counts.Of(t.State)--
	r.Counts.Live++
	b.retime(r, before)
	return r.Number
}

// JobEnded counts a job that has ended. A batch whose last live job this was ends with the entry.
func (b *Batches) JobEnded(id rota.BatchID, state rota.JobState) {
	r := b.Rows.Edit(id)
	before := r.Times()
	r.Counts.Live--
	*r.Counts.Of(state)++
	b.retime(r, before)
	b.await(r)
}

// seal closes a batch for new jobs; r is editable.
func (b *Batches) seal(r *state.BatchRow, why string) {
	before := r.Times()
	r.Sealed = b.s.Header.Now()
	b.ToCome.sealed++
	b.retime(r, before)
	b.emit(r, rota.EventBatchSealed, "", event{What: why})
	b.await(r)
}

// await schedules a batch that may have ended for the end of the entry.
func (b *Batches) await(r *state.BatchRow) {
	if r.State() == rota.BatchSealed && (r.Counts.Live == 0 || planted.callbackEarly(r)) {
		b.ready = append(b.ready, r.ID)
	}
}

// Settle submits the callbacks of the batches that ended in this entry.
func (b *Batches) Settle() {
	if len(b.ready) == 0 {
		return
	}
	slices.SortFunc(b.ready, cmp.Compare)
	for _, id := range slices.Compact(b.ready) {
		r := b.Rows.Get(id)
		if r != nil && r.State() == rota.BatchSealed && (r.Counts.Live == 0 || planted.callbackEarly(r)) {
			b.finish(b.Rows.Edit(id))
		}
	}
	b.ready = b.ready[:0]
}

// finish submits a batch's callback, or schedules another attempt by a sweep a second later; r is editable. No cap,
// rate or budget bounds it: it was admitted with the batch.
func (b *Batches) finish(r *state.BatchRow) {
	spec, before := r.Callback.Words(), r.Times()
	spec.ID, spec.Labels = rota.CallbackID(r.ID), r.Counts.Labels(spec.Labels)
	q := b.s.QueueTable.Get(r.Queue)
	if err := b.admitCallback(&spec, q); err != nil {
		r.Retry = b.s.Header.Date() + limits.BatchRetry
		b.retime(r, before)
		if why := state.Tail(err.Error(), limits.MaxReasonBytes); why != r.Why {
			r.Why = why
			b.emit(r, rota.EventBatchWaits, "", event{What: why})
		}
		return
	}
	b.expect(r, -1)
	j := b.ports.Insert(b.s.Specs.Keep(&spec), q)
	r.Callback, r.Retry, r.Why = nil, 0, ""
	r.Finished, r.Over, r.Forget = b.s.Header.Now(), j.Seq, b.ports.Remembered(r.Queue, 0)
	r.Calling = b.s.Header.Rules >= callingRules
	b.retime(r, before)
	b.emit(r, rota.EventBatchFinished, spec.ID, event{})
	b.ports.Start(j)
}

// callingRules is the first rules version under which a batch is kept while its callback lives.
const callingRules = 2

// Calls records that the callback of a batch lives again, or that it has ended: from then on the batch is remembered
// for as long as the callback.
func (b *Batches) Calls(id rota.JobID, lives bool) {
	of, callback := rota.SplitCallbackID(id)
	if !callback || b.s.Header.Rules < callingRules {
		return
	}
	r := b.Rows.Get(of)
	if r == nil || r.State() != rota.BatchFinished || r.Calling == lives {
		return
	}
	r = b.Rows.Edit(of)
	before := r.Times()
	if r.Calling = lives; !lives {
		r.Forget = b.ports.Remembered(r.Queue, 0)
	}
	b.retime(r, before)
}

// admitCallback refuses a callback under the same conditions as an already admitted job: if its queue, its keys or its
// requirements have no room.
func (b *Batches) admitCallback(spec *rota.JobSpec, q *state.QueueRow) error {
	if err := b.ports.Placed(spec, q); err != nil {
		return err
	}
	if err := b.ports.AdmitKeys(spec); err != nil {
		return err
	}
	return b.ports.AdmitClass(spec)
}

// Fire performs what a batch is due for: it is sealed, its callback is tried again, or it is forgotten.
func (b *Batches) Fire(name string) {
	r := b.Rows.Edit(rota.BatchID(name))
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
		b.Rows.Drop(r.ID)
	}
}

// retime updates a batch's timers.
func (b *Batches) retime(r *state.BatchRow, before state.BatchTimes) {
	now := r.Times()
	b.s.Timers.Batch.Refile(string(r.ID), before.Due, now.Due)
	b.s.Timers.Over.Refile(string(r.ID), before.Over, now.Over)
}

// Times adds all batches to the timers.
func (b *Batches) Times(t *state.Timers) {
	b.Rows.Scan(func(id rota.BatchID, r *state.BatchRow) bool {
		at := r.Times()
		t.Batch.Refile(string(id), 0, at.Due)
		t.Over.Refile(string(id), 0, at.Over)
		return true
	})
}

// Derive counts the contents of the rows.
func (b *Batches) Derive() {
	b.ToCome = b.tally()
	b.Times(&b.s.Timers)
}

// tally counts the pending callbacks.
func (b *Batches) tally() (c pendingCallbacks) {
	b.Rows.Scan(func(_ rota.BatchID, r *state.BatchRow) bool {
		if r.Callback != nil {
			c.count(r, 1)
		}
		return true
	})
	return c
}

// event is the payload of events about a batch.
type event struct {
	Batch rota.BatchID `json:"batch"`
	// What gives the reason why the batch was sealed, or why its callback waits.
	What string `json:"what,omitempty"`
	rota.BatchCounts
}

// emit adds an event about a batch.
func (b *Batches) emit(r *state.BatchRow, kind rota.EventKind, id rota.JobID, p event) {
	p.Batch, p.BatchCounts = r.ID, r.Counts
	b.s.Journal.Announce(&rota.Event{Kind: kind, Job: id, Queue: r.Queue, Tenant: r.Tenant, Payload: state.Payload(p)})
}

// OfBatches refuses to delete a queue that is the target of callbacks.
func OfBatches(queue rota.QueueName) *rota.Error {
	return rota.Refusef(rota.KindConflict, "queue",
		"callbacks of batches that have not ended go to queue %q: seal them with `rota batch seal`, and let "+
			"their jobs end", queue)
}

// Check checks the batches against the jobs that they count, and the derived data.
func (b *Batches) Check(fault func(format string, args ...any)) {
	live, gone := make(map[uint64]int64), make(map[uint64]rota.BatchCounts)
	b.s.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		n := j.History().Batch
		if r := b.Rows.Get(j.Spec.Batch); n != 0 && (r == nil || r.Number != n) {
			fault("I4: job %s is counted by batch %q of number %d, which is not there", id, j.Spec.Batch, n)
		}
		live[n]++
		return true
	})
	b.ports.Tombs.Scan(func(_ rota.JobID, t *state.TombRow) bool {
		if t.Batch != 0 {
			counts := gone[t.Batch]
			*counts.Of(t.State)++
			gone[t.Batch] = counts
		}
		return true
	})
	b.Rows.Scan(func(id rota.BatchID, r *state.BatchRow) bool {
		n, least := r.Counts, gone[r.Number]
		if n.Live != live[r.Number] || n.Total != n.Live+n.Completed+n.Dead+n.Expired+n.Cancelled ||
			n.Completed < least.Completed ||
			n.Dead < least.Dead || n.Expired < least.Expired || n.Cancelled < least.Cancelled {
			fault("I4: batch %s counts %+v, of its jobs %d live, and of those that ended %+v are known", id, n,
				live[r.Number], least)
		}
		b.check(r, fault)
		return true
	})
	want := b.tally()
	naming, wanted := b.ToCome.Naming.Whole(), want.Naming.Whole()
	if got := b.ToCome; got.n != want.n || got.sealed != want.sealed || got.bytes != want.bytes ||
		!maps.Equal(naming, wanted) ||
		len(b.ready) > 0 || b.Rows.Len() > limits.MaxBatches {
		fault("I4: %d batches have %d callbacks to come, %d of sealed ones, of %d bytes for %d queues; %d, %d, %d and %d are counted, %d are ready",
			b.Rows.Len(), want.n, want.sealed, want.bytes, len(wanted), got.n, got.sealed, got.bytes, len(naming),
			len(b.ready))
	}
}

// check checks that a batch's callback was submitted as soon as it had to be, and not earlier.
func (b *Batches) check(r *state.BatchRow, fault func(format string, args ...any)) {
	state, done := r.State(), rota.CallbackID(r.ID)
	over := state == rota.BatchFinished
	if over != (r.Over != 0) || over == r.Finished.IsZero() || state == rota.BatchOpen != r.Sealed.IsZero() ||
		r.Number == 0 || r.Number > b.s.Header.Events || r.Over > b.s.Header.JobSeq || r.Touched > b.s.Header.Date() {
		fault("I4: batch %s of number %d is %s, sealed %v, finished %v by job number %d", r.ID, r.Number, state,
			r.Sealed, r.Finished, r.Over)
	}
	if stuck := state == rota.BatchSealed && r.Counts.Live == 0; stuck != (r.Retry != 0) {
		fault("I4: batch %s is %s with %d live jobs, and tries again on %d", r.ID, state, r.Counts.Live, r.Retry)
	}
	if r.Calling && (!over || b.s.JobTable.Get(done) == nil) {
		fault("I4: batch %s is %s, and is kept for job %s, which does not live", r.ID, state, done)
	}
	if !over && (b.s.JobTable.Get(done) != nil || b.ports.Tombs.Get(done) != nil) {
		fault("I4: batch %s is %s, and job %s is known", r.ID, state, done)
	}
	if !over && (b.s.QueueTable.Get(r.Queue) == nil || r.Callback.Queue != r.Queue || r.Callback.Tenant != r.Tenant) {
		fault("I4: the callback of batch %s goes to queue %s of tenant %s, which is not there", r.ID, r.Queue,
			r.Tenant)
	}
}

// Batch returns a batch in its present state.
func (b *Batches) Batch(id rota.BatchID) (rota.Batch, bool) {
	r := b.Rows.Get(id)
	if r == nil {
		return rota.Batch{}, false
	}
	return r.Words(), true
}

// Each calls yield for the batches after an id, in the order of their ids, until it returns false.
func (b *Batches) Each(after rota.BatchID, yield func(rota.Batch) bool) {
	b.Rows.Tree.Ascend(after, func(id rota.BatchID, r *state.BatchRow) bool {
		return id == after || yield(r.Words())
	})
}

// Totals returns how many batches there are by state, without reading any of them.
func (b *Batches) Totals() (t [rota.BatchFinished + 1]int64) {
	t[rota.BatchOpen], t[rota.BatchSealed] = b.ToCome.n-b.ToCome.sealed, b.ToCome.sealed
	t[rota.BatchFinished] = int64(b.Rows.Len()) - b.ToCome.n
	return t
}
