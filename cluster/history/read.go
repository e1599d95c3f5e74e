package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// Job reads one job from the state, or from the history if the state holds only a tombstone or nothing.
func (a *Archive) Job(ctx context.Context, id rota.JobID) (rota.Job, bool, error) {
	var job rota.Job
	var seq uint64
	var known, ended bool
	if err := a.host.State.View(func(s *fsm.View) {
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
	e, ok, err := a.Ended(ctx, id, seq)
	if err != nil && !known {
		return job, false, &rota.Error{Kind: rota.KindUnavailable, Subject: "job", RetryAfter: RetryAfter, Cause: err,
			Text: "this " +
				"node's history has gaps, and whether job " + string(id) +
				" is known could not be asked of all other nodes"}
	}
	switch {
	case !ok:
		return job, known, nil
	case ended:
		return fsm.WithTombstone(e.Job, job), true, nil
	}
	return e.Job, true, nil
}

// Ended finds the record of a terminal job here, or at another node if it may lie in a gap of this node's history. seq
// is its number from a tombstone, otherwise 0.
func (a *Archive) Ended(ctx context.Context, id rota.JobID, seq uint64) (e fsm.Ended, ok bool, err error) {
	if seq != 0 {
		e, ok, err = a.file.Jobs.At(seq)
		e.Seq = seq
	} else {
		e, ok, err = a.lastEnded(id)
	}
	lost := errors.Is(err, archive.ErrMarksDamaged)
	switch {
	case lost && a.host.alone():
		return e, false, unreadable(err)
	case lost: // another node may have it
	case err != nil && !a.dropDamaged(e.Seq, err):
		return e, false, unreadable(err)
	case ok && seq != 0:
		return e, true, nil
	case seq != 0 && a.file.Jobs.Holds(seq) || len(a.Lacks(1)) == 0:
		return e, ok, nil
	}
	// Without a number, a later end may lie in a gap.
	found, err := a.askPeers(ctx, []rota.JobID{id})
	if later := found[0].Seq; later == 0 || later < max(seq, e.Seq) {
		if ok {
			return e, true, nil
		}
		return e, false, err
	}
	return found[0], found[0].Job.State.Terminal(), err
}

// unreadable returns the error for an archive that exists and cannot be read: its records must not count as unknown.
func unreadable(err error) *rota.Error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "archive", RetryAfter: RetryAfter, Cause: err,
		Text: "this node's archive cannot be read"}
}

// dropDamaged discards a record if err reports that it is damaged.
func (a *Archive) dropDamaged(seq uint64, err error) bool {
	if !errors.Is(err, archive.ErrRecordDamaged) {
		return false
	}
	a.dropAll([]uint64{seq})
	return true
}

// dropAll discards damaged records: they are fetched again from another node.
func (a *Archive) dropAll(seqs []uint64) {
	if len(seqs) == 0 {
		return
	}
	a.host.Log.Error("archived records are damaged and are fetched again from another node", "first", seqs[0],
		"records", len(seqs))
	if err := a.file.Jobs.Drop(seqs); err != nil {
		a.host.Log.Error("damaged records could not be dropped", "err", err)
	}
}

// listed reads the current state and history, limited to what the reader may see.
func (a *Archive) listed(rd *access.Reader, do func(*fsm.JobList, fsm.History) error) error {
	var list *fsm.JobList
	if err := a.host.State.Freezing(func(m *fsm.Machine) { list = m.Jobs() }); err != nil {
		return err
	}
	// Read after the state: records that left memory since then are in the archive.
	reading, err := a.file.Jobs.Read()
	if err != nil {
		return err
	}
	err = do(list.For(rd), reading)
	reading.Close()
	a.dropAll(reading.Damaged)
	if err == nil && reading.Lacks() {
		err = unreadable(archive.ErrMarksDamaged)
	}
	return err
}

// listJobs builds one page from the state and the history.
func (a *Archive) listJobs(f rota.JobFilter, rd *access.Reader) (page rota.JobPage, err error) {
	err = a.listed(rd, func(list *fsm.JobList, h fsm.History) error {
		page, err = list.Page(f, h)
		return err
	})
	return page, err
}

// Members reads the next jobs of a plan. A plan that deletes pauses while this node's archive has gaps: it would omit
// the jobs in them.
func (a *Archive) Members(w *fsm.PlanWork, most int, rd *access.Reader) (next fsm.Members, err error) {
	if w.Spec.Verb == rota.PlanDelete && len(a.Lacks(1)) > 0 {
		return next, &rota.Error{Kind: rota.KindUnavailable, Subject: "archive", RetryAfter: RetryAfter,
			Text: "this node's history of ended jobs has gaps, " +
				"which are being fetched: try again"}
	}
	err = a.listed(rd, func(list *fsm.JobList, h fsm.History) error {
		next, err = list.Members(w, most, h)
		return err
	})
	return next, err
}

