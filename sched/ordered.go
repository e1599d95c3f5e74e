package sched

import (
	"slices"

	"github.com/tidwall/btree"
)

// smallMax is how many members an ordered set keeps in a slice: most lanes and
// cells hold a few, and a tree each would cost more than what is in it.
const smallMax = 32

// ordered is a sorted set: a slice while small, a B-tree from then until empty.
type ordered[T any] struct {
	small []T
	tree  *btree.BTreeG[T]
}

// insert adds x, in the place of an equal member if there is one.
func (o *ordered[T]) insert(x T, less func(a, b T) bool) (replaced bool) {
	if o.tree != nil {
		_, replaced = o.tree.Set(x)
		return replaced
	}
	at := o.search(x, less)
	if at < len(o.small) && !less(x, o.small[at]) {
		o.small[at] = x
		return true
	}
	if len(o.small) < smallMax {
		o.small = slices.Insert(o.small, at, x)
		return false
	}
	o.tree = btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
	for _, y := range o.small {
		o.tree.Load(y)
	}
	o.small = nil
	o.tree.Set(x)
	return false
}

// remove takes x out and says whether it was in.
func (o *ordered[T]) remove(x T, less func(a, b T) bool) bool {
	if o.tree != nil {
		_, found := o.tree.Delete(x)
		if o.tree.Len() == 0 {
			o.tree = nil
		}
		return found
	}
	at := o.search(x, less)
	if at == len(o.small) || less(x, o.small[at]) {
		return false
	}
	o.small = slices.Delete(o.small, at, at+1)
	return true
}

// search is the place of the first member that is not before x.
func (o *ordered[T]) search(x T, less func(a, b T) bool) int {
	lo, hi := 0, len(o.small)
	for lo < hi {
		if mid := (lo + hi) / 2; less(o.small[mid], x) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// rank counts the members before x, in O(log² n).
func (o *ordered[T]) rank(x T, less func(a, b T) bool) int {
	if o.tree == nil {
		return o.search(x, less)
	}
	lo, hi := 0, o.tree.Len()
	for lo < hi {
		mid := (lo + hi) / 2
		if y, _ := o.tree.GetAt(mid); less(y, x) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (o *ordered[T]) min() (first T, ok bool) {
	if o.tree != nil {
		return o.tree.Min()
	}
	if len(o.small) == 0 {
		return first, false
	}
	return o.small[0], true
}

func (o *ordered[T]) len() int {
	if o.tree != nil {
		return o.tree.Len()
	}
	return len(o.small)
}

// cursor walks an ordered set from its first member; the set must not change.
type cursor[T any] struct {
	small []T
	iter  *btree.IterG[T]
	// placed says that iter stands on the next member, not before it.
	placed bool
}

func (o *ordered[T]) cursor() cursor[T] {
	if o.tree == nil {
		return cursor[T]{small: o.small}
	}
	c := cursor[T]{iter: new(btree.IterG[T])}
	c.iter.Init(o.tree, false)
	return c
}

// from is the cursor whose first member is not before x.
func (o *ordered[T]) from(x T, less func(a, b T) bool) cursor[T] {
	if o.tree == nil {
		return cursor[T]{small: o.small[o.search(x, less):]}
	}
	c := o.cursor()
	c.placed = c.iter.Seek(x)
	if !c.placed {
		return cursor[T]{}
	}
	return c
}

func (c *cursor[T]) next() (x T, ok bool) {
	if c.iter != nil {
		if !c.placed && !c.iter.Next() {
			return x, false
		}
		c.placed = false
		return c.iter.Item(), true
	}
	if len(c.small) == 0 {
		return x, false
	}
	x, c.small = c.small[0], c.small[1:]
	return x, true
}

// heap is a binary heap. Its orders are total, so the order of its array shows
// nowhere.
type heap[T any] struct {
	list []T
	less func(a, b T) bool
}

func (h *heap[T]) push(x T) {
	h.list = append(h.list, x)
	i := len(h.list) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !h.less(h.list[i], h.list[up]) {
			return
		}
		h.list[i], h.list[up] = h.list[up], h.list[i]
		i = up
	}
}

func (h *heap[T]) pop() {
	var none T
	last := len(h.list) - 1
	h.list[0], h.list[last] = h.list[last], none
	h.list = h.list[:last]
	h.sink()
}

// sink restores the order after the first has grown.
func (h *heap[T]) sink() {
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h.list) {
			return
		}
		if right := down + 1; right < len(h.list) && h.less(h.list[right], h.list[down]) {
			down = right
		}
		if !h.less(h.list[down], h.list[i]) {
			return
		}
		h.list[i], h.list[down] = h.list[down], h.list[i]
		i = down
	}
}
