package sched

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
)

// Run is when an open lease should end, and the load that its worker then gets back besides a slot.
type Run struct {
	End rota.Clock
	Load
	// Began and Most are set for a run with a learned estimate, otherwise 0. Once the run outlives the estimate, a new
	// one is made, which ends no later than Most.
	Began, Most rota.Clock
}

func compareRuns(a, b Run) int {
	if a.End != b.End {
		return cmp.Compare(a.End, b.End)
	}
	return cmp.Or(a.Load.compare(b.Load), cmp.Compare(a.Began, b.Began), cmp.Compare(a.Most, b.Most))
}

// SortRuns sorts runs by when they should end.
func SortRuns(list []Run) { slices.SortFunc(list, compareRuns) }

func insertRun(list []Run, r Run) []Run {
	if n := len(list); n == 0 || compareRuns(list[n-1], r) <= 0 { // usual case: later jobs end later
		return append(list, r)
	}
	at, _ := slices.BinarySearchFunc(list, r, compareRuns)
	return slices.Insert(list, at, r)
}

// Began records when a lease opened on a worker should end. An unknown worker is ignored.
func (s *Supply) Began(id rota.WorkerID, r Run) {
	if slot, known := s.slot(id); known {
		s.runs[slot] = insertRun(s.runs[slot], r)
	}
}

// Ended removes what Began recorded. An unknown worker is ignored.
func (s *Supply) Ended(id rota.WorkerID, r Run) {
	if slot, known := s.slot(id); known {
		list := s.runs[slot]
		at, found := 0, len(list) > 0 && list[0] == r // usual case: the run that should end first ends
		if !found {
			at, found = slices.BinarySearchFunc(list, r, compareRuns)
		}
		if found {
			s.runs[slot] = slices.Delete(list, at, at+1)
		}
	}
}

// estimate returns how long a job of the queue should run.
func (l *Lot) estimate(it *Item) rota.Clock {
	ofType := int64(0)
	if l.Expects != nil {
		ofType = l.Expects(it.Type)
	}
	learned := int64(0)
	if it.TierPlace != nil {
		learned = it.Estimate
	}
	return rota.Clock(RunEstimate(l.Policy, it.JobSpec, ofType, learned))
}

// Reservation is room reserved for the first job of a queue if it finds none now (SPEC §26.3).
type Reservation struct {
	Item   *Item
	Queue  rota.QueueName
	Worker rota.WorkerID
	// Until is when there should be room for the job there.
	Until rota.Clock

	slot  int32
	queue *queueSupply
	need  need
	// open leases and free load are what the worker should have at that moment, excluding the job.
	open int32
	free Load
	// due is when the last of the leases that make the room should end, or should have ended; 0 if there is room now.
	due rota.Clock
	// end is when the job should end.
	end rota.Clock
}

// passes reports whether a lease with this need and end leaves the reservation unaffected: it is over by then, or uses
// only the room next to the job.
func (r *Reservation) passes(t *slotLoads, q *queueSupply, n need, end rota.Clock) bool {
	if q == r.queue && q.rules.UnitsMax > 0 && t.unitsLeft(r.slot, q)-n.units < r.need.units {
		return false // the end of a lease returns no units
	}
	beside := !r.need.isolated && !n.isolated && int64(r.open)+2 <= t.mostOf(r.slot, &r.queue.rules)
	return planted.delaysFirst() || end <= r.Until || beside && r.need.Within(r.free.Minus(n.Load))
}

// Foresee registers the queues for which the entry is decided. If none of these queues backfills, the draft does not
// follow the ends of leases.
func (d *Draft) Foresee(lots ...Lot) {
	for i := range lots {
		d.foresees = d.foresees || lots[i].Policy.Backfill != rota.BackfillFree
	}
}

// Foresees reports whether any queue of the entry backfills.
func (d *Draft) Foresees() bool { return d.foresees }

// Reservations returns the reservations that the entry was decided with, in the order in which they were made.
func (d *Draft) Reservations() []Reservation { return d.reserved }

// Deep reports whether a queue's round stopped at backfill_depth, so that jobs after it may have had room.
func (d *Draft) Deep(q rota.QueueName) bool { return slices.Contains(d.deep, q) }

// began counts a lease of the entry in the future of its worker.
func (d *Draft) began(slot int32, n need, end rota.Clock) {
	if !d.foresees {
		return
	}
	if d.started == nil {
		d.started = map[int32][]Run{}
	}
	d.started[slot] = insertRun(d.started[slot], Run{End: end, Load: n.Load})
	for i := range d.reserved {
		if r := &d.reserved[i]; r.slot == slot && end > r.Until {
			r.open++
			r.free = r.free.Minus(n.Load)
		}
	}
}

// reservationOf returns a queue's reservation, nil if it has none.
func (d *Draft) reservationOf(q rota.QueueName) *Reservation {
	for i := range d.reserved {
		if d.reserved[i].Queue == q {
			return &d.reserved[i]
		}
	}
	return nil
}

// unreserve ends the reservation of a job that was placed.
func (d *Draft) unreserve(it *Item) {
	d.reserved = slices.DeleteFunc(d.reserved, func(r Reservation) bool { return r.Item == it })
}

// reservedAt returns the reservation at a worker, nil if there is none.
func (d *Draft) reservedAt(slot int32) *Reservation {
	for i := range d.reserved {
		if d.reserved[i].slot == slot {
			return &d.reserved[i]
		}
	}
	return nil
}

