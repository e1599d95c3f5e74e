package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

func decodeDeleted(d *decoder) *deletedRow {
	r := &deletedRow{from: d.uint(), to: d.uint()}
	if r.from == 0 || r.to < r.from {
		d.fail()
	}
	return r
}

// FirstDeleted returns the last number of the first range of deleted jobs; 0 where there is
// none.
func (vw *View) FirstDeleted() uint64 {
	if r := rangeFrom(&vw.m.ended.deleted.tree, 0); r != nil {
		return r.to
	}
	return 0
}

// DeletedStaged returns the number of the newest deleted end of a job that is still staged
// here; 0 where there is none.
func (vw *View) DeletedStaged(id rota.JobID) uint64 {
	return vw.m.ended.staged.loose.newest(id, vw.Deleted)
}

// DeleteJobOp deletes an ended job. It names the number of the end that the caller knows of,
// by which a repetition is known; 0 where it knows of none.
func DeleteJobOp(id rota.JobID, seq uint64) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteJob{DeleteJob: &fsmpb.DeleteJob{Job: string(id), Seq: seq}}}
}

// deleteJob forgets an ended job (SPEC §21.3): its id is free, and no node shows its record
// again.
func (ed *ended) deleteJob(op *fsmpb.DeleteJob) *fsmpb.Outcome {
	id, seq := rota.JobID(op.GetJob()), op.GetSeq()
	if ed.view.Deleted(seq) {
		return &fsmpb.Outcome{Existed: true} // deleted already
	}
	o, err := ed.deletable(id, seq)
	if err == nil && !ed.roomDeleted(seq) {
		err = rota.Refusef(rota.KindExhausted, "deleted", "deleted jobs are %d separate ranges of numbers, no more are kept: wait until "+
			"--archive-retention has passed the oldest, or delete jobs that ended one after another", limits.MaxDeletedRanges)
	}
	if err != nil {
		refusal := entry.Refused(err)
		refusal.JobState = o.GetJobState()
		return refusal
	}
	e := rota.Event{Kind: rota.EventJobDeleted, Job: id}
	if t := ed.tombs.get(id); t != nil {
		e.Queue, e.Tenant, e.Attempt = t.queue, t.tenant, t.attempt
		ed.uniques.release(id, t.unique)
		ed.dropTomb(id, seq)
	}
	ed.addDeleted(seq)
	ed.keyring.release(id)
	ed.s.journal.emit(e)
	return o
}

// deletable checks that a job ended under a number, as far as the state knows, and that
// nothing needs what is known of it. The outcome tells its state.
func (ed *ended) deletable(id rota.JobID, seq uint64) (*fsmpb.Outcome, error) {
	o := &fsmpb.Outcome{JobState: uint32(ed.view.JobState(id))}
	if f, v := ed.flows.vertex(id); v != nil {
		return o, rota.Refusef(rota.KindConflict, "job", "job %s is a node of workflow %s, which is kept: it can be deleted once the workflow "+
			"is forgotten", id, f.id)
	}
	if j := ed.s.jobs.get(id); j != nil {
		return o, rota.Refusef(rota.KindConflict, "job", "job %s is %s: cancel it first", id, j.state)
	}
	t := ed.tombs.get(id)
	other, taken := ed.tombs.order.at(seq)
	switch {
	case t == nil && seq == 0:
		return o, rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id)
	case t == nil && (taken || seq > ed.s.head.tombSeq):
		return o, rota.Refusef(rota.KindInvalid, "seq", "job %q did not end under number %d (of %d), which is job %q's", id, seq,
			ed.s.head.tombSeq, other.id)
	case t != nil && t.seq != seq:
		return o, rota.Refusef(rota.KindConflict, "seq", "job %s ended under number %d, not %d: look at it again", id, t.seq, seq)
	case ed.leasing.believedUntil(id) != 0:
		return o, rota.Refusef(rota.KindConflict, "job", "job %s is %s, but its worker has not confirmed that it has stopped, and may work on it for up "+
			"to %d ms more: delete it then", id, rota.JobState(o.GetJobState()), max(1, ed.leasing.believedUntil(id)-ed.s.head.clock))
	case t != nil && t.freeAt > ed.s.head.clock:
		return o, rota.Refusef(rota.KindConflict, "job", "job %s is %s, but its worker may not have heard of it and may work on it for up to "+
			"%d ms more: delete it then", id, t.state, t.freeAt-ed.s.head.clock)
	}
	return o, nil
}

