package sched

import "github.com/rotasched/rota"

// masks holds the positions of the workers that may work for a tenant, in a round of a queue with narrowed workers.
// They are computed as tenants come up.
type masks struct {
	// list holds the computed masks. of maps a tenant's span to its index in list plus 1; 0 means none.
	list []bitset
	of   []int32
	// wide holds the positions of the workers that are not narrowed.
	wide bitset
	// lane is the latest lane asked for and mask its mask: one candidate is asked for often.
	lane *lane
	mask bitset
}

// lastScope is the latest tenant asked for at one place, and its mask: under fair share a turn belongs to one tenant.
type lastScope struct {
	tenant rota.TenantID
	mask   bitset
}

// maskOf returns the positions that may work for a lane's tenant; nil for all.
func (r *rooms) maskOf(l *lane) bitset { return r.maskNear(l, nil) }

// maskNear is maskOf with a cache for the tenant asked for last.
func (r *rooms) maskNear(l *lane, last *lastScope) bitset {
	n := &r.queue.narrow
	if len(n.spans) == 0 {
		return nil
	}
	if r.masks.lane == l {
		return r.masks.mask
	}
	if last == nil {
		last = new(lastScope)
	}
	if last.mask == nil || last.tenant != l.key.tenant {
		*last = lastScope{l.key.tenant, r.maskAt(n, n.at(string(l.key.tenant)))}
	}
	r.masks.lane, r.masks.mask = l, last.mask
	return r.masks.mask
}

func (r *rooms) maskAt(n *narrowings, span int) bitset {
	if r.masks.of == nil {
		r.masks.of, r.masks.wide = make([]int32, len(n.spans)), r.newSet()
		for pos, slot := range r.slots {
			r.masks.wide.put(pos, !n.workers.has(int(slot)))
		}
	}
	if at := r.masks.of[span]; at > 0 {
		return r.masks.list[at-1]
	}
	mask := r.newSet()
	copy(mask, r.masks.wide)
	for _, slot := range n.spans[span].allowed {
		if pos, stands := r.position(slot); stands {
			mask.set(pos)
		}
	}
	r.masks.list = append(r.masks.list, mask)
	r.masks.of[span] = int32(len(r.masks.list))
	return mask
}

// barred reports whether no worker with room for a lane's class may work for its tenant. Room only shrinks within a
// round, so such a lane is skipped for the rest of it, like one that is shut.
func (r *rooms) barred(l *lane) bool { return r.barredNear(l, nil) }

// barredNear is barred with a cache for the tenant asked for last.
func (r *rooms) barredNear(l *lane, last *lastScope) bool {
	if r.wide {
		return r.supply.eligible(Ask{Class: l.key.class, Tenant: l.key.tenant}).first() < 0
	}
	mask := r.maskNear(l, last)
	return mask != nil && !r.of(l.key.class).at.meets(mask)
}

// grantedTurn returns the oldest job of a list that a narrowed worker could ever take, among the tenants that it may
// work for.
func (l *ageList) grantedTurn(d *Draft, slot int32) (best entry, ok bool) {
	tenants, _ := d.supply.grants[slot].of(l.lot.Queue)
	for _, pattern := range tenants {
		from, to := idRange(pattern)
		walk := l.lot.Pending.byID.from(&tenantRow{id: rota.TenantID(from)}, tenantLess)
		for t, ok := walk.next(); ok && string(t.id) < to; t, ok = walk.next() {
			for _, ln := range t.lanes {
				if e, any := l.oldestIn(d, ln, slot); any && (best.item == nil || ageLess(e, best)) {
					best = e
				}
			}
		}
	}
	return best, best.item != nil
}

// oldestIn returns the oldest job of a lane that a worker's turn may go to.
func (l *ageList) oldestIn(d *Draft, ln *lane, slot int32) (e entry, ok bool) {
	if ln.aging == nil || ln.aging != &ln.cell.demand.ageIndex[l.side] {
		return entry{}, false
	}
	k := &d.supply.classes[ln.key.class]
	if !k.fits.has(int(slot)) || d.slotLoads.spent(slot, k.queue, k.need.units) || d.shut(l.lot.Queue, ln) {
		return entry{}, false
	}
	items := ln.aged().cursor()
	for e, ok = items.next(); ok && d.gone(e.item, false); {
		e, ok = items.next()
	}
	return e, ok
}
