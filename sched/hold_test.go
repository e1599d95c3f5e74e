package sched

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
)

// endHold ends a job's hold, if it has one.
func (w *world) endHold(it *Item) {
	if h, ok := w.holds[it]; ok {
		delete(w.holds, it)
		w.hold(h.Worker, false)
	}
}

func (w *world) hold(id rota.WorkerID, held bool) {
	w.supply.Hold(id, held)
	for _, x := range w.workers {
		if x.spec.ID == id {
			x.held = held
		}
	}
}

// reviewHolds ends the same holds as the state machine: on workers that could no longer take the job, and the youngest
// jobs' beyond the bound.
func (w *world) reviewHolds() {
	for _, h := range w.sortedHolds() {
		w.hold(h.Worker, true) // a worker that was put again lost its hold
		if !w.supply.CouldFit(h.Item.ask(), h.Worker) {
			w.endHold(h.Item)
		}
	}
	for i, h := range w.sortedHolds() {
		if i >= w.supply.MaxHolds() {
			w.endHold(h.Item)
		}
	}
}

func (w *world) sortedHolds() []Hold {
	var out []Hold
	for _, h := range w.holds {
		out = append(out, h)
	}
	SortHolds(out)
	return out
}

// placeHeld places the jobs of held workers, before all others.
func (n *naive) placeHeld(holds []Hold, class func(*Item) *naiveAsk) (out []Pair) {
	for _, h := range holds {
		w := n.workers[slices.IndexFunc(n.workers, func(w *naiveWorker) bool { return w.spec.ID == h.Worker })]
		i, r := slices.Index(n.items, h.Item), class(h.Item)
		idle := slices.Index(n.idle, h.Item)
		if i < 0 && (idle < 0 || !h.Turn) || !n.hasRoom(w, r) || !n.left.open(h.Item) {
			continue
		}
		out = append(out, Pair{Item: h.Item, Worker: h.Worker, Score: n.score(h.Item),
			Reasoning: rota.Reasoning{Rule: rota.ReasoningOnlyWorkerAvailable}})
		if w.received++; h.Turn {
			out[len(out)-1].Reasoning.Rule = rota.ReasoningByTurnOfTheOldest
			w.received = n.afterTurn(w, w.received-1)
		}
		n.drop(h.Item)
		n.left.spend(h.Item)
		w.open, w.cpu, w.mem, w.io, w.held = w.open+1, w.cpu-r.CPUMilli, w.mem-r.MemoryBytes, w.io-r.IOBytesPerS, false
		w.use(r)
		if n.shares != nil {
			n.share(h.Item).open++
		}
	}
	return out
}

// afterTurn returns what a turn leaves of a worker's count.
func (n *naive) afterTurn(w *naiveWorker, received uint64) uint64 {
	left := int64(received) - n.policy.OldestEvery + 1
	return uint64(max(0, min(left, int64(w.spec.Slots+w.spec.Prefetch))))
}

// turns assigns the oldest jobs to workers whose turn is due, following only SPEC §7.10.
func (n *naive) turns(holds []Hold, most int, class func(*Item) *naiveAsk) (out []Pair, changes []HoldChange) {
	holder, kept := map[*Item]bool{}, 0
	for _, h := range holds {
		holder[h.Item] = true
	}
	for _, w := range n.workers {
		if w.held {
			kept++
		}
	}
	for _, w := range n.workers {
		for n.policy.OldestEvery > 0 && int64(w.received) >= n.policy.OldestEvery-1 && len(out) < most &&
			!w.held && !w.isolated && w.offers() && w.open < int64(w.spec.Slots+w.spec.Prefetch) {
			it := n.oldestOfAll(func(it *Item) bool {
				r := class(it)
				return !holder[it] && n.left.open(it) && w.could(r, n.policy) && w.hasUnits(r, n.policy)
			})
			if it == nil {
				break
			}
			r := class(it)
			if n.room(w, r) {
				n.drop(it)
				n.left.spend(it)
				out = append(out, Pair{Item: it, Worker: w.spec.ID, Score: n.score(it),
					Reasoning: rota.Reasoning{Rule: rota.ReasoningByTurnOfTheOldest}})
				w.open, w.cpu, w.mem, w.io = w.open+1, w.cpu-r.CPUMilli, w.mem-r.MemoryBytes, w.io-r.IOBytesPerS
				w.use(r)
				w.received = n.afterTurn(w, w.received)
				if n.shares != nil {
					n.share(it).open++
				}
				continue
			}
			if kept >= n.maxHolds() {
				break
			}
			kept++
			w.held, holder[it] = true, true
			changes = append(changes, HoldChange{Item: it, Worker: w.spec.ID, Turn: true})
		}
	}
	return out, changes
}

