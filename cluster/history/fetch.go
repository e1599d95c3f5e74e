package history

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// RetryAfter is when to retry a request for data that this node lacks.
const RetryAfter = fetchEvery

const (
	// fetchEvery is how often a node checks its history for gaps, fetchPause the pause between two slices of
	// fetchBytes: at most 10 MiB/s, so that a node that catches up does not load the others.
	fetchEvery = time.Second
	fetchPause = 100 * time.Millisecond
	fetchBytes = 1 << 20
	// fetchTimeout bounds the request for one slice, maxSlice the bytes served of one.
	fetchTimeout = 5 * time.Second
	maxSlice     = 2 << 20
	// gapsAtOnce bounds the gaps tried in one pass.
	gapsAtOnce = 16
	// maxAsk bounds the ids of one request.
	maxAsk = 1_000
)

// Fetch fills the gaps that a snapshot from another node, or an archive that could not keep up, left in this node's
// history (SPEC §10.5), until the node stops.
func (a *Archive) Fetch() {
	for a.host.pause(fetchEvery) {
		for a.fetchOnce() && a.host.pause(fetchPause) {
		}
	}
}

// fetchOnce requests the oldest gap that another node can fill; more reports that it made progress and more remains.
func (a *Archive) fetchOnce() (more bool) {
	gaps := a.Lacks(gapsAtOnce)
	a.mu.Lock()
	if len(gaps) == 0 {
		a.lackingSince = 0
	} else if a.lackingSince == 0 {
		a.lackingSince = a.host.SinceBoot()
	}
	a.mu.Unlock()
	if len(gaps) == 0 {
		return false
	}
	known, err := a.file.claim(a.host.State.head())
	if !known {
		return false
	}
	for i := 0; err == nil && i < len(gaps); i++ {
		if more, err = a.fetchGap(gaps[i]); more && err == nil {
			return true
		}
		if rota.KindOf(err) == rota.KindUnavailable && i+1 < len(gaps) {
			err = nil // a node is away: another gap may be filled meanwhile
		}
	}
	if err != nil && a.host.Lines.Allow("archive/fetch") {
		a.host.Log.Warn("ended jobs that this node lacks could not be fetched", "from", gaps[0].From, "lacking",
			gaps.Count(), "err", err)
	}
	return false
}

// fetchGap fetches a slice from the first node that has one. If all others answered and none has the first numbers, no
// node has them: retention removed them, or they are lost, which is logged as an error.
func (a *Archive) fetchGap(gap archive.Span) (more bool, err error) {
	var slice peer.ArchiveSlice
	floor, known := uint64(0), uint64(math.MaxUint64)
	silent := a.host.ask(func(to peer.NodeAddress) (bool, error) {
		s, err := a.fetchSlice(to, gap)
		if err != nil {
			return false, err
		}
		slice, floor, known = s, max(floor, s.Floor), min(known, s.Last)
		return len(s.Covered) > 0, nil
	})
	if len(slice.Covered) > 0 {
		return true, a.file.Jobs.Put(slice.Records, slice.Covered)
	}
	switch others, member := a.host.Others(); {
	case !member:
		return false, rota.Refusef(rota.KindUnavailable, "archive", "this node is not a member yet")
	case len(silent) > 0:
		return false, rota.Refusef(rota.KindUnavailable, "archive", "%d of %d other nodes do not answer", len(silent),
			len(others))
	case known < gap.From:
		return false, nil // the others have not applied that far yet
	}
	gone := archive.Span{From: gap.From, To: min(gap.To, known)}
	lost := uint64(0)
	if gone.To > floor {
		lost = gone.To - max(gone.From-1, floor)
		a.host.Log.Error(
			"ended jobs are in no node's archive: their outcome is known as far as tombstones go, their payload and "+
				"output are lost", "records", lost, "from", max(gone.From, floor+1), "to", gone.To)
	}
	return true, a.file.Jobs.Forgo(gone, lost)
}

