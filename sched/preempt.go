package sched

import "github.com/rotasched/rota"

// The state machine, which has the leases, decides preemption (SPEC §7.9) between an entry's rounds and its holds. The
// functions here give it a Draft's state of room and held workers.

// WantsRoom reports whether a job has no worker, holds none, is allowed one by the limits of its tenant and domain, and
// finds room nowhere. The caller must know the pairs of the job's own round. From the first call until Keep nothing
// frees room, so the workers are searched once for all jobs of a class without room.
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

// IsHeld reports whether a worker is now held for some job, or is unknown.
func (d *Draft) IsHeld(id rota.WorkerID) bool {
	slot, known := d.supply.slotOf[id]
	return !known || d.slotLoads.held.has(int(slot))
}

// Reserve holds a worker for a job from now on in this entry, outside the bound on holds, and counts the job against
// the limits of its tenant and domain.
func (d *Draft) Reserve(lot Lot, it *Item, id rota.WorkerID) {
	if slot, known := d.supply.slotOf[id]; known {
		d.slotLoads.hold(slot, true)
	}
	put(&d.holders, it, true)
	d.Promise(lot, it)
}

// Promise counts a job without a worker against the limits of its tenant and domain: leases were revoked for it before,
// and it will get their room.
func (d *Draft) Promise(lot Lot, it *Item) {
	if l := lot.Pending.laneOf(it); l != nil {
		d.spend(lot.Queue, l, it)
	}
}
