package sched

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// Rules are what a queue asks of every worker (SPEC §6.1).
type Rules struct {
	// LeasesMax is the most leases that a worker may have open when it gets a job of
	// this queue, whatever queue they are of; 0 sets no limit.
	LeasesMax int64
	// PrefetchMax is how much of a worker's prefetch counts at most for this queue's
	// jobs.
	PrefetchMax int64
	// UnitsMax is what a worker may take of this queue's units a period; 0 sets no
	// limit.
	UnitsMax int64
	// MinHealth in permille, MinStake in millionths of a unit.
	MinHealth int64
	MinStake  int64
	// RequireAttestation asks for an attestation that has not expired.
	RequireAttestation bool
	// Cools and Denies say that the queue heeds types that a worker cools down for,
	// and types that it was denied (SPEC §16.1).
	Cools  bool
	Denies bool
}

// heeds reports whether a reason to bar a type counts in the queue.
func (r *Rules) heeds(why Unfit) bool {
	return why == CoolingDown && r.Cools || why == TypeDenylisted && r.Denies
}

// RulesOf reads the rules from a queue's policy.
func RulesOf(p *rota.QueuePolicy) Rules {
	return Rules{LeasesMax: p.LeasesMaxPerWorker, PrefetchMax: p.PrefetchMax, UnitsMax: p.UnitsPerPeriod,
		MinHealth: p.MinHealth, MinStake: p.MinStake, RequireAttestation: p.RequireAttestation,
		Cools: p.CoolAfter > 0, Denies: p.DenyMs > 0}
}

// defaultRules are those of a queue that SetRules was not called for.
var defaultRules = Rules{PrefetchMax: rota.MaxPrefetch}

// SetRules sets what a queue asks of every worker; it holds until set anew. It
// costs O(workers of the queue), and for each of them whose eligibility changes
// O(classes of the queue). A queue without rules takes every active worker, with
// all of its prefetch.
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

// share is what a worker adds to a queue's capacity.
func (q *queueSupply) share(spec *rota.WorkerSpec) int64 {
	return int64(spec.Slots) + min(int64(spec.Prefetch), q.rules.PrefetchMax)
}

// Capacity sums over the active workers that serve a queue what they can have
// open of it at once: slots and as much of the prefetch as counts for it. O(1).
func (s *Supply) Capacity(q rota.QueueName) int64 {
	if queue := s.queues[q]; queue != nil {
		return queue.capacity
	}
	return 0
}

// serve files a worker under one of its queues, and in the classes there.
func (s *Supply) serve(q rota.QueueName, slot int32) { s.review(q, slot, false) }

// review brings one of a worker's queues, and the classes there, up to date with
// its reputation. barred says that the types changed that it gets none of there.
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
		case was && len(l.barred) == 0 && k.fits.has(at): // It was not barred and is not.
		default:
			bars := len(l.barred) > 0 && l.barring(k.requirements.Type, &queue.rules) != Fit
			k.fits.put(at, !bars && k.requirements.misfit(s.specs[slot]) == Fit)
		}
	}
}

// unserve is the inverse of serve, for a worker that had this spec.
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

// DropQueue takes back what SetRules said of a queue that nobody asks for.
func (s *Supply) DropQueue(q rota.QueueName) {
	if queue := s.queues[q]; queue != nil {
		s.SetRules(q, defaultRules)
		queue.ruled = false
		s.forget(q, queue)
	}
}

// forget drops a queue without rules that nobody serves and nobody asks for.
func (s *Supply) forget(q rota.QueueName, queue *queueSupply) {
	if !queue.ruled && len(queue.classes) == 0 && queue.workers.first() < 0 && queue.narrow.workers.first() < 0 {
		delete(s.queues, q)
	}
}

// TakeUnits counts what a lease takes of a queue's units_per_period, at once; Put
// states it wholesale. An unknown worker is left alone.
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

// setUnits states what a worker used of all queues' units.
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

// fileUnits files what a worker used under a queue that limits it.
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

// countUnits begins, or ends, to file what is used of a queue's units.
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

// sameUnits compares what was used; when the period began is the state machine's
// to know.
func sameUnits(a, b []rota.UnitsUsed) bool {
	return slices.EqualFunc(a, b, func(x, y rota.UnitsUsed) bool {
		return x.Queue == y.Queue && x.Used == y.Used
	})
}
