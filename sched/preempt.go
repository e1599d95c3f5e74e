package sched

import "github.com/rotasched/rota"

// Preemption (SPEC §7.9) is decided by the state machine, which knows the leases,
// between an entry's rounds and its holds. Here it asks and tells what a Draft
// knows of room and of held workers.

// WantsRoom reports whether a job has no worker, holds none, may have one by the
// limits of its tenant and domain, and finds room nowhere. Pairs of its queue's
// own round are the caller's to know. From the first call until Keep nothing gives
// room, so the workers are gone through once for all jobs of a class without any.
func (d *Draft) WantsRoom(lot Lot, it *Item) bool {
	if d.holders[it] || d.out(it) {
		return false
	}
	l := lot.Pending.laneOf(it)
	if l == nil || d.shut(lot.Queue, l) {
		return false
	}
	k := ScopedClass{it.Class, d.supply.Scope(lot.Queue, it.Tenant)}
	if !d.roomless[k] && !d.AnyRoom(it.ask()) {
		put(&d.roomless, k, true)
	}
	return d.roomless[k]
}

// IsHeld reports whether a worker is held for some job by now; an unknown one is.
func (d *Draft) IsHeld(id rota.WorkerID) bool {
	slot, known := d.supply.slotOf[id]
	return !known || d.slotLoads.held.has(int(slot))
}

// Reserve holds a worker for a job from now on in this entry, outside the bound on
// holds, and counts the job against its tenant's and its domain's limits.
func (d *Draft) Reserve(lot Lot, it *Item, id rota.WorkerID) {
	if slot, known := d.supply.slotOf[id]; known {
		d.slotLoads.hold(slot, true)
	}
	put(&d.holders, it, true)
	d.Promise(lot, it)
}

// Promise counts a job that has no worker yet against its tenant's and its
// domain's limits: leases gave way for it before, and room will be its own.
func (d *Draft) Promise(lot Lot, it *Item) {
	if l := lot.Pending.laneOf(it); l != nil {
		d.spend(lot.Queue, l)
	}
}
