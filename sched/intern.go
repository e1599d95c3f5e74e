package sched

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// Intern gives a class its number and counts one user of it. A class that is
// new costs O(workers of its queue).
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
	s.classes[c] = class{requirements: r, key: key, users: 1, at: len(queue.classes), fits: s.fitting(&r, queue)}
	queue.classes = append(queue.classes, c)
	s.classOf[key] = c
	return c
}

// fitting finds the workers that could ever fit a class.
func (s *Supply) fitting(r *Requirements, queue *queueSupply) bitset {
	fits := slices.Clone(queue.workers)
	if r.free() {
		return fits
	}
	for i, w := range fits {
		for ; w != 0; w &= w - 1 {
			slot := i<<6 + bits.TrailingZeros64(w)
			if r.misfit(s.specs[slot], s.active[slot]) != Fit {
				fits.clear(slot)
			}
		}
	}
	return fits
}

// free says that a class asks for nothing but its queue.
func (r *Requirements) free() bool {
	return len(r.Requires)+len(r.RegionsAllow)+len(r.RegionsDeny) == 0 && r.Worker == "" &&
		r.CPUMilli <= 0 && r.MemoryBytes <= 0
}

// Release counts one user of the class less and forgets it with the last; its
// number may then be given to another.
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

// Fits says whether a worker may take a job of the class now, and if not, by
// which rule of SPEC §6.1; what lasts is named before want of room. It is the
// state machine's re-check of each assignment (SPEC §2.3).
func (s *Supply) Fits(c ClassID, id rota.WorkerID, leasesMax int64) (ok bool, why Unfit) {
	slot, known := s.slotOf[id]
	if !known {
		return false, NoSuchWorker
	}
	r := &s.classes[c].requirements
	if why = r.misfit(s.specs[slot], s.active[slot]); why == Fit {
		why = s.roomFor(slot, leasesMax, r.CPUMilli, r.MemoryBytes)
	}
	return why == Fit, why
}

// EverFits counts the active workers that could fit the class if they were idle.
func (s *Supply) EverFits(c ClassID) int {
	return s.classes[c].fits.count()
}

// Check compares every index with a recount and tells the first difference.
func (s *Supply) Check() error {
	if len(s.slotOf) != len(s.order) || len(s.order)+len(s.holes) != len(s.specs) {
		return fmt.Errorf("supply has %d ids, %d in order, %d holes, %d slots",
			len(s.slotOf), len(s.order), len(s.holes), len(s.specs))
	}
	actives := 0
	for i, slot := range s.order {
		spec := s.specs[slot]
		if s.active[slot] {
			actives++
		}
		if spec == nil || s.slotOf[spec.ID] != slot {
			return fmt.Errorf("worker at %d in order has no slot of its own", i)
		}
		if i > 0 && strings.Compare(string(s.specs[s.order[i-1]].ID), string(spec.ID)) >= 0 {
			return fmt.Errorf("worker %s is out of order", spec.ID)
		}
		if s.open[slot] < 0 || s.most[slot] != spec.Slots+spec.Prefetch {
			return fmt.Errorf("worker %s has %d open leases of %d", spec.ID, s.open[slot], s.most[slot])
		}
		if s.free.has(int(slot)) != (s.open[slot] < s.most[slot] && !s.held.has(int(slot))) {
			return fmt.Errorf("worker %s is filed with the wrong room", spec.ID)
		}
	}
	if actives != s.actives {
		return fmt.Errorf("supply counts %d active workers, there are %d", s.actives, actives)
	}
	live := 0
	for c := range s.classes {
		if s.classes[c].users == 0 {
			continue
		}
		live++
		if err := s.checkClass(ClassID(c)); err != nil {
			return err
		}
	}
	if live != len(s.classOf) || live+len(s.spare) != len(s.classes) {
		return fmt.Errorf("supply has %d live classes, %d keys, %d spare of %d",
			live, len(s.classOf), len(s.spare), len(s.classes))
	}
	return nil
}

func (s *Supply) checkClass(c ClassID) error {
	k := &s.classes[c]
	queue := s.queues[k.requirements.Queue]
	if s.classOf[k.key] != c || k.requirements.Key() != k.key || queue == nil || queue.classes[k.at] != c {
		return fmt.Errorf("class %d of queue %s is filed wrongly", c, k.requirements.Queue)
	}
	var serving, fits bitset
	for _, slot := range s.order {
		spec := s.specs[slot]
		serves := s.active[slot] && slices.Contains(spec.Queues, k.requirements.Queue)
		serving.put(int(slot), serves)
		fits.put(int(slot), k.requirements.misfit(spec, s.active[slot]) == Fit)
	}
	if !serving.equal(queue.workers) || !fits.equal(k.fits) {
		return fmt.Errorf("class %d of queue %s has other workers than a recount", c, k.requirements.Queue)
	}
	return nil
}
