package sched

import (
	"fmt"
)

// Check compares every index with a recount of the items and returns the first difference as an error.
func (p *Pending) Check() error {
	filed := 0
	groups := p.groups.cursor()
	var before *group
	for g, ok := groups.next(); ok; g, ok = groups.next() {
		if before != nil && !groupLess(before, g) {
			return fmt.Errorf("groups are out of order")
		}
		before = g
		n, err := p.checkGroup(g)
		if err != nil {
			return err
		}
		filed += n
	}
	wanted, cells := 0, 0
	for i, d := range p.demands {
		if p.demandOf[d.class] != d || d.at != i {
			return fmt.Errorf("class %d is filed wrongly", d.class)
		}
		n, err := p.checkDemand(d)
		if err != nil {
			return err
		}
		wanted, cells = wanted+n, cells+d.users
	}
	if len(p.demands) != len(p.demandOf) || cells != len(p.cells) {
		return fmt.Errorf("%d classes of %d, %d cells of %d", len(p.demands), len(p.demandOf), cells, len(p.cells))
	}
	seats := p.n
	if p.tiered {
		for i := range p.tiers {
			seats -= p.tiers[i].fifo.len()
		}
	} else if !p.fairShare {
		seats -= p.seats.len()
	}
	if seats != 0 && (p.tiered || !p.fairShare) {
		return fmt.Errorf("%d jobs, %d too few seats", p.n, seats)
	}
	if err := p.checkBands(); err != nil {
		return err
	}
	aged := 0
	ages := p.ages.cursor()
	for c, ok := ages.next(); ok; c, ok = ages.next() {
		aged += c.n
	}
	if aged != p.n || wanted != filed || filed > p.n {
		return fmt.Errorf("%d jobs, %d by age, %d filed, %d wanted", p.n, aged, filed, wanted)
	}
	return p.checkAgeIndex()
}

// checkDemand recounts the filed items of one class.
func (p *Pending) checkDemand(d *demand) (items int, err error) {
	for i, c := range d.cells {
		if c.at != i || c.demand != d || p.cells[cellKey{c.group, d.class}] != c || c.head.item == nil {
			return 0, fmt.Errorf("a cell of class %d is filed wrongly", d.class)
		}
		walk := c.lanes.cursor()
		for l, ok := walk.next(); ok; l, ok = walk.next() {
			items += l.items.len()
		}
	}
	if items != d.items || len(d.cells) > d.users {
		return 0, fmt.Errorf("class %d wants %d jobs, %d are filed", d.class, d.items, items)
	}
	return items, nil
}

// checkGroup recounts the filed items of one group and checks every order.
func (p *Pending) checkGroup(g *group) (items int, err error) {
	if t := g.tenant; t != nil && (t.group != g || t.open != g.open || t.weight != g.weight) {
		return 0, fmt.Errorf("a tenant's group has share %d/%d, its row %d/%d", g.open, g.weight, t.open, t.weight)
	}
	if p.grouped && (p.parties[g.party] != g || g.weight != 1) {
		return 0, fmt.Errorf("party %q is filed wrongly", g.party)
	}
	cells := g.cells.cursor()
	var before *cell
	for c, ok := cells.next(); ok; c, ok = cells.next() {
		if before == nil && c.head != g.head || before != nil && !cellLess(before, c) || c.group != g {
			return 0, fmt.Errorf("the cells of a group are out of order")
		}
		before = c
		lanes := c.lanes.cursor()
		var last *lane
		for l, ok := lanes.next(); ok; l, ok = lanes.next() {
			if last == nil && l.head != c.head || last != nil && !laneLess(last, l) || l.cell != c {
				return 0, fmt.Errorf("the lanes of a cell are out of order")
			}
			last = l
			n, err := p.checkLane(l)
			if err != nil {
				return 0, err
			}
			items += n
		}
		if last == nil {
			return 0, fmt.Errorf("a cell without lanes is filed")
		}
	}
	return items, nil
}

