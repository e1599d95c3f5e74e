package history

import (
	"context"
	"errors"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// Deleted records remain in the archives until retention removes them: another node may still have to fetch such a
// record, as it also represents the job's earlier ends. So every read of a job's last end by id goes through this file,
// which leaves deleted ones out (SPEC §21.3).

// lastMark returns the entry for a job's last end in the archive's list of ids. hidden reports that the job was deleted
// since; the mark then holds only the number.
func (a *Archive) lastMark(id rota.JobID) (mark fsm.Mark, hidden, ok bool, err error) {
	var staged uint64
	a.host.State.Look(func(s *fsm.View) { staged = s.DeletedStaged(id) }) // before the archive, to miss nothing
	mark, ok, err = a.file.Jobs.Mark(id)
	if a.gone(mark.Seq) {
		staged = max(staged, mark.Seq)
	}
	if staged > 0 && staged >= mark.Seq {
		return fsm.Mark{Seq: staged}, true, false, err
	}
	return mark, false, ok, err
}

// gone reports whether the end with a number was deleted.
func (a *Archive) gone(seq uint64) (deleted bool) {
	a.host.State.Look(func(s *fsm.View) { deleted = s.Deleted(seq) })
	return deleted
}

// lastEnded reads the record of a job's last end from the archive. For a deleted one it returns the number, and false.
func (a *Archive) lastEnded(id rota.JobID) (e fsm.Ended, ok bool, err error) {
	mark, hidden, _, err := a.lastMark(id)
	if hidden || err != nil {
		return fsm.Ended{Seq: mark.Seq}, false, err
	}
	if e, ok, err = a.file.Jobs.Get(id); a.gone(e.Seq) { // deleted since the mark was read
		return fsm.Ended{Seq: e.Seq}, false, nil
	}
	return e, ok, err
}

// NumberOf returns the number of a job's last end, deleted or not, from the state, the archive and the other nodes'
// archives; 0 if the job is live or unknown.
func (a *Archive) NumberOf(ctx context.Context, id rota.JobID) (uint64, error) {
	var seq uint64
	var ended, known, ok bool
	var staged fsm.StagedRecord
	if err := a.host.State.View(func(s *fsm.View) {
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
	mark, _, _, err := a.lastMark(id)
	lost := errors.Is(err, archive.ErrMarksDamaged) && !a.host.alone()
	if err != nil && !lost {
		return 0, unreadable(err)
	}
	if seq = max(seq, mark.Seq); !lost && len(a.Lacks(1)) == 0 {
		return seq, nil
	}
	found, err := a.askPeers(ctx, []rota.JobID{id})
	if err != nil {
		return 0, &rota.Error{Kind: rota.KindUnavailable, Subject: "job", RetryAfter: RetryAfter, Cause: err,
			Text: "this node's history has " +
				"gaps, and whether job " + string(id) + " is known could not be asked of all other nodes: try again"}
	}
	return max(seq, found[0].Seq), nil
}

// Unretained returns the number up to which retention has removed deleted, and every earlier number, from every
// member's archive. It fails while a member does not answer.
func (a *Archive) Unretained(ctx context.Context, deleted uint64) (through uint64, err error) {
	span := peer.ArchiveSpan{From: deleted, To: deleted}
	own, err := a.ArchiveRange(ctx, span, 1)
	if err != nil {
		return 0, err
	}
	through = own.Floor
	silent := a.host.ask(func(to peer.NodeAddress) (bool, error) {
		slice, err := a.fetchSlice(to, span)
		through = min(through, slice.Floor)
		return false, err
	})
	return through, errors.Join(silent...)
}

// Forget discards the records from a number on, which a wrong state wrote: they are fetched again.
func (a *Archive) Forget(from uint64) error {
	a.flushing.Lock()
	defer a.flushing.Unlock()
	return a.file.Jobs.Forget(from)
}
