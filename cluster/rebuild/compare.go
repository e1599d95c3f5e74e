package rebuild

import (
	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// agreement is what a comparison of digests says of this node (SPEC §2.5).
type agreement uint8

const (
	// agreeUnknown: too few answer to know anything.
	agreeUnknown agreement = iota
	// agreeHeld: a majority of the voters holds this node's digest.
	agreeHeld
	// agreeOutside: a majority holds another one.
	agreeOutside
	// agreeDoubt: digests differ, and those who did not answer decide which is right.
	agreeDoubt
	// agreeSplit: digests differ, and none can have a majority any more.
	agreeSplit
)

// judge compares a node's digest with those that voters hold, its own among them
// if it is one; voters counts all. right is the majority's where it is another.
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

// doubtsMost is for how many seconds in a row digests may differ without
// anybody's having a majority, as too few voters answer: then nobody knows who
// is right, and waiting longer would serve a wrong state longer.
const doubtsMost = 5

// Compare judges this node by what a majority of the voters holds at an
// index that all may have passed. Each node judges itself, so that nobody else
// is needed to make it stop. Comparisons between the seconds count no doubts, as a burst
// of entries would use up doubtsMost in no time, and end none by hearing nobody.
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
				rb.host.Log.Error("digests differ", "index", uint64(at), "own", own.digest.String(), "other_node", string(id),
					"other", a.Digest.String())
			}
		}
	}
	verdict, right := judge(own.digest, held, voters)
	if verdict == agreeDoubt {
		if between {
			return
		}
		if rb.doubts++; rb.doubts < doubtsMost {
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
		rb.host.Fatal(rota.Refusef(rota.KindInternal, "digest", "at index %d no digest of the state is known to be held by a majority of the "+
			"voters, so nobody knows which is right: all stop. Start them again, which builds the state anew from snapshot "+
			"and log; should it recur, restore a backup", at))
	case agreeUnknown:
	}
}

// recordDiffering has a leader whose own state a majority holds say by an event whose
// is not: as its comparison found, or as the node found by itself. One that rebuilds
// has no digest, and may be done before the leader looks again. A node that does
// not lead only notes who is right, as it may lead next.
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
		rb.host.Log.Warn("no event says yet that a node's state differs: it is tried again", "err", err)
	}
}