// fetchSlice requests a slice from one node, and rejects records that were not requested.
func (a *Archive) fetchSlice(from peer.NodeAddress, gap archive.Span) (peer.ArchiveSlice, error) {
	ctx, cancel := context.WithTimeout(a.host.Life, fetchTimeout)
	defer cancel()
	slice, err := a.host.Peers.ArchiveRange(ctx, from, gap, fetchBytes)
	if err != nil {
		return slice, err
	}
	covered := archive.Spans{}
	for _, x := range slice.Covered {
		if x.From < gap.From || x.To > gap.To || x.To < x.From {
			return slice, rota.Refusef(rota.KindInvalid, "archive", "node %s covers %d to %d: %d to %d was asked for",
				from.ID, x.From, x.To, gap.From, gap.To)
		}
		covered.Add(x.From, x.To)
	}
	for _, r := range slice.Records {
		if !covered.Has(r.Seq) {
			return slice, rota.Refusef(rota.KindInvalid, "archive", "node %s sends record %d, which it does not cover",
				from.ID, r.Seq)
		}
	}
	return slice, nil
}

// ArchiveRange serves a slice of this node's history to another node. Staged records are flushed first, so that they
// are included.
func (a *Archive) ArchiveRange(_ context.Context, span peer.ArchiveSpan, maxBytes int64) (peer.ArchiveSlice, error) {
	if span.From == 0 || span.To < span.From {
		return peer.ArchiveSlice{}, rota.Refusef(rota.KindInvalid, "archive",
			"span: got numbers %d to %d, want 1 or more in ascending order", span.From, span.To)
	}
	var s fsm.Staging
	if err := a.host.State.View(func(m *fsm.View) { s = m.Staging() }); err != nil { // else it would report none
		return peer.ArchiveSlice{}, err
	}
	if s.Oldest != 0 && s.Oldest <= span.To {
		if err := a.Flush(); err != nil {
			return peer.ArchiveSlice{}, err
		}
	}
	slice, err := a.file.Jobs.Range(span.From, span.To, int(min(max(maxBytes, 0), maxSlice)))
	slice.Last = s.Last
	return slice, err
}

// ArchiveRecords serves single jobs from this node's history: for each id the latest record, or an empty one; for a
// deleted job only the number.
func (a *Archive) ArchiveRecords(_ context.Context, ids []rota.JobID) ([]peer.ArchiveRecord, error) {
	if len(ids) > maxAsk {
		return nil, rota.Refusef(rota.KindInvalid, "ids", "too many ids: got %d, maximum %d", len(ids), maxAsk)
	}
	records := make([]peer.ArchiveRecord, len(ids))
	size := 0
	for i, id := range ids {
		var staged fsm.StagedRecord
		var ok bool
		if err := a.host.State.View(func(s *fsm.View) { staged, ok = s.StagedJob(id) }); err != nil {
			return nil, err
		}
		if ok {
			records[i] = peer.ArchiveRecord{Seq: staged.Seq, Data: staged.Append(nil)}
		} else if mark, hidden, _, _ := a.lastMark(id); hidden {
			records[i].Seq = mark.Seq
		} else if r, ok, err := a.file.Jobs.Record(id); err != nil {
			a.dropDamaged(r.Seq, err)
			return nil, unreadable(err)
		} else if ok {
			records[i] = r
		}
		if size += len(records[i].Data); size > maxSlice {
			return nil, rota.Refusef(rota.KindExhausted, "ids",
				"the records of %d jobs do not fit into one answer: ask for fewer", len(ids))
		}
	}
	return records, nil
}

// askPeers asks the other nodes for jobs whose record may be missing here. Unknown jobs leave their place empty, except
// for the number of a deleted one; err means that a node did not answer, so a job may exist after all.
func (a *Archive) askPeers(ctx context.Context, ids []rota.JobID) (found []fsm.Ended, err error) {
	found = make([]fsm.Ended, len(ids))
	open := len(ids)
	silent := a.host.ask(func(to peer.NodeAddress) (bool, error) {
		records, err := a.host.Peers.ArchiveRecords(ctx, to, ids)
		if err == nil && len(records) != len(ids) {
			err = rota.Refusef(rota.KindInvalid, "archive", "%d records are answered for %d jobs", len(records),
				len(ids))
		}
		if err != nil {
			return false, err
		}
		for i, r := range records {
			ended, err := fsm.DecodeEnded(r.Data)
			switch had := found[i].Job.Archived; {
			case len(r.Data) == 0 && r.Seq > found[i].Seq: // deleted
				if found[i] = (fsm.Ended{Seq: r.Seq}); had {
					open++
				}
			case len(r.Data) != 0 && err == nil && ended.Job.ID == ids[i] && ended.Seq > found[i].Seq:
				if !had {
					open--
				}
				ended.Job.Archived = true
				found[i] = ended
			}
		}
		return open == 0, nil
	})
	if open == 0 {
		return found, nil
	}
	return found, errors.Join(silent...)
}
