package sched

import (
	"math/bits"

	"github.com/rotasched/rota"
)

// rooms is the remaining room as one round sees it (SPEC §7.3, §7.4). A worker's position is its place in the order
// that the queue's strategy starts from. Room only shrinks within a round: a class without room stays without, and sets
// remain exact without being rebuilt.
type rooms struct {
	supply *Supply
	now    *slotLoads
	queue  *queueSupply // the queue of the round
	// slots maps a position to the worker's slot number. left holds the slot numbers that still have a free slot; count
	// is their number.
	slots []int32
	left  bitset
	count int
	// posOf maps a slot number to its position.
	posOf   []int32
	classes []classRoom
	// indexOf maps a class to its index in classes plus 1; 0 means none.
	indexOf []int32
	built   []int32
	// maxUnits is the most units that a wanted class uses. isolates reports whether some wanted class is isolated.
	maxUnits int64
	isolates bool
	// drawable counts the undrawn candidates of classes that have room.
	drawable int
	words    int
	// wide makes the round select classes that some worker could ever take instead of classes with room now.
	wide  bool
	arena []uint64
	sets  int // capacity of the latest arena, in sets
	masks masks
}

// classRoom is one class in a round.
type classRoom struct {
	class ClassID
	need
	// left counts its undrawn candidates.
	left int
	// open is false once no worker has room for it.
	open bool
	// at holds the positions that have room; count is their number. Both are computed when the first candidate of the
	// class comes up.
	at    bitset
	count int
}

// want is the number of candidates of a class at the start of a round.
type want struct {
	class ClassID
	items int
}

// newRooms finds the workers with room for some wanted class, by id. All wants are of one queue.
func newRooms(s *Supply, now *slotLoads, wants []want) *rooms {
	r := &rooms{supply: s, now: now}
	if len(wants) == 0 {
		return r
	}
	r.queue = s.classes[wants[0].class].queue
	free, most := r.freeSlots()
	if free.first() < 0 {
		return r
	}
	r.left = make(bitset, len(free))
	room := make([]int32, len(s.classes)+len(s.specs))
	r.indexOf, r.posOf = room[:len(s.classes):len(s.classes)], room[len(s.classes):]
	r.classes = make([]classRoom, len(wants))
	for i, w := range wants {
		k := &s.classes[w.class]
		c := &r.classes[i]
		*c = classRoom{class: w.class, need: k.need, left: w.items}
		r.indexOf[w.class] = int32(i) + 1
		r.maxUnits, r.isolates = max(r.maxUnits, c.units), r.isolates || c.isolated
		if w.items == 0 {
			continue // All of its lanes are throttled.
		}
		if c.Within(most) {
			c.open = r.gather(c, k.fits, free)
		}
		if c.open {
			r.drawable += c.left
		}
	}
	r.count = r.left.count()
	r.slots = make([]int32, 0, r.count)
	for _, slot := range s.order {
		if r.left.has(int(slot)) {
			r.slots = append(r.slots, slot)
		}
	}
	r.words = wordsFor(len(r.slots))
	return r
}

// unit is the least that any lease uses.
var unit = need{units: 1}

// freeSlots returns the workers that have room for any lease of the queue, and the maximum of each free resource among
// them.
func (r *rooms) freeSlots() (free bitset, most Load) {
	free = make(bitset, len(r.now.free))
	narrow := r.queue.rules.narrow()
	for i, w := range r.now.free {
		for rest := w; rest != 0; rest &= rest - 1 {
			slot := i<<6 + bits.TrailingZeros64(rest)
			if narrow && r.now.roomFor(int32(slot), r.queue, unit) != Fit {
				w &^= 1 << (slot & 63)
				continue
			}
			most = most.Most(r.now.loadFree[slot])
		}
		free[i] = w
	}
	return free, most
}

// narrow reports whether a free slot may not be enough for a job that needs nothing else.
func (r *Rules) narrow() bool {
	return r.LeasesMax > 0 || r.PrefetchMax < rota.MaxPrefetch || r.UnitsMax > 0
}

// plain reports whether a class needs only a slot and one unit, so that every worker with any room has room for it.
func (r *rooms) plain(c *classRoom) bool {
	return c.none() && !c.isolated && (c.units <= 1 || r.queue.rules.UnitsMax == 0)
}

