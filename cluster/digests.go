package cluster

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// digestRing remembers the state's digest after each of the latest entries, so
// that nodes can compare themselves at an index that all have passed (SPEC §2.5).
type digestRing struct {
	mu      sync.Mutex
	entries []indexedDigest
	// mark and before are the two latest entries that are compareEvery or more apart;
	// due is notified of each, never waited for. It is made when first asked for.
	mark, before rota.Index
	due          chan struct{}
}

// compareEvery is how many entries may go by between two comparisons, where they come
// faster than seconds do (SPEC §2.5).
const compareEvery = 1_000

// indexedDigest is a state in short: ended is the number of its newest terminal
// job, by which the records that came later are known.
type indexedDigest struct {
	index  rota.Index
	digest rota.Digest
	ended  uint64
}

func (r *digestRing) put(index rota.Index, d rota.Digest, ended uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = make([]indexedDigest, digestsKept)
	}
	r.entries[index%digestsKept] = indexedDigest{index, d, ended}
	if index < r.mark+compareEvery {
		return
	}
	r.mark, r.before = index, r.mark
	if r.due != nil {
		notify(r.due)
	}
}

// marks returns a channel that is notified of each mark.
func (r *digestRing) marks() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		r.due = make(chan struct{}, 1)
	}
	return r.due
}

// marked is the mark before the latest: nodes that lag by less than compareEvery entries
// have passed it as well. 0 is none.
func (r *digestRing) marked() rota.Index {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.before
}

func (r *digestRing) get(index rota.Index) *rota.Digest {
	if e, ok := r.at(index); ok {
		return &e.digest
	}
	return nil
}

func (r *digestRing) at(index rota.Index) (e indexedDigest, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil || index == 0 {
		return e, false
	}
	e = r.entries[index%digestsKept]
	return e, e.index == index
}

func (r *digestRing) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.entries)
	r.mark, r.before = 0, 0
}

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

// compareDigests judges this node by what a majority of the voters holds at an
// index that all may have passed. Each node judges itself, so that nobody else
// is needed to make it stop. Comparisons between the seconds count no doubts, as a burst
// of entries would use up doubtsMost in no time, and end none by hearing nobody.
func (rb *rebuilder) compareDigests(at rota.Index, servers []raft.Server, views map[rota.NodeID]peerView, between bool) {
	own, ok := rb.digests.at(at)
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
		if id == rb.n.cfg.Node {
			held = append(held, own.digest)
			continue
		}
		v := views[id]
		if v.err != nil || v.digest == nil {
			continue
		}
		held = append(held, *v.digest)
		if *v.digest != own.digest {
			rb.n.measures.mismatches.Inc()
			if rb.n.lines.Allow("digest/" + string(id)) {
				rb.n.log.Error("digests differ", "index", uint64(at), "own", own.digest.String(), "other_node", string(id),
					"other", v.digest.String())
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
		rb.tellDiffering(own, views)
	case agreeOutside:
		rb.quarantine(own, right)
	case agreeDoubt, agreeSplit:
		rb.n.fatal(rota.Refusef(rota.KindInternal, "digest", "at index %d no digest of the state is known to be held by a majority of the "+
			"voters, so nobody knows which is right: all stop. Start them again, which builds the state anew from snapshot "+
			"and log; should it recur, restore a backup", at))
	case agreeUnknown:
	}
}

// tellDiffering has a leader whose own state a majority holds say by an event whose
// is not: as its comparison found, or as the node found by itself. One that rebuilds
// has no digest, and may be done before the leader looks again. A node that does
// not lead only notes who is right, as it may lead next.
func (rb *rebuilder) tellDiffering(own indexedDigest, views map[rota.NodeID]peerView) {
	var ops []*fsmpb.Op
	for id, v := range views {
		at, right := v.differedAt, v.rightUntil
		switch {
		case v.err != nil:
			continue
		case v.digest != nil && *v.digest == own.digest:
			rb.right[id] = own.index
		case v.digest != nil:
			at, right = own.index, rb.right[id]
		}
		if at == 0 || right >= at {
			continue
		}
		var known rota.Index
		member := false
		rb.n.replica.look(func(s *fsm.View) { known, member = s.NodeDiffered(id) })
		if member && known <= right {
			ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_NodeDiffers{NodeDiffers: &fsmpb.NodeDiffers{Node: string(id),
				Index: uint64(at), RightUntil: uint64(right)}}})
		}
	}
	l := rb.n.terms.leading()
	if l == nil || len(ops) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, peerTimeout)
	defer cancel()
	if err := l.all(ctx, ops); err != nil && rb.n.lines.Allow("differs") {
		rb.n.log.Warn("no event says yet that a node's state differs: it is tried again", "err", err)
	}
}
