package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
)

// A leader never replaces an entry that a majority holds, unless a voter of that majority has forgotten it: its disk
// went back in time, for example because a snapshot of its volume was restored (SPEC §2.5). Only a node that had
// applied the replaced entries can detect this. The entries it applied exist nowhere else, or only on nodes where they
// are replaced next. So every such node reports the loss, and its state, its history and its snapshots follow the log
// that the cluster continues with.

// cutShown is how long every node reports that applied entries were replaced.
const cutShown = 7 * 24 * time.Hour

// Cutting is called before the entries from low on, which include the log's last, are replaced by a leader's. If this
// node had applied the first of them, it records that and starts a rebuild, because the digests of the two pasts may
// never be compared. An error means that the record could not be written: nothing may be replaced then.
func (rb *Rebuilder) Cutting(low, _ uint64) error {
	rb.recording.Lock()
	defer rb.recording.Unlock()
	applied := max(rb.host.Handed(), rb.host.State.Newest(),
		rb.host.File.Jobs.Applied(), rb.host.File.Events.Newest())
	if kept, err := rb.host.Snapshots.List(); err == nil && len(kept) > 0 {
		applied = max(applied, rota.Index(kept[0].Index))
	}
	last := rb.host.Data.Rebuild()
	replacing := last.Open && low > last.Agreed && rota.Index(last.Past) >= applied
	if rota.Index(low) > applied || replacing {
		return nil // raft's normal case, or entries that a rebuild in progress replaces anyway
	}
	right := rb.host.State.Digests.upTo(rota.Index(low) - 1)
	rb.host.State.Look(func(s *fsm.View) {
		if head := s.Head(); head.Index < rota.Index(low) && head.Index > right.index {
			right = indexedDigest{index: head.Index, ended: s.Staging().Last}
		}
	})
	cut := raftstore.CutRecord{From: low, To: uint64(applied), Term: rb.host.Stores.TermOf(low),
		AtMs: rb.host.Wall().UnixMilli()}
	record := raftstore.RebuildRecord{Open: true, At: low, Agreed: low - 1, Ended: right.ended,
		Past: uint64(applied), Again: last.Again}
	if last.Open {
		record.Agreed, record.Ended = min(record.Agreed, last.Agreed), min(record.Ended, last.Ended)
		record.Past = max(record.Past, last.Past)
	}
	if err := rb.host.Data.SetCut(cut, record); err != nil {
		return &rota.Error{Kind: rota.KindInternal, Subject: "data", Cause: err,
			Text: fmt.Sprintf(
				"the leader replaces entries from %d on, which this node had applied, and that cannot be "+
					"written down", low)}
	}
	rb.ReportCut(rb.host.Node, cut)
	if !rb.host.State.Dropped() {
		rb.host.State.Drop()
	}
	rb.Resume()
	return nil
}

// Replaced discards history that belongs to a different past than the cluster's, from an entry to the newest applied
// one. The state is not affected: a snapshot of the leader replaced it earlier.
func (rb *Rebuilder) Replaced(from, to rota.Index) error {
	rb.recording.Lock()
	defer rb.recording.Unlock()
	cut := raftstore.CutRecord{From: uint64(from), To: uint64(to), Term: rb.host.Stores.TermOf(uint64(from)),
		AtMs: rb.host.Wall().UnixMilli()}
	if err := rb.host.Data.SetCut(cut, rb.host.Data.Rebuild()); err != nil {
		return err
	}
	rb.ReportCut(rb.host.Node, cut)
	return errors.Join(rb.host.Archive.Forget(1), rb.host.Events.Forget(from-1))
}

// outrun waits until raft delivers entries beyond those that it counts as applied in the log whose end was cut off:
// only later entries are certain to be committed, and all of them are delivered. An idle cluster writes none, so this
// node requests some.
func (rb *Rebuilder) outrun(record raftstore.RebuildRecord) error {
	ctx, cancel := context.WithTimeout(rb.host.Life, rebuildAgree)
	defer cancel()
	for newest := rb.host.State.Newest(); newest <= rota.Index(record.Past); newest = rb.host.State.Newest() {
		err := rb.host.Push(ctx)
		if err == nil {
			err = rb.host.pause(ctx, time.Millisecond)
		}
		if err != nil {
			return &rota.Error{Kind: rota.KindUnavailable, Subject: "rebuild", Cause: err,
				Text: fmt.Sprintf(
					"the log of the cluster must come past entry %d, which this node had applied before it "+
						"was replaced", record.Past)}
		}
	}
	return nil
}

// ReportCut logs a loss that a node reports, once.
func (rb *Rebuilder) ReportCut(of rota.NodeID, cut raftstore.CutRecord) {
	rb.mu.Lock()
	known := rb.cutsLogged[of] == cut
	rb.cutsLogged[of] = cut
	rb.mu.Unlock()
	if cut.From == 0 || known || !rb.Shown(cut) {
		return
	}
	rb.host.Log.Error("applied entries were replaced: acknowledged work is lost", "other_node", string(of),
		"from", cut.From, "to", cut.To, "term", cut.Term)
}

// Shown reports whether a loss is recent enough to be reported.
func (rb *Rebuilder) Shown(cut raftstore.CutRecord) bool {
	return cut.From != 0 && rb.host.Wall().UnixMilli()-cut.AtMs < cutShown.Milliseconds()
}

// Alarms returns a text for each node's recent loss, including this node's own.
func (rb *Rebuilder) Alarms(of map[rota.NodeID]raftstore.CutRecord) (texts map[rota.NodeID]string) {
	texts = make(map[rota.NodeID]string)
	for id, cut := range of {
		if rb.Shown(cut) {
			texts[id] = fmt.Sprintf(
				"node %s had applied entries %d to %d, from term %d on, when a leader replaced them: "+
					"acknowledged work of that time is lost. The disk of another voter went back in time: find and "+
					"replace that node, and have the lost jobs submitted again (runbook RotaLogReplaced)",
				id, cut.From, cut.To, cut.Term)
		}
	}
	return texts
}