// roomDeleted reports whether one more number can be kept.
func (ed *ended) roomDeleted(seq uint64) bool {
	if ed.deleted.len() < limits.MaxDeletedRanges {
		return true
	}
	r := rangeFrom(&ed.deleted.tree, seq-1)
	return r != nil && r.from <= seq+1
}

// addDeleted puts a number that no range has into one, and joins what then touches.
func (ed *ended) addDeleted(seq uint64) {
	from := seq
	if r := rangeFrom(&ed.deleted.tree, seq-1); r != nil && r.to == seq-1 {
		from = r.from
		ed.deleted.drop(deletedKey(r.to))
	}
	if r := rangeFrom(&ed.deleted.tree, seq); r != nil && r.from == seq+1 {
		ed.deleted.edit(deletedKey(r.to)).from = from
		return
	}
	ed.deleted.insert(deletedKey(seq), &deletedRow{from: from, to: seq})
}

// dropDeleted forgets ranges of numbers that retention has taken from every archive, at most
// MaxFiringsPerSweep of them. A leader proposes it.
func (ed *ended) dropDeleted(op *fsmpb.DropDeleted) *fsmpb.Outcome {
	if o := ed.s.internal(); o != nil {
		return o
	}
	var gone, staged []uint64
	ed.deleted.scan(func(_ string, r *deletedRow) bool {
		if r.to > op.GetThrough() || len(gone) >= limits.MaxFiringsPerSweep {
			return false
		}
		gone = append(gone, r.to)
		return true
	})
	if len(gone) > 0 {
		ed.staged.records.Scan(func(seq uint64, _ *record) bool {
			if seq > gone[len(gone)-1] {
				return false
			}
			if ed.view.Deleted(seq) {
				staged = append(staged, seq)
			}
			return true
		})
	}
	ed.view.Archived(staged) // what archives took may still wait here
	for _, to := range gone {
		ed.deleted.drop(deletedKey(to))
	}
	return &fsmpb.Outcome{}
}

// deleted checks the ranges of deleted numbers.
func (c *checker) deleted() {
	m := c.m
	if n := m.ended.deleted.len(); n > limits.MaxDeletedRanges {
		c.fault("I8: deleted jobs are %d ranges: at most %d are kept", n, limits.MaxDeletedRanges)
	}
	last := uint64(0)
	m.ended.deleted.scan(func(_ string, r *deletedRow) bool {
		if r.from == 0 || r.to < r.from || last != 0 && r.from <= last+1 || r.to > m.head.tombSeq {
			c.fault("I8: numbers %d to %d are deleted, after %d and of %d", r.from, r.to, last, m.head.tombSeq)
		}
		last = r.to
		return true
	})
	m.ended.tombs.scan(func(id rota.JobID, t *tombRow) bool {
		if m.ended.deleted.len() > 0 && m.View.Deleted(t.seq) {
			c.fault("I8: job %s has a tombstone, and its number %d is deleted", id, t.seq)
		}
		return true
	})
}

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
	if m.queues.get(t.queue) == nil {
		return rota.Refusef(rota.KindNotFound, "queue", "queue %q of job %s was deleted, and its audit window with it", t.queue, id)
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
	j.past = &jobPast{content: t.content, life: t.life, retried: t.retried, batch: m.batches.rejoin(spec.Batch, t)}
	if spec.Unique != nil {
		if j.past.unique = t.unique; t.unique == (uniqueKey{}) {
			j.past.unique = uniqueKeyOf(spec, max(t.submitted.Date, t.retried.Date))
		}
	} else {
		m.uniques.release(t.id, t.unique)
	}
	began := max(t.submitted.Clock, t.retried.Clock)
	j.state, j.attempt, j.enqueued, j.firstLease = rota.JobRunning, t.attempt, began, t.finished
	j.lastReason, j.lastError = rota.ReasonProofInvalid, text
	j.disprove(t, text)
	m.jobs.insert(t.id, j)
	m.batches.calls(t.id, true)
	m.hooks.again(t.id)
	m.placement.classify(j)
	if spec.Unique != nil {
		m.uniques.follow(j, t.state)
	}
	m.keyring.enter(j)
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
	return m.leasing.useUp(j, rota.ReasonProofInvalid, 0)
}
