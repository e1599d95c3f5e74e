package sched

import (
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// UnfitCount tells how many workers a rule keeps from a class.
type UnfitCount struct {
	Why     Unfit
	Workers int64
}

// UnfitWorkers names the first of them by id too, at most limits.MaxOthers.
type UnfitWorkers struct {
	UnfitCount
	IDs []rota.WorkerID
}

// Fits reports whether a worker may take a job that asks so now, and if not, by
// which rule of SPEC §6.1: the first in the order of Unfit, so that what lasts is
// named before want of room. It is the state machine's re-check of each
// assignment (SPEC §2.3). Whether the worker is held is not asked: it may be for
// this very job.
func (s *Supply) Fits(a Ask, id rota.WorkerID) (ok bool, why Unfit) {
	slot, known := s.slot(id)
	if !known {
		return false, NoSuchWorker
	}
	k := &s.classes[a.Class]
	if why = s.misfit(k, slot, a.Tenant); why == Fit {
		why = s.roomFor(slot, k.queue, k.need)
	}
	return why == Fit, why
}

// misfit says why a worker could never fit a tenant's jobs of the class as things stand, Fit if it
// could; of no tenant that of the class alone.
func (s *Supply) misfit(k *class, slot int32, tenant rota.TenantID) Unfit {
	if why := s.lasting[slot].fault(k.requirements.Type, &k.queue.rules); why != Fit {
		return why
	}
	if !slices.Contains(s.specs[slot].Queues, k.requirements.Queue) {
		return NotServingTheQueue
	}
	if tenant != "" && !k.queue.narrow.grants(slot, tenant) {
		return TenantNotGranted
	}
	return k.requirements.misfit(s.specs[slot])
}

// EverFits counts the workers that could take a job that asks so if they were
// idle.
func (s *Supply) EverFits(a Ask) int { return s.eligible(a).count() }

// CouldFit reports whether a worker could ever take a job that asks so.
func (s *Supply) CouldFit(a Ask, id rota.WorkerID) bool {
	slot, known := s.slotOf[id]
	return known && s.could(a, slot)
}

// Faults counts all workers that have not retired under every rule that keeps them
// from a job that asks so, in the order of Unfit; Fit are those that no rule does. Who does not
// serve the queue, is not the pinned worker, does not handle the type or may not work for the
// tenant is counted as that alone. O(workers).
func (s *Supply) Faults(a Ask) (counts []UnfitWorkers) {
	var by [len(unfitNames)]UnfitWorkers
	k := &s.classes[a.Class]
	for _, slot := range s.order {
		if s.lasting[slot].retired {
			continue
		}
		failed := 0
		count := func(why Unfit) {
			failed++
			n := &by[why]
			if n.Workers++; n.Workers <= limits.MaxOthers {
				n.IDs = append(n.IDs, s.specs[slot].ID)
			}
		}
		s.faults(k, slot, a.Tenant, count)
		if failed == 0 {
			count(Fit)
		}
	}
	for why, n := range by {
		if n.Workers > 0 {
			n.Why = Unfit(why)
			counts = append(counts, n)
		}
	}
	return counts
}

// faults tells every rule that keeps a worker from a class: where Fits ends at the
// first, it goes on.
func (s *Supply) faults(k *class, slot int32, tenant rota.TenantID, note func(Unfit)) {
	spec, l, r, rules := s.specs[slot], &s.lasting[slot], &k.requirements, &k.queue.rules
	if first := s.tallied(k, slot, tenant); first.alone() {
		note(first)
		return
	}
	is := func(fails bool, why Unfit) {
		if fails {
			note(why)
		}
	}
	is(!l.active, NotActive)
	is(l.disconnected, Disconnected)
	is(rules.RequireAttestation && l.attested == AttestedNever, AttestationMissing)
	is(rules.RequireAttestation && l.attested == AttestedExpired, AttestationExpired)
	is(l.stake < rules.MinStake, StakeTooLow)
	is(rules.Cools && slices.Contains(l.barred, BarredType{r.Type, CoolingDown}), CoolingDown)
	is(rules.Denies && slices.Contains(l.barred, BarredType{r.Type, TypeDenylisted}), TypeDenylisted)
	is(l.health < rules.MinHealth, HealthTooLow)
	for _, one := range [...]Requirements{{Type: r.Type, RegionsAllow: r.RegionsAllow, RegionsDeny: r.RegionsDeny},
		{Type: r.Type, Requires: r.Requires}, {Type: r.Type, Limits: r.Limits}} {
		is(one.misfit(spec) != Fit, one.misfit(spec))
	}
	is(int64(s.open[slot]) >= s.mostOf(slot, rules), NoFreeSlot)
	is(s.crowded(slot, k.need), RunsAlone)
	is(s.rests(slot), NoSlotOffered)
	is(s.spent(slot, k.queue, k.need.units), UnitsExhausted)
	free := s.loadFree[slot]
	is(k.need.CPU > 0 && free.CPU < k.need.CPU, CPUFull)
	is(k.need.Memory > 0 && free.Memory < k.need.Memory, MemoryFull)
	is(k.need.IO > 0 && free.IO < k.need.IO, IOFull)
	is(s.held.has(int(slot)), HeldForAnotherJob)
}

// alone says of a rule that a worker that fails it has nothing to do with the class,
// whatever else keeps it from there.
func (u Unfit) alone() bool {
	return u == NotServingTheQueue || u == NotThePinnedWorker || u == TypeNotHandled || u == TenantNotGranted
}

// tallied is the one rule that speaks most plainly of a worker: that it does not serve
// the queue, is not the pinned one, does not handle the type or may not work for the tenant
// if so, else the first that it fails.
func (s *Supply) tallied(k *class, slot int32, tenant rota.TenantID) Unfit {
	r := &k.requirements
	if !k.fits.has(int(slot)) {
		switch {
		case !k.queue.workers.has(int(slot)) && !slices.Contains(s.specs[slot].Queues, r.Queue):
			return NotServingTheQueue
		case r.Worker != "" && r.Worker != s.specs[slot].ID:
			return NotThePinnedWorker
		case !s.specs[slot].Handles(r.Type):
			return TypeNotHandled
		case !k.queue.narrow.grants(slot, tenant):
			return TenantNotGranted
		}
		return s.misfit(k, slot, tenant)
	}
	if !k.queue.narrow.grants(slot, tenant) {
		return TenantNotGranted
	}
	why := s.roomFor(slot, k.queue, k.need)
	if why == Fit && s.held.has(int(slot)) {
		why = HeldForAnotherJob
	}
	return why
}

// Keepable counts the workers that a hold for a job that asks so can be of: those that could
// ever fit it, offer a slot and have units left for it, for no end of a lease gives those back; with
// or without those that are held already.
func (s *Supply) Keepable(a Ask, held bool) (n int) {
	k := &s.classes[a.Class]
	for i, m := range s.eligible(a) {
		if !held {
			m &^= s.held.word(i)
		}
		for ; m != 0; m &= m - 1 {
			if s.keepable(int32(i<<6+bits.TrailingZeros64(m)), k) {
				n++
			}
		}
	}
	return n
}

// keepable reports whether the end of leases can make room at a worker for a class: none gives units
// back, or has it offer a slot.
func (t *slotLoads) keepable(slot int32, k *class) bool {
	return !t.rests(slot) && !t.spent(slot, k.queue, k.need.units)
}

// Lacks returns what a worker lacks of room for a job that asks so: how many leases
// less it had to have open, and how much more of its load free; 0 where it has enough. ok is false if no end of leases would make room: the worker could never
// take the job, is held for another, offers no slot, or has no units left for it.
func (s *Supply) Lacks(a Ask, id rota.WorkerID) (slots int32, load Load, ok bool) {
	return s.lacks(&s.slotLoads, a, id)
}

func (s *Supply) lacks(t *slotLoads, a Ask, id rota.WorkerID) (slots int32, load Load, ok bool) {
	slot, known := s.slotOf[id]
	k := &s.classes[a.Class]
	if !known || !s.could(a, slot) || t.held.has(int(slot)) || !t.keepable(slot, k) {
		return 0, Load{}, false
	}
	most := t.mostFor(slot, k)
	if t.isolated.has(int(slot)) {
		most = min(most, 1)
	}
	slots = int32(max(0, int64(t.open[slot])+1-most))
	return slots, k.need.lack(t.loadFree[slot]), true
}

// Lacks returns what Supply.Lacks does, after all that the entry assigned so far.
func (d *Draft) Lacks(a Ask, id rota.WorkerID) (slots int32, load Load, ok bool) {
	return d.supply.lacks(&d.slotLoads, a, id)
}

// AnyRoom reports whether any worker that is not held has room for a job that asks so,
// after all that the entry assigned so far.
func (d *Draft) AnyRoom(a Ask) bool { return d.hasRoom(a) }
