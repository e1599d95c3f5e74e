package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
)

// cancel ends a job that is not over; its lease is cancelled at once (SPEC §8.5).
func (m *Machine) cancel(op *fsmpb.Cancel) *fsmpb.Outcome {
	id := rota.JobID(op.GetJob())
	j := m.JobTable.Get(id)
	if f, v := m.flows.vertex(id); j == nil && v != nil && v.State == state.VertexBlocked {
		j = m.flows.makeJob(f, m.flows.workflows.Edit(f.id), v.Number)
	}
	if j == nil {
		return m.cancelLate(id)
	}
	m.expel(m.JobTable.Edit(id), rota.JobCancelled, rota.ReasonCancelledByUser)
	return &fsmpb.Outcome{JobState: uint32(rota.JobCancelled)}
}

func (m *Machine) cancelLate(id rota.JobID) *fsmpb.Outcome {
	t := m.ended.tombs.Get(id)
	switch {
	case t == nil:
		return entry.Refused(rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id))
	case t.State == rota.JobCancelled:
		return &fsmpb.Outcome{JobState: uint32(t.State), Existed: true}
	default:
		o := entry.Refused(rota.Refusef(rota.KindConflict, "job", "job %s is %s already", id, t.State))
		o.JobState = uint32(t.State)
		return o
	}
}

// retry revives a terminal job that did not complete (SPEC §9.1, §16.6, Invariant I7): with fresh attempts and times to
// live, and with the payload and the past that its entry carries. It names the life that ended, which identifies a
// repetition.
func (m *Machine) retry(op *fsmpb.Retry) *fsmpb.Outcome {
	id := rota.JobID(op.GetJob())
	t, o := m.retriable(id, op.GetLife())
	if t == nil {
		return o
	}
	spec, was, err := revival(t, op.GetSpec(), op.GetPast())
	if err != nil {
		return entry.Refused(err)
	}
	q := m.QueueTable.Get(t.Queue)
	if q == nil {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "queue",
			"queue %q of job %s was deleted: set it again to retry the job", t.Queue, id))
	}
	if q.DrainTo != "" {
		return entry.Refused(refuse.Leaving(q))
	}
	if pending := q.Pending(); pending >= q.Policy.QueueCap {
		return entry.Refused(m.admission.full(q, "queue %q holds %d pending jobs: queue_cap is %d", q.Name, pending,
			q.Policy.QueueCap))
	}
	if err := m.keyring.Admit(spec); err != nil {
		return entry.Refused(err)
	}
	if err := m.admitClass(spec); err != nil {
		return entry.Refused(err)
	}
	var key state.UniqueKey
	if spec.Unique != nil {
		if key, o = m.uniques.Again(spec); o != nil {
			return o
		}
	}
	j := m.revive(t, spec, was)
	j.Past = &state.JobPast{Content: t.Content, Life: t.Life + 1, Retried: m.Header.Now(),
		Since: max(m.Header.Clock, t.FreeAt, m.leasing.believedUntil(id)), Unique: key,
		Batch: m.batches.Rejoin(spec.Batch, t), Spent: was.spent}
	j.LastReason = t.Reason
	if n := len(j.Attempts); n > 0 {
		j.LastError = j.Attempts[n-1].Error
	}
	m.JobTable.Insert(id, j)
	m.hooks.Again(id)
	m.batches.Calls(id, true)
	m.placement.classify(j)
	m.keyring.Enter(j)
	if ttl := q.Policy.TTLAbsMs; ttl > 0 || spec.TTL > 0 {
		if spec.TTL > 0 {
			ttl = spec.TTL.Milliseconds()
		}
		j.ExpireAbs = j.Past.Since + planted.ttlOffset(&m.State) + rota.Clock(ttl)
	}
	m.Timers.Expire.Refile(string(id), 0, int64(j.Expires()))
	switch until, waits := m.leasing.awaits(j); {
	case waits:
		m.leasing.holdBack(j, max(t.FreeAt, m.Header.Clock), until)
	case t.FreeAt > m.Header.Clock:
		m.delayFor(j, t.FreeAt)
	default:
		m.enqueue(j)
	}
	return &fsmpb.Outcome{JobState: uint32(j.State)}
}

