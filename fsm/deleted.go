package fsm

import (
	"encoding/binary"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// deletedRow is a range of numbers of ended jobs that were deleted (SPEC §21.3): no archive
// shows them again. Ranges neither overlap nor touch.
type deletedRow struct {
	rowMeta
	from, to uint64
}

// deletedKey orders ranges by their last number.
func deletedKey(to uint64) string { return string(binary.BigEndian.AppendUint64(nil, to)) }

func (r *deletedRow) canonical(e *encoder) {
	e.uint(r.from)
	e.uint(r.to)
}

func decodeDeleted(d *decoder) *deletedRow {
	r := &deletedRow{from: d.uint(), to: d.uint()}
	if r.from == 0 || r.to < r.from {
		d.fail()
	}
	return r
}

// rangeFrom returns the first range that ends at seq or later, nil where there is none.
func rangeFrom(t *tree[string, *deletedRow], seq uint64) (first *deletedRow) {
	t.Ascend(deletedKey(seq), func(_ string, r *deletedRow) bool {
		first = r
		return false
	})
	return first
}

// isDeleted reports whether a number is in one of the ranges.
func isDeleted(t *tree[string, *deletedRow], seq uint64) bool {
	r := rangeFrom(t, seq)
	return seq != 0 && r != nil && r.from <= seq
}

// Deleted reports whether the job that ended under a number was deleted.
func (m *Machine) Deleted(seq uint64) bool { return isDeleted(&m.deleted.tree, seq) }

// FirstDeleted returns the last number of the first range of deleted jobs; 0 where there is
// none.
func (m *Machine) FirstDeleted() uint64 {
	if r := rangeFrom(&m.deleted.tree, 0); r != nil {
		return r.to
	}
	return 0
}

// DeletedStaged returns the number of the newest deleted end of a job that is still staged
// here; 0 where there is none.
func (m *Machine) DeletedStaged(id rota.JobID) uint64 {
	return m.staged.loose.newest(id, m.Deleted)
}

// DeleteJobOp deletes an ended job. It names the number of the end that the caller knows of,
// by which a repetition is known; 0 where it knows of none.
func DeleteJobOp(id rota.JobID, seq uint64) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteJob{DeleteJob: &fsmpb.DeleteJob{Job: string(id), Seq: seq}}}
}

// deleteJob forgets an ended job (SPEC §21.3): its id is free, and no node shows its record
// again.
func (m *Machine) deleteJob(op *fsmpb.DeleteJob) *fsmpb.Outcome {
	id, seq := rota.JobID(op.GetJob()), op.GetSeq()
	if m.Deleted(seq) {
		return &fsmpb.Outcome{Existed: true} // deleted already
	}
	o, err := m.deletable(id, seq)
	if err == nil && !m.roomDeleted(seq) {
		err = rota.Refusef(rota.Exhausted, "deleted", "deleted jobs are %d separate ranges of numbers, no more are kept: wait until "+
			"--archive-retention has passed the oldest, or delete jobs that ended one after another", rota.MaxDeletedRanges)
	}
	if err != nil {
		refusal := refused(err)
		refusal.JobState = o.GetJobState()
		return refusal
	}
	e := rota.Event{Kind: rota.JobDeleted, Job: id}
	if t := m.tombs.get(id); t != nil {
		e.Queue, e.Tenant, e.Attempt = t.queue, t.tenant, t.attempt
		m.dropTomb(id, seq)
	}
	m.addDeleted(seq)
	m.emit(e)
	return o
}