func (n *naive) maxHolds() int {
	actives := 0
	for _, w := range n.workers {
		if w.active {
			actives++
		}
	}
	return max(1, actives/8)
}

// best returns the worker to hold for a class, among those that are not held.
func (n *naive) best(r *naiveAsk) *naiveWorker {
	var able []*naiveWorker
	for _, w := range n.workers {
		if w.could(r, n.policy) && w.offers() && w.hasUnits(r, n.policy) && !w.held {
			able = append(able, w)
		}
	}
	if len(able) == 0 {
		return nil
	}
	return slices.MinFunc(able, func(a, b *naiveWorker) int {
		return cmp.Or(cmp.Compare(min(a.endless, 1), min(b.endless, 1)), cmp.Compare(b.cpu, a.cpu),
			cmp.Compare(b.mem, a.mem), cmp.Compare(b.io, a.io), cmp.Compare(a.spec.ID, b.spec.ID))
	})
}

// keep decides the changes of holds, following the text of SPEC §7.8; items are the unblocked jobs that the entry did
// not place.
func (n *naive) keep(items []*Item, placed func(*Item) bool, holds []Hold, granted []HoldChange, now rota.Clock,
	class func(*Item) *naiveAsk) (changes []HoldChange) {
	kept, most := len(granted), n.maxHolds()
	holder, full := map[*Item]bool{}, map[scopedAsk]bool{}
	for _, c := range granted {
		holder[c.Item] = true
	}
	for _, h := range holds {
		holder[h.Item] = true
		blocked := !slices.Contains(items, h.Item) && !(h.Turn && slices.Contains(n.idle, h.Item))
		if placed(h.Item) {
			continue
		}
		if !blocked && int64(now-h.Since) < n.policy.HoldMaxMs {
			kept++
			continue
		}
		c := HoldChange{Item: h.Item, Old: h.Worker}
		var to *naiveWorker
		if !blocked {
			to = n.best(class(h.Item))
		}
		n.workers[slices.IndexFunc(n.workers, func(w *naiveWorker) bool { return w.spec.ID == h.Worker })].held = false
		if to != nil {
			kept++
			to.held = true
			c.Worker = to.spec.ID
		}
		changes = append(changes, c)
	}
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b *Item) int {
		return byAge(a, b)
	})
	limit := now - rota.Clock(n.policy.HoldAfterMs)
	for _, it := range items {
		r := class(it)
		if kept >= most {
			break
		}
		if holder[it] || it.Queued > limit || full[r.scopedAsk()] || !n.left.open(it) {
			continue
		}
		w := n.best(r)
		if w == nil || n.roomAnywhere(r) {
			full[r.scopedAsk()] = true // the whole class needs no hold
			continue
		}
		w.held = true
		kept++
		changes = append(changes, HoldChange{Item: it, Worker: w.spec.ID})
	}
	return changes
}

// apply applies changes of holds.
func (w *world) apply(changes []HoldChange, now rota.Clock) {
	for _, c := range changes {
		w.endHold(c.Item)
		if c.Worker != "" {
			w.holds[c.Item] = Hold{Item: c.Item, Worker: c.Worker, Since: now, Lot: w.lot(), Turn: c.Turn}
			w.hold(c.Worker, true)
		}
	}
}

func (w *world) lot() Lot {
	return Lot{Pending: w.pending, Policy: &w.policy, Queue: "q", Stats: someStats}
}
