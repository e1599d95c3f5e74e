package sched

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// Intern returns a class's number and counts one user of it. A new class costs O(workers of its queue).
func (s *Supply) Intern(r Requirements) ClassID {
	key := r.Key()
	if c, known := s.classOf[key]; known {
		s.classes[c].users++
		return c
	}
	var c ClassID
	if n := len(s.spare); n > 0 {
		c, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		c = ClassID(len(s.classes))
		s.classes = append(s.classes, class{})
	}
	queue := s.queue(r.Queue)
	s.classes[c] = class{requirements: r, key: key, users: 1, at: len(queue.classes), queue: queue,
		fits: s.fitting(&r, queue), need: r.need()}
	queue.classes = append(queue.classes, c)
	s.classOf[key] = c
	return c
}

// Again is Intern for a class that was interned when Forgotten returned the given count; false if its number may now
// belong to another class.
func (s *Supply) Again(c ClassID, forgotten uint64) bool {
	if s.forgotten != forgotten {
		return false
	}
	s.classes[c].users++
	return true
}

// Forgotten returns how many classes Release has removed.
func (s *Supply) Forgotten() uint64 { return s.forgotten }

// fitting returns the workers that could ever fit a class.
func (s *Supply) fitting(r *Requirements, queue *queueSupply) bitset {
	fits := slices.Clone(queue.able)
	free := r.free()
	for i, w := range fits {
		for ; w != 0; w &= w - 1 {
			slot := i<<6 + bits.TrailingZeros64(w)
			l := &s.lasting[slot]
			barred := len(l.barred) > 0 && l.barring(r.Type, &queue.rules) != Fit
			if barred || (!free || len(s.specs[slot].Types) > 0) && r.misfit(s.specs[slot]) != Fit {
				fits.clear(slot)
			}
		}
	}
	return fits
}

// Release removes one user of the class. The last one removes the class, and its number may then be reused.
func (s *Supply) Release(c ClassID) {
	if int(c) >= len(s.classes) || c < 0 || s.classes[c].users == 0 {
		return
	}
	k := &s.classes[c]
	if k.users--; k.users > 0 {
		return
	}
	q := k.requirements.Queue
	queue := s.queues[q]
	last := queue.classes[len(queue.classes)-1]
	queue.classes[k.at] = last
	s.classes[last].at = k.at
	queue.classes = queue.classes[:len(queue.classes)-1]
	delete(s.classOf, k.key)
	s.forgotten++
	s.classes[c] = class{}
	s.spare = append(s.spare, c)
	s.forget(q, queue)
}

// Classes counts the live classes of a queue.
func (s *Supply) Classes(q rota.QueueName) int {
	if queue := s.queues[q]; queue != nil {
		return len(queue.classes)
	}
	return 0
}

