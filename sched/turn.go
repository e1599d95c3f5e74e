package sched

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/rotasched/rota"
)

// Received sets how many leases a worker has received since its last turn of the oldest (SPEC §7.10).
func (s *Supply) Received(id rota.WorkerID, leases uint64) {
	if slot, known := s.slot(id); known {
		s.received[slot] = leases
	}
}

// AfterTurn returns the rest of that count after a turn. A worker with many slots may receive more leases in one entry
// than make a turn due. The extra leases count for its next turns, but at most as many as its slots can have received
// at once: in the long run every oldest_every-th lease is a turn.
func AfterTurn(received uint64, every int64, slots int32) uint64 {
	if every < 1 {
		return 0
	}
	return min(received-min(received, uint64(every-1)), uint64(max(slots, 0)))
}

// Turns assigns the oldest jobs to the workers whose turn is due, before all queues' rounds of the entry (SPEC §7.10).
// Each worker with a free slot, by id, gets the oldest unblocked job of any queue that it could ever fit, regardless of
// share and ranking. If that job lacks only room, the worker is held for it at once, within the bound on holds; beyond
// the bound the turn stays due. A job that holds a worker is skipped, as its room is coming. Keep returns the holds.
func (d *Draft) Turns(lots []Lot, now rota.Clock, most int) (pairs []Pair) {
	if !d.looksAtAll && !d.turnDue(lots) {
		return nil
	}
	lists := d.ageLists(lots)
	for _, slot := range d.supply.order {
		for d.slotLoads.received[slot] >= lists.least && d.slotLoads.free.has(int(slot)) && len(pairs) < most {
			l, e := d.oldestFor(lists, slot)
			if l == nil {
				break
			}
			it := e.item
			k := &d.supply.classes[it.Class]
			if d.slotLoads.roomFor(slot, k.queue, k.need) == Fit {
				pairs = append(pairs, d.place(l.lot, it, slot, rota.ReasoningByTurnOfTheOldest, now))
				continue
			}
			if l.lot.Policy.Backfill != rota.BackfillFree {
				d.reserveTurn(&l.lot, it, slot, now)
				break
			}
			if d.kept+len(d.granted)+len(d.reserved) >= d.supply.MaxHolds() {
				break
			}
			put(&d.holders, it, true)
			d.slotLoads.hold(slot, true)
			d.granted = append(d.granted, HoldChange{Item: it, Worker: d.supply.specs[slot].ID, Turn: true})
		}
	}
	return pairs
}

// turnDue reports whether any worker with a free slot has received enough leases for a turn to be due. Usually none
// has, and Turns can skip its preparation for all queues.
func (d *Draft) turnDue(lots []Lot) bool {
	least := uint64(math.MaxUint64)
	for i := range lots {
		if k := lots[i].Policy.OldestEvery; k > 0 {
			least = min(least, uint64(k-1))
		}
	}
	for i, w := range d.slotLoads.free {
		for ; w != 0; w &= w - 1 {
			if d.slotLoads.received[i<<6+bits.TrailingZeros64(w)] >= least {
				return true
			}
		}
	}
	return false
}

// ageLists are the lists of all queues that have turns; least is the least count of leases at which a turn may be due.
type ageLists struct {
	all   []*ageList
	of    map[rota.QueueName][]*ageList
	least uint64
}

func (d *Draft) ageLists(lots []Lot) *ageLists {
	room := make([]ageList, 0, 2*len(lots)) // never more, so that none moves
	lists := &ageLists{all: make([]*ageList, 0, cap(room)), of: make(map[rota.QueueName][]*ageList, len(lots)),
		least: 1 << 62}
	for _, lot := range lots {
		k := lot.Policy.OldestEvery
		if k <= 0 {
			continue
		}
		first := len(lists.all)
		for side := range lot.Pending.ageIndex {
			classes := lot.Pending.ageIndex[side].cursor()
			if next, any := classes.next(); any {
				room = append(room, ageList{lot: lot, side: side, classes: classes, next: next,
					queue: d.supply.classes[next.class].queue})
				lists.all = append(lists.all, &room[len(room)-1])
			}
		}
		if own := lists.all[first:]; len(own) > 0 {
			lists.of[lot.Queue] = own
		}
		lists.least = min(lists.least, uint64(k-1))
	}
	return lists
}

