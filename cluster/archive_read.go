package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot/archive"
)

// jobAt reads one job from the state and, where the state holds no more than a
// tombstone or nothing, from the history.
func (h *history) jobAt(ctx context.Context, id rota.JobID) (rota.Job, bool, error) {
	var job rota.Job
	var seq uint64
	var known, ended bool
	if err := h.n.replica.view(func(s *fsm.View) {
		job, known = s.Job(id)
		seq, _, ended = s.Tombstone(id)
		if staged, ok := s.StagedJob(id); ok && !known {
			job, known = staged.Ended().Job, true
		}
	}); err != nil {
		return job, false, err
	}
	if known && !job.RecordDropped {
		return job, true, nil
	}
	e, ok, err := h.endedAt(ctx, id, seq)
	if err != nil && !known {
		return job, false, &rota.Error{Kind: rota.KindUnavailable, Subject: "job", RetryAfter: fetchEvery, Cause: err, Text: "this " +
			"node's history has gaps, and whether job " + string(id) + " is known could not be asked of all other nodes"}
	}
	switch {
	case !ok:
		return job, known, nil
	case ended:
		return fsm.WithTombstone(e.Job, job), true, nil
	}
	return e.Job, true, nil
}

// endedAt finds the record of a terminal job: here, or at another node where this
// one's history has gaps that it may be in. seq is its number if a tombstone
// tells it, else 0.
func (h *history) endedAt(ctx context.Context, id rota.JobID, seq uint64) (e fsm.Ended, ok bool, err error) {
	if seq != 0 {
		e, ok, err = h.store.At(seq)
		e.Seq = seq
	} else {
		e, ok, err = h.lastEnded(id)
	}
	lost := errors.Is(err, archive.ErrMarksDamaged)
	switch {
	case lost && h.alone():
		return e, false, unreadable(err)
	case lost: // another node may know
	case err != nil && !h.dropDamaged(e.Seq, err):
		return e, false, unreadable(err)
	case ok && seq != 0:
		return e, true, nil
	case seq != 0 && h.store.Holds(seq) || len(h.lacks(1)) == 0:
		return e, ok, nil
	}
	// Where no number is known, a later end may lie in a gap.
	found, err := h.askPeers(ctx, []rota.JobID{id})
	if later := found[0].Seq; later == 0 || later < max(seq, e.Seq) {
		if ok {
			return e, true, nil
		}
		return e, false, err
	}
	return found[0], found[0].Job.State.Terminal(), err
}

// alone reports whether there is no other node to be asked.
func (h *history) alone() bool {
	return !slices.ContainsFunc(h.n.membership.servers(), func(s raft.Server) bool { return rota.NodeID(s.ID) != h.n.cfg.Node })
}

// unreadable says that the archive is there and cannot be read: what it knows is not
// taken for unknown.
func unreadable(err error) *rota.Error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "archive", RetryAfter: fetchEvery, Cause: err,
		Text: "this node's archive cannot be read"}
}

// dropDamaged gives up a record where an error says that it is damaged.
func (h *history) dropDamaged(seq uint64, err error) bool {
	if !errors.Is(err, archive.ErrRecordDamaged) {
		return false
	}
	h.dropAll([]uint64{seq})
	return true
}

// dropAll gives up records that are not what was written: they are fetched again
// from another node.
func (h *history) dropAll(seqs []uint64) {
	if len(seqs) == 0 {
		return
	}
	h.n.log.Error("archived records are damaged and are fetched again from another node", "first", seqs[0], "records", len(seqs))
	if err := h.store.Drop(seqs); err != nil {
		h.n.log.Error("damaged records could not be dropped", "err", err)
	}
}

// listJobs makes one page of the state and the history as they are now.
func (h *history) listJobs(f rota.JobFilter) (rota.JobPage, error) {
	var list *fsm.JobList
	if err := h.n.replica.freezing(func(m *fsm.Machine) { list = m.Jobs() }); err != nil {
		return rota.JobPage{}, err
	}
	// After the state: what left memory since is in the archive.
	reading, err := h.store.Read()
	if err != nil {
		return rota.JobPage{}, err
	}
	page, err := list.Page(f, reading)
	reading.Close()
	h.dropAll(reading.Damaged)
	if err == nil && reading.Lacks() {
		err = unreadable(archive.ErrMarksDamaged)
	}
	return page, err
}

