package sched

import "github.com/rotasched/rota"

// elderLess is the order of age: (Enqueued, Number, ID), whatever the ranking says.
func elderLess(a, b entry) bool {
	if a.age != b.age {
		return a.age < b.age
	}
	return a.item.before(b.item)
}

// elders are the lanes of one class by their oldest items, of which elder is the
// first, none while there is no lane.
type elders struct {
	class ClassID
	lanes ordered[*lane]
	elder entry
}

// forRounds has the lanes that rounds and holds look at, forTurns those that only
// turns of the oldest do (LowOldestOnly).
const (
	forRounds = iota
	forTurns
)

func laneElderLess(a, b *lane) bool { return elderLess(a.elder, b.elder) }

func eldersLess(a, b *elders) bool { return elderLess(a.elder, b.elder) }

// addAge files an item, which is among items already, by age. As long as key and
// age differ by the same in all items their ranking order is that of their ages,
// and one order serves for both: so it is under `fifo`, and under `aging` for
// jobs of one priority. In a tier the order never is one of age.
func (l *lane) addAge(e entry, tiered bool) {
	lead := e.key - int64(e.age)
	switch {
	case l.skewed:
		l.byAge.insert(e, elderLess)
	case tiered:
		l.skewed = true
		l.byAge.insert(e, elderLess)
	case l.items.len() == 1:
		l.lead = lead
	case lead != l.lead:
		l.skewed = true
		walk := l.items.cursor()
		for x, ok := walk.next(); ok; x, ok = walk.next() {
			l.byAge.insert(x, elderLess)
		}
	}
}

// aged is the order of the items by age.
func (l *lane) aged() *ordered[entry] {
	if l.skewed {
		return &l.byAge
	}
	return &l.items
}

// settleElder files a lane by its oldest item, and its class by the oldest of
// its lanes.
func (p *Pending) settleElder(l *lane) {
	var elder entry
	var to *elders
	if !l.parked() && (!p.holds(l) || p.low == LowOldestOnly) {
		elder, _ = l.aged().min()
	}
	if elder.item != nil {
		to = &l.cell.demand.elders[p.aging(l)]
	}
	if elder.item == l.elder.item && to == l.aging {
		return
	}
	from := l.aging
	if from != nil {
		from.lanes.remove(l, laneElderLess)
	}
	if l.elder, l.aging = elder, to; to != nil {
		to.lanes.insert(l, laneElderLess)
		p.settleElders(to, p.aging(l))
	}
	if from != nil && from != to {
		// It was in the other order, or is in none.
		side := forRounds
		if from == &l.cell.demand.elders[forTurns] {
			side = forTurns
		}
		p.settleElders(from, side)
	}
}

// aging is the side on which a lane is filed by age.
func (p *Pending) aging(l *lane) int {
	if p.holds(l) {
		return forTurns
	}
	return forRounds
}

// settleElders files a class by the oldest of its lanes.
func (p *Pending) settleElders(k *elders, side int) {
	var first entry
	if oldest, ok := k.lanes.min(); ok {
		first = oldest.elder
	}
	if first.item == k.elder.item {
		return
	}
	if k.elder.item != nil {
		p.elders[side].remove(k, eldersLess)
	}
	if k.elder = first; first.item != nil {
		p.elders[side].insert(k, eldersLess)
	}
}

// elderWalk goes through the filed items of one class from the oldest on.
type elderWalk struct {
	// lanes walks those not yet begun, next is the first of them.
	lanes cursor[*lane]
	next  *lane
	begun heap[*elderStream]
}

// elderStream is what is left of a lane, of which head is the first.
type elderStream struct {
	head  entry
	lane  *lane
	items cursor[entry]
}

func newElderWalk(k *elders) *elderWalk {
	w := &elderWalk{lanes: k.lanes.cursor()}
	w.begun.less = func(a, b *elderStream) bool { return elderLess(a.head, b.head) }
	w.next, _ = w.lanes.next()
	return w
}

// peek returns the oldest item that is left, and its lane.
func (w *elderWalk) peek() (e entry, l *lane, ok bool) {
	for w.next != nil && (len(w.begun.list) == 0 || elderLess(w.next.elder, w.begun.list[0].head)) {
		st := &elderStream{lane: w.next, items: w.next.aged().cursor()}
		st.head, _ = st.items.next()
		w.begun.push(st)
		w.next, _ = w.lanes.next()
	}
	if len(w.begun.list) == 0 {
		return entry{}, nil, false
	}
	return w.begun.list[0].head, w.begun.list[0].lane, true
}

// step leaves what the last peek gave behind.
func (w *elderWalk) step() {
	st := w.begun.list[0]
	var ok bool
	if st.head, ok = st.items.next(); ok {
		w.begun.sink()
	} else {
		w.begun.pop()
	}
}

// walkKey is a class's walk: one that passes over jobs that hold a worker, or one
// that does not.
type walkKey struct {
	*elders
	holders bool
}

// walk returns a class's walk, which never goes back: what was found gone once
// stays so.
func (d *Draft) walk(k walkKey) *elderWalk {
	w := d.walks[k]
	if w == nil {
		w = newElderWalk(k.elders)
		d.walks[k] = w
	}
	return w
}

// elderOf returns a class's oldest job that is not gone, and its lane.
func (d *Draft) elderOf(q rota.QueueName, k walkKey) (e entry, l *lane, ok bool) {
	if !d.gone(k.elder.item, k.holders) {
		if l, _ = k.lanes.min(); !d.shut(q, l) {
			return k.elder, l, true
		}
	}
	return d.walkedTo(q, k)
}

// walkedTo takes a class's walk on to its next job that is not gone.
func (d *Draft) walkedTo(q rota.QueueName, k walkKey) (e entry, l *lane, ok bool) {
	w := d.walk(k)
	for e, l, ok = w.peek(); ok; e, l, ok = w.peek() {
		switch {
		case d.shut(q, l):
			w.begun.pop()
		case d.gone(e.item, k.holders):
			w.step()
		default:
			return e, l, true
		}
	}
	return entry{}, nil, false
}

// eldest returns the oldest job of a queue among the classes that serve, those
// that hold a worker among them or not. What the index says of a class may be
// too early, as what this entry assigned is missing, but never too late.
func (d *Draft) eldest(lot Lot, holders bool, serves func(ClassID) bool) (best entry) {
	classes := lot.Pending.elders[forRounds].cursor()
	for k, ok := classes.next(); ok; k, ok = classes.next() {
		if best.item != nil && !elderLess(k.elder, best) {
			break
		}
		if !serves(k.class) {
			continue
		}
		e, _, any := d.elderOf(lot.Queue, walkKey{k, holders})
		if any && (best.item == nil || elderLess(e, best)) {
			best = e
		}
	}
	return best
}

// gone reports whether a job was assigned in this entry, is withheld, or, where that matters, that
// it holds a worker.
func (d *Draft) gone(it *Item, holders bool) bool { return d.out(it) || !holders && d.holders[it] }

// assigned notes that a job got a worker outside the draw: the draw passes it
// over, and its lease counts as open in its tenant's share.
func (d *Draft) assigned(p *Pending, it *Item) {
	d.taken[it] = true
	l := p.laneOf(it)
	d.shares[l.cell.group]++
	if l.head.item != nil { // Else no round counts on it.
		d.takenOf[it.Class]++
	}
}
