package sched

import "github.com/rotasched/rota"

// settle files or removes a lane as its items and throttles require, and updates the cell.
func (p *Pending) settle(l *lane) {
	var head entry
	counted := 0
	if !l.throttled() && !p.holds(l) {
		head, _ = l.items.min()
		counted = l.items.len()
	}
	l.cell.demand.items += counted - l.counted
	l.counted = counted
	if head.item == l.head.item {
		return
	}
	critical := l.key.band == bandCritical
	if l.head.item != nil {
		l.cell.lanes.remove(l, laneLess)
		if critical {
			p.critical.remove(l, laneLess)
		}
		p.filed--
	}
	if l.head = head; head.item != nil {
		l.cell.lanes.insert(l, laneLess)
		if critical {
			p.critical.insert(l, laneLess)
		}
		p.filed++
	}
	p.settleCell(l.cell)
}

// throttled reports whether neither rounds nor turns may look at the lane.
func (l *lane) throttled() bool { return l.tenant.throttled || l.domain.throttled || l.keys.full() }

func (p *Pending) settleCell(c *cell) {
	var head entry
	if first, ok := c.lanes.min(); ok {
		head = first.head
	}
	if head.item == c.head.item {
		return
	}
	g, d := c.group, c.demand
	if c.head.item != nil {
		g.cells.remove(c, cellLess)
	} else {
		c.at = len(d.cells)
		d.cells = append(d.cells, c)
	}
	if c.head = head; head.item != nil {
		g.cells.insert(c, cellLess)
	} else {
		last := len(d.cells) - 1
		d.cells[c.at], d.cells[last].at = d.cells[last], c.at
		d.cells[last] = nil
		d.cells = d.cells[:last]
	}
	p.settleGroup(g)
}

func (p *Pending) settleGroup(g *group) {
	var head entry
	if first, ok := g.cells.min(); ok {
		head = first.head
	}
	if head.item == g.head.item {
		return
	}
	if g.head.item != nil {
		p.groups.remove(g, groupLess)
	} else if p.grouped {
		g.open = p.keys.returns(p, head.item)
	}
	if g.head = head; head.item != nil {
		p.groups.insert(g, groupLess)
	}
}

func (p *Pending) newLane(key laneKey) *lane {
	l := reuse(&p.gone.lane)
	*l = lane{key: key, tenant: p.tenant(key.tenant), domain: p.domain(key.domain),
		items: ordered[entry]{small: l.items.small}}
	l.tenantAt, l.domainAt = len(l.tenant.lanes), len(l.domain.lanes)
	l.tenant.lanes = append(l.tenant.lanes, l)
	l.domain.lanes = append(l.domain.lanes, l)
	l.bandAt = len(p.bands[key.band])
	p.bands[key.band] = append(p.bands[key.band], l)
	g := p.sole
	switch {
	case p.tiered:
		g = &p.tiers[key.tier].group
	case p.grouped:
		if g = p.parties[key.party]; g == nil {
			g = &group{party: key.party, weight: 1}
			p.parties[key.party] = g
		}
	case p.fairShare:
		if g = l.tenant.group; g == nil {
			g = &group{tenant: l.tenant, open: l.tenant.open, weight: l.tenant.weight}
			l.tenant.group = g
		}
	}
	l.cell = p.cell(g, key.class)
	l.cell.users++
	p.lanes[key] = l
	if key.counts != "" {
		p.keys.enter(p, l)
	}
	return l
}

func (p *Pending) cell(g *group, class ClassID) *cell {
	c := p.cells[cellKey{g, class}]
	if c != nil {
		return c
	}
	d := p.demandOf[class]
	if d == nil {
		d = reuse(&p.gone.demand)
		*d = demand{class: class, at: len(p.demands), cells: d.cells}
		d.ageIndex[forRounds].class, d.ageIndex[forTurns].class = class, class
		p.demandOf[class] = d
		p.demands = append(p.demands, d)
	}
	c = reuse(&p.gone.cell)
	*c = cell{group: g, demand: d, lanes: ordered[*lane]{small: c.lanes.small}}
	g.users++
	d.users++
	p.cells[cellKey{g, class}] = c
	return c
}

// dropLane removes an empty lane and whatever only this lane used.
func (p *Pending) dropLane(l *lane) {
	delete(p.lanes, l.key)
	if l.keys != nil {
		p.keys.leave(l)
	}
	t, d, c := l.tenant, l.domain, l.cell
	last := len(t.lanes) - 1
	t.lanes[l.tenantAt], t.lanes[last].tenantAt = t.lanes[last], l.tenantAt
	t.lanes[last] = nil
	t.lanes = t.lanes[:last]
	last = len(d.lanes) - 1
	d.lanes[l.domainAt], d.lanes[last].domainAt = d.lanes[last], l.domainAt
	d.lanes[last] = nil
	d.lanes = d.lanes[:last]
	b := p.bands[l.key.band]
	last = len(b) - 1
	b[l.bandAt], b[last].bandAt = b[last], l.bandAt
	b[last] = nil
	p.bands[l.key.band] = b[:last]
	if c.users--; c.users == 0 {
		p.dropCell(c)
	}
	p.dropTenant(l.key.tenant, t)
	p.dropDomain(l.key.domain, d)
	p.gone.lane = l
}

func (p *Pending) dropCell(c *cell) {
	g, d := c.group, c.demand
	delete(p.cells, cellKey{g, d.class})
	if g.users--; g.users == 0 && g.tenant != nil {
		g.tenant.group = nil
	} else if g.users == 0 && p.grouped {
		delete(p.parties, g.party)
	}
	p.gone.cell = c
	if d.users--; d.users == 0 {
		p.gone.demand = d
		delete(p.demandOf, d.class)
		last := len(p.demands) - 1
		p.demands[d.at], p.demands[last].at = p.demands[last], d.at
		p.demands[last] = nil
		p.demands = p.demands[:last]
	}
}

func (p *Pending) tenant(id rota.TenantID) *tenantRow {
	t := p.tenants[id]
	if t == nil {
		t = reuse(&p.gone.tenant)
		*t = tenantRow{id: id, weight: 1, lanes: t.lanes}
		p.tenants[id] = t
		p.byID.insert(t, tenantLess)
	}
	return t
}

// dropTenant removes a row that holds no information.
func (p *Pending) dropTenant(id rota.TenantID, t *tenantRow) {
	if len(t.lanes) == 0 && !t.throttled && t.open == 0 && t.weight == 1 {
		p.gone.tenant = t
		delete(p.tenants, id)
		p.byID.remove(t, tenantLess)
	}
}

func (p *Pending) domain(name string) *domainRow {
	d := p.domains[name]
	if d == nil {
		d = reuse(&p.gone.domain)
		*d = domainRow{lanes: d.lanes}
		p.domains[name] = d
	}
	return d
}

func (p *Pending) dropDomain(name string, d *domainRow) {
	if len(d.lanes) == 0 && !d.throttled {
		p.gone.domain = d
		delete(p.domains, name)
	}
}