// listAnywhere asks another node for a page while this one's history has gaps;
// where none can give it, the page is refused rather than told short, unless what
// is here was asked for.
func (h *history) listAnywhere(ctx context.Context, f rota.JobFilter, at rota.Index, stale bool) (rota.JobPage, error) {
	var refused []error
	if stale || f.State != rota.JobNone && !f.State.Terminal() || len(h.lacks(1)) == 0 {
		page, err := h.listJobs(f)
		lacks := errors.Is(err, archive.ErrMarksDamaged)
		if !lacks || stale {
			if lacks {
				err = nil
			}
			return page, err
		}
		refused = append(refused, err)
	}
	for _, s := range h.n.membership.servers() {
		id := rota.NodeID(s.ID)
		if id == h.n.cfg.Node {
			continue
		}
		to, ok := h.n.membership.address(id)
		if !ok {
			refused = append(refused, fmt.Errorf("node %s was never seen in gossip", id))
			continue
		}
		page, err := h.n.peers.ListArchived(ctx, to, f, at)
		if err == nil || rota.KindOf(err) == rota.KindInvalid {
			return page, err
		}
		refused = append(refused, fmt.Errorf("node %s: %w", id, err))
	}
	if len(h.lacks(1)) == 0 { // fetched meanwhile
		return h.listJobs(f)
	}
	return rota.JobPage{}, &rota.Error{Kind: rota.KindUnavailable, Subject: "archive", RetryAfter: fetchEvery, Text: "this node's " +
		"history of ended jobs has gaps, and no node that has it all answers: try again, or read stale what is here",
		Cause: errors.Join(refused...)}
}

// ListArchived serves a page to a node whose history has gaps. One that has gaps
// itself refuses.
func (h *history) ListArchived(ctx context.Context, f rota.JobFilter, at rota.Index) (rota.JobPage, error) {
	if err := h.n.replica.waitApplied(ctx, at); err != nil {
		return rota.JobPage{}, err
	}
	if err := h.n.replica.refuseRebuilding(); err != nil {
		return rota.JobPage{}, err
	}
	if len(h.lacks(1)) > 0 {
		return rota.JobPage{}, rota.Refusef(rota.KindUnavailable, "archive", "the history of node %s has gaps itself", h.n.cfg.Node)
	}
	return h.listJobs(f)
}

// lastEnd returns how a job last ended, of what this node has: its record, or, where that is
// damaged, its state alone.
func (h *history) lastEnd(id rota.JobID) (e fsm.Ended, ok bool, err error) {
	mark, hidden, ok, err := h.lastMark(id)
	if ok { // looked for without reading a record
		if e, ok, err = h.lastEnded(id); err != nil && h.dropDamaged(e.Seq, err) {
			mark, _, ok, err = h.lastMark(id)
			e.Job.State = mark.State
		}
		return e, ok, err
	}
	if hidden {
		e.Seq = mark.Seq
	}
	h.n.replica.look(func(s *fsm.View) {
		var staged fsm.StagedRecord
		if staged, ok = s.StagedJob(id); ok {
			e = staged.Ended()
		}
	})
	return e, ok, err
}

// check is Invariant I8 as far as a node holds it: every job that ended is
// staged, archived, taken by retention, known to be fetched, or counted as lost.
func (h *history) check(f *fsm.Frozen) (violations []string) {
	missing, err := h.store.Missing(f.Unstaged(), 100)
	if err != nil && !errors.Is(err, archive.ErrRecordDamaged) {
		violations = append(violations, "I8: the archive cannot be read: "+err.Error())
	}
	for _, seq := range missing {
		violations = append(violations, fmt.Sprintf("I8: ended job number %d is neither staged nor archived", seq))
	}
	return violations
}
