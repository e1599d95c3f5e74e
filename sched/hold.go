package sched

import (
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
)

// Lot is a queue as an entry of rounds sees it beside its own round.
type Lot struct {
	Pending *Pending
	Policy  *rota.QueuePolicy
}

// Hold is a worker that is kept free for one QUEUED job (SPEC §7.8).
type Hold struct {
	Item   *Item
	Worker rota.WorkerID
	Since  rota.Clock
	Lot    Lot
	// Turn says that the worker owes the job its turn (SPEC §7.10).
	Turn bool
}

// HoldChange is a hold that is granted, is moved to another worker, or, without
// a worker, ends. Old is the worker held so far, if any.
type HoldChange struct {
	Item        *Item
	Worker, Old rota.WorkerID
	Turn        bool
}

// Hold keeps a worker for one job, or no longer: no round gives it another.
func (s *Supply) Hold(id rota.WorkerID, held bool) {
	if slot, known := s.slotOf[id]; known {
		s.hold(slot, held)
	}
}

func (t *standing) hold(slot int32, held bool) {
	t.held.put(int(slot), held)
	t.refree(slot)
}

// Endless counts an open lease more or less whose runtime has no bound.
func (s *Supply) Endless(id rota.WorkerID, by int32) {
	if slot, known := s.slotOf[id]; known {
		s.endless[slot] += by
	}
}

// WorkerStanding is all that a Supply knows of a worker.
type WorkerStanding struct {
	WorkerEntry
	Endless int32
	Held    bool
}

// Standing tells what is known of a worker; zero if there is none.
func (s *Supply) Standing(id rota.WorkerID) (w WorkerStanding) {
	slot, known := s.slotOf[id]
	if !known {
		return w
	}
	spec := s.specs[slot]
	w.WorkerEntry = WorkerEntry{Spec: spec, Active: s.active[slot], Open: s.open[slot],
		CPUTaken: spec.CPUMilli - s.cpuFree[slot], MemoryTaken: spec.MemoryBytes - s.memFree[slot],
		Received: s.received[slot]}
	w.Endless, w.Held = s.endless[slot], s.held.has(int(slot))
	return w
}

// HoldsMost is how many workers may be held: an eighth of the active ones, and
// at least one.
func (s *Supply) HoldsMost() int { return max(1, s.actives/8) }

// CouldFit says whether a worker could ever take a job of the class.
func (s *Supply) CouldFit(c ClassID, id rota.WorkerID) bool {
	slot, known := s.slotOf[id]
	return known && s.classes[c].fits.has(int(slot))
}

// Blocked says that a job's lane is parked.
func (p *Pending) Blocked(it *Item) bool {
	l := p.lanes[laneKey{it.Tenant, it.Domain, it.Class}]
	return l == nil || l.head.item == nil
}

// PlaceHeld gives a held worker to its job, if there is room for it now: before
// all rounds of the entry, whatever share and ranking say. A worker so given is
// held no more. Every hold must be told, placed or not, before anything is drawn:
// the turns of other workers pass over the jobs that hold one.
func (d *Draft) PlaceHeld(h Hold, now rota.Clock) (Pair, bool) {
	slot, known := d.supply.slotOf[h.Worker]
	r := &d.supply.classes[h.Item.Class].requirements
	d.holders[h.Item] = true
	if !known || h.Lot.Pending.Blocked(h.Item) || !d.supply.classes[h.Item.Class].fits.has(int(slot)) ||
		d.standing.roomFor(slot, h.Lot.Policy.LeasesMaxPerWorker, r.CPUMilli, r.MemoryBytes) != Fit {
		d.told++
		return Pair{}, false
	}
	d.standing.hold(slot, false)
	rule := rota.OnlyWorkerAvailable
	if h.Turn {
		rule = rota.ByTurnOfTheOldest
	}
	return d.place(h.Lot, h.Item, slot, rule, now), true
}

// place assigns a job outside the draw.
func (d *Draft) place(lot Lot, it *Item, slot int32, rule rota.ReasoningRule, now rota.Clock) Pair {
	d.assigned(lot.Pending, it)
	d.standing.take(slot, 1, it.CPUMilli, it.MemoryBytes)
	d.standing.received[slot]++
	if rule == rota.ByTurnOfTheOldest {
		d.standing.received[slot] = AfterTurn(d.standing.received[slot]-1, lot.Policy.OldestEvery, d.standing.most[slot])
	}
	return Pair{Item: it, Worker: d.supply.specs[slot].ID, Score: ScoreAt(lot.Policy, it.Key, now),
		Reasoning: rota.Reasoning{Rule: rule}}
}

