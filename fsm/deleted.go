package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/internal/unique"
	"github.com/rotasched/rota/internal/limits"
)

func decodeDeleted(d *state.Decoder) *state.DeletedRow {
	r := &state.DeletedRow{From: d.Uint(), To: d.Uint()}
	if r.From == 0 || r.To < r.From {
		d.Fail()
	}
	return r
}

// FirstDeleted returns the last number of the first range of deleted jobs; 0 if there is none.
func (vw *View) FirstDeleted() uint64 {
	if r := rangeFrom(&vw.m.ended.deleted.Tree, 0); r != nil {
		return r.To
	}
	return 0
}

// DeletedStaged returns the number of the newest deleted end of a job that is still staged here; 0 if there is none.
func (vw *View) DeletedStaged(id rota.JobID) uint64 {
	return vw.m.ended.staged.loose.newest(id, vw.Deleted)
}

// DeleteJobOp returns the operation that deletes an ended job. It names the number of the end that the caller knows,
// which identifies a repetition; 0 if the caller knows none.
func DeleteJobOp(id rota.JobID, seq uint64) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteJob{DeleteJob: &fsmpb.DeleteJob{Job: string(id), Seq: seq}}}
}

// deleteJob deletes an ended job (SPEC §21.3): its id is free, and no node shows its record again.
func (ed *ended) deleteJob(op *fsmpb.DeleteJob) *fsmpb.Outcome {
	id, seq := rota.JobID(op.GetJob()), op.GetSeq()
	if ed.view.Deleted(seq) {
		return &fsmpb.Outcome{Existed: true} // deleted already
	}
	o, err := ed.deletable(id, seq)
	if err == nil && !ed.roomDeleted(seq) {
		err = rota.Refusef(rota.KindExhausted, "deleted",
			"deleted jobs are %d separate ranges of numbers, no more are kept: wait until "+
				"--archive-retention has passed the oldest, or delete jobs that ended one after another",
			limits.MaxDeletedRanges)
	}
	if err != nil {
		refusal := entry.Refused(err)
		refusal.JobState = o.GetJobState()
		return refusal
	}
	e := rota.Event{Kind: rota.EventJobDeleted, Job: id}
	if t := ed.tombs.Get(id); t != nil {
		e.Queue, e.Tenant, e.Attempt = t.Queue, t.Tenant, t.Attempt
		ed.uniques.Release(id, t.Unique)
		ed.dropTomb(id, seq)
	}
	ed.addDeleted(seq)
	ed.keyring.Release(id)
	ed.s.Journal.Emit(e)
	return o
}

// deletable checks that, as far as the state knows, a job ended under a number and nothing needs its tombstone. The
// outcome carries its state.
func (ed *ended) deletable(id rota.JobID, seq uint64) (*fsmpb.Outcome, error) {
	o := &fsmpb.Outcome{JobState: uint32(ed.view.JobState(id))}
	if f, v := ed.flows.vertex(id); v != nil {
		return o, rota.Refusef(rota.KindConflict, "job",
			"job %s is a node of workflow %s, which is kept: it can be deleted once the workflow "+
				"is forgotten", id, f.id)
	}
	if j := ed.s.JobTable.Get(id); j != nil {
		return o, rota.Refusef(rota.KindConflict, "job", "job %s is %s: cancel it first", id, j.State)
	}
	t := ed.tombs.Get(id)
	other, taken := ed.tombs.Order.At(seq)
	switch {
	case t == nil && seq == 0:
		return o, rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id)
	case t == nil && (taken || seq > ed.s.Header.TombSeq):
		return o, rota.Refusef(rota.KindInvalid, "seq", "job %q did not end under number %d (of %d), which is job %q's",
			id, seq, ed.s.Header.TombSeq, other.ID)
	case t != nil && t.Seq != seq:
		return o, rota.Refusef(rota.KindConflict, "seq", "job %s ended under number %d, not %d: look at it again", id,
			t.Seq, seq)
	case ed.leasing.believedUntil(id) != 0:
		return o, rota.Refusef(rota.KindConflict, "job",
			"job %s is %s, but its worker has not confirmed that it has stopped, and may work on it for up "+
				"to %d ms more: delete it then", id, rota.JobState(o.GetJobState()),
			max(1, ed.leasing.believedUntil(id)-ed.s.Header.Clock))
	case t != nil && t.FreeAt > ed.s.Header.Clock:
		return o, rota.Refusef(rota.KindConflict, "job",
			"job %s is %s, but its worker may not have heard of it and may work on it for up to "+
				"%d ms more: delete it then", id, t.State, t.FreeAt-ed.s.Header.Clock)
	}
	return o, nil
}

// roomDeleted reports whether one more number can be stored.
func (ed *ended) roomDeleted(seq uint64) bool {
	if ed.deleted.Len() < limits.MaxDeletedRanges {
		return true
	}
	r := rangeFrom(&ed.deleted.Tree, seq-1)
	return r != nil && r.From <= seq+1
}

