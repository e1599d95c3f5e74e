package sched

import (
	"bytes"

	"github.com/rotasched/rota"
)

// groupMax is the maximum size of a group of tied candidates (SPEC §7.5).
const groupMax = 16

// matcher makes the pairs of one round (SPEC §7.5).
type matcher struct {
	*rooms
	source source
	draft  *Draft
	in     RoundInput
	loads  *loads // for least_loaded and affinity, else nil
	ties   *ties  // for affinity and prefer_locality, on first use
	pairs  []Pair
	// rank counts the candidates drawn.
	rank int32
	// group holds the candidates of the current group that have no worker yet.
	group []member
	few   [1]member // initial storage of group
	union bitset
	// plan is set in a queue that backfills conservatively, once its first job has found no room.
	plan *plan
	// allowed is a buffer for the result of permitted.
	allowed bitset
}

// member is a candidate in the current group.
type member struct {
	candidate
	rank  int32
	class *classRoom // nil if it may not be assigned any longer
	mask  bitset     // of its tenant
}

// fits reports whether the worker at a position has room for the candidate.
func (c *member) fits(pos int) bool { return c.class.at.has(pos) && (c.mask == nil || c.mask.has(pos)) }

func (m *matcher) begin() {
	// Where many jobs wait, a round mostly places few: as many as end.
	m.pairs = make([]Pair, 0, min(m.in.Limit, m.drawable, 4*m.count))
	m.group = m.few[:0]
	m.union = m.newSet()
}

// interleave assigns a worker, before the draw, to a job that some worker has room for (SPEC §5.1), unless a
// reservation prevents it.
func (m *matcher) interleave(lot Lot, it *Item) (placed bool) {
	c := candidate{item: it, lane: lot.Pending.laneOf(it), key: it.Key, score: ScoreOf(lot, it, m.in.Now)}
	if placed = m.consider(c); placed {
		m.pairs[0].Interleaved = true
	}
	return placed
}

// run draws group after group until the limit is reached or no drawable candidate has room.
func (m *matcher) run() {
	for len(m.pairs) < m.in.Limit && m.count > 0 && m.drawable > 0 {
		m.draw()
		if len(m.group) > 0 {
			m.match()
		} else if !m.source.more(m.rooms) {
			return
		}
	}
}

// draw fills the group with at most 16 candidates that tie on (score, enqueued). Without fair share it includes those
// without room: they keep their seats in the cut and their ids count for the strategy random. Under fair share it
// contains consecutively drawn candidates, of one tenant or of several with the same share: the tie within a group
// ignores shares and must not prefer the tenant that has more.
func (m *matcher) draw() {
	m.group = m.group[:0]
	c, ok := m.peek()
	if !ok {
		return
	}
	if all, whole := m.source.group(c); whole {
		for _, it := range all {
			if ok && c.item == it {
				m.take(c)
				c, ok = m.peek()
			} else {
				m.group = append(m.group, member{candidate: candidate{item: it}})
			}
		}
		return
	}
	first, mixed := c, false
	for ok && len(m.group) < groupMax && c.ties(first) {
		if mixed = mixed || c.lane.cell.group != first.lane.cell.group; mixed && !c.equals(first) {
			return
		}
		m.take(c)
		c, ok = m.peek()
	}
}

// peek returns the source's next candidate. It does not search the rest once none of it has room.
func (m *matcher) peek() (candidate, bool) {
	if m.drawable == 0 {
		return candidate{}, false
	}
	return m.source.peek(m.rooms)
}

// take draws a candidate into the group.
func (m *matcher) take(c candidate) {
	m.source.take()
	m.drawn(c.item.Class)
	m.group = append(m.group, member{c, m.rank, m.of(c.item.Class), m.maskOf(c.lane)})
	m.draft.sight.drew(&c, m.rank)
	m.rank++
}

// match assigns workers to the group's candidates until no other has room.
func (m *matcher) match() {
	for len(m.group) > 0 && len(m.pairs) < m.in.Limit {
		able := m.able()
		if able == nil {
			return
		}
		pos, rule := m.pick(able)
		i := m.taker(pos)
		m.assign(i, pos, rule)
	}
}

// able returns L of SPEC §7.5: the workers with room for some candidate of the group; nil if there are none.
func (m *matcher) able() bitset {
	var only *classRoom
	n, masked := 0, false
	clear(m.union)
	for i := range m.group {
		c := m.group[i].class
		if c == nil || c.count == 0 {
			continue
		}
		if mask := m.group[i].mask; mask != nil {
			masked = true
			for j, w := range c.at {
				m.union[j] |= w & mask[j]
			}
			continue
		}
		if c == only {
			continue
		}
		only = c
		n++
		for j, w := range c.at {
			m.union[j] |= w
		}
	}
	switch {
	case n == 0 && !masked, masked && m.union.first() < 0:
		return nil
	case n == 1 && !masked:
		return only.at
	}
	return m.union
}

// taker chooses among the candidates that the worker has room for: the one with the smallest tie.
func (m *matcher) taker(pos int) int {
	best := -1
	var least Hash
	hashed := false
	for i := range m.group {
		if c := &m.group[i]; c.class == nil || !c.fits(pos) {
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		worker := m.worker(pos)
		if !hashed {
			least, hashed = Tie(m.group[best].item.ID, worker, m.in.Seed), true
		}
		if tie := Tie(m.group[i].item.ID, worker, m.in.Seed); bytes.Compare(tie[:], least[:]) < 0 {
			best, least = i, tie
		}
	}
	return best
}

func (m *matcher) assign(i, pos int, why rota.Reasoning) {
	c := m.group[i]
	slot := m.slots[pos]
	if why.Rule == rota.ReasoningBySeededShuffle && !c.class.none() {
		why = rota.Reasoning{Rule: rota.ReasoningByResourceFit, N: m.now.loadFree[slot].CPU, Of: max(c.class.CPU, 0)}
	}
	if w := m.draft.watch; w != nil && w.job == c.item.ID {
		m.note(&c, pos)
	}
	m.pairs = append(m.pairs, Pair{
		Item: c.item, Worker: m.worker(pos), Score: c.score, Rank: c.rank, Reasoning: why,
	})
	m.group = append(m.group[:i], m.group[i+1:]...)
	if m.loads != nil {
		m.loads.more(pos, m.now.open[slot])
	}
	m.occupy(pos, c.class)
	if m.draft.foresees {
		lot := Lot{Policy: m.in.Policy, Expects: m.in.Expects}
		m.draft.began(slot, c.class.need, m.in.Now+lot.estimate(c.item))
	}
	if m.draft.spend(m.in.Queue, c.lane, c.item) {
		for i := range m.group {
			if g := &m.group[i]; g.class != nil && m.draft.shut(m.in.Queue, g.lane) {
				g.class = nil
			}
		}
	}
}
