package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// cancel ends a job that is not over; its lease is cancelled at once (SPEC §8.5).
func (m *Machine) cancel(op *fsmpb.Cancel) *fsmpb.Outcome {
	id := rota.JobID(op.GetJob())
	j := m.jobs.get(id)
	if f, v := m.flows.vertex(id); j == nil && v != nil && v.state == vertexBlocked {
		j = m.flows.makeJob(f, m.flows.workflows.edit(f.id), v.number)
	}
	if j == nil {
		return m.cancelLate(id)
	}
	m.expel(m.jobs.edit(id), rota.JobCancelled, rota.ReasonCancelledByUser)
	return &fsmpb.Outcome{JobState: uint32(rota.JobCancelled)}
}

func (m *Machine) cancelLate(id rota.JobID) *fsmpb.Outcome {
	t := m.ended.tombs.get(id)
	switch {
	case t == nil:
		return entry.Refused(rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id))
	case t.state == rota.JobCancelled:
		return &fsmpb.Outcome{JobState: uint32(t.state), Existed: true}
	default:
		o := entry.Refused(rota.Refusef(rota.KindConflict, "job", "job %s is %s already", id, t.state))
		o.JobState = uint32(t.state)
		return o
	}
}

// retry revives a terminal job that did not complete (SPEC §9.1, §16.6, Invariant I7):
// with fresh attempts and times to live, and with the payload and the past that its entry
// brings. It names the life that ended, by which a repetition is known.
func (m *Machine) retry(op *fsmpb.Retry) *fsmpb.Outcome {
	id := rota.JobID(op.GetJob())
	t, o := m.retriable(id, op.GetLife())
	if t == nil {
		return o
	}
	spec, past, err := revival(t, op.GetSpec(), op.GetPast())
	if err != nil {
		return entry.Refused(err)
	}
	q := m.queues.get(t.queue)
	if q == nil {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "queue", "queue %q of job %s was deleted: set it again to retry the job", t.queue, id))
	}
	if q.drainTo != "" {
		return entry.Refused(leaving(q))
	}
	if pending := q.pending(); pending >= q.policy.QueueCap {
		return entry.Refused(m.admission.full(q, "queue %q holds %d pending jobs: queue_cap is %d", q.name, pending, q.policy.QueueCap))
	}
	if err := m.keyring.admit(spec); err != nil {
		return entry.Refused(err)
	}
	if err := m.admitClass(spec); err != nil {
		return entry.Refused(err)
	}
	var key uniqueKey
	if spec.Unique != nil {
		if key, o = m.uniques.again(spec); o != nil {
			return o
		}
	}
	j := m.revive(t, spec, past)
	j.past = &jobPast{content: t.content, life: t.life + 1, retried: m.head.now(), since: max(m.head.clock, t.freeAt, m.leasing.believedUntil(id)), unique: key,
		batch: m.batches.rejoin(spec.Batch, t)}
	j.lastReason = t.reason
	if n := len(j.attempts); n > 0 {
		j.lastError = j.attempts[n-1].Error
	}
	m.jobs.insert(id, j)
	m.hooks.again(id)
	m.batches.calls(id, true)
	m.placement.classify(j)
	m.keyring.enter(j)
	if ttl := q.policy.TTLAbsMs; ttl > 0 || spec.TTL > 0 {
		if spec.TTL > 0 {
			ttl = spec.TTL.Milliseconds()
		}
		j.expireAbs = j.past.since + planted.ttlOffset(&m.state) + rota.Clock(ttl)
	}
	m.timers.expire.set(string(id), 0, int64(j.expires()))
	switch until, waits := m.leasing.awaits(j); {
	case waits:
		m.leasing.holdBack(j, max(t.freeAt, m.head.clock), until)
	case t.freeAt > m.head.clock:
		m.delayFor(j, t.freeAt)
	default:
		m.enqueue(j)
	}
	return &fsmpb.Outcome{JobState: uint32(j.state)}
}

