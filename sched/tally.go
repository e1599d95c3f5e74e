package sched

import (
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// UnfitCount is the number of workers that a rule keeps from a class.
type UnfitCount struct {
	Why     Unfit
	Workers int64
}

// UnfitWorkers is an UnfitCount with the ids of the first of these workers, at most limits.MaxOthers.
type UnfitWorkers struct {
	UnfitCount
	IDs []rota.WorkerID
}

// Fits reports whether a worker may take a job with this Ask now, and if not, the rule of SPEC §6.1 that forbids it:
// the first in the order of Unfit, so that lasting reasons come before lack of room. The state machine uses it to check
// each assignment again (SPEC §2.3). It ignores whether the worker is held: the hold may be for this very job.
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

// misfit returns why a worker could currently never fit a tenant's jobs of the class, Fit if it could; without a tenant
// it checks the class alone.
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

// EverFits counts the workers that could take a job with this Ask if they were idle.
func (s *Supply) EverFits(a Ask) int { return s.eligible(a).count() }

// CouldFit reports whether a worker could ever take a job with this Ask.
func (s *Supply) CouldFit(a Ask, id rota.WorkerID) bool {
	slot, known := s.slotOf[id]
	return known && s.could(a, slot)
}

// Faults counts all workers that have not retired under every rule that keeps them from a job with this Ask, in the
// order of Unfit; workers without a fault count under Fit. A worker that does not serve the queue, is not the pinned
// worker, does not handle the type or may not work for the tenant counts only under that rule. O(workers).
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

// faults calls note with every rule that keeps a worker from a class, where Fits stops at the first.
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

// alone reports whether a worker that fails this rule is irrelevant to the class, whatever other rules it fails.
func (u Unfit) alone() bool {
	return u == NotServingTheQueue || u == NotThePinnedWorker || u == TypeNotHandled || u == TenantNotGranted
}

// tallied returns the rule to count a worker under: that it does not serve the queue, is not the pinned worker, does
// not handle the type or may not work for the tenant; otherwise the first rule that it fails.
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

// Keepable counts the workers that can be held for a job with this Ask: those that could ever fit it, offer a slot and
// have units left for it, as no end of a lease returns those. held states whether to include workers that are already
// held.
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

// keepable reports whether the end of leases can make room on a worker for a class: no end returns units or creates an
// offer.
func (t *slotLoads) keepable(slot int32, k *class) bool {
	return !t.rests(slot) && !t.spent(slot, k.queue, k.need.units)
}

// Lacks returns how much room a worker lacks for a job with this Ask: how many fewer leases it must have open, and how
// much more load must be free; 0 if it has enough. ok is false if no end of leases would make room: the worker could
// never take the job, is held for another, offers no slot, or has no units left for it.
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

// Lacks returns the same as Supply.Lacks, after all assignments of the entry so far.
func (d *Draft) Lacks(a Ask, id rota.WorkerID) (slots int32, load Load, ok bool) {
	return d.supply.lacks(&d.slotLoads, a, id)
}

// AnyRoom reports whether any worker that is not held has room for a job with this Ask, after all assignments of the
// entry so far.
func (d *Draft) AnyRoom(a Ask) bool { return d.hasRoom(a) }
