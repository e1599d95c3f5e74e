package sched

import (
	"slices"

	"github.com/rotasched/rota"
)

// stretch is the capacity that a worker should have from a moment until the next stretch begins.
type stretch struct {
	at   rota.Clock
	open int32
	free Load
}

// future is a worker's expected capacity as consecutive stretches; the last has no end.
type future []stretch

// cut makes a stretch begin at a moment and returns its index.
func (f *future) cut(at rota.Clock) int {
	i, found := slices.BinarySearchFunc(*f, at, func(s stretch, at rota.Clock) int {
		return int(min(max(s.at-at, -1), 1))
	})
	if !found {
		*f = slices.Insert(*f, i, stretch{at, (*f)[i-1].open, (*f)[i-1].free})
	}
	return i
}

// whole exceeds the slots of any worker: a lease that runs alone counts as this many leases.
const whole = 1 << 24

// take reserves capacity for a lease from one moment to another.
func (f *future) take(from, to rota.Clock, n need) {
	i, end := f.cut(from), f.cut(to)
	for ; i < end; i++ {
		if (*f)[i].open++; n.isolated {
			(*f)[i].open += whole
		}
		(*f)[i].free = (*f)[i].free.Minus(n.Load)
	}
}

// room finds the first moment from which there is room for the given duration; lower is the first moment with any room.
// ok is false if there is never room.
func (f future) room(l Load, most int64, long rota.Clock) (lower, at rota.Clock, ok bool) {
	begin, any := -1, false
	for i := range f {
		if int64(f[i].open) >= most || !l.Within(f[i].free) {
			begin = -1
			continue
		}
		if begin < 0 {
			begin = i
		}
		if !any {
			lower, any = f[i].at, true
		}
		if i+1 == len(f) || f[i+1].at-f[begin].at >= long {
			return lower, f[begin].at, true
		}
	}
	return lower, 0, false
}

// lead is a worker that has no room for a class before a moment.
type lead struct {
	at   rota.Clock
	rank int32 // its position in the order of ids
	slot int32
}

func leadLess(a, b lead) bool { return a.at < b.at || a.at == b.at && a.rank < b.rank }

// plan reserves room for the jobs of one queue in order (SPEC §26.3, conservative).
type plan struct {
	draft   *Draft
	lot     *Lot
	now     rota.Clock
	futures map[int32]*future
	// leads orders the workers of a class by when they may have room, soonest first. Room only shrinks as the plan
	// proceeds.
	leads map[Ask]*heap[lead]
	// kept are the plan's reservations in order, except the queue's own; at lists their workers, each once; units
	// counts the units reserved at each.
	kept  []Reservation
	at    []int32
	units map[int32]int64
}

func newPlan(d *Draft, lot *Lot, now rota.Clock) *plan {
	return &plan{draft: d, lot: lot, now: now, futures: map[int32]*future{}, leads: map[Ask]*heap[lead]{},
		units: map[int32]int64{}}
}

// future returns a worker's future, including all leases started in this entry and all room reserved there.
func (p *plan) future(slot int32) *future {
	if f := p.futures[slot]; f != nil {
		return f
	}
	d := p.draft
	f := future{{p.now, d.slotLoads.open[slot], d.slotLoads.loadFree[slot]}}
	alone := int32(0)
	if d.slotLoads.isolated.has(int(slot)) {
		alone = whole
		f[0].open += alone
	}
	running, started := d.supply.runsAt(slot, p.now), d.started[slot]
	for len(running)+len(started) > 0 {
		next := &running
		if len(running) == 0 || len(started) > 0 && compareRuns(started[0], running[0]) < 0 {
			next = &started
		}
		run := (*next)[0]
		*next = (*next)[1:]
		last := f[len(f)-1]
		if end := max(run.End, p.now); end > last.at { // an overdue lease may end at any moment
			last.at = end
			f = append(f, last)
		}
		f[len(f)-1].open, alone = last.open-1-alone, 0 // its one lease has ended
		f[len(f)-1].free = last.free.Plus(run.Load)
	}
	if r := d.reservedAt(slot); r != nil {
		f.take(r.Until, r.end, r.need)
	}
	p.futures[slot] = &f
	return &f
}

// lacksUnits reports whether a worker has too few units for a class after the reserved ones. Ending leases returns no
// units.
func (p *plan) lacksUnits(slot int32, k *class) bool {
	if k.queue.rules.UnitsMax == 0 {
		return false
	}
	kept := p.units[slot]
	if r := p.draft.reservedAt(slot); r != nil && r.queue == k.queue {
		kept += r.need.units
	}
	return p.draft.slotLoads.unitsLeft(slot, k.queue)-kept < k.need.units
}

// starts reports whether a job that starts now on a worker with room for it delays no reservation there.
func (p *plan) starts(slot int32, k *class, long rota.Clock) bool {
	_, at, ok := p.future(slot).room(k.need.Load, p.draft.slotLoads.mostFor(slot, k), long)
	return ok && at == p.now && !p.lacksUnits(slot, k)
}

// started counts a job that was given a worker.
func (p *plan) started(it *Item, slot int32) {
	if f := p.futures[slot]; f != nil {
		f.take(p.now, p.now+p.long(it), p.draft.supply.classes[it.Class].need)
	}
}

// long returns how long room is reserved for a job.
func (p *plan) long(it *Item) rota.Clock { return max(1, p.lot.estimate(it)) }

