package sched

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// Rules are a queue's requirements for every worker (SPEC §6.1).
type Rules struct {
	// LeasesMax is the maximum number of open leases, of any queue, on a worker that gets a job of this queue; 0 sets no
	// limit.
	LeasesMax int64
	// PrefetchMax is the maximum of a worker's prefetch that counts for this queue's jobs.
	PrefetchMax int64
	// UnitsMax is the maximum of this queue's units that a worker may use per period; 0 sets no limit.
	UnitsMax int64
	// MinHealth is in permille, MinStake in millionths of a unit.
	MinHealth int64
	MinStake  int64
	// RequireAttestation requires an attestation that has not expired.
	RequireAttestation bool
	// Cools applies the types that a worker cools down for; Denies applies the types on its denylist (SPEC §16.1).
	Cools  bool
	Denies bool
}

// applies reports whether the queue applies a reason to bar a type.
func (r *Rules) applies(why Unfit) bool {
	return why == CoolingDown && r.Cools || why == TypeDenylisted && r.Denies
}

// RulesOf returns the rules of a queue's policy.
func RulesOf(p *rota.QueuePolicy) Rules {
	return Rules{LeasesMax: p.LeasesMaxPerWorker, PrefetchMax: p.PrefetchMax, UnitsMax: p.UnitsPerPeriod,
		MinHealth: p.MinHealth, MinStake: p.MinStake, RequireAttestation: p.RequireAttestation,
		Cools: p.CoolAfter > 0, Denies: p.DenyMs > 0}
}

// defaultRules apply to a queue that SetRules was not called for.
var defaultRules = Rules{PrefetchMax: rota.MaxPrefetch}

// SetRules sets a queue's rules until the next call. It costs O(workers of the queue), and O(classes of the queue) for
// each worker whose eligibility changes. A queue without rules accepts every active worker, with all of its prefetch.
func (s *Supply) SetRules(q rota.QueueName, r Rules) {
	queue := s.queue(q)
	queue.ruled = true
	old := queue.rules
	if old == r {
		return
	}
	queue.rules = r
	if (old.UnitsMax > 0) != (r.UnitsMax > 0) {
		s.countUnits(q, queue)
	}
	queue.capacity = 0
	barred := old.Cools != r.Cools || old.Denies != r.Denies
	for i, w := range queue.workers {
		for ; w != 0; w &= w - 1 {
			slot := int32(i<<6 + bits.TrailingZeros64(w))
			queue.capacity += queue.share(s.specs[slot])
			s.review(q, slot, barred)
		}
	}
}

// share returns what a worker adds to a queue's capacity.
func (q *queueSupply) share(spec *rota.WorkerSpec) int64 {
	return int64(spec.Slots) + min(int64(spec.Prefetch), q.rules.PrefetchMax)
}

// Capacity returns the sum, over the active workers that serve a queue, of the leases of it that they can have open at
// once: slots plus the prefetch that counts for it. O(1).
func (s *Supply) Capacity(q rota.QueueName) int64 {
	if queue := s.queues[q]; queue != nil {
		return queue.capacity
	}
	return 0
}

// serve files a worker under one of its queues, and in the classes there.
func (s *Supply) serve(q rota.QueueName, slot int32) { s.review(q, slot, false) }

// review updates one of a worker's queues, and the classes there, to its reputation. barred reports whether the types
// barred to it there changed.
func (s *Supply) review(q rota.QueueName, slot int32, barred bool) {
	queue, at := s.queue(q), int(slot)
	l := &s.lasting[slot]
	if l.active != queue.workers.has(at) {
		queue.workers.put(at, l.active)
		if l.active {
			queue.capacity += queue.share(s.specs[slot])
		} else {
			queue.capacity -= queue.share(s.specs[slot])
		}
	}
	was, is := queue.able.has(at), l.passes(&queue.rules)
	queue.able.put(at, is)
	if !is && !was || is && was && !barred {
		return
	}
	for _, c := range queue.classes {
		k := &s.classes[c]
		switch {
		case !is:
			k.fits.clear(at)
		case was && len(l.barred) == 0 && k.fits.has(at): // It was not barred before and is not now.
		default:
			bars := len(l.barred) > 0 && l.barring(k.requirements.Type, &queue.rules) != Fit
			k.fits.put(at, !bars && k.requirements.misfit(s.specs[slot]) == Fit)
		}
	}
}

