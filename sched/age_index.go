package sched

import "github.com/rotasched/rota"

// ageLess orders entries by age: (Enqueued, Number, ID), whatever the ranking.
func ageLess(a, b entry) bool {
	if a.age != b.age {
		return a.age < b.age
	}
	return a.item.before(b.item)
}

// ageIndex orders the lanes of one class by their oldest items. oldest is the first of those items, zero while there is
// no lane.
type ageIndex struct {
	class  ClassID
	lanes  ordered[*lane]
	oldest entry
}

// forRounds indexes the lanes that rounds and holds draw from; forTurns indexes those that only turns of the oldest
// draw from (LowOldestOnly).
const (
	forRounds = iota
	forTurns
)

func laneAgeLess(a, b *lane) bool { return ageLess(a.oldest, b.oldest) }

func classAgeLess(a, b *ageIndex) bool { return ageLess(a.oldest, b.oldest) }

// addAge files an item, which is already among items, by age. While key and age differ by the same amount in all items,
// ranking order and age order are equal and one order serves for both. This holds under `fifo`, and under `aging` for
// jobs of one priority. The order of a tier is never the order of age.
func (l *lane) addAge(e entry, tiered bool) {
	lead := e.key - int64(e.age)
	switch {
	case l.skewed:
		l.byAge.insert(e, ageLess)
	case tiered:
		l.skewed = true
		l.byAge.insert(e, ageLess)
	case l.items.len() == 1:
		l.lead = lead
	case lead != l.lead:
		l.skewed = true
		walk := l.items.cursor()
		for x, ok := walk.next(); ok; x, ok = walk.next() {
			l.byAge.insert(x, ageLess)
		}
	}
}

// aged returns the items in order of age.
func (l *lane) aged() *ordered[entry] {
	if l.skewed {
		return &l.byAge
	}
	return &l.items
}

// settleAge files a lane by its oldest item, and its class by the oldest of its lanes.
func (p *Pending) settleAge(l *lane) {
	var oldest entry
	var to *ageIndex
	if !l.throttled() && (!p.holds(l) || p.low == LowOldestOnly) {
		oldest, _ = l.aged().min()
	}
	if oldest.item != nil {
		to = &l.cell.demand.ageIndex[p.aging(l)]
	}
	if oldest.item == l.oldest.item && to == l.aging {
		return
	}
	from := l.aging
	if from != nil {
		from.lanes.remove(l, laneAgeLess)
	}
	if l.oldest, l.aging = oldest, to; to != nil {
		to.lanes.insert(l, laneAgeLess)
		p.settleClassAge(to, p.aging(l))
	}
	if from != nil && from != to {
		// The lane was filed on the other side, or on none.
		side := forRounds
		if from == &l.cell.demand.ageIndex[forTurns] {
			side = forTurns
		}
		p.settleClassAge(from, side)
	}
}

// aging returns the side on which a lane is filed by age.
func (p *Pending) aging(l *lane) int {
	if p.holds(l) {
		return forTurns
	}
	return forRounds
}

// settleClassAge files a class by the oldest of its lanes.
func (p *Pending) settleClassAge(k *ageIndex, side int) {
	var first entry
	if l, ok := k.lanes.min(); ok {
		first = l.oldest
	}
	if first.item == k.oldest.item {
		return
	}
	if k.oldest.item != nil {
		p.ageIndex[side].remove(k, classAgeLess)
	}
	if k.oldest = first; first.item != nil {
		p.ageIndex[side].insert(k, classAgeLess)
	}
}

// ageWalk visits the filed items of one class, oldest first.
type ageWalk struct {
	// lanes iterates over the lanes not started yet; next is the first of them.
	lanes cursor[*lane]
	next  *lane
	begun heap[*ageStream]
}

// ageStream is the unvisited rest of a lane; head is its first item.
type ageStream struct {
	head  entry
	lane  *lane
	items cursor[entry]
}