// Keep decides, after all rounds of the entry, what changes among the holds
// (SPEC §7.8): those of blocked jobs end; those that lasted hold_max move to
// another worker, or end if there is none; and the oldest jobs that wait in vain
// for hold_after get new ones, as far as the bound allows. holds are those that
// PlaceHeld was told of, oldest first.
func (d *Draft) Keep(lots []Lot, holds []Hold, now rota.Clock) (changes []HoldChange) {
	for _, pairs := range d.drawn {
		for i := range pairs {
			d.taken[pairs[i].Item] = true
		}
	}
	for _, c := range d.granted {
		if !d.taken[c.Item] { // Else a round found it room elsewhere.
			changes = append(changes, c)
		}
	}
	kept := len(changes)
	for _, h := range holds {
		if d.taken[h.Item] {
			continue // It ends with the placement.
		}
		kept++
		blocked := h.Lot.Pending.Blocked(h.Item)
		if !blocked && now-h.Since < rota.Clock(h.Lot.Policy.HoldMaxMs) {
			continue
		}
		best := int32(-1)
		if !blocked {
			best = d.roomiest(h.Item.Class)
		}
		change := HoldChange{Item: h.Item, Old: h.Worker}
		d.standing.hold(d.supply.slotOf[h.Worker], false)
		if best >= 0 {
			d.standing.hold(best, true)
			change.Worker = d.supply.specs[best].ID
		} else {
			kept--
		}
		changes = append(changes, change)
	}
	if kept >= d.supply.HoldsMost() {
		return changes
	}
	return append(changes, d.grant(lots, now, d.supply.HoldsMost()-kept)...)
}

// waiting is a class in whose turn a hold may be granted.
type waiting struct {
	entry
	lot    Lot
	demand *demand
	// limit is the moment by which a job must wait to have waited hold_after.
	limit rota.Clock
}

// grant gives at most so many holds, to the oldest jobs first.
func (d *Draft) grant(lots []Lot, now rota.Clock, most int) (changes []HoldChange) {
	queue := heap[*waiting]{less: func(a, b *waiting) bool { return elderLess(a.entry, b.entry) }}
	for _, lot := range lots {
		limit := now - rota.Clock(lot.Policy.HoldAfterMs)
		classes := lot.Pending.elders.cursor()
		for k, ok := classes.next(); ok && k.elder.age <= limit; k, ok = classes.next() {
			w := &waiting{lot: lot, demand: k, limit: limit}
			if d.await(w) {
				queue.push(w)
			}
		}
	}
	for len(queue.list) > 0 && len(changes) < most {
		w := queue.list[0]
		best := int32(-1)
		if !d.hasRoom(w.demand.class, w.lot.Policy.LeasesMaxPerWorker) {
			best = d.roomiest(w.demand.class)
		}
		if best < 0 {
			queue.pop()
			continue
		}
		d.standing.hold(best, true)
		d.holders[w.item] = true
		changes = append(changes, HoldChange{Item: w.item, Worker: d.supply.specs[best].ID})
		if d.await(w) {
			queue.sink()
		} else {
			queue.pop()
		}
	}
	return changes
}

// await finds the class's oldest job that has waited long enough and neither
// holds a worker nor was assigned.
func (d *Draft) await(w *waiting) bool {
	k := w.demand
	if !d.gone(k.elder.item, false) && k.elder.item.Queued <= w.limit {
		w.entry = k.elder
		return true
	}
	walk := d.walk(walkKey{k, false})
	for e, ok := walk.peek(); ok && e.age <= w.limit; e, ok = walk.peek() {
		if !d.gone(e.item, false) && e.item.Queued <= w.limit {
			w.entry = e
			return true
		}
		walk.step()
	}
	return false
}

// hasRoom says whether any worker that is not held has room for the class.
func (d *Draft) hasRoom(c ClassID, leasesMax int64) bool {
	k := &d.supply.classes[c]
	for i := range min(len(k.fits), len(d.standing.free)) {
		for m := k.fits[i] & d.standing.free[i]; m != 0; m &= m - 1 {
			slot := int32(i<<6 + bits.TrailingZeros64(m))
			if d.standing.roomFor(slot, leasesMax, k.requirements.CPUMilli, k.requirements.MemoryBytes) == Fit {
				return true
			}
		}
	}
	return false
}

// roomiest is the worker to hold for a class: of those that could ever fit it
// and are not held, one whose leases are bounded before one whose are not, then
// the most free cpu, the most free memory, the least id; -1 if there is none.
func (d *Draft) roomiest(c ClassID) int32 {
	best := int32(-1)
	for i, m := range d.supply.classes[c].fits {
		for m &^= d.standing.held.word(i); m != 0; m &= m - 1 {
			slot := int32(i<<6 + bits.TrailingZeros64(m))
			if best < 0 || d.roomier(slot, best) {
				best = slot
			}
		}
	}
	return best
}

func (d *Draft) roomier(a, b int32) bool {
	s, t := d.supply, &d.standing
	switch {
	case (s.endless[a] > 0) != (s.endless[b] > 0):
		return s.endless[b] > 0
	case t.cpuFree[a] != t.cpuFree[b]:
		return t.cpuFree[a] > t.cpuFree[b]
	case t.memFree[a] != t.memFree[b]:
		return t.memFree[a] > t.memFree[b]
	}
	return s.specs[a].ID < s.specs[b].ID
}

// SortHolds puts holds in the order of their jobs' age.
func SortHolds(holds []Hold) {
	slices.SortFunc(holds, func(a, b Hold) int {
		if elderLess(entryOf(a.Item), entryOf(b.Item)) {
			return -1
		}
		return 1
	})
}