// ageList is a queue's classes in the order of their oldest jobs, excluding jobs that are gone, as far as turns have
// read it. A turn looks at the classes from the oldest on until one fits.
type ageList struct {
	lot     Lot
	side    int
	queue   *queueSupply
	classes cursor[*ageIndex]
	// fits holds the workers that could ever take a job of any of the classes, computed on first use.
	fits bitset
	// next is the first class not yet in the list.
	next *ageIndex
	list []classOldest
}

type classOldest struct {
	entry
	lane *lane
	of   *ageIndex
}

// serves reports whether searching a job for the worker may succeed: there may be many idle workers, and many jobs that
// none of them can take.
func (l *ageList) serves(d *Draft, slot int32) bool {
	if d.slotLoads.received[slot] < uint64(l.lot.Policy.OldestEvery-1) || !l.queue.able.has(int(slot)) ||
		d.slotLoads.spent(slot, l.queue, unit.units) {
		return false
	}
	if l.fits == nil {
		l.fits = make(bitset, wordsFor(len(d.supply.specs)))
		classes := l.lot.Pending.ageIndex[l.side].cursor()
		for k, ok := classes.next(); ok; k, ok = classes.next() {
			for i, w := range d.supply.classes[k.class].fits {
				l.fits[i] |= w
			}
		}
	}
	return l.fits.has(int(slot))
}

// mayBeat reports whether the list may contain an older job than e: the first class of the list, or the first not yet
// in it, is older.
func (l *ageList) mayBeat(e entry) bool {
	return len(l.list) > 0 && ageLess(l.list[0].entry, e) || l.next != nil && ageLess(l.next.oldest, e)
}

// find returns the oldest job of a class that the worker could ever fit and has units left for.
func (l *ageList) find(d *Draft, slot int32) (e entry, ok bool) {
	if l.queue.narrow.workers.has(int(slot)) {
		return l.grantedTurn(d, slot)
	}
	for at := 0; ; at++ {
		// Entries added now come after everything already examined: the index never puts a class too late.
		for l.next != nil && (at == len(l.list) || ageLess(l.next.oldest, l.list[at].entry)) {
			l.insert(d, l.next)
			l.next, _ = l.classes.next()
		}
		if at == len(l.list) {
			return entry{}, false
		}
		k := &d.supply.classes[l.list[at].of.class]
		if !k.fits.has(int(slot)) || d.slotLoads.spent(slot, k.queue, k.need.units) {
			continue
		}
		if x := &l.list[at]; !d.gone(x.item, false) && !d.shut(l.lot.Queue, x.lane) {
			return x.entry, true
		}
		l.gone(d, at)
		at-- // Another class is at this index now, or none.
	}
}

func (l *ageList) insert(d *Draft, k *ageIndex) {
	e, of, ok := d.oldestOf(l.lot.Queue, walkKey{k, false}, noLane)
	if !ok {
		return
	}
	at := sort.Search(len(l.list), func(i int) bool { return ageLess(e, l.list[i].entry) })
	l.list = slices.Insert(l.list, at, classOldest{e, of, k})
}

// gone moves the class at an index to the place of its next oldest job.
func (l *ageList) gone(d *Draft, at int) {
	k := l.list[at].of
	l.list = slices.Delete(l.list, at, at+1)
	l.insert(d, k)
}

// oldestFor returns the queue whose job a worker's turn goes to, if a turn is due in any, and that job.
func (d *Draft) oldestFor(lists *ageLists, slot int32) (of *ageList, oldest entry) {
	look := func(list []*ageList) {
		for _, l := range list {
			if of != nil && !d.looksAtAll && !l.mayBeat(oldest) || !l.serves(d, slot) {
				continue
			}
			if e, ok := l.find(d, slot); ok && (of == nil || ageLess(e, oldest)) {
				of, oldest = l, e
			}
		}
	}
	// Iterate over the shorter list: the order decides nothing.
	if served := d.supply.specs[slot].Queues; len(served) < len(lists.of) {
		for _, q := range served {
			look(lists.of[q])
		}
	} else {
		look(lists.all)
	}
	return of, oldest
}