func newAgeWalk(k *ageIndex) *ageWalk {
	w := &ageWalk{lanes: k.lanes.cursor()}
	w.begun.less = func(a, b *ageStream) bool { return ageLess(a.head, b.head) }
	w.next, _ = w.lanes.next()
	return w
}

// peek returns the oldest remaining item and its lane.
func (w *ageWalk) peek() (e entry, l *lane, ok bool) {
	for w.next != nil && (len(w.begun.list) == 0 || ageLess(w.next.oldest, w.begun.list[0].head)) {
		st := &ageStream{lane: w.next, items: w.next.aged().cursor()}
		st.head, _ = st.items.next()
		w.begun.push(st)
		w.next, _ = w.lanes.next()
	}
	if len(w.begun.list) == 0 {
		return entry{}, nil, false
	}
	return w.begun.list[0].head, w.begun.list[0].lane, true
}

// step skips the item that the last peek returned.
func (w *ageWalk) step() {
	st := w.begun.list[0]
	var ok bool
	if st.head, ok = st.items.next(); ok {
		w.begun.sink()
	} else {
		w.begun.pop()
	}
}

// walkKey identifies a class's walk, which either skips jobs that hold a worker or does not.
type walkKey struct {
	*ageIndex
	holders bool
}

// walk returns a class's walk, which never goes back: a job that was found gone stays gone.
func (d *Draft) walk(k walkKey) *ageWalk {
	w := d.walks[k]
	if w == nil {
		w = newAgeWalk(k.ageIndex)
		put(&d.walks, k, w)
	}
	return w
}

// oldestOf returns a class's oldest job that is not gone, and its lane. A skipped lane stays skipped.
func (d *Draft) oldestOf(q rota.QueueName, k walkKey, skips func(*lane) bool) (e entry, l *lane, ok bool) {
	if !d.gone(k.oldest.item, k.holders) {
		if l, _ = k.lanes.min(); !d.shut(q, l) && !skips(l) {
			return k.oldest, l, true
		}
	}
	return d.walkedTo(q, k, skips)
}

// walkedTo advances a class's walk to its next job that is not gone.
func (d *Draft) walkedTo(q rota.QueueName, k walkKey, skips func(*lane) bool) (e entry, l *lane, ok bool) {
	w := d.walk(k)
	for e, l, ok = w.peek(); ok; e, l, ok = w.peek() {
		switch {
		case d.shut(q, l) || skips(l):
			w.begun.pop()
		case d.gone(e.item, k.holders):
			w.step()
		default:
			return e, l, true
		}
	}
	return entry{}, nil, false
}

// oldestServed returns the oldest job of a queue among the classes for which serves is true, except in skipped lanes.
// holders states whether jobs that hold a worker are included. The index may give a class too early, as it lacks what
// this entry assigned, but never too late.
func (d *Draft) oldestServed(lot Lot, holders bool, serves func(ClassID) bool, skips func(*lane) bool) (best entry) {
	classes := lot.Pending.ageIndex[forRounds].cursor()
	for k, ok := classes.next(); ok; k, ok = classes.next() {
		if best.item != nil && !ageLess(k.oldest, best) {
			break
		}
		if !serves(k.class) {
			continue
		}
		e, _, any := d.oldestOf(lot.Queue, walkKey{k, holders}, skips)
		if any && (best.item == nil || ageLess(e, best)) {
			best = e
		}
	}
	return best
}

// noLane skips no lane.
func noLane(*lane) bool { return false }

// gone reports whether a job was assigned in this entry or is withheld, or holds a worker where holders is false.
func (d *Draft) gone(it *Item, holders bool) bool { return d.out(it) || !holders && d.holders[it] }

// assigned records that a job got a worker outside the draw: the draw skips it, and its lease counts as open in its
// tenant's share.
func (d *Draft) assigned(p *Pending, it *Item) {
	put(&d.taken, it, true)
	l := p.laneOf(it)
	put(&d.shares, l.cell.group, d.shares[l.cell.group]+1)
	if l.head.item != nil { // Otherwise no round counts it.
		put(&d.takenOf, it.Class, d.takenOf[it.Class]+1)
	}
}