// keep reserves room for a job on the worker that should have some soonest, ties by least id; nil if no worker ever
// should.
func (p *plan) keep(it *Item) *Reservation {
	if planted.planForgotten() {
		return nil
	}
	k, long := &p.draft.supply.classes[it.Class], p.long(it)
	leads := p.leadsOf(it.ask(), k)
	best, found := lead{}, false
	var seen []lead
	for len(leads.list) > 0 && (!found || leadLess(leads.list[0], best)) {
		l := leads.list[0]
		leads.pop()
		if p.lacksUnits(l.slot, k) {
			continue
		}
		lower, at, ok := p.future(l.slot).room(k.need.Load, p.draft.slotLoads.mostFor(l.slot, k), long)
		if !ok {
			continue
		}
		if c := (lead{at, l.rank, l.slot}); !found || leadLess(c, best) {
			best, found = c, true
		}
		l.at = lower
		seen = append(seen, l)
	}
	for _, l := range seen {
		leads.push(l)
	}
	if !found {
		return nil
	}
	p.future(best.slot).take(best.at, best.at+long, k.need)
	if !slices.Contains(p.at, best.slot) {
		p.at = append(p.at, best.slot)
	}
	p.units[best.slot] += k.need.units
	p.kept = append(p.kept, Reservation{Item: it, Queue: p.lot.Queue, Worker: p.draft.supply.specs[best.slot].ID,
		Until: best.at, slot: best.slot, queue: k.queue, need: k.need, end: best.at + long})
	return &p.kept[len(p.kept)-1]
}

// leadsOf starts with a cheap bound: a worker without room now has none before its first lease should end.
func (p *plan) leadsOf(a Ask, k *class) *heap[lead] {
	if h := p.leads[a]; h != nil {
		return h
	}
	d := p.draft
	h := &heap[lead]{less: leadLess}
	able := d.supply.eligible(a)
	for i, slot := range d.supply.order {
		if !able.has(int(slot)) || d.slotLoads.held.has(int(slot)) || !d.slotLoads.keepable(slot, k) {
			continue
		}
		l := lead{p.now, int32(i), slot}
		if runs := d.supply.runsAt(slot, p.now); d.slotLoads.roomFor(slot, k.queue, k.need) != Fit && len(runs) > 0 &&
			len(d.started[slot]) == 0 {
			l.at = max(p.now, runs[0].End)
		}
		h.push(l)
	}
	p.leads[a] = h
	return h
}

// conservative draws the jobs after the first one. It starts those that delay none of the earlier ones, for each of
// which room is reserved.
func (m *matcher) conservative(lot *Lot, first *Item) {
	d := m.draft
	m.plan = newPlan(d, lot, m.in.Now)
	if d.reservationOf(lot.Queue).Item != first {
		m.plan.keep(first)
	}
	for looks := m.in.Policy.BackfillDepth; len(m.pairs) < m.in.Limit && m.count > 0 && m.drawable > 0; {
		c, ok := m.peekWide()
		if !ok {
			return
		}
		if looks == 0 {
			d.deep = append(d.deep, m.in.Queue)
			return
		}
		m.source.take()
		if r := d.reservationOf(lot.Queue); r != nil && r.Item == c.item {
			continue
		}
		looks--
		if m.consider(c) {
			m.plan.started(c.item, d.supply.slotOf[m.pairs[len(m.pairs)-1].Worker])
		} else if !d.holders[c.item] {
			m.plan.keep(c.item)
		}
	}
}

// peekWide returns the next candidate that some worker could ever take.
func (m *matcher) peekWide() (candidate, bool) {
	m.wide = true
	c, ok := m.source.peek(m.rooms)
	m.wide = false
	return c, ok
}

// Foretold is what a queue's plan contains about a job.
type Foretold struct {
	// Kept is the room reserved for it, if Planned.
	Kept    Reservation
	Planned bool
	// Before counts the jobs with room reserved ahead of it.
	Before int64
	// Bars are the first reservations that it would delay, one per worker that had room for it before the entry.
	Bars []Reservation
	// Deep reports whether the plan ends before it, at backfill_depth.
	Deep bool
}

// Foretell plans a queue that backfills conservatively until it reaches a job. The entry must be decided already.
func (d *Draft) Foretell(lot Lot, it *Item, now rota.Clock) (f Foretold) {
	r := &rooms{supply: d.supply, now: &d.slotLoads, wide: true}
	s := newPendingSource(lot.Pending, r, RoundInput{Queue: lot.Queue, Policy: lot.Policy, Now: now}, d, nil)
	p := newPlan(d, &lot, now)
	for looks := lot.Policy.BackfillDepth; ; {
		c, ok := s.peek(r)
		if !ok {
			return f
		}
		s.take()
		if own := d.reservationOf(lot.Queue); own != nil && own.Item == c.item || d.holders[c.item] {
			continue
		}
		if looks--; looks < 0 {
			f.Deep = true
			return f
		}
		if c.item == it {
			f.Before, f.Bars = int64(len(p.kept)), p.bars(it)
		}
		kept := p.keep(c.item)
		if c.item == it {
			if f.Planned = kept != nil; f.Planned {
				f.Kept = *kept
			}
			return f
		}
	}
}

// bars returns the first reservation that a job would delay at each worker that had room for it before the entry.
func (p *plan) bars(it *Item) (bars []Reservation) {
	d, k := p.draft, &p.draft.supply.classes[it.Class]
	end := p.now + p.long(it)
	for _, slot := range d.supply.order {
		if !d.supply.could(it.ask(), slot) || d.supply.roomFor(slot, k.queue, k.need) != Fit ||
			p.starts(slot, k, end-p.now) {
			continue
		}
		var first *Reservation
		if r := d.reservedAt(slot); r != nil && r.Until < end {
			first = r
		}
		for i := range p.kept {
			if r := &p.kept[i]; r.slot == slot && r.Until < end && (first == nil || r.Until < first.Until) {
				first = r
			}
		}
		if first != nil {
			bars = append(bars, *first)
		}
	}
	return bars
}
