package sched

import (
	"math"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// Supply holds all workers and classes; the state machine keeps it up to date. Each worker has a slot number, each
// class a bitset over slot numbers. Neither numbering has a visible effect: ids of workers decide every order.
type Supply struct {
	slotOf map[rota.WorkerID]int32
	// recent is the worker whose lease was counted last, "" for none: the next queries are mostly about it. Only
	// methods that change the supply set it.
	recent     rota.WorkerID
	recentSlot int32
	// Slices by slot number. An unused slot has no spec.
	specs   []*rota.WorkerSpec
	lasting []lasting
	slotLoads
	// units are the units that a worker used of each queue, as set last. endless counts its open leases without a bound
	// on their runtime.
	units   [][]rota.UnitsUsed
	endless []int32
	// runs are a worker's open leases, in the order in which they should end.
	runs   [][]Run
	grants []*Grants
	holes  []int32
	// actives counts the active workers.
	actives int
	// all is the capacity of the active workers.
	all capacity
	// order holds the slot numbers by id.
	order []int32
	// Used by the strategy affinity (SPEC §7.6).
	data     keyed[string]
	executed keyed[rota.JobType]
	zones    keyed[string]

	queues  map[rota.QueueName]*queueSupply
	classes []class
	classOf map[string]ClassID
	spare   []ClassID
	// forgotten counts the removed classes.
	forgotten uint64
}

// slotLoads holds the values that leases change, by slot number; a Draft copies it.
type slotLoads struct {
	open     []int32
	most     []int32 // slots + prefetch
	prefetch []int32
	// offers is how many leases a worker may have open by its offers, noOffer if it accepts leases for all its slots
	// (SPEC §13.17).
	offers   []int32
	loadFree []Load // negative after the worker registers again with less
	// received counts a worker's leases since its last turn of the oldest.
	received []uint64
	// held workers are reserved for one job each (SPEC §7.8).
	held bitset
	// isolated workers have one open lease that runs alone (SPEC §9.7).
	isolated bitset
	// free holds the workers with open < most and open < offers that are neither held nor isolated.
	free bitset
	// drafted counts the units that a Draft assigns, of queues that limit them.
	drafted map[unitsKey]int64
}

// noOffer marks a worker that makes no offers and accepts leases at any time.
const noOffer = math.MaxInt32

// unitsKey is a worker in a queue.
type unitsKey struct {
	queue *queueSupply
	slot  int32
}

// queueSupply is one queue's workers and classes.
type queueSupply struct {
	rules Rules
	// ruled reports whether rules were set: then the queue is never forgotten.
	ruled   bool
	workers bitset // active workers that serve it
	able    bitset // those of them that its rules admit, apart from types
	classes []ClassID
	// capacity is the sum of the leases of it that its workers can have open at once.
	capacity int64
	// used counts the units that workers used, if the rules limit units.
	used map[int32]int64
	// narrow are its workers, active or not, that may work for only some tenants.
	narrow narrowings
}

// class is an interned class. Invariant: fits holds exactly the workers for which Supply.misfit returns Fit.
type class struct {
	requirements Requirements
	need         need
	queue        *queueSupply
	key          string
	users        int64
	at           int // index in its queue's classes
	fits         bitset
}

// need is what a lease of a class needs of its worker: a slot, and a load and units, or the whole worker.
type need struct {
	Load
	units    int64
	isolated bool
}

func (r *Requirements) need() need {
	return need{Load{r.CPUMilli, r.MemoryBytes, r.IOBytesPerS}, max(r.Units, 1), r.Isolated}
}

// WorkerEntry is a worker as the state machine has it. Spec is kept, not copied: it never changes, and its types are
// sorted.
type WorkerEntry struct {
	Spec   *rota.WorkerSpec
	Active bool
	// Retired reports that it is gone for good and is no longer counted.
	Retired     bool
	Open        int32
	CPUTaken    int64
	MemoryTaken int64
	IOTaken     int64
	// Received is the value that Supply.Received sets.
	Received uint64
	// Stake is the rest of the attested stake, in millionths of a unit; Health is in permille.
	Stake  int64
	Health int64
	// Attested is the status of its attestation.
	Attested Attested
	// Disconnected reports that its stream broke and that it has opened no other (SPEC §16.7).
	Disconnected bool
	// Polls reports that it accepts leases only as it offers (SPEC §13.17): up to Free more.
	Polls bool
	Free  int32
	// Barred are the types that it does not get in queues that apply the reason, sorted. A list never changes once
	// given.
	Barred []BarredType
	// Units are what it used in the present period, sorted by queue; Executed are the types that it completed. Neither
	// list changes once given.
	Units    []rota.UnitsUsed
	Executed []rota.JobType
	// Grants are the tenants that it may work for.
	Grants *Grants
}

// NewSupply returns a Supply without workers and classes.
func NewSupply() *Supply {
	return &Supply{
		slotOf:  map[rota.WorkerID]int32{},
		queues:  map[rota.QueueName]*queueSupply{},
		classOf: map[string]ClassID{},
	}
}

// Put registers a worker or replaces its state. It is O(1) with the same Spec (the pointer) if nothing in the worker's
// lasting state changed, otherwise O(classes of its queues).
func (s *Supply) Put(w WorkerEntry) {
	slot, known := s.slotOf[w.Spec.ID]
	if !known {
		slot = s.newSlot(w.Spec.ID)
	}
	old, was := s.specs[slot], s.lasting[slot]
	s.specs[slot] = w.Spec
	now := lasting{repute{w.Active, w.Retired, w.Disconnected, w.Attested, w.Stake, w.Health}, w.Barred}
	s.lasting[slot] = now
	if now.active != was.active {
		s.countActive(now.active)
	}
	if was.active {
		s.all.count(old, false)
	}
	if now.active {
		s.all.count(w.Spec, true)
	}
	s.open[slot], s.received[slot] = w.Open, w.Received
	s.most[slot], s.prefetch[slot] = w.Spec.Slots+w.Spec.Prefetch, w.Spec.Prefetch
	s.offers[slot] = noOffer
	if w.Polls {
		s.offers[slot] = w.Open + w.Free
	}
	s.loadFree[slot] = Load{w.Spec.CPUMilli - w.CPUTaken, w.Spec.MemoryBytes - w.MemoryTaken,
		w.Spec.IOBytesPerS - w.IOTaken}
	s.refree(slot)
	s.setUnits(slot, w.Units)
	s.executed.set(slot, w.Executed)
	granted := s.grants[slot]
	s.grants[slot] = w.Grants
	if old != w.Spec {
		s.respec(slot, old, granted)
		return
	}
	if !granted.Equal(w.Grants) {
		s.regrant(slot, granted)
	}
	barred := !slices.Equal(was.barred, now.barred)
	if !barred && was.repute == now.repute {
		return
	}
	for _, q := range w.Spec.Queues {
		s.review(q, slot, barred)
	}
}

// respec files a worker by its new spec and grants, under its queues and their classes.
func (s *Supply) respec(slot int32, old *rota.WorkerSpec, granted *Grants) {
	if old != nil {
		for _, q := range old.Queues {
			s.ungrant(q, slot, granted)
			s.unserve(q, slot, old)
		}
	}
	spec := s.specs[slot]
	for _, q := range spec.Queues {
		s.serve(q, slot)
		s.grant(q, slot)
	}
	s.zones.set(slot, []string{spec.Zone})
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
	s.recent = ""
	spec := s.specs[slot]
	for _, q := range spec.Queues {
		s.ungrant(q, slot, s.grants[slot])
		s.unserve(q, slot, spec)
	}
	s.grants[slot] = nil
	if s.lasting[slot].active {
		s.all.count(spec, false)
		s.countActive(false)
	}
	s.setUnits(slot, nil)
	s.executed.set(slot, nil)
	s.data.set(slot, nil)
	s.zones.set(slot, nil)
	s.specs[slot], s.lasting[slot] = nil, lasting{}
	s.open[slot], s.most[slot], s.prefetch[slot], s.endless[slot] = 0, 0, 0, 0
	s.offers[slot], s.runs[slot] = 0, nil
	s.loadFree[slot], s.received[slot] = Load{}, 0
	s.isolated.clear(int(slot))
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

// Take counts an opened lease. An unknown worker is ignored.
func (s *Supply) Take(id rota.WorkerID, l Load) {
	if slot, known := s.look(id); known {
		s.take(slot, 1, l)
	}
}

// Give counts an ended lease. An unknown worker is ignored.
func (s *Supply) Give(id rota.WorkerID, l Load) {
	if slot, known := s.look(id); known {
		if s.offers[slot] != noOffer {
			s.offers[slot]-- // the offer of an ended lease is used up
		}
		s.take(slot, -1, Load{}.Minus(l))
	}
}

// Isolate sets whether a worker's one open lease runs alone: then nothing else is placed there. An unknown worker is
// ignored.
func (s *Supply) Isolate(id rota.WorkerID, on bool) {
	if slot, known := s.look(id); known {
		s.isolated.put(int(slot), on)
		s.refree(slot)
	}
}

// slot returns a worker's slot number.
func (s *Supply) slot(id rota.WorkerID) (slot int32, known bool) {
	if id == s.recent && id != "" {
		return s.recentSlot, true
	}
	slot, known = s.slotOf[id]
	return slot, known
}

// look is slot for methods that change the supply: it makes the worker recent.
func (s *Supply) look(id rota.WorkerID) (slot int32, known bool) {
	if slot, known = s.slot(id); known {
		s.recent, s.recentSlot = id, slot
	}
	return slot, known
}

// HasRoom reports whether any active worker that serves the queue has a free slot.
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

func (t *slotLoads) take(slot, leases int32, l Load) {
	t.open[slot] += leases
	t.loadFree[slot] = t.loadFree[slot].Minus(l)
	t.refree(slot)
}

func (t *slotLoads) refree(slot int32) {
	at := int(slot)
	t.free.put(at, t.open[slot] < t.most[slot] && !t.rests(slot) && !t.held.has(at) && !t.isolated.has(at))
}

// clone copies the loads for a Draft.
func (t *slotLoads) clone() slotLoads {
	words := slices.Concat(t.received, t.held, t.isolated, t.free)
	received, held := len(t.received), len(t.received)+len(t.held)
	isolated := held + len(t.isolated)
	return slotLoads{
		open: slices.Clone(t.open), most: t.most, prefetch: t.prefetch, offers: t.offers,
		loadFree: slices.Clone(t.loadFree), received: words[:received:received], held: words[received:held:held],
		isolated: words[held:isolated:isolated], free: words[isolated:],
	}
}

// lease counts a lease with a need in a Draft.
func (t *slotLoads) lease(slot int32, q *queueSupply, n need) {
	if n.isolated {
		t.isolated.set(int(slot))
	}
	t.take(slot, 1, n.Load)
	if q.rules.UnitsMax > 0 {
		if t.drafted == nil {
			t.drafted = map[unitsKey]int64{}
		}
		t.drafted[unitsKey{q, slot}] += n.units
	}
}

// rests reports whether a worker offers no slot now.
func (t *slotLoads) rests(slot int32) bool { return t.open[slot] >= t.offers[slot] }

// mostOf returns how many leases a worker may have open when it gets one of a queue.
func (t *slotLoads) mostOf(slot int32, rules *Rules) int64 {
	most := int64(t.most[slot]) - max(0, int64(t.prefetch[slot])-rules.PrefetchMax)
	if rules.LeasesMax > 0 {
		most = min(most, rules.LeasesMax)
	}
	return most
}

// mostFor is mostOf for a class: an isolated class allows no other lease.
func (t *slotLoads) mostFor(slot int32, k *class) int64 {
	most := t.mostOf(slot, &k.queue.rules)
	if k.need.isolated {
		return min(most, 1)
	}
	return most
}

// unitsLeft returns how many of a queue's units a worker may still use.
func (t *slotLoads) unitsLeft(slot int32, q *queueSupply) int64 {
	if q.rules.UnitsMax == 0 {
		return math.MaxInt64
	}
	return q.rules.UnitsMax - q.used[slot] - t.drafted[unitsKey{q, slot}]
}

// spent reports whether a worker has fewer than this many of a queue's units left.
func (t *slotLoads) spent(slot int32, q *queueSupply, units int64) bool {
	return q.rules.UnitsMax > 0 && t.unitsLeft(slot, q) < units
}

// roomFor returns why a worker has no room now for a lease with this need, Fit if it has.
func (t *slotLoads) roomFor(slot int32, q *queueSupply, n need) Unfit {
	switch {
	case t.crowded(slot, n):
		return RunsAlone
	case int64(t.open[slot]) >= t.mostOf(slot, &q.rules):
		return NoFreeSlot
	case t.rests(slot):
		return NoSlotOffered
	case t.spent(slot, q, n.units):
		return UnitsExhausted
	}
	return n.exceeds(t.loadFree[slot])
}

// crowded reports whether isolation keeps a lease from a worker: the new lease or the one there runs alone.
func (t *slotLoads) crowded(slot int32, n need) bool {
	return t.isolated.has(int(slot)) || n.isolated && t.open[slot] > 0
}

// newSlot gives a new worker a slot number and its place in the order.
func (s *Supply) newSlot(id rota.WorkerID) int32 {
	var slot int32
	if n := len(s.holes); n > 0 {
		slot, s.holes = s.holes[n-1], s.holes[:n-1]
	} else {
		slot = int32(len(s.specs))
		s.specs, s.lasting = append(s.specs, nil), append(s.lasting, lasting{})
		s.open, s.most, s.prefetch = append(s.open, 0), append(s.most, 0), append(s.prefetch, 0)
		s.offers, s.loadFree = append(s.offers, 0), append(s.loadFree, Load{})
		s.endless, s.received, s.runs = append(s.endless, 0), append(s.received, 0), append(s.runs, nil)
		s.units, s.grants = append(s.units, nil), append(s.grants, nil)
	}
	at, _ := s.find(id)
	s.order = slices.Insert(s.order, at, slot)
	s.slotOf[id] = slot
	return slot
}

// find returns an id's index in the order, and whether it is there.
func (s *Supply) find(id rota.WorkerID) (int, bool) {
	return slices.BinarySearchFunc(s.order, id, func(slot int32, id rota.WorkerID) int {
		if s.specs[slot] == nil {
			return 0
		}
		return strings.Compare(string(s.specs[slot].ID), string(id))
	})
}
