package sched

import (
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
)

// Lot is a queue as an entry of rounds sees it outside its own round.
type Lot struct {
	Pending *Pending
	Policy  *rota.QueuePolicy
	Queue   rota.QueueName
	// Stats returns a type's stats, as in RoundInput, for the scores displayed for an adaptive queue's jobs; nil means
	// that no type has stats.
	Stats func(rota.JobType) Stats
	// Expects returns how long jobs of a type should take, in ms, 0 if not set; nil if it is set for no type.
	Expects func(rota.JobType) int64
}

// Hold is a worker reserved for one QUEUED job (SPEC §7.8).
type Hold struct {
	Item   *Item
	Worker rota.WorkerID
	Since  rota.Clock
	Lot    Lot
	// Turn reports whether the hold comes from the worker's turn (SPEC §7.10).
	Turn bool
	// Preempted reports whether leases are revoked there for the job (SPEC §7.9).
	Preempted bool
}

// HoldChange grants a hold, moves it to another worker, or, without a worker, ends it. Old is the worker held so far,
// if any.
type HoldChange struct {
	Item        *Item
	Worker, Old rota.WorkerID
	Turn        bool
}

// Hold starts or ends a worker's hold: while held, no round assigns to the worker.
func (s *Supply) Hold(id rota.WorkerID, held bool) {
	if slot, known := s.slotOf[id]; known {
		s.hold(slot, held)
	}
}

func (t *slotLoads) hold(slot int32, held bool) {
	t.held.put(int(slot), held)
	t.refree(slot)
}

// Endless adds by to a worker's number of open leases without a bound on their runtime.
func (s *Supply) Endless(id rota.WorkerID, by int32) {
	if slot, known := s.slot(id); known {
		s.endless[slot] += by
	}
}

// MaxHolds returns how many workers may be held: an eighth of the active ones, and at least one.
func (s *Supply) MaxHolds() int { return max(1, s.actives/8) }

// blocked reports whether the job may not be placed at all. A job that holds its worker by a turn may be placed
// whenever turns would consider it.
func (h *Hold) blocked() bool { return h.Lot.Pending.blocked(h.Item, h.Turn) }

// PlaceHeld places a held worker's job on it if there is room for it now: before all rounds of the entry, regardless of
// share and ranking. This ends the hold. Pass every hold, placed or not, before anything is drawn: the turns of other
// workers skip the jobs that hold one.
func (d *Draft) PlaceHeld(h Hold, now rota.Clock) (Pair, bool) {
	slot, known := d.supply.slotOf[h.Worker]
	k := &d.supply.classes[h.Item.Class]
	put(&d.holders, h.Item, true)
	if !known || h.blocked() || d.shut(h.Lot.Queue, h.Lot.Pending.laneOf(h.Item)) ||
		!d.supply.could(h.Item.ask(), slot) ||
		d.slotLoads.roomFor(slot, k.queue, k.need) != Fit {
		if !h.Preempted { // a hold by preemption is outside the bound
			d.kept++
		}
		return Pair{}, false
	}
	d.slotLoads.hold(slot, false)
	rule := rota.ReasoningOnlyWorkerAvailable
	if h.Turn {
		rule = rota.ReasoningByTurnOfTheOldest
	}
	return d.place(h.Lot, h.Item, slot, rule, now), true
}

// place assigns a job outside the draw.
func (d *Draft) place(lot Lot, it *Item, slot int32, rule rota.ReasoningRule, now rota.Clock) Pair {
	d.assigned(lot.Pending, it)
	d.spend(lot.Queue, lot.Pending.laneOf(it), it)
	k := &d.supply.classes[it.Class]
	d.slotLoads.lease(slot, k.queue, k.need)
	if d.foresees {
		d.began(slot, k.need, now+lot.estimate(it))
	}
	d.slotLoads.received[slot]++
	if rule == rota.ReasoningByTurnOfTheOldest {
		d.slotLoads.received[slot] = AfterTurn(d.slotLoads.received[slot]-1, lot.Policy.OldestEvery,
			d.slotLoads.most[slot])
	}
	return Pair{Item: it, Worker: d.supply.specs[slot].ID, Score: ScoreOf(lot, it, now),
		Reasoning: rota.Reasoning{Rule: rule}}
}

// Keep decides, after all rounds of the entry, how the holds change (SPEC §7.8). Holds of blocked jobs end. Holds that
// lasted hold_max move to another worker, or end if there is none. The oldest jobs that have waited hold_after without
// room get new holds, within the bound. holds are those passed to PlaceHeld, oldest first.
func (d *Draft) Keep(lots []Lot, holds []Hold, now rota.Clock) (changes []HoldChange) {
	for _, pairs := range d.drawn {
		for i := range pairs {
			put(&d.taken, pairs[i].Item, true)
		}
	}
	for _, c := range d.granted {
		if !d.taken[c.Item] { // Otherwise a round found room for it elsewhere.
			changes = append(changes, c)
		}
	}
	kept := len(changes)
	for _, h := range holds {
		if d.taken[h.Item] {
			continue // The hold ends with the placement.
		}
		longest := rota.Clock(h.Lot.Policy.HoldMaxMs)
		if !h.Preempted { // a hold by preemption is outside the bound and never moves
			kept++
		} else if longest < rota.SilenceEnds { // in which revoked leases end
			longest = rota.SilenceEnds
		}
		blocked := h.blocked()
		if !blocked && now-h.Since < longest {
			continue
		}
		best := int32(-1)
		if !blocked && !h.Preempted {
			best = d.roomiest(h.Item.ask())
		}
		change := HoldChange{Item: h.Item, Old: h.Worker}
		d.slotLoads.hold(d.supply.slotOf[h.Worker], false)
		if best >= 0 {
			d.slotLoads.hold(best, true)
			change.Worker = d.supply.specs[best].ID
		} else if !h.Preempted {
			kept--
		}
		changes = append(changes, change)
	}
	if kept += len(d.reserved); kept >= d.supply.MaxHolds() {
		return changes
	}
	return append(changes, d.grant(lots, now, d.supply.MaxHolds()-kept)...)
}