// deletable checks that a job ended under a number, as far as the state knows, and that
// nothing needs what is known of it. The outcome tells its state.
func (m *Machine) deletable(id rota.JobID, seq uint64) (*fsmpb.Outcome, error) {
	o := &fsmpb.Outcome{JobState: uint32(m.JobState(id))}
	if f, v := m.vertex(id); v != nil {
		return o, rota.Refusef(rota.Conflict, "job", "job %s is a node of workflow %s, which is kept: it can be deleted once the workflow "+
			"is forgotten", id, f.id)
	}
	if j := m.jobs.get(id); j != nil {
		return o, rota.Refusef(rota.Conflict, "job", "job %s is %s: cancel it first", id, j.state)
	}
	t := m.tombs.get(id)
	other, taken := m.tombs.order.at(seq)
	switch {
	case t == nil && seq == 0:
		return o, rota.Refusef(rota.NotFound, "job", "job %q is not known", id)
	case t == nil && (taken || seq > m.head.tombSeq):
		return o, rota.Refusef(rota.Invalid, "seq", "job %q did not end under number %d (of %d), which is job %q's", id, seq,
			m.head.tombSeq, other.id)
	case t != nil && t.seq != seq:
		return o, rota.Refusef(rota.Conflict, "seq", "job %s ended under number %d, not %d: look at it again", id, t.seq, seq)
	case t != nil && t.freeAt > m.head.clock:
		return o, rota.Refusef(rota.Conflict, "job", "job %s is %s, but its worker may not have heard of it and may work on it for up to "+
			"%d ms more: delete it then", id, t.state, t.freeAt-m.head.clock)
	}
	return o, nil
}

// roomDeleted reports whether one more number can be kept.
func (m *Machine) roomDeleted(seq uint64) bool {
	if m.deleted.len() < rota.MaxDeletedRanges {
		return true
	}
	r := rangeFrom(&m.deleted.tree, seq-1)
	return r != nil && r.from <= seq+1
}

// addDeleted puts a number that no range has into one, and joins what then touches.
func (m *Machine) addDeleted(seq uint64) {
	from := seq
	if r := rangeFrom(&m.deleted.tree, seq-1); r != nil && r.to == seq-1 {
		from = r.from
		m.deleted.drop(deletedKey(r.to))
	}
	if r := rangeFrom(&m.deleted.tree, seq); r != nil && r.from == seq+1 {
		m.deleted.edit(deletedKey(r.to)).from = from
		return
	}
	m.deleted.insert(deletedKey(seq), &deletedRow{from: from, to: seq})
}

// dropDeleted forgets ranges of numbers that retention has taken from every archive, at most
// MaxFiringsPerSweep of them. A leader proposes it.
func (m *Machine) dropDeleted(op *fsmpb.DropDeleted) *fsmpb.Outcome {
	if o := m.internal(); o != nil {
		return o
	}
	var gone, staged []uint64
	m.deleted.scan(func(_ string, r *deletedRow) bool {
		if r.to > op.GetThrough() || len(gone) >= rota.MaxFiringsPerSweep {
			return false
		}
		gone = append(gone, r.to)
		return true
	})
	if len(gone) > 0 {
		m.staged.records.Scan(func(seq uint64, _ *record) bool {
			if seq > gone[len(gone)-1] {
				return false
			}
			if m.Deleted(seq) {
				staged = append(staged, seq)
			}
			return true
		})
	}
	m.Archived(staged) // what archives took may still wait here
	for _, to := range gone {
		m.deleted.drop(deletedKey(to))
	}
	return &fsmpb.Outcome{}
}

// deleted checks the ranges of deleted numbers.
func (c *checker) deleted() {
	m := c.m
	if n := m.deleted.len(); n > rota.MaxDeletedRanges {
		c.fault("I8: deleted jobs are %d ranges: at most %d are kept", n, rota.MaxDeletedRanges)
	}
	last := uint64(0)
	m.deleted.scan(func(_ string, r *deletedRow) bool {
		if r.from == 0 || r.to < r.from || last != 0 && r.from <= last+1 || r.to > m.head.tombSeq {
			c.fault("I8: numbers %d to %d are deleted, after %d and of %d", r.from, r.to, last, m.head.tombSeq)
		}
		last = r.to
		return true
	})
	m.tombs.scan(func(id rota.JobID, t *tombRow) bool {
		if m.deleted.len() > 0 && m.Deleted(t.seq) {
			c.fault("I8: job %s has a tombstone, and its number %d is deleted", id, t.seq)
		}
		return true
	})
}