// addDeleted adds a number to the ranges, and joins ranges that then touch.
func (ed *ended) addDeleted(seq uint64) {
	from := seq
	if r := rangeFrom(&ed.deleted.Tree, seq-1); r != nil && r.To == seq-1 {
		from = r.From
		ed.deleted.Drop(state.DeletedKey(r.To))
	}
	if r := rangeFrom(&ed.deleted.Tree, seq); r != nil && r.From == seq+1 {
		ed.deleted.Edit(state.DeletedKey(r.To)).From = from
		return
	}
	ed.deleted.Insert(state.DeletedKey(seq), &state.DeletedRow{From: from, To: seq})
}

// dropDeleted removes ranges of numbers that retention has removed from every archive, at most MaxFiringsPerSweep of
// them. A leader proposes it.
func (ed *ended) dropDeleted(op *fsmpb.DropDeleted) *fsmpb.Outcome {
	if o := ed.s.Internal(); o != nil {
		return o
	}
	var gone, staged []uint64
	ed.deleted.Scan(func(_ string, r *state.DeletedRow) bool {
		if r.To > op.GetThrough() || len(gone) >= limits.MaxFiringsPerSweep {
			return false
		}
		gone = append(gone, r.To)
		return true
	})
	if len(gone) > 0 {
		ed.staged.records.Scan(func(seq uint64, _ *state.Record) bool {
			if seq > gone[len(gone)-1] {
				return false
			}
			if ed.view.Deleted(seq) {
				staged = append(staged, seq)
			}
			return true
		})
	}
	ed.view.Archived(staged) // records that archives have removed may still be staged here
	for _, to := range gone {
		ed.deleted.Drop(state.DeletedKey(to))
	}
	return &fsmpb.Outcome{}
}

// deleted checks the ranges of deleted numbers.
func (c *checker) deleted() {
	m := c.m
	if n := m.ended.deleted.Len(); n > limits.MaxDeletedRanges {
		c.fault("I8: deleted jobs are %d ranges: at most %d are kept", n, limits.MaxDeletedRanges)
	}
	last := uint64(0)
	m.ended.deleted.Scan(func(_ string, r *state.DeletedRow) bool {
		if r.From == 0 || r.To < r.From || last != 0 && r.From <= last+1 || r.To > m.Header.TombSeq {
			c.fault("I8: numbers %d to %d are deleted, after %d and of %d", r.From, r.To, last, m.Header.TombSeq)
		}
		last = r.To
		return true
	})
	m.ended.tombs.Scan(func(id rota.JobID, t *state.TombRow) bool {
		if m.ended.deleted.Len() > 0 && c.view.Deleted(t.Seq) {
			c.fault("I8: job %s has a tombstone, and its number %d is deleted", id, t.Seq)
		}
		return true
	})
}

// reportProof processes a verifier's report that the proof of a completed job is invalid (SPEC §9.5). The worker pays
// as for any invalid proof. The job runs again if it asked for that and attempts are left. A second report of the same
// lease gets the result of the first. A workflow node does not run again: others have seen its output.
func (m *Machine) reportProof(op *fsmpb.ReportProof) *fsmpb.Outcome {
	id := rota.JobID(op.GetJob())
	switch {
	case len(op.GetLease()) != len(rota.LeaseID{}):
		return entry.Refused(rota.Refusef(rota.KindInvalid, "lease", "lease id has %d bytes: %d are wanted",
			len(op.GetLease()),
			len(rota.LeaseID{})))
	case len(op.GetReason()) > limits.MaxReasonBytes:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "reason", "reason has %d bytes: at most %d are taken",
			len(op.GetReason()),
			limits.MaxReasonBytes))
	}
	lease := rota.LeaseID(op.GetLease())
	t := m.ended.tombs.Get(id)
	if o := m.disproved(id, lease, t); o != nil {
		return o
	}
	if err := m.reportable(id, lease, t); err != nil {
		return entry.Refused(err)
	}
	var again *rota.JobSpec
	var behind past
	if _, _, node := rota.SplitNodeJobID(id); op.GetSpec() != nil && !node {
		spec, was, err := revival(t, op.GetSpec(), op.GetPast())
		if behind = was; err == nil && spec.RetryOnInvalidProof {
			again, err = spec, m.admitClass(spec)
		}
		if err != nil {
			return entry.Refused(err)
		}
	}
	m.blame(t, op.GetReason())
	if again == nil {
		m.ended.tombs.Reject(id)
		return &fsmpb.Outcome{JobState: uint32(rota.JobCompleted)}
	}
	return &fsmpb.Outcome{JobState: uint32(m.rerun(t, again, behind, op.GetReason()))}
}

