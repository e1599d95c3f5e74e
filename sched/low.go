package sched

import "github.com/rotasched/rota"

// LowHold is how jobs of priority > 5 are treated (SPEC §4.3, §4.7).
type LowHold uint8

const (
	// LowFree does not hold them.
	LowFree LowHold = iota
	// LowHeld keeps them out of rounds and turns.
	LowHeld
	// LowOldestOnly keeps them out of rounds, but not out of the turns of the oldest (SPEC §7.10).
	LowOldestOnly
)

// band is a range of priorities with lanes of their own, so that a mode can hold its jobs, and preemption can find
// them, without looking at others.
type band uint8

const (
	bandCritical band = iota // priority 0
	bandUsual                // 1 to lowAbove
	bandLow
	bandCount
)

// lowAbove is the last priority that DEGRADED admits (SPEC §4.3).
const lowAbove = 5

func bandOf(priority int32) band {
	switch {
	case priority <= 0:
		return bandCritical
	case priority <= lowAbove:
		return bandUsual
	}
	return bandLow
}

// HoldLow holds or releases the jobs of priority > 5, in O(log n) for each of their lanes. The jobs keep their places.
func (p *Pending) HoldLow(h LowHold) {
	if p.low == h {
		return
	}
	p.low = h
	p.minHold()
	for _, l := range p.bands[bandLow] {
		p.settle(l)
		p.settleAge(l)
	}
	p.minFree()
}

// holds reports whether a lane's jobs are held, at least from rounds.
func (p *Pending) holds(l *lane) bool { return l.key.band == bandLow && p.low != LowFree }

// Blocked reports whether rounds skip a job's lane: its tenant or domain is throttled, or it is held for its priority.
func (p *Pending) Blocked(it *Item) bool { return p.blocked(it, false) }

// blocked is Blocked for rounds, or, if turn is true, for turns of the oldest.
func (p *Pending) blocked(it *Item, turn bool) bool {
	l := p.laneOf(it)
	return l == nil || l.head.item == nil && (!turn || l.oldest.item == nil)
}

// Critical yields the unblocked jobs of priority 0 in ranking order (in an adaptive queue in the order of entering
// their tier), in O(log n) each. The Pending must not change meanwhile.
func (p *Pending) Critical(yield func(*Item) bool) {
	lanes := p.critical.cursor()
	next, _ := lanes.next()
	begun := heap[*stream]{less: streamLess}
	for {
		for next != nil && (len(begun.list) == 0 || entryLess(next.head, begun.list[0].head)) {
			st := &stream{items: next.items.cursor()}
			st.head, _ = st.items.next()
			begun.push(st)
			next, _ = lanes.next()
		}
		if len(begun.list) == 0 {
			return
		}
		st := begun.list[0]
		if !yield(st.head.item) {
			return
		}
		var more bool
		if st.head, more = st.items.next(); more {
			begun.sink()
		} else {
			begun.pop()
		}
	}
}

// Before counts the jobs ahead of a job in ranking order, including blocked ones, in O(log² n); under fair share in
// O(lanes · log²). In an adaptive queue, whose scores change all the time, it counts the jobs of higher tiers and those
// that entered the job's tier earlier.
func (p *Pending) Before(it *Item) (n int64) {
	e := p.entryOf(it)
	switch {
	case p.tiered:
		at := p.tierAt(it)
		for i := range at {
			n += int64(p.tiers[i].fifo.len())
		}
		return n + int64(p.tiers[at].fifo.rank(e, entryLess))
	case !p.fairShare:
		return int64(p.seats.rank(seat{entry: e}, seatLess))
	}
	return p.BeforeOf(it, func(rota.TenantID) bool { return true })
}

// BeforeOf counts like Before, but only the jobs of the tenants for which of is true, in O(lanes · log n).
func (p *Pending) BeforeOf(it *Item, of func(rota.TenantID) bool) (n int64) {
	e, at := p.entryOf(it), uint8(0)
	if p.tiered {
		at = uint8(p.tierAt(it))
	}
	for _, lanes := range p.bands {
		for _, l := range lanes {
			switch {
			case !of(l.key.tenant) || l.key.tier > at:
			case l.key.tier < at:
				n += int64(l.items.len())
			default:
				n += int64(l.items.rank(e, entryLess))
			}
		}
	}
	return n
}
