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
	if ed.m.View.Deleted(seq) {
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
		ed.m.dropTomb(id, seq)
	}
	ed.addDeleted(seq)
	ed.m.journal.emit(e)
	return o
}

// deletable checks that a job ended under a number, as far as the state knows, and that
// nothing needs what is known of it. The outcome tells its state.
func (ed *ended) deletable(id rota.JobID, seq uint64) (*fsmpb.Outcome, error) {
	o := &fsmpb.Outcome{JobState: uint32(ed.m.View.JobState(id))}
	if f, v := ed.m.flows.vertex(id); v != nil {
		return o, rota.Refusef(rota.KindConflict, "job", "job %s is a node of workflow %s, which is kept: it can be deleted once the workflow "+
			"is forgotten", id, f.id)
	}
	if j := ed.m.jobs.get(id); j != nil {
		return o, rota.Refusef(rota.KindConflict, "job", "job %s is %s: cancel it first", id, j.state)
	}
	t := ed.tombs.get(id)
	other, taken := ed.tombs.order.at(seq)
	switch {
	case t == nil && seq == 0:
		return o, rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id)
	case t == nil && (taken || seq > ed.m.head.tombSeq):
		return o, rota.Refusef(rota.KindInvalid, "seq", "job %q did not end under number %d (of %d), which is job %q's", id, seq,
			ed.m.head.tombSeq, other.id)
	case t != nil && t.seq != seq:
		return o, rota.Refusef(rota.KindConflict, "seq", "job %s ended under number %d, not %d: look at it again", id, t.seq, seq)
	case t != nil && t.freeAt > ed.m.head.clock:
		return o, rota.Refusef(rota.KindConflict, "job", "job %s is %s, but its worker may not have heard of it and may work on it for up to "+
			"%d ms more: delete it then", id, t.state, t.freeAt-ed.m.head.clock)
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
	if o := ed.m.internal(); o != nil {
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
			if ed.m.View.Deleted(seq) {
				staged = append(staged, seq)
			}
			return true
		})
	}
	ed.m.View.Archived(staged) // what archives took may still wait here
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