// disproved answers for a lease whose proof is known to be invalid; nil if it is not.
func (m *Machine) disproved(id rota.JobID, lease rota.LeaseID, t *state.TombRow) *fsmpb.Outcome {
	if t != nil && t.Lease == lease && (t.Reason == rota.ReasonProofRejected || t.Reason == rota.ReasonProofInvalid) {
		return &fsmpb.Outcome{JobState: uint32(t.State), Existed: true}
	}
	if j := m.JobTable.Get(id); j != nil {
		for i := range j.Attempts {
			if a := &j.Attempts[i]; a.Lease == lease && a.End == rota.ReasonProofInvalid {
				return &fsmpb.Outcome{JobState: uint32(j.State), Existed: true}
			}
		}
	}
	return nil
}

// reportable refuses a report on something other than a completion, or a late one.
func (m *Machine) reportable(id rota.JobID, lease rota.LeaseID, t *state.TombRow) error {
	if t == nil {
		if j := m.JobTable.Get(id); j != nil {
			return notCompleted(id, j.State)
		}
		return rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id)
	}
	if m.QueueTable.Get(t.Queue) == nil {
		return rota.Refusef(rota.KindNotFound, "queue", "queue %q of job %s was deleted, and its audit window with it",
			t.Queue, id)
	}
	window := rota.Clock(m.QueueTable.Get(t.Queue).Policy.AuditWindowMs)
	switch {
	case t.State != rota.JobCompleted:
		return notCompleted(id, t.State)
	case t.Lease != lease:
		return rota.Refusef(rota.KindConflict, "lease", "lease %s did not complete job %s: lease %s did", lease, id,
			t.Lease)
	case m.Header.Clock > t.Finished.Clock+window:
		return rota.Refusef(rota.KindConflict, "audit_window_ms",
			"the audit window of job %s ended at %s, %d ms ago: audit_window_ms of queue %s is %d", id,
			m.Header.Now().At(t.Finished.Clock+window).Date, m.Header.Clock-t.Finished.Clock-window, t.Queue, window)
	}
	return nil
}

func notCompleted(id rota.JobID, state rota.JobState) error {
	return rota.Refusef(rota.KindConflict, "job", "job %s is %s: only the proof of a COMPLETED one can be reported", id,
		state)
}

// blame slashes the worker of a completion, if it is still known. For an unknown worker the event has no penalty:
// either way the report is in the events.
func (m *Machine) blame(t *state.TombRow, text string) {
	e := rota.Event{Kind: rota.EventProviderSlashed, Job: t.ID, Queue: t.Queue, Tenant: t.Tenant, Worker: t.Worker,
		Lease: t.Lease, Attempt: t.Attempt, Reason: rota.ReasonProofRejected, Text: text}
	if w := m.fleet.workers.Edit(t.Worker); w != nil {
		m.fleet.disprove(w, &m.QueueTable.Get(t.Queue).Policy, e)
		return
	}
	e.Payload = slashPayload(0, 0, e.Reason)
	m.Journal.Emit(e)
}

// rerun revokes a completion: the job is RUNNING again just long enough to use the attempt up as PROOF_INVALID, and
// continues its life. Its times to live count from their original start.
func (m *Machine) rerun(t *state.TombRow, spec *rota.JobSpec, was past, text string) rota.JobState {
	q := m.QueueTable.Edit(t.Queue)
	q.Count(rota.JobRunning, 1)
	j := m.revive(t, spec, was)
	j.Past = &state.JobPast{Content: t.Content, Life: t.Life, Retried: t.Retried,
		Batch: m.batches.Rejoin(spec.Batch, t), Spent: was.spent}
	if spec.Unique != nil {
		if j.Past.Unique = t.Unique; t.Unique == (state.UniqueKey{}) {
			j.Past.Unique = unique.KeyOf(spec, max(t.Submitted.Date, t.Retried.Date))
		}
	} else {
		m.uniques.Release(t.ID, t.Unique)
	}
	began := max(t.Submitted.Clock, t.Retried.Clock)
	j.State, j.Attempt, j.Enqueued, j.FirstLease = rota.JobRunning, t.Attempt, began, t.Finished
	j.LastReason, j.LastError = rota.ReasonProofInvalid, text
	j.Disprove(t, text)
	m.JobTable.Insert(t.ID, j)
	m.batches.Calls(t.ID, true)
	m.hooks.Again(t.ID)
	m.placement.classify(j)
	if spec.Unique != nil {
		m.uniques.Follow(j, t.State)
	}
	m.keyring.Enter(j)
	ttl := spec.TTL.Milliseconds()
	if ttl == 0 {
		ttl = q.Policy.TTLAbsMs
	}
	if ttl > 0 {
		j.ExpireAbs = began + rota.Clock(ttl)
	}
	if q.Policy.TTLRelMaxMs > 0 {
		j.ExpireRel = j.FirstLease.Clock + rota.Clock(q.Policy.TTLRelMaxMs)
	}
	m.Timers.Expire.Refile(string(t.ID), 0, int64(j.Expires()))
	return m.leasing.useUp(j, rota.ReasonProofInvalid, 0)
}
