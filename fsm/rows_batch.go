package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// batchRow is one batch (SPEC §24.1).
type batchRow struct {
	rowMeta
	id rota.BatchID
	// number is that of the event of its opening, and so of no other batch, of this id either: by
	// it jobs know which one counts them.
	number uint64
	// content is the hash of what was opened.
	content rota.Digest
	tenant  rota.TenantID
	queue   rota.QueueName
	typ     rota.JobType
	size    int64
	by      rota.Principal
	// callback is what is to be submitted; nil once it was.
	callback *keptSpec
	counts   rota.BatchCounts
	opened   rota.Moment
	// touched is when a job last came, or when it was opened.
	touched          rota.Date
	sealed, finished rota.Moment
	// retry is when the callback is tried again that was refused, for why; 0 where it was not.
	retry rota.Date
	why   string
	// over is the number of the callback's submission, forget when the batch is forgotten; 0
	// before its end.
	over   uint64
	forget rota.Date
	// calling says that the callback lives; never by rules version 1.
	calling bool
}

func (r *batchRow) canonical(e *encoder) {
	e.str(string(r.id))
	e.uint(r.number)
	e.digest(r.content)
	e.str(string(r.tenant))
	e.str(string(r.queue))
	e.str(string(r.typ))
	e.int(r.size)
	e.str(string(r.by))
	e.bool(r.callback != nil)
	if r.callback != nil {
		encodeSpec(e, r.callback)
	}
	for _, n := range []int64{r.counts.Total, r.counts.Live, r.counts.Completed, r.counts.Dead, r.counts.Expired, r.counts.Cancelled} {
		e.int(n)
	}
	e.moment(r.opened)
	e.int(int64(r.touched))
	e.moment(r.sealed)
	e.moment(r.finished)
	e.int(int64(r.retry))
	e.str(r.why)
	e.uint(r.over)
	e.int(int64(r.forget))
	if r.calling {
		e.bool(true)
	}
}

func decodeBatch(d *decoder) *batchRow {
	r := &batchRow{id: rota.BatchID(d.str()), number: d.uint(), content: d.digest(), tenant: rota.TenantID(d.str()), queue: rota.QueueName(d.str()),
		typ: rota.JobType(d.str()), size: d.int(), by: rota.Principal(d.str())}
	if d.bool() {
		r.callback = decodeSpec(d)
	}
	c := &r.counts
	for _, n := range []*int64{&c.Total, &c.Live, &c.Completed, &c.Dead, &c.Expired, &c.Cancelled} {
		*n = d.int()
	}
	r.opened, r.touched, r.sealed, r.finished = d.moment(), rota.Date(d.int()), d.moment(), d.moment()
	r.retry, r.why, r.over, r.forget = rota.Date(d.int()), d.str(), d.uint(), rota.Date(d.int())
	if len(d.b) > 0 {
		if r.calling = d.bool(); !r.calling {
			d.fail()
		}
	}
	return r
}

// TreeKey is the id.
func (r *batchRow) TreeKey() rota.BatchID { return r.id }

// It counts for its tenant. Its queue may go once it has ended.
func (r *batchRow) owner() (rota.QueueName, rota.TenantID) { return "", r.tenant }
func (r *batchRow) besides() int64                         { return 0 }

func (r *batchRow) state() rota.BatchState {
	switch {
	case r.callback == nil:
		return rota.BatchFinished
	case !r.sealed.IsZero():
		return rota.BatchSealed
	}
	return rota.BatchOpen
}

// seals is when an open batch is sealed if no job comes.
func (r *batchRow) seals() rota.Date { return r.touched + limits.BatchSeals }

// batchTimes are where a batch stands among the timers.
type batchTimes struct{ due, over int64 }

func (r *batchRow) times() (t batchTimes) {
	switch r.state() {
	case rota.BatchOpen:
		t.due = int64(r.seals())
	case rota.BatchSealed:
		t.due = int64(r.retry)
	case rota.BatchFinished:
		if r.counts.Live == 0 && !r.calling { // else a retried job is counted by it still, or its callback lives
			t.due, t.over = int64(r.forget), int64(r.over)
		}
	}
	return t
}

func (r *batchRow) words() rota.Batch {
	b := rota.Batch{ID: r.id, State: r.state(), Tenant: r.tenant, Queue: r.queue, Type: r.typ, Size: r.size, BatchCounts: r.counts, Opened: r.opened,
		Sealed: r.sealed, Finished: r.finished, Why: r.why, By: r.by}
	switch b.State {
	case rota.BatchOpen:
		b.SealsAt = r.seals()
	case rota.BatchFinished:
		b.Callback = rota.CallbackID(r.id)
	case rota.BatchSealed:
	}
	return b
}