// ReserveFirst reserves room for the first job of each queue that backfills, oldest job first, before any queue's round
// of the entry. A job that has waited gets a reservation even if there is room for it now, so that no other queue takes
// that room in its turn.
func (d *Draft) ReserveFirst(lots []Lot, now rota.Clock) {
	if !d.foresees {
		return
	}
	type first struct {
		item *Item
		lot  Lot
	}
	var firsts []first
	for _, lot := range lots {
		if lot.Policy.Backfill == rota.BackfillFree || lot.Pending.tiered || d.reservationOf(lot.Queue) != nil {
			continue
		}
		if it := d.firstOf(lot, now); it != nil && (it.Queued < now || !d.placeable(lot, it, now)) {
			firsts = append(firsts, first{it, lot})
		}
	}
	slices.SortFunc(firsts, func(a, b first) int {
		if ageLess(entryOf(a.item), entryOf(b.item)) {
			return -1
		}
		return 1
	})
	for i := range firsts {
		d.reserve(&firsts[i].lot, firsts[i].item, now)
	}
}

// firstOf returns the first job in ranking order that some worker could ever take and that holds no worker;
// nil if there is none.
func (d *Draft) firstOf(lot Lot, now rota.Clock) *Item {
	r := &rooms{supply: d.supply, now: &d.slotLoads, wide: true}
	s := newPendingSource(lot.Pending, r, RoundInput{Queue: lot.Queue, Policy: lot.Policy, Now: now}, d, nil)
	for c, ok := s.peek(r); ok; c, ok = s.peek(r) {
		if !d.holders[c.item] {
			return c.item
		}
		s.take()
	}
	return nil
}

// placeable reports whether some worker that is not barred to the job by a reservation has room for it now.
func (d *Draft) placeable(lot Lot, it *Item, now rota.Clock) bool {
	k, end := &d.supply.classes[it.Class], now+lot.estimate(it)
	able := d.supply.eligible(it.ask())
	for _, slot := range d.supply.order {
		if !able.has(int(slot)) || !d.slotLoads.free.has(int(slot)) ||
			d.slotLoads.roomFor(slot, k.queue, k.need) != Fit {
			continue
		}
		if r := d.reservedAt(slot); r == nil || r.passes(&d.slotLoads, k.queue, k.need, end) {
			return true
		}
	}
	return false
}

// reserve reserves room for a queue's first job at the worker that should have room soonest; ties go to the least id.
// Among workers whose leases are overdue it takes the one that should have had room first, so that a reservation does
// not move around. It skips held and reserved workers.
func (d *Draft) reserve(lot *Lot, it *Item, now rota.Clock) {
	best := Reservation{slot: -1}
	able := d.supply.eligible(it.ask())
	for _, slot := range d.supply.order {
		if able.has(int(slot)) {
			if r, ok := d.future(it, slot, now); ok && (best.slot < 0 || r.due < best.due) {
				best = r
			}
		}
	}
	if best.slot >= 0 {
		d.reserveAt(lot, it, best)
	}
}

// reserveTurn reserves a worker whose turn is due (SPEC §7.10) for the job that gets the turn.
func (d *Draft) reserveTurn(lot *Lot, it *Item, slot int32, now rota.Clock) {
	if d.reservationOf(lot.Queue) != nil {
		return
	}
	if r, ok := d.future(it, slot, now); ok {
		d.reserveAt(lot, it, r)
	}
}

// reserveAt makes a reservation, unless their maximum number is reached.
func (d *Draft) reserveAt(lot *Lot, it *Item, r Reservation) {
	if d.kept+len(d.granted)+len(d.reserved) >= d.supply.MaxHolds() {
		return
	}
	r.Item, r.Queue, r.Worker, r.end = it, lot.Queue, d.supply.specs[r.slot].ID, r.Until+max(1, lot.estimate(it))
	d.reserved = append(d.reserved, r)
}

// future computes when a worker should have room for a job if its leases end by their estimates; an overdue one may end
// at any moment. ok is false if the worker can never have room, or is reserved for another job.
func (d *Draft) future(it *Item, slot int32, now rota.Clock) (r Reservation, ok bool) {
	k, t := &d.supply.classes[it.Class], &d.slotLoads
	if t.held.has(int(slot)) || d.reservedAt(slot) != nil || !t.keepable(slot, k) {
		return r, false
	}
	r = Reservation{slot: slot, queue: k.queue, need: k.need, open: t.open[slot], free: t.loadFree[slot], Until: now}
	most := t.mostFor(slot, k)
	if t.isolated.has(int(slot)) {
		most = min(most, 1) // until the lease there ends
	}
	fits := func() bool { return int64(r.open) < most && k.need.Within(r.free) }
	if fits() {
		return r, true
	}
	running, started := d.supply.runsAt(slot, now), d.started[slot]
	for len(running)+len(started) > 0 {
		next := &running
		if len(running) == 0 || len(started) > 0 && compareRuns(started[0], running[0]) < 0 {
			next = &started
		}
		run := (*next)[0]
		*next = (*next)[1:]
		end := max(run.End, now)
		if ok && end > r.Until {
			break
		}
		r.open--
		r.free = r.free.Plus(run.Load)
		if !ok {
			if ok = fits(); ok {
				r.Until, r.due = end, run.End
			}
		}
	}
	return r, ok
}

// Bars returns the reservations that bar a job from workers that have room for it. Nothing may have been
// assigned since the draft was made.
func (d *Draft) Bars(lot Lot, it *Item, now rota.Clock) (bars []Reservation) {
	k, end := &d.supply.classes[it.Class], now+lot.estimate(it)
	for i := range d.reserved {
		r := &d.reserved[i]
		if r.Item != it && d.supply.could(it.ask(), r.slot) && d.supply.roomFor(r.slot, k.queue, k.need) == Fit &&
			!r.passes(&d.slotLoads, k.queue, k.need, end) {
			bars = append(bars, *r)
		}
	}
	return bars
}
