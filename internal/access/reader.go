package access

import (
	"context"

	"github.com/rotasched/rota"
)

// Reader is the read access of one caller. The nil Reader reads everything: it is a node that reads for itself, or a
// caller with all rights.
type Reader struct{ rights *Rights }

// NewReader returns a reader with the given rights.
func NewReader(r *Rights) *Reader {
	if r.All() {
		return nil
	}
	return &Reader{r}
}

// Itself returns a context for the work that a node does on its own behalf within a call.
func Itself(ctx context.Context) context.Context { return context.WithValue(ctx, CallerKey{}, nil) }

// Has reports whether the reader has a right over a tenant and a queue.
func (r *Reader) Has(right rota.Right, tenant rota.TenantID, queue rota.QueueName) bool {
	return r == nil || r.rights.Allow(right, tenant, queue)
}

// Reads reports whether objects of a tenant and a queue may be read.
func (r *Reader) Reads(tenant rota.TenantID, queue rota.QueueName) bool {
	return r.Has(rota.RightRead, tenant, queue)
}

// ReadsAll reports whether everything may be read. Counts, figures and hashes that depend on the jobs of all tenants
// are only for such readers.
func (r *Reader) ReadsAll() bool { return r.Reads(Everything, Everything) }

// decision removes from an assignment's decision the figures that depend on the jobs of others: its position in the
// draw, and how busy workers were.
func (r *Reader) decision(d *rota.Decision) {
	if !r.ReadsAll() {
		d.Rank, d.Reasoning.N, d.Reasoning.Of = 0, 0, 0
	}
}

// Job reports whether a job may be read, and removes its users' data if only the job's outcome may be read.
func (r *Reader) Job(j *rota.Job) bool {
	if !r.Reads(j.Tenant, j.Queue) {
		return false
	}
	if !r.Has(rota.RightData, j.Tenant, j.Queue) {
		j.Payload, j.Headers, j.Output, j.Meta, j.Fingerprint = nil, nil, nil, nil, nil
		j.Error, j.ProgressNote = "", ""
	}
	if r.ReadsAll() {
		return true
	}
	attempts := make([]rota.Attempt, len(j.Attempts))
	for i, a := range j.Attempts {
		if !r.Has(rota.RightData, j.Tenant, j.Queue) {
			a.Error = ""
		}
		r.decision(&a.Decision)
		attempts[i] = a
	}
	j.Attempts = attempts
	if j.Lease != nil {
		lease := *j.Lease
		r.decision(&lease.Decision)
		j.Lease = &lease
	}
	return true
}

// Events returns the events that may be read, as a new list if some are excluded. Events without a tenant are for
// callers that may audit. Without the right to read everything, events omit the hashes of the whole state, and
// assignments omit their payload, which has figures of other jobs.
func (r *Reader) Events(all []rota.ServedEvent) []rota.ServedEvent {
	if r == nil {
		return all
	}
	var some []rota.ServedEvent
	for _, e := range all {
		queue := e.Queue
		if queue == "" {
			queue = Everything
		}
		switch {
		case e.Tenant == "" && !r.Has(rota.RightAudit, Everything, Everything), e.Tenant != "" &&
			!r.Reads(e.Tenant, queue):
			continue
		case e.Tenant != "" && !r.Has(rota.RightData, e.Tenant, queue):
			e.Text = ""
		}
		if !r.ReadsAll() {
			e.Prior, e.Post = rota.Digest{}, rota.Digest{}
			if e.Kind == rota.EventJobAssigned {
				e.Payload, e.PayloadHash = "", nil
			}
		}
		some = append(some, e)
	}
	return some
}

// Queue reports whether a queue may be read. Its policy is readable if something in it is. Its counters, which cover
// all tenants, are kept only if everything in it is readable.
func (r *Reader) Queue(q *rota.Queue) bool {
	if r.Reads(Everything, q.Name) {
		return true
	}
	*q = rota.Queue{Name: q.Name, Policy: q.Policy}
	name := string(q.Name)
	for _, g := range r.rights.grants {
		if g.Right == rota.RightRead && covers(g.Queue, name) && narrowed(r.rights.queues, name) {
			return true
		}
	}
	return false
}

// Worker reduces a worker to its id, queues and status for callers that may change it but lack the status right: its
// leases name the jobs of others.
func (r *Reader) Worker(w *rota.Worker) {
	if !r.Has(rota.RightStatus, Everything, Everything) {
		*w = rota.Worker{WorkerSpec: rota.WorkerSpec{ID: w.ID, Queues: w.Queues}, Status: w.Status,
			StatusSince: w.StatusSince, Session: w.Session}
	}
}

// Schedule reports whether a schedule may be read, and removes its users' data from its job if only the job's outcome
// may be read.
func (r *Reader) Schedule(s *rota.Schedule) bool {
	if !r.Has(rota.RightData, s.Job.Tenant, s.Job.Queue) {
		s.Job.Payload, s.Job.Headers = nil, nil
	}
	return r.Reads(s.Job.Tenant, s.Job.Queue)
}

// Batch reports whether a batch may be read.
func (r *Reader) Batch(b *rota.Batch) bool { return r.Reads(b.Tenant, b.Queue) }

// ReaderOf returns a reader limited to the given grants, without any right beyond them.
func ReaderOf(grants []rota.Grant) *Reader { return &Reader{&Rights{grants: grants}} }

// Webhook reports whether a webhook may be read: by a caller that may read everything it sees, or that works on its
// deliveries.
func (r *Reader) Webhook(w *rota.Webhook) bool {
	return r == nil || r.rights.CoverAll(w.Sees) || r.Has(rota.RightWork, rota.WebhookTenant, rota.WebhookQueue)
}

// Tenant reports whether a tenant may be read; its counters cover all queues.
func (r *Reader) Tenant(t *rota.Tenant) bool { return r.Reads(t.ID, Everything) }

// Explanation removes from an explanation the names of workers, for callers that may not see their status, and the
// figures that depend on the jobs of others.
func (r *Reader) Explanation(x *rota.Explanation) {
	for _, d := range append([]*rota.PlacedDecision{x.Decision}, pointers(x.Decisions)...) {
		if d == nil {
			continue
		}
		if !r.Has(rota.RightStatus, Everything, Everything) {
			d.Others, d.Note = nil, ""
		}
		r.decision(&d.Decision)
	}
}

func pointers(list []rota.PlacedDecision) (all []*rota.PlacedDecision) {
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}