// gather adds the workers with room for the class to left and reports whether there are any.
func (r *rooms) gather(c *classRoom, fits, free bitset) bool {
	any, plain := false, r.plain(c)
	for i := range min(len(fits), len(free)) {
		m := fits[i] & free[i]
		if m == 0 {
			continue
		}
		if plain {
			r.left[i] |= m
			any = true
			continue
		}
		if any {
			m &^= r.left[i]
		}
		for ; m != 0; m &= m - 1 {
			slot := int32(i<<6 + bits.TrailingZeros64(m))
			if r.now.roomFor(slot, r.queue, c.need) == Fit {
				r.left.set(int(slot))
				any = true
			}
		}
	}
	return any
}

// place assigns the workers their positions: by id, or shuffled (SPEC §7.4).
func (r *rooms) place(shuffled bool, seed Hash) {
	if shuffled {
		shuffle(r.slots, seed)
	}
	for pos, slot := range r.slots {
		r.posOf[slot] = int32(pos)
	}
}

// has reports whether any worker has room for the class.
func (r *rooms) has(class ClassID) bool {
	if r.wide {
		return r.hopeful(class)
	}
	c := r.of(class)
	if c == nil || !c.open {
		return false
	}
	if c.at == nil {
		r.build(c)
	}
	return c.open
}

func (r *rooms) of(class ClassID) *classRoom {
	if int(class) >= len(r.indexOf) || r.indexOf[class] == 0 {
		return nil
	}
	return &r.classes[r.indexOf[class]-1]
}

// build finds the positions that have room for a class when it first comes up.
func (r *rooms) build(c *classRoom) {
	c.at = r.newSet()
	fits := r.supply.classes[c.class].fits
	for i := range min(len(fits), len(r.left)) {
		for m := fits[i] & r.left[i]; m != 0; m &= m - 1 {
			slot := int32(i<<6 + bits.TrailingZeros64(m))
			if !c.Within(r.now.loadFree[slot]) || c.isolated && r.now.open[slot] > 0 ||
				c.units > 1 && r.now.spent(slot, r.queue, c.units) {
				continue
			}
			pos := r.posOf[slot]
			c.at[pos>>6] |= 1 << (pos & 63)
			c.count++
		}
	}
	if c.count == 0 {
		r.shut(c)
		return
	}
	r.built = append(r.built, r.indexOf[c.class]-1)
}

func (r *rooms) shut(c *classRoom) {
	c.open = false
	r.drawable -= c.left
}

// newSet returns an empty set of positions.
func (r *rooms) newSet() bitset {
	if len(r.arena) < r.words {
		r.sets = min(max(2*r.sets, 2), 64)
		r.arena = make([]uint64, r.sets*max(r.words, 1))
	}
	set := r.arena[:r.words:r.words]
	r.arena = r.arena[r.words:]
	return set
}

// drawn counts a candidate of the class as drawn.
func (r *rooms) drawn(class ClassID) {
	r.of(class).left--
	r.drawable--
}

// occupy assigns a job of the class to the worker at a position, and removes the worker from every class that it no
// longer has room for.
func (r *rooms) occupy(pos int, c *classRoom) {
	slot := r.slots[pos]
	r.now.lease(slot, r.queue, c.need)
	full := r.now.roomFor(slot, r.queue, unit) != Fit
	left := need{Load: r.now.loadFree[slot], units: r.now.unitsLeft(slot, r.queue)}
	if full {
		r.left.clear(int(slot))
		r.count--
	} else if c.none() && left.units >= r.maxUnits && !r.isolates {
		return // It still has room for every class as before.
	}
	word, bit := pos>>6, uint64(1)<<(pos&63)
	keep := r.built[:0]
	for _, i := range r.built {
		k := &r.classes[i]
		if k.at[word]&bit != 0 && (full || !k.within(left)) {
			k.at[word] &^= bit
			if k.count--; k.count == 0 {
				r.shut(k)
				continue
			}
		}
		keep = append(keep, i)
	}
	r.built = keep
}

// within reports whether left covers the need. A component that is not needed may be short.
func (n *need) within(left need) bool {
	return n.Within(left.Load) && n.units <= left.units && (!n.isolated || left.isolated)
}

func (r *rooms) worker(pos int) rota.WorkerID { return r.supply.specs[r.slots[pos]].ID }

// hopeful reports whether some worker could have room for a class once leases end.
func (r *rooms) hopeful(class ClassID) bool {
	k := &r.supply.classes[class]
	for i, w := range k.fits {
		for ; w != 0; w &= w - 1 {
			if r.now.keepable(int32(i<<6+bits.TrailingZeros64(w)), k) {
				return true
			}
		}
	}
	return false
}