// notRetried refuses to retry a node by itself, and names the present alternatives.
func (fs *flows) notRetried(f *flow, v *state.VertexRow) error {
	name, state := state.VertexName(v), fs.view.JobState(v.Spec.ID)
	switch r := fs.workflows.Get(f.id); {
	case state == rota.JobCompleted:
		return rota.Refusef(rota.KindConflict, "job", "job %s is COMPLETED: a node that has completed is not run again",
			v.Spec.ID)
	case state.Leased() && r.State == rota.WorkflowRunning:
		return rota.Refusef(rota.KindConflict, "job",
			"job %s is %s, as node of RUNNING workflow %s: end its attempt and try it again with "+
				"`rota job interrupt %s`", v.Spec.ID, state, f.id, v.Spec.ID)
	case state == rota.JobDelayed && r.State == rota.WorkflowRunning &&
		!fs.leasing.waitsForWorker(fs.s.JobTable.Get(v.Spec.ID)):
		return rota.Refusef(rota.KindConflict, "job",
			"job %s is DELAYED, as node of RUNNING workflow %s: queue it with `rota job run-now %s`",
			v.Spec.ID, f.id, v.Spec.ID)
	case !v.Over() && r.State == rota.WorkflowRunning:
		return rota.Refusef(rota.KindConflict, "job",
			"job %s is %s, as node of RUNNING workflow %s: it still runs by itself; `rota job why %s` "+
				"shows what it waits for", v.Spec.ID, state, f.id, v.Spec.ID)
	case r.State == rota.WorkflowRunning:
		return rota.Refusef(rota.KindConflict, "job",
			"job %s is %s, as node of RUNNING workflow %s: once the workflow has ended (rota workflow wait "+
				"%s), run the node and what waits for it again with `rota workflow retry %s --from %s`", v.Spec.ID,
			v.State, f.id, f.id, f.id, name)
	default:
		return rota.Refusef(rota.KindConflict, "job",
			"job %s is a node of workflow %s: run it again, and what waits for it, "+
				"with `rota workflow retry %s --from %s`", v.Spec.ID, f.id, f.id, name)
	}
}

// retriable returns the tombstone of a job that can be retried after a life. A nil tombstone comes with the outcome.
func (m *Machine) retriable(id rota.JobID, life int32) (*state.TombRow, *fsmpb.Outcome) {
	if f, v := m.flows.vertex(id); v != nil {
		return nil, entry.Refused(m.flows.notRetried(f, v))
	}
	if w, node, ok := rota.SplitNodeJobID(id); ok {
		return nil, entry.Refused(rota.Refusef(rota.KindNotFound, "job",
			"job %q is not known as node %q of a workflow %q: submit the workflow "+
				"again", id, node, w))
	}
	if j := m.JobTable.Get(id); j != nil {
		var err error
		switch now := j.History().Life; {
		case now > 0 && now == life+1:
			return nil, &fsmpb.Outcome{JobState: uint32(j.State), Existed: true}
		case now != life:
			err = rota.Refusef(rota.KindStale, "life", "job %s is %s in life %d, not over in life %d: look at it again",
				id, j.State, now, life)
		default:
			err = rota.Refusef(rota.KindConflict, "job", "job %s is %s: only a job that ended can be retried", id,
				j.State)
		}
		o := entry.Refused(err)
		o.JobState = uint32(j.State)
		return nil, o
	}
	t := m.ended.tombs.Get(id)
	var err *rota.Error
	switch {
	case t == nil:
		return nil, entry.Refused(rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id))
	case t.Life != life:
		err = rota.Refusef(rota.KindStale, "life", "job %s has ended %s in life %d, not in life %d: look at it again",
			id, t.State, t.Life, life)
	case t.State == rota.JobCompleted:
		err = rota.Refusef(rota.KindConflict, "job", "job %s is COMPLETED: submit it under a new id to run it again",
			id)
	default:
		return t, nil
	}
	o := entry.Refused(err)
	o.JobState = uint32(t.State)
	return nil, o
}

// revive creates the row of a job that runs again, and removes its tombstone. The caller sets its life and inserts it.
func (m *Machine) revive(t *state.TombRow, spec *rota.JobSpec, was past) *state.JobRow {
	m.ended.dropTomb(t.ID, t.Seq)
	m.Header.JobSeq++
	j := m.NewJob()
	m.own(j)
	j.Spec = m.Specs.Keep(spec)
	j.SpecHash, j.Seq = m.Specs.Hash(&m.Ledger.Enc, j.Spec), m.Header.JobSeq
	j.Submitted, j.SubmittedDate, j.Attempts = t.Submitted.Clock, t.Submitted.Date, was.attempts
	return j
}