// Check compares every index with a recount and returns the first difference as an error.
func (s *Supply) Check() error {
	if len(s.slotOf) != len(s.order) || len(s.order)+len(s.holes) != len(s.specs) {
		return fmt.Errorf("supply has %d ids, %d in order, %d holes, %d slots",
			len(s.slotOf), len(s.order), len(s.holes), len(s.specs))
	}
	actives, all := 0, capacity{}
	for i, slot := range s.order {
		spec := s.specs[slot]
		if s.lasting[slot].active {
			all.count(spec, true)
			actives++
		}
		if spec == nil || s.slotOf[spec.ID] != slot {
			return fmt.Errorf("worker at %d in order has no slot of its own", i)
		}
		if i > 0 && strings.Compare(string(s.specs[s.order[i-1]].ID), string(spec.ID)) >= 0 {
			return fmt.Errorf("worker %s is out of order", spec.ID)
		}
		if s.open[slot] < 0 || s.most[slot] != spec.Slots+spec.Prefetch || s.prefetch[slot] != spec.Prefetch {
			return fmt.Errorf("worker %s has %d open leases of %d", spec.ID, s.open[slot], s.most[slot])
		}
		if s.offers[slot] < s.open[slot] || s.free.has(int(slot)) != (s.open[slot] < min(s.most[slot],
			s.offers[slot]) && !s.held.has(int(slot)) && !s.isolated.has(int(slot))) {
			return fmt.Errorf("worker %s is filed with the wrong room", spec.ID)
		}
	}
	if actives != s.actives || all != s.all {
		return fmt.Errorf("supply counts %d active workers with %+v, there are %d with %+v", s.actives, s.all, actives,
			all)
	}
	live, serving := 0, make(map[rota.QueueName][]int32)
	for _, slot := range s.order {
		for i, q := range s.specs[slot].Queues {
			if !slices.Contains(s.specs[slot].Queues[:i], q) {
				serving[q] = append(serving[q], slot)
			}
		}
	}
	for c := range s.classes {
		if s.classes[c].users == 0 {
			continue
		}
		live++
		if err := s.checkClass(ClassID(c), serving[s.classes[c].requirements.Queue]); err != nil {
			return err
		}
	}
	if live != len(s.classOf) || live+len(s.spare) != len(s.classes) {
		return fmt.Errorf("supply has %d live classes, %d keys, %d spare of %d",
			live, len(s.classOf), len(s.spare), len(s.classes))
	}
	for _, slot := range s.order {
		for _, q := range s.specs[slot].Queues {
			if _, narrow := s.grants[slot].of(q); narrow && (s.queues[q] == nil ||
				!s.queues[q].narrow.workers.has(int(slot))) {
				return fmt.Errorf("worker %s may work for some tenants of queue %s, and is not filed so",
					s.specs[slot].ID, q)
			}
		}
	}
	return s.checkKeyed()
}

// checkClass recounts a class from the specs of the workers that serve its queue.
func (s *Supply) checkClass(c ClassID, all []int32) error {
	k := &s.classes[c]
	r := &k.requirements
	queue := s.queues[r.Queue]
	if s.classOf[k.key] != c || r.Key() != k.key || queue == nil || queue.classes[k.at] != c ||
		k.queue != queue || k.need != r.need() {
		return fmt.Errorf("class %d of queue %s is filed wrongly", c, r.Queue)
	}
	var serving, able, fits bitset
	capacity, used := int64(0), 0
	for _, slot := range all {
		spec, l := s.specs[slot], &s.lasting[slot]
		serving.put(int(slot), l.active)
		able.put(int(slot), l.passes(&queue.rules))
		fits.put(int(slot), s.misfit(k, slot, "") == Fit)
		if l.active {
			capacity += queue.share(spec)
		}
	}
	for _, slot := range s.order {
		spec := s.specs[slot]
		if at, found := findUnits(s.units[slot], r.Queue); found && queue.rules.UnitsMax > 0 {
			n := s.units[slot][at].Used
			if n != 0 {
				used++
			}
			if queue.used[slot] != n {
				return fmt.Errorf("worker %s used %d units of queue %s, filed are %d", spec.ID, n, r.Queue,
					queue.used[slot])
			}
		}
	}
	if !serving.equal(queue.workers) || !able.equal(queue.able) || !fits.equal(k.fits) {
		return fmt.Errorf("class %d of queue %s has other workers than a recount", c, r.Queue)
	}
	if err := s.checkNarrow(r.Queue, queue); err != nil {
		return err
	}
	if capacity != queue.capacity || used != len(queue.used) {
		return fmt.Errorf("queue %s has capacity %d and %d workers with units used, want %d and %d",
			r.Queue, queue.capacity, len(queue.used), capacity, used)
	}
	return nil
}

// checkKeyed recounts the sets used by the strategy affinity.
func (s *Supply) checkKeyed() error {
	var data, executed, zones int
	for _, slot := range s.order {
		if !s.data.check(slot, &data) || !s.executed.check(slot, &executed) ||
			!s.zones.check(slot, &zones) || !slices.Equal(s.zones.of(slot), []string{s.specs[slot].Zone}) {
			return fmt.Errorf("worker %s is not filed by its data, types and zone", s.specs[slot].ID)
		}
	}
	if data != s.data.filed || executed != s.executed.filed || zones != s.zones.filed {
		return fmt.Errorf("supply files %d data, %d types, %d zones, want %d, %d, %d", s.data.filed,
			s.executed.filed, s.zones.filed, data, executed, zones)
	}
	return nil
}
