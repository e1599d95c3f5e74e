package sched

import (
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
)

// pick returns the first of the able workers in the strategy's order, and the rule that chose it (SPEC §7.6, §7.7). In
// a group of several jobs, `random` and `affinity` order the workers for the job with the lowest id, whatever job the
// worker then gets. prefer_locality does the same: it leaves any strategy only the workers that hold the most of that
// job's data.
func (m *matcher) pick(able bitset) (pos int, why rota.Reasoning) {
	n := able.count()
	if n > 1 && m.in.Policy.PreferLocality && m.in.Policy.Strategy != rota.StrategyAffinity {
		if it := m.lowest(); len(it.DataKeys) > 0 || it.Data != nil {
			if most := m.bonds().mostData(able, it.DataKeys, it.Data); most > 0 {
				able = m.ties.best
				pos, _ = m.first(able, able.count())
				return pos, rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: most}
			}
		}
	}
	pos, why = m.first(able, n)
	if n == 1 {
		why = rota.Reasoning{Rule: rota.ReasoningOnlyWorkerAvailable}
	}
	return pos, why
}

// bonds returns the ties of the round, created on first use.
func (m *matcher) bonds() *ties {
	if m.ties == nil {
		m.ties = newTies(m.rooms, m.loads)
	}
	return m.ties
}

// first returns the first of n able workers in the strategy's own order, and the rule.
func (m *matcher) first(able bitset, n int) (pos int, why rota.Reasoning) {
	switch m.in.Policy.Strategy {
	case rota.StrategyShuffle:
		pos = able.first()
		why = rota.Reasoning{Rule: rota.ReasoningBySeededShuffle, N: int64(pos), Of: int64(len(m.slots))}
	case rota.StrategyRoundRobin:
		cursor := m.in.Cursor + uint64(len(m.pairs))
		pos = able.nth(int(cursor % uint64(n)))
		why = rota.Reasoning{Rule: rota.ReasoningByRoundRobin, N: int64(cursor)}
	case rota.StrategyRandom:
		turn := randomTurn(m.lowest().ID, m.in.Seed)
		if m.in.Policy.Unseeded {
			turn = unseededTurn(m.lowest().ID, n)
		}
		pos = able.nth(int(turn % uint64(n)))
		why = rota.Reasoning{Rule: rota.ReasoningBySeededRandom}
	case rota.StrategyAffinity:
		pos, why = m.bonds().pick(able, n, m.lowest())
	default:
		pos = m.loads.least(able, n)
		why = rota.Reasoning{Rule: rota.ReasoningByLeastLoaded, N: int64(m.now.open[m.slots[pos]])}
	}
	return pos, why
}

// lowest returns the unassigned job of the group with the lowest id.
func (m *matcher) lowest() *Item {
	lowest := m.group[0].item
	for i := range m.group {
		if it := m.group[i].item; it.ID < lowest.ID {
			lowest = it
		}
	}
	return lowest
}

// loads files positions by their open leases, for least_loaded: the result is the first able position in the lowest
// level that has one.
type loads struct {
	rooms *rooms
	// levels are ordered by load; none is empty.
	levels []level
}

type level struct {
	load int32
	n    int
	at   bitset
}

func newLoads(r *rooms) *loads {
	l := &loads{rooms: r}
	sorted := make([]int32, len(r.slots))
	for pos, slot := range r.slots {
		sorted[pos] = r.now.open[slot]
	}
	slices.Sort(sorted)
	for _, load := range slices.Compact(sorted) {
		l.levels = append(l.levels, level{load: load, at: r.newSet()})
	}
	for pos, slot := range r.slots {
		i, _ := l.find(r.now.open[slot])
		l.levels[i].at.set(pos)
		l.levels[i].n++
	}
	return l
}

func (l *loads) find(load int32) (int, bool) {
	return slices.BinarySearchFunc(l.levels, load, func(v level, load int32) int { return int(v.load - load) })
}

// least returns the least loaded of the n able positions, the first of equals.
func (l *loads) least(able bitset, n int) int {
	if n <= 4*len(l.levels) {
		return l.scan(able)
	}
	for i := range l.levels {
		at := l.levels[i].at
		for j, w := range able {
			if w &= at[j]; w != 0 {
				return j<<6 + bits.TrailingZeros64(w)
			}
		}
	}
	return -1
}

// scan looks at each able position, which is cheaper when there are few.
func (l *loads) scan(able bitset) int {
	best, least := -1, int32(0)
	for j, w := range able {
		for ; w != 0; w &= w - 1 {
			pos := j<<6 + bits.TrailingZeros64(w)
			if open := l.rooms.now.open[l.rooms.slots[pos]]; best < 0 || open < least {
				best, least = pos, open
			}
		}
	}
	return best
}

// more moves a position one level up from its load.
func (l *loads) more(pos int, load int32) {
	i, _ := l.find(load)
	if i+1 == len(l.levels) || l.levels[i+1].load != load+1 {
		l.levels = slices.Insert(l.levels, i+1, level{load: load + 1, at: l.rooms.newSet()})
	}
	l.levels[i].at.clear(pos)
	l.levels[i].n--
	l.levels[i+1].at.set(pos)
	l.levels[i+1].n++
	if l.levels[i].n == 0 {
		l.levels = slices.Delete(l.levels, i, i+1)
	}
}
