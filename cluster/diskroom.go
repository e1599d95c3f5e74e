package cluster

import (
	"math"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
)

// diskCost is what a byte of an operation may take of the disk, times: pages that are not
// full, and what stands beside the log.
const diskCost = 2

// diskView is what is known of a node's disk: the level and the room at a look, and how many
// bytes this node, which leads, had answered for before it. A burst fills a small disk
// between two looks; so what was asked for since counts as written.
type diskView struct {
	level diskLevel
	// room is what may be written before the next level, math.MaxUint64 where there is none.
	room, seen uint64
}

// at returns the level once all that was asked for is written.
func (v diskView) at(asked uint64) diskLevel {
	if v.level < diskCritical && asked-min(asked, v.seen) > v.room/diskCost {
		return v.level + 1
	}
	return v.level
}

// until is how much may be asked for before the disk is to be looked at: half of what the
// next level is away.
func (v diskView) until() uint64 {
	if v.level == diskCritical {
		return math.MaxUint64
	}
	if half := v.room / diskCost / 2; half < math.MaxUint64-v.seen {
		return v.seen + half
	}
	return math.MaxUint64
}

// roomOf returns how many bytes lie between a level and the next one.
func roomOf(level diskLevel, free, low, critical uint64) uint64 {
	switch {
	case level == diskRoomy && low > 0:
		return free - min(free, low)
	case level < diskCritical && critical > 0:
		return free - min(free, critical)
	default:
		return math.MaxUint64
	}
}

// left returns how many bytes may be written now that can as well wait: snapshots and
// history. The last ones are the log's.
func (dg *diskGate) left() uint64 {
	free, total, err := dg.read(dg.path)
	if err != nil || total == 0 {
		return math.MaxUint64
	}
	return free - min(free, mustBeFree(total, dg.critical, diskCriticalMost))
}

// spend counts bytes that come to the log; the caller calls the function it returns once
// they are answered.
func (dg *diskGate) spend(bytes int) (done func()) {
	if asked := dg.asked.Add(uint64(bytes)); asked >= dg.until() {
		select {
		case dg.soon <- struct{}{}:
		default:
		}
		dg.state.Store(dg.weighDisks())
	}
	return func() { dg.answered.Add(uint64(bytes)) }
}

func (dg *diskGate) until() uint64 {
	if s := dg.state.Load(); s != nil {
		return s.until
	}
	return math.MaxUint64
}

// inForce returns the level that this node goes by while it leads, and the nodes that it
// comes from.
func (dg *diskGate) inForce() (diskLevel, []rota.NodeID) {
	if s := dg.state.Load(); s != nil {
		return s.level, s.from
	}
	return diskRoomy, nil
}

// weighDisks finds the level that the cluster goes by, and the nodes it comes from: this
// node's, which leads, or the one that a majority of the voters cannot do better than.
// A single follower whose disk is full costs that follower alone: without it the
// cluster goes on, so that it refuses nobody's work.
func (dg *diskGate) weighDisks() *diskVerdict {
	asked := dg.asked.Load()
	dg.mu.Lock()
	view := diskView{dg.level, dg.room, dg.seen}
	dg.mu.Unlock()
	own, until := view.at(asked), view.until()
	levels := map[rota.NodeID]diskLevel{dg.n.cfg.Node: own}
	var known []diskLevel
	voters := 0
	servers := dg.n.membership.servers()
	dg.n.watch.mu.Lock()
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		id := rota.NodeID(s.ID)
		if v, ok := dg.n.watch.peers[id]; ok && v.err == nil {
			levels[id], until = v.disk.at(asked), min(until, v.disk.until())
		}
		if l, ok := levels[id]; ok {
			known = append(known, l)
		}
	}
	dg.n.watch.mu.Unlock()
	level, from, better := own, []rota.NodeID(nil), false
	slices.Sort(known)
	if majority := voters/2 + 1; len(known) >= majority {
		level, better = max(level, known[majority-1]), known[majority-1] < own
	}
	for id, l := range levels {
		if l >= level {
			from = append(from, id)
		}
	}
	slices.Sort(from)
	return &diskVerdict{level, from, better, until}
}