// checkLane checks a filed lane.
func (p *Pending) checkLane(l *lane) (items int, err error) {
	if p.lanes[l.key] != l || l.tenant.lanes[l.tenantAt] != l || l.domain.lanes[l.domainAt] != l {
		return 0, fmt.Errorf("lane %v is filed wrongly", l.key)
	}
	if l.throttled() || p.holds(l) {
		return 0, fmt.Errorf("lane %v is throttled and filed", l.key)
	}
	walk := l.items.cursor()
	var before entry
	for e, ok := walk.next(); ok; e, ok = walk.next() {
		if before.item == nil && e != l.head || before.item != nil && !entryLess(before, e) {
			return 0, fmt.Errorf("lane %v is out of order at job %s", l.key, e.item.ID)
		}
		if e != p.entryOf(e.item) || p.keyOf(e.item) != l.key {
			return 0, fmt.Errorf("job %s is in the wrong lane", e.item.ID)
		}
		before = e
		items++
	}
	if items != l.items.len() || items != l.counted {
		return 0, fmt.Errorf("lane %v holds %d jobs, counts %d", l.key, items, l.counted)
	}
	return items, nil
}

// checkBands recounts the lanes of all bands and compares their age index and critical lanes with the recount.
func (p *Pending) checkBands() error {
	lanes, filed, critical := 0, 0, 0
	type key struct {
		class ClassID
		side  int
	}
	oldest, aging := map[key]entry{}, map[key]int{}
	for b, list := range p.bands {
		for i, l := range list {
			if p.lanes[l.key] != l || l.bandAt != i || l.key.band != band(b) {
				return fmt.Errorf("lane %v is filed wrongly in its band", l.key)
			}
			lanes++
			if l.head.item != nil {
				filed++
				if l.key.band == bandCritical {
					critical++
				}
			}
			k := key{l.key.class, p.aging(l)}
			if l.throttled() || k.side == forTurns && p.low != LowOldestOnly {
				if l.oldest.item != nil || l.aging != nil || l.head.item != nil {
					return fmt.Errorf("lane %v is throttled and filed", l.key)
				}
				continue
			}
			if oldest := l.findOldest(); oldest != l.oldest || l.aged().len() != l.items.len() ||
				l.aging != &l.cell.demand.ageIndex[k.side] {
				return fmt.Errorf("lane %v is filed by another age than that of its oldest job", l.key)
			}
			aging[k]++
			if first := oldest[k]; first.item == nil || ageLess(l.oldest, first) {
				oldest[k] = l.oldest
			}
		}
	}
	if lanes != len(p.lanes) || filed != p.filed || critical != p.critical.len() {
		return fmt.Errorf("%d lanes of %d, %d filed of %d, %d critical of %d", len(p.lanes), lanes, p.filed, filed,
			p.critical.len(), critical)
	}
	for _, d := range p.demands {
		for side := range d.ageIndex {
			k := key{d.class, side}
			if d.ageIndex[side].oldest != oldest[k] || d.ageIndex[side].lanes.len() != aging[k] {
				return fmt.Errorf("class %d is filed by another age than that of its oldest job", d.class)
			}
		}
	}
	return nil
}

// findOldest searches a lane for its oldest item.
func (l *lane) findOldest() (oldest entry) {
	items := l.items.cursor()
	for e, more := items.next(); more; e, more = items.next() {
		if e = entryOf(e.item); oldest.item == nil || ageLess(e, oldest) {
			oldest = e
		}
	}
	return oldest
}

// checkAgeIndex checks the order of the classes by age.
func (p *Pending) checkAgeIndex() error {
	for side := range p.ageIndex {
		filed := 0
		for _, d := range p.demands {
			if d.ageIndex[side].oldest.item != nil {
				filed++
			}
		}
		n := 0
		var before *ageIndex
		walk := p.ageIndex[side].cursor()
		for k, ok := walk.next(); ok; k, ok = walk.next() {
			if before != nil && !classAgeLess(before, k) || &p.demandOf[k.class].ageIndex[side] != k {
				return fmt.Errorf("classes are out of the order of age")
			}
			before = k
			n++
		}
		if n != filed {
			return fmt.Errorf("the order of age has %d classes, want %d", n, filed)
		}
	}
	return nil
}
