package sched

import (
	"math"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// Supply is what is known of all workers and classes, kept up to date by the
// state machine. Each worker has a slot number, each class a bitset over them.
// Neither numbering shows outside: ids of workers decide every order.
type Supply struct {
	slotOf map[rota.WorkerID]int32
	// recent is the worker that a lease was counted of last, "" for none: the next
	// questions are mostly about it. Only what changes the supply sets it.
	recent     rota.WorkerID
	recentSlot int32
	// By slot number. A hole has no spec.
	specs   []*rota.WorkerSpec
	lasting []lasting
	slotLoads
	// units are what a worker used of each queue's, as was set last; endless counts
	// its open leases whose runtime has no bound.
	units   [][]rota.UnitsUsed
	endless []int32
	// runs are a worker's open leases, those that should end first first.
	runs   [][]Run
	grants []*Grants
	holes  []int32
	// actives counts the active workers.
	actives int
	// all is what they have.
	all capacity
	// order holds the slot numbers by id.
	order []int32
	// What the strategy affinity asks for (SPEC §7.6).
	data     keyed[string]
	executed keyed[rota.JobType]
	zones    keyed[string]

	queues  map[rota.QueueName]*queueSupply
	classes []class
	classOf map[string]ClassID
	spare   []ClassID
	// forgotten counts those that are no more.
	forgotten uint64
}

// slotLoads are what leases change, by slot number; a Draft copies it.
type slotLoads struct {
	open     []int32
	most     []int32 // slots + prefetch
	prefetch []int32
	// offers are how many leases a worker may have open as it offers, noOffer where it takes all
	// that it has slots for (SPEC §13.17).
	offers   []int32
	loadFree []Load // may be negative after a registration with less
	// received counts a worker's leases since its last turn of the oldest.
	received []uint64
	// held are kept for one job each (SPEC §7.8).
	held bitset
	// isolated are those whose one open lease runs alone (SPEC §9.7).
	isolated bitset
	// free holds those with open < most and open < offers that are neither held nor isolated.
	free bitset
	// drafted counts the units that a Draft gives out, of queues that limit them.
	drafted map[unitsKey]int64
}

// noOffer is of a worker that offers nothing and takes leases at any time.
const noOffer = math.MaxInt32

// unitsKey is a worker in a queue.
type unitsKey struct {
	queue *queueSupply
	slot  int32
}

// queueSupply is what serves a queue and what is asked for in it.
type queueSupply struct {
	rules Rules
	// ruled says that the rules were set: then the queue is never forgotten.
	ruled   bool
	workers bitset // active ones that serve it
	able    bitset // those of them that its rules let through, but for types
	classes []ClassID
	// capacity sums what its workers can have open of it at once.
	capacity int64
	// used counts, where the rules limit units, what workers used.
	used map[int32]int64
	// narrow are those of its workers, active or not, that may work for some tenants only.
	narrow narrowings
}

// class is an interned class. Invariant: fits holds exactly the workers that
// Supply.misfit takes.
type class struct {
	requirements Requirements
	need         need
	queue        *queueSupply
	key          string
	users        int64
	at           int // place in its queue's classes
	fits         bitset
}

// need is what a lease of a class takes of its worker: a slot, and so much, or the whole worker.
type need struct {
	Load
	units    int64
	isolated bool
}

func (r *Requirements) need() need {
	return need{Load{r.CPUMilli, r.MemoryBytes, r.IOBytesPerS}, max(r.Units, 1), r.Isolated}
}

// WorkerEntry is a worker as the state machine has it. Spec is kept, not copied:
// it never changes, and its types are sorted.
type WorkerEntry struct {
	Spec   *rota.WorkerSpec
	Active bool
	// Retired says that it has gone for good: nobody counts on it any more.
	Retired     bool
	Open        int32
	CPUTaken    int64
	MemoryTaken int64
	IOTaken     int64
	// Received is what the method of that name tells.
	Received uint64
	// Stake is what is left of the attested one, in millionths of a unit; Health in permille.
	Stake  int64
	Health int64
	// Attested says whether it has an attestation that holds.
	Attested Attested
	// Disconnected says that its stream broke and that it has opened no other (SPEC
	// §16.7).
	Disconnected bool
	// Polls says that it takes leases only as it offers (SPEC §13.17): so many more as Free says.
	Polls bool
	Free  int32
	// Barred are the types that it gets none of in queues that heed it, sorted. The
	// list never changes once given.
	Barred []BarredType
	// Units are what it used in the present period, sorted by queue; Executed the
	// types that it completed. Neither list changes once given.
	Units    []rota.UnitsUsed
	Executed []rota.JobType
	// Grants are the tenants that it may work for.
	Grants *Grants
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
// and nothing changed that lasts it is O(1), else O(classes of its queues).
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
	s.loadFree[slot] = Load{w.Spec.CPUMilli - w.CPUTaken, w.Spec.MemoryBytes - w.MemoryTaken, w.Spec.IOBytesPerS - w.IOTaken}
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

// Take counts an opened lease. An unknown worker is left alone.
func (s *Supply) Take(id rota.WorkerID, l Load) {
	if slot, known := s.look(id); known {
		s.take(slot, 1, l)
	}
}

// Give counts an ended lease. An unknown worker is left alone.
func (s *Supply) Give(id rota.WorkerID, l Load) {
	if slot, known := s.look(id); known {
		if s.offers[slot] != noOffer {
			s.offers[slot]-- // what ends is offered to nobody
		}
		s.take(slot, -1, Load{}.Minus(l))
	}
}

// Isolate records whether a worker's one open lease runs alone: then nothing else is placed there. An unknown worker is
// ignored.
func (s *Supply) Isolate(id rota.WorkerID, on bool) {
	if slot, known := s.look(id); known {
		s.isolated.put(int(slot), on)
		s.refree(slot)
	}
}

// slot returns a worker's number.
func (s *Supply) slot(id rota.WorkerID) (slot int32, known bool) {
	if id == s.recent && id != "" {
		return s.recentSlot, true
	}
	slot, known = s.slotOf[id]
	return slot, known
}

// look is slot for who changes the supply.
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

// lease counts, in a Draft, a lease that takes so much.
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

// mostOf is how many leases a worker may have open when it gets one of a queue.
func (t *slotLoads) mostOf(slot int32, rules *Rules) int64 {
	most := int64(t.most[slot]) - max(0, int64(t.prefetch[slot])-rules.PrefetchMax)
	if rules.LeasesMax > 0 {
		most = min(most, rules.LeasesMax)
	}
	return most
}

// mostFor is mostOf for a class: one that is isolated finds no other lease.
func (t *slotLoads) mostFor(slot int32, k *class) int64 {
	most := t.mostOf(slot, &k.queue.rules)
	if k.need.isolated {
		return min(most, 1)
	}
	return most
}

// unitsLeft is how many of a queue's units a worker may still take.
func (t *slotLoads) unitsLeft(slot int32, q *queueSupply) int64 {
	if q.rules.UnitsMax == 0 {
		return math.MaxInt64
	}
	return q.rules.UnitsMax - q.used[slot] - t.drafted[unitsKey{q, slot}]
}

// spent reports whether a worker has not so many of a queue's units left.
func (t *slotLoads) spent(slot int32, q *queueSupply, units int64) bool {
	return q.rules.UnitsMax > 0 && t.unitsLeft(slot, q) < units
}

// roomFor says why a worker has no room now for a lease that takes so much, Fit
// if it has.
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

// crowded reports whether isolation keeps a lease from a worker: it, or the lease there, runs alone.
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

// find returns an id's place in the order, and whether it is there.
func (s *Supply) find(id rota.WorkerID) (int, bool) {
	return slices.BinarySearchFunc(s.order, id, func(slot int32, id rota.WorkerID) int {
		if s.specs[slot] == nil {
			return 0
		}
		return strings.Compare(string(s.specs[slot].ID), string(id))
	})
}
