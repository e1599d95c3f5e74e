package rebuild

import (
	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// agreement is the result of comparing this node's digest with those of others (SPEC §2.5).
type agreement uint8

const (
	// agreeUnknown: too few voters answer for any conclusion.
	agreeUnknown agreement = iota
	// agreeHeld: a majority of the voters has this node's digest.
	agreeHeld
	// agreeOutside: a majority has another digest.
	agreeOutside
	// agreeDoubt: digests differ, and the voters that did not answer determine which is right.
	agreeDoubt
	// agreeSplit: digests differ, and none can still reach a majority.
	agreeSplit
)

// judge compares a node's digest with those of voters, including its own if it is a voter; voters is the number of all
// voters. right is the majority's digest if it is a different one.
func judge(own rota.Digest, held []rota.Digest, voters int) (verdict agreement, right rota.Digest) {
	most, differ := 0, false
	for i, d := range held {
		count := 0
		for _, other := range held {
			if other == d {
				count++
			}
		}
		most = max(most, count)
		differ = differ || d != own || d != held[0]
		switch {
		case count <= voters/2:
		case d == own:
			return agreeHeld, own
		default:
			return agreeOutside, held[i]
		}
	}
	switch {
	case !differ:
		return agreeUnknown, right
	case most+voters-len(held) > voters/2:
		return agreeDoubt, right
	default:
		return agreeSplit, right
	}
}

// maxDoubts is the number of consecutive seconds that digests may differ without a majority because too few voters
// answer: the correct state is then unknown, and waiting longer would serve a wrong state for longer.
const maxDoubts = 5

// Compare checks this node against the digest of a majority of the voters, at an index that all may have passed. Each
// node checks itself, so it stops without help from others. Comparisons between the seconds count no doubts, since a
// burst of entries would use up maxDoubts in no time; and they end no doubt merely because no voter answered.
func (rb *Rebuilder) Compare(at rota.Index, servers []raft.Server, answers map[rota.NodeID]Answer, between bool) {
	own, ok := rb.host.State.Digests.at(at)
	if !ok {
		return
	}
	var held []rota.Digest
	voters := 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		id := rota.NodeID(s.ID)
		if id == rb.host.Node {
			held = append(held, own.digest)
			continue
		}
		a := answers[id]
		if a.Err != nil || a.Digest == nil {
			continue
		}
		held = append(held, *a.Digest)
		if *a.Digest != own.digest {
			rb.mismatches.Inc()
			if rb.host.Lines.Allow("digest/" + string(id)) {
				rb.host.Log.Error("digests differ", "index", uint64(at), "own", own.digest.String(), "other_node",
					string(id), "other", a.Digest.String())
			}
		}
	}
	verdict, right := judge(own.digest, held, voters)
	if verdict == agreeDoubt {
		if between {
			return
		}
		if rb.doubts++; rb.doubts < maxDoubts {
			return
		}
	}
	if !between || verdict != agreeUnknown {
		rb.doubts = 0
	}
	switch verdict {
	case agreeHeld:
		rb.agree(own)
		rb.recordDiffering(own, answers)
	case agreeOutside:
		rb.quarantine(own, right)
	case agreeDoubt, agreeSplit:
		rb.host.Fatal(rota.Refusef(rota.KindInternal, "digest",
			"at index %d no majority of the voters is known to have the same state, so all stop. "+
				"Start them again, which rebuilds the state from snapshot and log. "+
				"If this happens again, restore a backup", at))
	case agreeUnknown:
	}
}

// recordDiffering makes a leader whose own state a majority holds record an event for each node whose state differs: as
// found by its comparison, or by that node itself. A node that rebuilds has no digest, and may finish before the
// leader's next comparison. A node that is not the leader only records which nodes are right, as it may lead next.
func (rb *Rebuilder) recordDiffering(own indexedDigest, answers map[rota.NodeID]Answer) {
	var ops []*fsmpb.Op
	for id, a := range answers {
		at, right := a.DifferedAt, a.RightUntil
		switch {
		case a.Err != nil:
			continue
		case a.Digest != nil && *a.Digest == own.digest:
			rb.right[id] = own.index
		case a.Digest != nil:
			at, right = own.index, rb.right[id]
		}
		if at == 0 || right >= at {
			continue
		}
		var known rota.Index
		member := false
		rb.host.State.Look(func(s *fsm.View) { known, member = s.NodeDiffered(id) })
		if member && known <= right {
			ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_NodeDiffers{NodeDiffers: &fsmpb.NodeDiffers{Node: string(id),
				Index: uint64(at), RightUntil: uint64(right)}}})
		}
	}
	if len(ops) == 0 {
		return
	}
	if err := rb.host.Record(ops); err != nil && rb.host.Lines.Allow("differs") {
		rb.host.Log.Warn("the event that a node's state differs is not recorded yet: trying again", "err", err)
	}
}
