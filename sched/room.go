package sched

import (
	"math/bits"

	"github.com/rotasched/rota"
)

// rooms is what one round knows of the room that is left (SPEC §7.3, §7.4). A
// worker stands at a position: its place in the order that the queue's strategy
// starts from. Room only shrinks within a round, so a class that has none leaves
// for good, and sets are exact at every moment without being built again.
type rooms struct {
	supply *Supply
	now    *slotLoads
	queue  *queueSupply // whose round it is
	// slots gives the worker at each position. left holds the slot numbers of
	// those that still have a slot free, count how many they are.
	slots []int32
	left  bitset
	count int
	// posOf gives the position of a slot number.
	posOf   []int32
	classes []classRoom
	// indexOf gives the place in classes, plus 1, of a class; 0 is none.
	indexOf []int32
	built   []int32
	// unitsMost is the most units that a wanted class takes; isolates reports that some wanted class is isolated.
	unitsMost int64
	isolates  bool
	// drawable counts the candidates not yet drawn of classes that have room.
	drawable int
	words    int
	// wide has it tell classes that some worker could ever take from others, rather than those that have
	// room now.
	wide  bool
	arena []uint64
	sets  int // that the latest arena had room for
	masks masks
}

// classRoom is one class in a round.
type classRoom struct {
	class ClassID
	need
	// left counts its candidates not yet drawn.
	left int
	// open is false once no worker has room for it.
	open bool
	// at holds the positions that have room, count of them, from the first time
	// that a candidate of the class comes up.
	at    bitset
	count int
}

// want is how many candidates of a class there are when a round starts.
type want struct {
	class ClassID
	items int
}

// newRooms finds the workers with room for some wanted class, by id. All wants
// are of one queue.
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
		r.unitsMost, r.isolates = max(r.unitsMost, c.units), r.isolates || c.isolated
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

// unit is the least that any lease takes.
var unit = need{units: 1}

// freeSlots finds the workers that have room for a lease of the queue at all, and
// the most of each that any of them has free.
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

// narrow reports whether a free slot may not be enough for a job that takes nothing.
func (r *Rules) narrow() bool {
	return r.LeasesMax > 0 || r.PrefetchMax < rota.MaxPrefetch || r.UnitsMax > 0
}

// plain reports whether a class takes nothing but a slot and one unit, so that every
// worker that has room for anything has room for it.
func (r *rooms) plain(c *classRoom) bool {
	return c.none() && !c.isolated && (c.units <= 1 || r.queue.rules.UnitsMax == 0)
}

// gather adds the workers with room for the class to left, and says whether
// there are any.
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

// place gives the workers their positions: by id, or shuffled (SPEC §7.4).
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

// occupy lets the worker at a position take a job of the class, and clears it
// from every class that it has no room for any more.
func (r *rooms) occupy(pos int, c *classRoom) {
	slot := r.slots[pos]
	r.now.lease(slot, r.queue, c.need)
	full := r.now.roomFor(slot, r.queue, unit) != Fit
	left := need{Load: r.now.loadFree[slot], units: r.now.unitsLeft(slot, r.queue)}
	if full {
		r.left.clear(int(slot))
		r.count--
	} else if c.none() && left.units >= r.unitsMost && !r.isolates {
		return // It has room for all that it had room for.
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

// within reports whether so much is enough. What is not needed may be short.
func (n *need) within(left need) bool {
	return n.Within(left.Load) && n.units <= left.units && (!n.isolated || left.isolated)
}

func (r *rooms) worker(pos int) rota.WorkerID { return r.supply.specs[r.slots[pos]].ID }

// hopeful reports whether some worker could ever have room for a class, by the end of leases alone.
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