// waiting is a class for which a hold may be granted.
type waiting struct {
	entry
	lot Lot
	of  *ageIndex
	// limit is the latest waiting start of a job that has waited hold_after.
	limit rota.Clock
	// vain are the scopes of tenants whose jobs need no hold or cannot have one.
	vain map[string]bool
}

// skips reports whether the jobs of a lane get no hold.
func (w *waiting) skips(d *Draft, l *lane) bool {
	return len(w.vain) > 0 && w.vain[d.supply.Scope(w.lot.Queue, l.key.tenant)]
}

// grant makes at most `most` holds, for the oldest jobs first.
func (d *Draft) grant(lots []Lot, now rota.Clock, most int) (changes []HoldChange) {
	queue := heap[*waiting]{less: func(a, b *waiting) bool { return ageLess(a.entry, b.entry) }}
	for _, lot := range lots {
		if lot.Policy.Backfill != rota.BackfillFree {
			continue // its reservation replaces holds
		}
		limit := now - rota.Clock(lot.Policy.HoldAfterMs)
		classes := lot.Pending.ageIndex[forRounds].cursor()
		for k, ok := classes.next(); ok && k.oldest.age <= limit; k, ok = classes.next() {
			w := &waiting{lot: lot, of: k, limit: limit, vain: map[string]bool{}}
			if d.await(w) {
				queue.push(w)
			}
		}
	}
	for len(queue.list) > 0 && len(changes) < most {
		w := queue.list[0]
		best := int32(-1)
		if !d.hasRoom(w.item.ask()) {
			best = d.roomiest(w.item.ask())
		}
		if best < 0 {
			w.vain[d.supply.Scope(w.lot.Queue, w.item.Tenant)] = true
		} else {
			d.slotLoads.hold(best, true)
			put(&d.holders, w.item, true)
			changes = append(changes, HoldChange{Item: w.item, Worker: d.supply.specs[best].ID})
		}
		if (best >= 0 || d.supply.narrowed(w.lot.Queue)) && d.await(w) {
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
	k := walkKey{w.of, false}
	skips := func(l *lane) bool { return w.skips(d, l) }
	e, _, ok := d.oldestOf(w.lot.Queue, k, skips)
	for ok && e.age <= w.limit {
		if w.entry = e; e.item.Queued <= w.limit {
			return true
		}
		if e, _, ok = d.walkedTo(w.lot.Queue, k, skips); ok && e == w.entry {
			d.walk(k).step()
			e, _, ok = d.walkedTo(w.lot.Queue, k, skips)
		}
	}
	return false
}

// hasRoom reports whether any worker that is not held has room for a job with this Ask.
func (d *Draft) hasRoom(a Ask) bool {
	k, able := &d.supply.classes[a.Class], d.supply.eligible(a)
	for i := range min(len(able), len(d.slotLoads.free)) {
		for m := able[i] & d.slotLoads.free[i]; m != 0; m &= m - 1 {
			slot := int32(i<<6 + bits.TrailingZeros64(m))
			if d.slotLoads.roomFor(slot, k.queue, k.need) == Fit {
				return true
			}
		}
	}
	return false
}

// roomiest returns the worker to hold for a job with this Ask; -1 if there is none. It considers workers that could
// ever take the job and are not held. Workers whose leases are bounded come before those with an unbounded lease, then
// the most free cpu, memory, I/O, then the least id. Workers that offer no slot or lack the units are excluded: no end
// of a lease returns those.
func (d *Draft) roomiest(a Ask) int32 {
	best := int32(-1)
	k := &d.supply.classes[a.Class]
	for i, m := range d.supply.eligible(a) {
		for m &^= d.slotLoads.held.word(i); m != 0; m &= m - 1 {
			slot := int32(i<<6 + bits.TrailingZeros64(m))
			if (best < 0 || d.roomier(slot, best)) && d.slotLoads.keepable(slot, k) {
				best = slot
			}
		}
	}
	return best
}

func (d *Draft) roomier(a, b int32) bool {
	s, t := d.supply, &d.slotLoads
	switch {
	case (s.endless[a] > 0) != (s.endless[b] > 0):
		return s.endless[b] > 0
	case t.loadFree[a] != t.loadFree[b]:
		return t.loadFree[a].compare(t.loadFree[b]) > 0
	}
	return s.specs[a].ID < s.specs[b].ID
}

// SortHolds sorts holds by their jobs' age, oldest first.
func SortHolds(holds []Hold) {
	slices.SortFunc(holds, func(a, b Hold) int {
		if ageLess(entryOf(a.Item), entryOf(b.Item)) {
			return -1
		}
		return 1
	})
}
