package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// reportProof takes a verifier's word that the proof of a completed job is invalid
// (SPEC §9.5): the worker pays as for any invalid proof, and the job runs again if
// it asked for that and attempts are left. A second report of the same lease is
// answered with what became of the first. A node of a workflow does not run again:
// others have seen its output.
func (m *Machine) reportProof(op *fsmpb.ReportProof) *fsmpb.Outcome {
	id := rota.JobID(op.GetJob())
	switch {
	case len(op.GetLease()) != len(rota.LeaseID{}):
		return entry.Refused(rota.Refusef(rota.KindInvalid, "lease", "lease id has %d bytes: %d are wanted", len(op.GetLease()),
			len(rota.LeaseID{})))
	case len(op.GetReason()) > limits.MaxReasonBytes:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "reason", "reason has %d bytes: at most %d are taken", len(op.GetReason()),
			limits.MaxReasonBytes))
	}
	lease := rota.LeaseID(op.GetLease())
	t := m.ended.tombs.get(id)
	if o := m.disproved(id, lease, t); o != nil {
		return o
	}
	if err := m.reportable(id, lease, t); err != nil {
		return entry.Refused(err)
	}
	var again *rota.JobSpec
	var past []rota.Attempt
	if _, _, node := rota.SplitNodeJobID(id); op.GetSpec() != nil && !node {
		spec, was, err := revival(t, op.GetSpec(), op.GetPast())
		if past = was; err == nil && spec.RetryOnInvalidProof {
			again, err = spec, m.admitClass(spec)
		}
		if err != nil {
			return entry.Refused(err)
		}
	}
	m.blame(t, op.GetReason())
	if again == nil {
		m.ended.tombs.reject(id)
		return &fsmpb.Outcome{JobState: uint32(rota.JobCompleted)}
	}
	return &fsmpb.Outcome{JobState: uint32(m.rerun(t, again, past, op.GetReason()))}
}

// disproved answers for a lease whose proof is known to be invalid; nil where it
// is not.
func (m *Machine) disproved(id rota.JobID, lease rota.LeaseID, t *tombRow) *fsmpb.Outcome {
	if t != nil && t.lease == lease && (t.reason == rota.ReasonProofRejected || t.reason == rota.ReasonProofInvalid) {
		return &fsmpb.Outcome{JobState: uint32(t.state), Existed: true}
	}
	if j := m.jobs.get(id); j != nil {
		for i := range j.attempts {
			if a := &j.attempts[i]; a.Lease == lease && a.End == rota.ReasonProofInvalid {
				return &fsmpb.Outcome{JobState: uint32(j.state), Existed: true}
			}
		}
	}
	return nil
}

// reportable refuses a report on what is not a completion, or too long ago.
func (m *Machine) reportable(id rota.JobID, lease rota.LeaseID, t *tombRow) error {
	if t == nil {
		if j := m.jobs.get(id); j != nil {
			return notCompleted(id, j.state)
		}
		return rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id)
	}
	window := rota.Clock(m.queues.get(t.queue).policy.AuditWindowMs)
	switch {
	case t.state != rota.JobCompleted:
		return notCompleted(id, t.state)
	case t.lease != lease:
		return rota.Refusef(rota.KindConflict, "lease", "lease %s did not complete job %s: lease %s did", lease, id, t.lease)
	case m.head.clock > t.finished.Clock+window:
		return rota.Refusef(rota.KindConflict, "audit_window_ms",
			"the audit window of job %s ended at %s, %d ms ago: audit_window_ms of queue %s is %d", id,
			m.head.now().At(t.finished.Clock+window).Date, m.head.clock-t.finished.Clock-window, t.queue, window)
	}
	return nil
}

func notCompleted(id rota.JobID, state rota.JobState) error {
	return rota.Refusef(rota.KindConflict, "job", "job %s is %s: only the proof of a COMPLETED one can be reported", id, state)
}

// blame slashes the worker of a completion, if it is still known. One that is not
// is told of with no penalty: the report stands in the events either way.
func (m *Machine) blame(t *tombRow, text string) {
	e := rota.Event{Kind: rota.EventProviderSlashed, Job: t.id, Queue: t.queue, Tenant: t.tenant, Worker: t.worker,
		Lease: t.lease, Attempt: t.attempt, Reason: rota.ReasonProofRejected, Text: text}
	if w := m.fleet.workers.edit(t.worker); w != nil {
		m.fleet.disprove(w, &m.queues.get(t.queue).policy, e)
		return
	}
	e.Payload = slashPayload(0, 0, e.Reason)
	m.journal.emit(e)
}

// rerun takes a completion back: the job is RUNNING once more for as long as it
// takes to use the attempt up as PROOF_INVALID, and goes on with the life that it
// had. Its times to live count from where they began.
func (m *Machine) rerun(t *tombRow, spec *rota.JobSpec, past []rota.Attempt, text string) rota.JobState {
	q := m.queues.edit(t.queue)
	q.count(rota.JobRunning, 1)
	j := m.revive(t, spec, past)
	j.past = &jobPast{content: t.content, life: t.life, retried: t.retried}
	began := max(t.submitted.Clock, t.retried.Clock)
	j.state, j.attempt, j.enqueued, j.firstLease = rota.JobRunning, t.attempt, began, t.finished
	j.lastReason, j.lastError = rota.ReasonProofInvalid, text
	j.disprove(t, text)
	m.jobs.insert(t.id, j)
	m.placement.classify(j)
	ttl := spec.TTL.Milliseconds()
	if ttl == 0 {
		ttl = q.policy.TTLAbsMs
	}
	if ttl > 0 {
		j.expireAbs = began + rota.Clock(ttl)
	}
	if q.policy.TTLRelMaxMs > 0 {
		j.expireRel = j.firstLease.Clock + rota.Clock(q.policy.TTLRelMaxMs)
	}
	m.timers.expire.set(string(t.id), 0, int64(j.expires()))
	return m.leasing.useUp(j, rota.ReasonProofInvalid)
}

// disprove notes at the attempt that completed the job that its proof was invalid.
func (r *jobRow) disprove(t *tombRow, text string) {
	for i := range r.attempts {
		if a := &r.attempts[i]; a.Lease == t.lease {
			a.End, a.Error = rota.ReasonProofInvalid, tail(text, limits.MaxErrorBytes)
			return
		}
	}
	last := rota.Attempt{Number: t.attempt, Life: t.life, Worker: t.worker, Lease: t.lease, Ended: t.finished,
		End: rota.ReasonProofInvalid, Error: text}
	r.attempts = append(r.attempts[max(0, len(r.attempts)+1-limits.MaxAttemptsKept):], last)
}
