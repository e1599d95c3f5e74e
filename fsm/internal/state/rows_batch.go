package state

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// BatchRow is one batch (SPEC §24.1).
type BatchRow struct {
	RowMeta
	ID rota.BatchID
	// Number is the number of the event that opened it, and so differs from that of any other batch with the same id:
	// jobs use it to name the batch that counts them.
	Number uint64
	// Content is the hash of the specification that opened it.
	Content rota.Digest
	Tenant  rota.TenantID
	Queue   rota.QueueName
	Typ     rota.JobType
	Size    int64
	By      rota.Principal
	// Callback is the job still to be submitted; nil once it was.
	Callback *KeptSpec
	Counts   rota.BatchCounts
	Opened   rota.Moment
	// Touched is when a job was last added, or when it was opened.
	Touched          rota.Date
	Sealed, Finished rota.Moment
	// Retry is when to try a refused callback again, and for why the reason of the refusal; 0 if it was not refused.
	Retry rota.Date
	Why   string
	// Over is the number of the callback's submission, forget when the batch is forgotten; 0 before its end.
	Over   uint64
	Forget rota.Date
	// Calling reports whether the callback lives; never under rules version 1.
	Calling bool
}

// Canonical appends the canonical form for digests and snapshots.
func (r *BatchRow) Canonical(e *Encoder) {
	e.Str(string(r.ID))
	e.Uint(r.Number)
	e.digest(r.Content)
	e.Str(string(r.Tenant))
	e.Str(string(r.Queue))
	e.Str(string(r.Typ))
	e.Int(r.Size)
	e.Str(string(r.By))
	e.Bool(r.Callback != nil)
	if r.Callback != nil {
		EncodeSpec(e, r.Callback)
	}
	for _, n := range []int64{r.Counts.Total, r.Counts.Live, r.Counts.Completed, r.Counts.Dead, r.Counts.Expired,
		r.Counts.Cancelled} {
		e.Int(n)
	}
	e.Moment(r.Opened)
	e.Int(int64(r.Touched))
	e.Moment(r.Sealed)
	e.Moment(r.Finished)
	e.Int(int64(r.Retry))
	e.Str(r.Why)
	e.Uint(r.Over)
	e.Int(int64(r.Forget))
	if r.Calling {
		e.Bool(true)
	}
}

// DecodeBatch reads what Canonical wrote.
func DecodeBatch(d *Decoder) *BatchRow {
	r := &BatchRow{ID: rota.BatchID(d.Str()), Number: d.Uint(), Content: d.digest(), Tenant: rota.TenantID(d.Str()),
		Queue: rota.QueueName(d.Str()), Typ: rota.JobType(d.Str()), Size: d.Int(), By: rota.Principal(d.Str())}
	if d.Bool() {
		r.Callback = decodeSpec(d)
	}
	c := &r.Counts
	for _, n := range []*int64{&c.Total, &c.Live, &c.Completed, &c.Dead, &c.Expired, &c.Cancelled} {
		*n = d.Int()
	}
	r.Opened, r.Touched, r.Sealed, r.Finished = d.Moment(), rota.Date(d.Int()), d.Moment(), d.Moment()
	r.Retry, r.Why, r.Over, r.Forget = rota.Date(d.Int()), d.Str(), d.Uint(), rota.Date(d.Int())
	if len(d.B) > 0 {
		if r.Calling = d.Bool(); !r.Calling {
			d.Fail()
		}
	}
	return r
}

// TreeKey returns the id.
func (r *BatchRow) TreeKey() rota.BatchID { return r.ID }

// It counts for its tenant. Its queue may be deleted once it has ended.
func (r *BatchRow) owner() (rota.QueueName, rota.TenantID) { return "", r.Tenant }

// Besides returns the size of the data that the row stores as a hash.
func (r *BatchRow) Besides() int64 { return 0 }

// State derives the state of the batch from its counts.
func (r *BatchRow) State() rota.BatchState {
	switch {
	case r.Callback == nil:
		return rota.BatchFinished
	case !r.Sealed.IsZero():
		return rota.BatchSealed
	}
	return rota.BatchOpen
}

// seals returns when an open batch is sealed if no job is added.
func (r *BatchRow) seals() rota.Date { return r.Touched + limits.BatchSeals }

// BatchTimes holds a batch's times in the timers.
type BatchTimes struct{ Due, Over int64 }

// Times returns the batch's times in the timers.
func (r *BatchRow) Times() (t BatchTimes) {
	switch r.State() {
	case rota.BatchOpen:
		t.Due = int64(r.seals())
	case rota.BatchSealed:
		t.Due = int64(r.Retry)
	case rota.BatchFinished:
		if r.Counts.Live == 0 && !r.Calling { // otherwise it still counts a retried job, or its callback lives
			t.Due, t.Over = int64(r.Forget), int64(r.Over)
		}
	}
	return t
}

// Words returns the row in its public form.
func (r *BatchRow) Words() rota.Batch {
	b := rota.Batch{ID: r.ID, State: r.State(), Tenant: r.Tenant, Queue: r.Queue, Type: r.Typ, Size: r.Size,
		BatchCounts: r.Counts, Opened: r.Opened, Sealed: r.Sealed, Finished: r.Finished, Why: r.Why, By: r.By}
	switch b.State {
	case rota.BatchOpen:
		b.SealsAt = r.seals()
	case rota.BatchFinished:
		b.Callback = rota.CallbackID(r.ID)
	case rota.BatchSealed:
	}
	return b
}
