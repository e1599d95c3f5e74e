package sched

import "strings"

// elderLess is the order of age: (Enqueued, ID), whatever the ranking says.
func elderLess(a, b entry) bool {
	if a.age != b.age {
		return a.age < b.age
	}
	return a.item != b.item && strings.Compare(string(a.item.ID), string(b.item.ID)) < 0
}

func laneElderLess(a, b *lane) bool { return elderLess(a.elder, b.elder) }

func demandElderLess(a, b *demand) bool { return elderLess(a.elder, b.elder) }

// addAge files an item, which is among items already, by age. As long as key and
// age differ by the same in all items their ranking order is that of their ages,
// and one order serves for both: so it is under `fifo`, and under `aging` for
// jobs of one priority.
func (l *lane) addAge(e entry) {
	lead := e.key - int64(e.age)
	switch {
	case l.skewed:
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
	if l.head.item != nil {
		elder, _ = l.aged().min()
	}
	if elder.item == l.elder.item {
		return
	}
	d := l.cell.demand
	if l.elder.item != nil {
		d.elders.remove(l, laneElderLess)
	}
	if l.elder = elder; elder.item != nil {
		d.elders.insert(l, laneElderLess)
	}
	var first entry
	if oldest, ok := d.elders.min(); ok {
		first = oldest.elder
	}
	if first.item == d.elder.item {
		return
	}
	if d.elder.item != nil {
		p.elders.remove(d, demandElderLess)
	}
	if d.elder = first; first.item != nil {
		p.elders.insert(d, demandElderLess)
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
	items cursor[entry]
}

func newElderWalk(d *demand) *elderWalk {
	w := &elderWalk{lanes: d.elders.cursor()}
	w.begun.less = func(a, b *elderStream) bool { return elderLess(a.head, b.head) }
	w.next, _ = w.lanes.next()
	return w
}

// peek gives the oldest item that is left.
func (w *elderWalk) peek() (e entry, ok bool) {
	for w.next != nil && (len(w.begun.list) == 0 || elderLess(w.next.elder, w.begun.list[0].head)) {
		st := &elderStream{items: w.next.aged().cursor()}
		st.head, _ = st.items.next()
		w.begun.push(st)
		w.next, _ = w.lanes.next()
	}
	if len(w.begun.list) == 0 {
		return entry{}, false
	}
	return w.begun.list[0].head, true
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
	*demand
	holders bool
}

// walk gives a class's walk, which never goes back: what was found gone once
// stays so.
func (d *Draft) walk(k walkKey) *elderWalk {
	w := d.walks[k]
	if w == nil {
		w = newElderWalk(k.demand)
		d.walks[k] = w
	}
	return w
}

// elderOf gives a class's oldest job that is not gone.
func (d *Draft) elderOf(k walkKey) (e entry, ok bool) {
	if !d.gone(k.elder.item, k.holders) {
		return k.elder, true
	}
	w := d.walk(k)
	for e, ok = w.peek(); ok && d.gone(e.item, k.holders); e, ok = w.peek() {
		w.step()
	}
	return e, ok
}

// eldest gives the oldest job of a queue among the classes that serve, those
// that hold a worker among them or not. What the index says of a class may be
// too early, for want of what this entry assigned, but never too late.
func (d *Draft) eldest(p *Pending, holders bool, serves func(ClassID) bool) (best entry) {
	classes := p.elders.cursor()
	for k, ok := classes.next(); ok; k, ok = classes.next() {
		if best.item != nil && !elderLess(k.elder, best) {
			break
		}
		if !serves(k.class) {
			continue
		}
		if e, any := d.elderOf(walkKey{k, holders}); any && (best.item == nil || elderLess(e, best)) {
			best = e
		}
	}
	return best
}

// gone says that a job was assigned in this entry, or, where that matters, that
// it holds a worker.
func (d *Draft) gone(it *Item, holders bool) bool { return d.taken[it] || !holders && d.holders[it] }

// assigned notes that a job got a worker outside the draw: the draw passes it
// over, and its lease counts as open in its tenant's share.
func (d *Draft) assigned(p *Pending, it *Item) {
	d.taken[it] = true
	d.takenOf[it.Class]++
	if l := p.lanes[laneKey{it.Tenant, it.Domain, it.Class}]; l != nil {
		d.shares[l.cell.group]++
	}
}