// notRetried refuses to retry a node by itself, and names what can be done as things are.
func (fs *flows) notRetried(f *flow, v *vertexRow) error {
	name, state := vertexName(v), fs.view.JobState(v.spec.ID)
	switch r := fs.workflows.get(f.id); {
	case state == rota.JobCompleted:
		return rota.Refusef(rota.KindConflict, "job", "job %s is COMPLETED: a node that has completed is not run again", v.spec.ID)
	case state.Leased() && r.state == rota.WorkflowRunning:
		return rota.Refusef(rota.KindConflict, "job", "job %s is %s, as node of RUNNING workflow %s: end its attempt and try it again with "+
			"`rota job interrupt %s`", v.spec.ID, state, f.id, v.spec.ID)
	case state == rota.JobDelayed && r.state == rota.WorkflowRunning && !fs.leasing.waitsForWorker(fs.s.jobs.get(v.spec.ID)):
		return rota.Refusef(rota.KindConflict, "job", "job %s is DELAYED, as node of RUNNING workflow %s: queue it with `rota job run-now %s`",
			v.spec.ID, f.id, v.spec.ID)
	case !v.over() && r.state == rota.WorkflowRunning:
		return rota.Refusef(rota.KindConflict, "job", "job %s is %s, as node of RUNNING workflow %s: it still runs by itself; `rota job why %s` "+
			"shows what it waits for", v.spec.ID, state, f.id, v.spec.ID)
	case r.state == rota.WorkflowRunning:
		return rota.Refusef(rota.KindConflict, "job", "job %s is %s, as node of RUNNING workflow %s: once the workflow has ended (rota workflow wait "+
			"%s), run the node and what waits for it again with `rota workflow retry %s --from %s`", v.spec.ID, v.state, f.id, f.id, f.id, name)
	default:
		return rota.Refusef(rota.KindConflict, "job", "job %s is a node of workflow %s: run it again, and what waits for it, "+
			"with `rota workflow retry %s --from %s`", v.spec.ID, f.id, f.id, name)
	}
}

// retriable returns the tombstone of a job that can be retried after a life. A nil one comes
// with the answer.
func (m *Machine) retriable(id rota.JobID, life int32) (*tombRow, *fsmpb.Outcome) {
	if f, v := m.flows.vertex(id); v != nil {
		return nil, entry.Refused(m.flows.notRetried(f, v))
	}
	if w, node, ok := rota.SplitNodeJobID(id); ok {
		return nil, entry.Refused(rota.Refusef(rota.KindNotFound, "job", "job %q is not known as node %q of a workflow %q: submit the workflow "+
			"again", id, node, w))
	}
	if j := m.jobs.get(id); j != nil {
		var err error
		switch now := j.history().life; {
		case now > 0 && now == life+1:
			return nil, &fsmpb.Outcome{JobState: uint32(j.state), Existed: true}
		case now != life:
			err = rota.Refusef(rota.KindStale, "life", "job %s is %s in life %d, not over in life %d: look at it again", id, j.state, now, life)
		default:
			err = rota.Refusef(rota.KindConflict, "job", "job %s is %s: only a job that ended can be retried", id, j.state)
		}
		o := entry.Refused(err)
		o.JobState = uint32(j.state)
		return nil, o
	}
	t := m.ended.tombs.get(id)
	var err *rota.Error
	switch {
	case t == nil:
		return nil, entry.Refused(rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id))
	case t.life != life:
		err = rota.Refusef(rota.KindStale, "life", "job %s has ended %s in life %d, not in life %d: look at it again", id, t.state,
			t.life, life)
	case t.state == rota.JobCompleted:
		err = rota.Refusef(rota.KindConflict, "job", "job %s is COMPLETED: submit it under a new id to run it again", id)
	default:
		return t, nil
	}
	o := entry.Refused(err)
	o.JobState = uint32(t.state)
	return nil, o
}

// revive makes the row of a job that runs again, and takes its tombstone away. The caller
// says which life it is in, and inserts it.
func (m *Machine) revive(t *tombRow, spec *rota.JobSpec, past []rota.Attempt) *jobRow {
	m.ended.dropTomb(t.id, t.seq)
	m.head.jobSeq++
	j := m.newJob()
	m.own(j)
	j.spec = m.specs.keep(spec)
	j.specHash, j.seq = m.specs.hash(&m.ledger.enc, j.spec), m.head.jobSeq
	j.submitted, j.submittedDate, j.attempts = t.submitted.Clock, t.submitted.Date, past
	return j
}
