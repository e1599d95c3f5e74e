package cluster

import (
	"context"
	"errors"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// What was deleted stays in the archives until retention takes it: another node may still
// have to fetch it, as it stands for the job's earlier ends too. So whatever reads a job's
// last end by its id reads it here, less what was deleted (SPEC §21.3).

// lastMark returns what the archive's list of ids tells of a job's last end. hidden says
// that the job was deleted since; the mark then has the number alone.
func (h *history) lastMark(id rota.JobID) (mark fsm.Mark, hidden, ok bool, err error) {
	var staged uint64
	h.n.replica.look(func(s *fsm.View) { staged = s.DeletedStaged(id) }) // before the archive: it leaves memory for there
	mark, ok, err = h.store.Mark(id)
	if h.gone(mark.Seq) {
		staged = max(staged, mark.Seq)
	}
	if staged > 0 && staged >= mark.Seq {
		return fsm.Mark{Seq: staged}, true, false, err
	}
	return mark, false, ok, err
}

// gone reports whether the end of a number was deleted.
func (h *history) gone(seq uint64) (deleted bool) {
	h.n.replica.look(func(s *fsm.View) { deleted = s.Deleted(seq) })
	return deleted
}

// lastEnded reads the record of a job's last end from the archive. Of one that was deleted
// it returns the number, and false.
func (h *history) lastEnded(id rota.JobID) (e fsm.Ended, ok bool, err error) {
	mark, hidden, _, err := h.lastMark(id)
	if hidden || err != nil {
		return fsm.Ended{Seq: mark.Seq}, false, err
	}
	if e, ok, err = h.store.Get(id); h.gone(e.Seq) { // since the mark was read
		return fsm.Ended{Seq: e.Seq}, false, nil
	}
	return e, ok, err
}

// numberOf returns the number of a job's last end, deleted or not, by state, archive and the
// other nodes' archives; 0 where it is live or unknown.
func (h *history) numberOf(ctx context.Context, id rota.JobID) (uint64, error) {
	var seq uint64
	var ended, known, ok bool
	var staged fsm.StagedRecord
	if err := h.n.replica.view(func(s *fsm.View) {
		seq, _, ended = s.Tombstone(id)
		known = s.JobState(id) != rota.JobNone
		staged, ok = s.StagedJob(id)
	}); err != nil {
		return 0, err
	}
	if ended || known {
		return seq, nil
	}
	if ok {
		seq = staged.Seq
	}
	mark, _, _, err := h.lastMark(id)
	lost := errors.Is(err, archive.ErrMarksDamaged) && !h.alone()
	if err != nil && !lost {
		return 0, unreadable(err)
	}
	if seq = max(seq, mark.Seq); !lost && len(h.lacks(1)) == 0 {
		return seq, nil
	}
	found, err := h.askPeers(ctx, []rota.JobID{id})
	if err != nil {
		return 0, &rota.Error{Kind: rota.KindUnavailable, Subject: "job", RetryAfter: fetchEvery, Cause: err, Text: "this node's history has " +
			"gaps, and whether job " + string(id) + " is known could not be asked of all other nodes: try again"}
	}
	return max(seq, found[0].Seq), nil
}

// dropDeleted has the state forget the deleted numbers that retention has taken from every
// member's archive. While one of them does not answer they stay.
func (h *history) dropDeleted(l *leadership) {
	first := h.n.replica.firstDeleted()
	if first == 0 {
		return
	}
	span := peer.ArchiveSpan{From: first, To: first}
	own, err := h.ArchiveRange(l.ctx, span, 1)
	through := own.Floor
	for _, s := range h.n.membership.servers() {
		if err == nil && rota.NodeID(s.ID) != h.n.cfg.Node {
			var slice peer.ArchiveSlice
			slice, err = h.fetchSlice(rota.NodeID(s.ID), span)
			through = min(through, slice.Floor)
		}
	}
	if err != nil || through < first {
		return
	}
	op := &fsmpb.Op{Op: &fsmpb.Op_DropDeleted{DropDeleted: &fsmpb.DropDeleted{Through: through}}}
	if r := l.propose(l.ctx, []*fsmpb.Op{op}, true); r.err != nil && h.n.lines.Allow("archive/deleted") {
		h.n.log.Warn("deleted jobs that retention has taken could not be forgotten", "err", r.err)
	}
}