// unserve undoes serve for a worker that had this spec.
func (s *Supply) unserve(q rota.QueueName, slot int32, spec *rota.WorkerSpec) {
	queue, at := s.queues[q], int(slot)
	if queue == nil {
		return // The worker names the queue twice.
	}
	if queue.workers.has(at) {
		queue.workers.clear(at)
		queue.capacity -= queue.share(spec)
	}
	if queue.able.has(at) {
		queue.able.clear(at)
		for _, c := range queue.classes {
			s.classes[c].fits.clear(at)
		}
	}
	s.forget(q, queue)
}

func (s *Supply) queue(q rota.QueueName) *queueSupply {
	queue := s.queues[q]
	if queue == nil {
		queue = &queueSupply{rules: defaultRules}
		s.queues[q] = queue
	}
	return queue
}

// DropQueue resets a queue to the default rules, and drops it if it has no workers and no classes.
func (s *Supply) DropQueue(q rota.QueueName) {
	if queue := s.queues[q]; queue != nil {
		s.SetRules(q, defaultRules)
		queue.ruled = false
		s.forget(q, queue)
	}
}

// forget drops a queue without rules, workers and classes.
func (s *Supply) forget(q rota.QueueName, queue *queueSupply) {
	if !queue.ruled && len(queue.classes) == 0 && queue.workers.first() < 0 && queue.narrow.workers.first() < 0 {
		delete(s.queues, q)
	}
}

// TakeUnits counts units of a queue's units_per_period that a lease uses; Put replaces all counts. An unknown worker is
// ignored.
func (s *Supply) TakeUnits(id rota.WorkerID, q rota.QueueName, units int64) {
	slot, known := s.slotOf[id]
	if !known {
		return
	}
	list := s.units[slot]
	at, found := findUnits(list, q)
	if !found {
		list = slices.Insert(list, at, rota.UnitsUsed{Queue: q})
	}
	list[at].Used += units
	s.units[slot] = list
	s.fileUnits(slot, q, list[at].Used)
}

// setUnits replaces the counts of units that a worker used of all queues.
func (s *Supply) setUnits(slot int32, list []rota.UnitsUsed) {
	old := s.units[slot]
	if sameUnits(old, list) {
		return
	}
	for _, u := range old {
		s.fileUnits(slot, u.Queue, 0)
	}
	s.units[slot] = slices.Clone(list)
	for _, u := range list {
		s.fileUnits(slot, u.Queue, u.Used)
	}
}

// fileUnits records the units that a worker used of a queue that limits them.
func (s *Supply) fileUnits(slot int32, q rota.QueueName, used int64) {
	queue := s.queues[q]
	switch {
	case queue == nil || queue.rules.UnitsMax == 0:
	case used == 0:
		delete(queue.used, slot)
	default:
		queue.used[slot] = used
	}
}

// countUnits starts or stops recording the used units of a queue.
func (s *Supply) countUnits(q rota.QueueName, queue *queueSupply) {
	queue.used = nil
	if queue.rules.UnitsMax == 0 {
		return
	}
	queue.used = map[int32]int64{}
	for _, slot := range s.order {
		if at, found := findUnits(s.units[slot], q); found {
			s.fileUnits(slot, q, s.units[slot][at].Used)
		}
	}
}

func findUnits(list []rota.UnitsUsed, q rota.QueueName) (int, bool) {
	return slices.BinarySearchFunc(list, q, func(u rota.UnitsUsed, q rota.QueueName) int {
		return strings.Compare(string(u.Queue), string(q))
	})
}

// sameUnits compares used units. It ignores when the period began, which only the state machine uses.
func sameUnits(a, b []rota.UnitsUsed) bool {
	return slices.EqualFunc(a, b, func(x, y rota.UnitsUsed) bool {
		return x.Queue == y.Queue && x.Used == y.Used
	})
}
