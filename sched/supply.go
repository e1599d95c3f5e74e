package sched

import (
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// Supply is what is known of all workers and classes, kept up to date by the
// state machine. Each worker has a slot number, each class a bitset over them.
// Neither numbering shows outside: ids of workers decide every order.
type Supply struct {
	slotOf map[rota.WorkerID]int32
	// By slot number. A hole has no spec.
	specs  []*rota.WorkerSpec
	active []bool
	standing
	holes []int32
	// actives counts the active workers. endless counts a worker's open leases
	// whose runtime has no bound.
	actives int
	endless []int32
	// order holds the slot numbers by id.
	order []int32

	queues  map[rota.QueueName]*queueSupply
	classes []class
	classOf map[string]ClassID
	spare   []ClassID
}

// standing is what leases change, by slot number; a Draft copies it.
type standing struct {
	open    []int32
	most    []int32 // slots + prefetch
	cpuFree []int64 // may be negative after a registration with less
	memFree []int64
	// received counts a worker's leases since its last turn of the oldest.
	received []uint64
	// held are kept for one job each (SPEC §7.8).
	held bitset
	// free holds those with open < most that are not held.
	free bitset
}

// queueSupply is what serves a queue and what is asked for in it.
type queueSupply struct {
	workers bitset // active ones that serve it
	classes []ClassID
}

// class is an interned class. Invariant: fits holds exactly the workers that
// requirements.misfit takes.
type class struct {
	requirements Requirements
	key          string
	users        int64
	at           int // place in its queue's classes
	fits         bitset
}

// WorkerEntry is a worker as the state machine has it. Spec is kept, not copied:
// it never changes.
type WorkerEntry struct {
	Spec        *rota.WorkerSpec
	Active      bool
	Open        int32
	CPUTaken    int64
	MemoryTaken int64
	// Received is what the method of that name tells.
	Received uint64
}

// NewSupply starts without workers and classes.
func NewSupply() *Supply {
	return &Supply{
		slotOf:  map[rota.WorkerID]int32{},
		queues:  map[rota.QueueName]*queueSupply{},
		classOf: map[string]ClassID{},
	}
}

// Put registers or changes a worker wholesale. With the same Spec (the pointer)
// and the same status it is O(1), otherwise O(classes of its queues).
func (s *Supply) Put(w WorkerEntry) {
	slot, known := s.slotOf[w.Spec.ID]
	if !known {
		slot = s.newSlot(w.Spec.ID)
	}
	old, wasActive := s.specs[slot], s.active[slot]
	s.specs[slot], s.active[slot] = w.Spec, w.Active
	if w.Active != wasActive {
		s.countActive(w.Active)
	}
	s.open[slot], s.received[slot] = w.Open, w.Received
	s.most[slot] = w.Spec.Slots + w.Spec.Prefetch
	s.cpuFree[slot] = w.Spec.CPUMilli - w.CPUTaken
	s.memFree[slot] = w.Spec.MemoryBytes - w.MemoryTaken
	s.refree(slot)
	if old == w.Spec && wasActive == w.Active {
		return
	}
	if old != nil {
		for _, q := range old.Queues {
			s.unserve(q, slot)
		}
	}
	for _, q := range w.Spec.Queues {
		s.serve(q, slot)
	}
}

// Remove forgets a worker.
func (s *Supply) Remove(id rota.WorkerID) {
	slot, known := s.slotOf[id]
	if !known {
		return
	}
	at, _ := s.find(id)
	s.order = slices.Delete(s.order, at, at+1)
	delete(s.slotOf, id)
	for _, q := range s.specs[slot].Queues {
		s.unserve(q, slot)
	}
	if s.active[slot] {
		s.countActive(false)
	}
	s.specs[slot], s.active[slot] = nil, false
	s.open[slot], s.most[slot], s.cpuFree[slot], s.memFree[slot], s.endless[slot] = 0, 0, 0, 0, 0
	s.received[slot] = 0
	s.hold(slot, false)
	s.holes = append(s.holes, slot)
}

func (s *Supply) countActive(more bool) {
	if more {
		s.actives++
	} else {
		s.actives--
	}
}

// Take counts an opened lease. An unknown worker is left alone.
func (s *Supply) Take(id rota.WorkerID, cpu, mem int64) {
	if slot, known := s.slotOf[id]; known {
		s.take(slot, 1, cpu, mem)
	}
}

// Give counts an ended lease. An unknown worker is left alone.
func (s *Supply) Give(id rota.WorkerID, cpu, mem int64) {
	if slot, known := s.slotOf[id]; known {
		s.take(slot, -1, -cpu, -mem)
	}
}

// HasRoom says whether any active worker that serves the queue has a free slot.
func (s *Supply) HasRoom(q rota.QueueName) bool {
	queue := s.queues[q]
	return queue != nil && queue.workers.meets(s.free)
}

// Workers counts the active workers that serve the queue.
func (s *Supply) Workers(q rota.QueueName) int {
	if queue := s.queues[q]; queue != nil {
		return queue.workers.count()
	}
	return 0
}

func (t *standing) take(slot, leases int32, cpu, mem int64) {
	t.open[slot] += leases
	t.cpuFree[slot] -= cpu
	t.memFree[slot] -= mem
	t.refree(slot)
}

func (t *standing) refree(slot int32) {
	t.free.put(int(slot), t.open[slot] < t.most[slot] && !t.held.has(int(slot)))
}

// clone copies the standing for a Draft.
func (t *standing) clone() standing {
	return standing{
		open: slices.Clone(t.open), most: t.most, cpuFree: slices.Clone(t.cpuFree),
		memFree: slices.Clone(t.memFree), received: slices.Clone(t.received), held: slices.Clone(t.held), free: slices.Clone(t.free),
	}
}

// roomFor says why a worker has no room now for a lease that takes so much, Fit
// if it has. A job that needs no cpu (or memory) does not ask for any.
func (t *standing) roomFor(slot int32, leasesMax, cpu, mem int64) Unfit {
	switch {
	case t.open[slot] >= t.most[slot], leasesMax > 0 && int64(t.open[slot]) >= leasesMax:
		return NoFreeSlot
	case cpu > 0 && t.cpuFree[slot] < cpu:
		return CPUFull
	case mem > 0 && t.memFree[slot] < mem:
		return MemoryFull
	}
	return Fit
}

// newSlot gives a new worker a slot number and its place in the order.
func (s *Supply) newSlot(id rota.WorkerID) int32 {
	var slot int32
	if n := len(s.holes); n > 0 {
		slot, s.holes = s.holes[n-1], s.holes[:n-1]
	} else {
		slot = int32(len(s.specs))
		s.specs, s.active = append(s.specs, nil), append(s.active, false)
		s.open, s.most = append(s.open, 0), append(s.most, 0)
		s.cpuFree, s.memFree = append(s.cpuFree, 0), append(s.memFree, 0)
		s.endless, s.received = append(s.endless, 0), append(s.received, 0)
	}
	at, _ := s.find(id)
	s.order = slices.Insert(s.order, at, slot)
	s.slotOf[id] = slot
	return slot
}

// find gives an id's place in the order, and whether it is there.
func (s *Supply) find(id rota.WorkerID) (int, bool) {
	return slices.BinarySearchFunc(s.order, id, func(slot int32, id rota.WorkerID) int {
		if s.specs[slot] == nil {
			return 0
		}
		return strings.Compare(string(s.specs[slot].ID), string(id))
	})
}

// serve files a worker under one of its queues, and in the classes there.
func (s *Supply) serve(q rota.QueueName, slot int32) {
	queue := s.queue(q)
	queue.workers.put(int(slot), s.active[slot])
	for _, c := range queue.classes {
		fits := s.classes[c].requirements.misfit(s.specs[slot], s.active[slot]) == Fit
		s.classes[c].fits.put(int(slot), fits)
	}
}

// unserve is the inverse of serve.
func (s *Supply) unserve(q rota.QueueName, slot int32) {
	queue := s.queues[q]
	if queue == nil {
		return // The worker names the queue twice.
	}
	queue.workers.clear(int(slot))
	for _, c := range queue.classes {
		s.classes[c].fits.clear(int(slot))
	}
	s.forget(q, queue)
}

func (s *Supply) queue(q rota.QueueName) *queueSupply {
	queue := s.queues[q]
	if queue == nil {
		queue = &queueSupply{}
		s.queues[q] = queue
	}
	return queue
}

// forget drops a queue that nobody serves and nobody asks for.
func (s *Supply) forget(q rota.QueueName, queue *queueSupply) {
	if len(queue.classes) == 0 && queue.workers.first() < 0 {
		delete(s.queues, q)
	}
}