// List returns one page of ended and live jobs. While this node's archive has gaps, it requests the page from another
// node. If no node can build it, it returns an error rather than a short page, unless a stale page was requested. Other
// nodes are asked only for lists from which no right excludes anything.
func (a *Archive) List(ctx context.Context, f rota.JobFilter, at rota.Index, stale bool,
	rd *access.Reader) (rota.JobPage, error) {
	var refused []error
	if stale || f.State != rota.JobNone && !f.State.Terminal() || len(a.Lacks(1)) == 0 {
		page, err := a.listJobs(f, rd)
		lacks := errors.Is(err, archive.ErrMarksDamaged)
		if !lacks || stale {
			if lacks {
				err = nil
			}
			return page, err
		}
		refused = append(refused, err)
	}
	var page rota.JobPage
	var invalid error
	found := false
	silent := a.host.ask(func(to peer.NodeAddress) (bool, error) {
		if rd != nil {
			return false, nil
		}
		p, err := a.host.Peers.ListArchived(ctx, to, f, at)
		if err != nil && rota.KindOf(err) != rota.KindInvalid {
			return false, err
		}
		page, invalid, found = p, err, true
		return true, nil
	})
	if found {
		return page, invalid
	}
	if len(a.Lacks(1)) == 0 { // fetched in the meantime
		return a.listJobs(f, rd)
	}
	return rota.JobPage{}, &rota.Error{Kind: rota.KindUnavailable, Subject: "archive", RetryAfter: RetryAfter,
		Text: "this node's history of ended jobs has gaps, and no node with a complete history answers: " +
			"try again, or read this node's part with stale",
		Cause: errors.Join(append(refused, silent...)...)}
}

// ListArchived serves a page to a node whose history has gaps. A node with gaps of its own returns an error.
func (a *Archive) ListArchived(ctx context.Context, f rota.JobFilter, at rota.Index) (rota.JobPage, error) {
	if err := a.host.State.Await(ctx, at); err != nil {
		return rota.JobPage{}, err
	}
	if len(a.Lacks(1)) > 0 {
		return rota.JobPage{}, rota.Refusef(rota.KindUnavailable, "archive", "the history of this node has gaps itself")
	}
	return a.listJobs(f, nil)
}

// LastEnd returns how a job last ended, as far as this node has it: its record or, if that is damaged, only its state.
func (a *Archive) LastEnd(id rota.JobID) (e fsm.Ended, ok bool, err error) {
	mark, hidden, ok, err := a.lastMark(id)
	if ok { // found without reading a record
		if e, ok, err = a.lastEnded(id); err != nil && a.dropDamaged(e.Seq, err) {
			mark, _, ok, err = a.lastMark(id)
			e.Job.State = mark.State
		}
		return e, ok, err
	}
	if hidden {
		e.Seq = mark.Seq
	}
	a.host.State.Look(func(s *fsm.View) {
		var staged fsm.StagedRecord
		if staged, ok = s.StagedJob(id); ok {
			e = staged.Ended()
		}
	})
	return e, ok, err
}

// LastEnds returns how jobs that are no longer in the state last ended: from this node or, if they may lie in a gap of
// its archive, from another one. An unknown end is not Terminal.
func (a *Archive) LastEnds(ctx context.Context, ids []rota.JobID) ([]fsm.Ended, error) {
	ends := make([]fsm.Ended, len(ids))
	var unsure []int
	lost, gaps, deleted := false, len(a.Lacks(1)) > 0, false
	a.host.State.Look(func(s *fsm.View) { deleted = s.FirstDeleted() != 0 })
	for i, id := range ids {
		e, ok, err := a.LastEnd(id)
		if errors.Is(err, archive.ErrMarksDamaged) && !a.host.alone() {
			lost = true
		} else if err != nil {
			return nil, unreadable(err)
		}
		if ends[i] = e; !ok || gaps && deleted { // the record here may be an earlier life of a deleted job
			unsure = append(unsure, i)
		}
	}
	if len(unsure) == 0 || !lost && !gaps {
		return ends, nil
	}
	asked := make([]rota.JobID, len(unsure))
	for i, at := range unsure {
		asked[i] = ids[at]
	}
	found, err := a.askPeers(ctx, asked)
	if err != nil {
		return nil, &rota.Error{Kind: rota.KindUnavailable, Subject: "archive", RetryAfter: RetryAfter, Cause: err,
			Text: "the leader's history has gaps, and whether these ids are known could not be asked of all other nodes: submit again"}
	}
	for i, at := range unsure {
		if found[i].Seq >= ends[at].Seq {
			ends[at] = found[i]
		}
	}
	return ends, nil
}

// EndState returns the state in which a job last ended, as far as this node knows.
func (a *Archive) EndState(id rota.JobID) (state rota.JobState, ok bool, err error) {
	mark, _, ok, err := a.lastMark(id)
	if err != nil {
		return state, false, unreadable(err)
	}
	return mark.State, ok, nil
}

// Check is Invariant I8 as seen by one node: every job that ended is staged, archived, removed by retention, known to
// be missing and fetched, or counted as lost.
func (a *Archive) Check(f *fsm.Frozen) (violations []string) {
	missing, err := a.file.Jobs.Missing(f.Unstaged(), 100)
	if err != nil && !errors.Is(err, archive.ErrRecordDamaged) {
		violations = append(violations, "I8: the archive cannot be read: "+err.Error())
	}
	for _, seq := range missing {
		violations = append(violations, fmt.Sprintf("I8: ended job number %d is neither staged nor archived", seq))
	}
	return violations
}
