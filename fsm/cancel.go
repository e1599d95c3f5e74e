package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// cancel ends a job that is not over; its lease is cancelled at once (SPEC §8.5).
func (m *Machine) cancel(op *fsmpb.Cancel) *fsmpb.Outcome {
	id := rota.JobID(op.GetJob())
	j := m.jobs.get(id)
	if f, v := m.vertex(id); j == nil && v != nil && v.state == vertexBlocked {
		j = m.makeJob(f, m.workflows.edit(f.id), v.number)
	}
	if j == nil {
		return m.cancelLate(id)
	}
	m.expel(m.jobs.edit(id), rota.Cancelled, rota.CancelledByUser)
	return &fsmpb.Outcome{JobState: uint32(rota.Cancelled)}
}

func (m *Machine) cancelLate(id rota.JobID) *fsmpb.Outcome {
	t := m.tombs.get(id)
	switch {
	case t == nil:
		return refused(rota.Refusef(rota.NotFound, "job", "job %q is not known", id))
	case t.state == rota.Cancelled:
		return &fsmpb.Outcome{JobState: uint32(t.state), Existed: true}
	default:
		o := refused(rota.Refusef(rota.Conflict, "job", "job %s is %s already", id, t.state))
		o.JobState = uint32(t.state)
		return o
	}
}

// expel ends a job from whatever state it is in: CANCELLED or EXPIRED.
func (m *Machine) expel(j *jobRow, state rota.JobState, why rota.Reason) {
	kind := rota.JobCancelled
	if state == rota.Expired {
		kind = rota.JobExpired
	}
	if h := m.holds.get(j.spec.ID); h != nil {
		m.endHold(h, holdEnd(state)) // nothing is told of a job after its end
	}
	if j.state.Leased() {
		l := m.leases.get(string(j.lease[:]))
		// The worker is told, and may not hear: a retry must not meet it at work.
		m.own(j)
		j.freeAt = leaseDue(l, m.workers.get(l.Worker))
		m.closeLease(l, j, why, "")
		m.emitFor(j, &rota.Event{Kind: rota.LeaseCancelledEvent, Job: l.Job, Queue: l.queue, Tenant: l.tenant, Worker: l.Worker,
			Session: l.Session, Lease: l.ID, Attempt: l.Attempt, Reason: why})
	}
	if j.state == rota.Delayed && j.revived() {
		m.own(j)
		j.freeAt = j.due // the worker of an earlier life may not have heard yet
	}
	m.emitFor(j, &rota.Event{Kind: kind, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Attempt: j.attempt, Reason: why})
	m.finish(j, state, why, nil, nil)
}

// retry revives a terminal job that did not complete (SPEC §9.1, Invariant I7):
// with fresh attempts and times to live, and the payload that its entry brings.
func (m *Machine) retry(op *fsmpb.Retry) *fsmpb.Outcome {
	id := rota.JobID(op.GetJob())
	if f, v := m.vertex(id); v != nil {
		return refused(rota.Refusef(rota.Conflict, "job", "job %s is a node of workflow %s: run it again, and what waits for it, "+
			"with `rota workflow retry %s --from %s`", id, f.id, f.id, vertexName(v)))
	}
	if w, node, ok := rota.SplitNodeJobID(id); ok {
		return refused(rota.Refusef(rota.NotFound, "job", "job %q is not known as node %q of a workflow %q: submit the workflow again",
			id, node, w))
	}
	if j := m.jobs.get(id); j != nil {
		if j.revived() {
			return &fsmpb.Outcome{JobState: uint32(j.state), Existed: true}
		}
		o := refused(rota.Refusef(rota.Conflict, "job", "job %s is %s: only a job that ended can be retried", id, j.state))
		o.JobState = uint32(j.state)
		return o
	}
	t := m.tombs.get(id)
	if t == nil {
		return refused(rota.Refusef(rota.NotFound, "job", "job %q is not known", id))
	}
	if t.state == rota.Completed {
		o := refused(rota.Refusef(rota.Conflict, "job", "job %s is COMPLETED: submit it under a new id to run it again", id))
		o.JobState = uint32(t.state)
		return o
	}
	spec, err := revival(t, op.GetSpec())
	if err != nil {
		return refused(err)
	}
	q := m.queues.get(t.queue)
	if pending := q.pending(); pending >= q.policy.QueueCap {
		return refused(m.full(q, "queue %q holds %d pending jobs: queue_cap is %d", q.name, pending, q.policy.QueueCap))
	}
	if err := m.admitClass(spec); err != nil {
		return refused(err)
	}
	m.tombs.drop(id, t.seq)
	m.head.jobSeq++
	kept := m.specs.keep(spec)
	j := m.newJob()
	m.own(j)
	j.spec, j.specHash, j.seq = kept, hashSpec(&m.ledger.enc, kept), m.head.jobSeq
	j.past = &jobPast{content: t.content}
	j.submitted, j.submittedDate, j.lastReason, j.prior = m.head.clock, m.head.date(), t.reason, t.seq
	m.jobs.insert(id, j)
	m.classify(j)
	if ttl := q.policy.TTLAbsMs; ttl > 0 || spec.TTLMs > 0 {
		if spec.TTLMs > 0 {
			ttl = spec.TTLMs
		}
		j.expireAbs = max(m.head.clock, t.freeAt) + planted.ttlOffset(m) + rota.Clock(ttl)
		m.timers.expire.set(string(id), 0, int64(j.expireAbs))
	}
	if t.freeAt > m.head.clock {
		m.delay(j, t.freeAt)
	} else {
		m.enqueue(j)
	}
	return &fsmpb.Outcome{JobState: uint32(j.state)}
}

// revived says that a retry brought the job back and nothing happened since: the
// same retry again is answered with its first outcome (SPEC §2.7). A reason
// without any lease in this life can only come from an earlier one.
func (r *jobRow) revived() bool { return r.firstLease.IsZero() && r.lastReason != rota.ReasonNone }
