package sched

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
)

// inOrder decides the round of a queue that backfills. It places jobs in ranking order until one finds no room. Later
// jobs may use only what that job's reservation leaves.
func (m *matcher) inOrder(p *Pending, lot *Lot) {
	d := m.draft
	var first *Item
	for first == nil {
		if len(m.pairs) == m.in.Limit {
			return
		}
		c, ok := m.peekWide()
		if !ok {
			return
		}
		m.source.take()
		switch {
		case m.consider(c):
			d.assigned(p, c.item)
		case !d.holders[c.item]:
			first = c.item
		}
	}
	if d.reservationOf(lot.Queue) == nil {
		d.reserve(lot, first, m.in.Now)
	}
	r := d.reservationOf(lot.Queue)
	if r == nil || lot.Policy.Backfill == rota.BackfillNone { // without a reservation nothing may pass the first job
		return
	}
	until := r.Until
	before := len(m.pairs)
	switch {
	case lot.Policy.Backfill == rota.BackfillConservative:
		m.conservative(lot, first)
	case lot.Policy.BackfillOrder == rota.BackfillShortest:
		m.source = newPendingSource(p, m.rooms, m.in, d, nil)
		m.shortest(lot, first)
	default:
		m.source = newPendingSource(p, m.rooms, m.in, d, nil)
		m.oneByOne(first, true)
	}
	for i := range m.pairs[before:] {
		m.pairs[before+i].Reasoning = rota.Reasoning{Rule: rota.ReasoningBackfilled, N: int64(until),
			Of: int64(lot.estimate(m.pairs[before+i].Item))}
	}
}

// oneByOne draws and places candidates one at a time, starting with first. It stops after backfill_depth of them: if
// all is set every candidate counts, otherwise only those that found no worker.
func (m *matcher) oneByOne(first *Item, all bool) {
	looks := m.in.Policy.BackfillDepth
	for len(m.pairs) < m.in.Limit && m.count > 0 && m.drawable > 0 {
		c, ok := m.peek()
		if !ok {
			if !m.source.more(m.rooms) {
				return
			}
			continue
		}
		if looks == 0 {
			m.draft.deep = append(m.draft.deep, m.in.Queue)
			return
		}
		m.source.take()
		if c.item == first {
			continue
		}
		if !m.consider(c) || all {
			looks--
		}
	}
}

// shortest draws up to backfill_depth candidates and places them in the order of their estimates.
func (m *matcher) shortest(lot *Lot, first *Item) {
	type drawn struct {
		candidate
		estimate rota.Clock
	}
	var list []drawn
	for m.drawable > 0 {
		c, ok := m.peek()
		if !ok {
			break
		}
		if int64(len(list)) == m.in.Policy.BackfillDepth {
			m.draft.deep = append(m.draft.deep, m.in.Queue)
			break
		}
		m.source.take()
		if c.item != first {
			list = append(list, drawn{c, lot.estimate(c.item)})
		}
	}
	slices.SortStableFunc(list, func(a, b drawn) int { return cmp.Compare(a.estimate, b.estimate) })
	for i := range list {
		if len(m.pairs) == m.in.Limit || m.count == 0 {
			return
		}
		if !m.draft.shut(m.in.Queue, list[i].lane) {
			m.consider(list[i].candidate)
		}
	}
}

// consider tries to place one drawn candidate, as a group of its own, on a worker that has room and is not
// barred to it by a reservation.
func (m *matcher) consider(c candidate) (placed bool) {
	m.draft.sight.drew(&c, m.rank)
	rank := m.rank
	m.rank++
	if !m.has(c.item.Class) {
		return false
	}
	k, before := m.of(c.item.Class), len(m.pairs)
	m.drawn(c.item.Class)
	m.group = append(m.group[:0], member{c, rank, k, m.permitted(&c, k)})
	m.match()
	m.group = m.group[:0]
	if placed = len(m.pairs) > before; placed {
		m.draft.unreserve(c.item)
	}
	return placed
}

// permitted returns the positions of the workers that may work for the candidate's tenant and are not barred to it by a
// reservation; nil means all workers.
func (m *matcher) permitted(c *candidate, k *classRoom) bitset {
	mask := m.maskOf(c.lane)
	if len(m.draft.reserved) == 0 && m.plan == nil {
		return mask
	}
	lot := Lot{Policy: m.in.Policy, Expects: m.in.Expects}
	end := m.in.Now + lot.estimate(c.item)
	cut := false
	bar := func(pos int) {
		if !cut {
			if m.allowed == nil {
				m.allowed = m.newSet()
			}
			if cut = true; mask != nil {
				copy(m.allowed, mask)
			} else {
				copy(m.allowed, k.at)
			}
			mask = m.allowed
		}
		mask.clear(pos)
	}
	for i := range m.draft.reserved {
		r := &m.draft.reserved[i]
		if pos, stands := m.position(r.slot); stands && k.at.has(pos) && r.Item != c.item &&
			!r.passes(m.now, m.queue, k.need, end) {
			bar(pos)
		}
	}
	if m.plan != nil {
		for _, slot := range m.plan.at {
			if pos, stands := m.position(slot); stands && k.at.has(pos) &&
				!m.plan.starts(slot, &m.supply.classes[k.class], m.plan.long(c.item)) {
				bar(pos)
			}
		}
	}
	return mask
}

// bars reports whether any worker of the round has a reservation.
func (m *matcher) bars() bool {
	for i := range m.draft.reserved {
		if _, stands := m.position(m.draft.reserved[i].slot); stands {
			return true
		}
	}
	return false
}
