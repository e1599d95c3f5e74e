package tree

import (
	"math/bits"
	"slices"

	"github.com/tidwall/btree"
)

// Numbers maps numbers, mostly consecutive, to values, and finds them from the greatest down. Like Tree it is
// copy-on-write. It stores blocks of numbers: a full block takes 9 bytes per number in addition to the value. A tree of
// single numbers takes 16, and is half empty if numbers only grow.
type Numbers[V any] struct {
	blocks btree.Map[uint64, *numberBlock[V]]
	n      int
	// edition marks the blocks that may be changed in place: others are copied first.
	edition *edition
	// recent is the block changed last, unless it is gone: the next change is mostly in it too.
	recent   *numberBlock[V]
	recentAt uint64
}

// numberBlock holds the values that exist among blockNumbers numbers.
type numberBlock[V any] struct {
	edition *edition
	has     uint64 // a bit for each number, the lowest for the first
	list    []V
}

// blockNumbers makes the list of a full block of pointers 504 bytes, which fit a size class of the allocator.
const blockNumbers = 63

// Len returns how many numbers have a value.
func (t *Numbers[V]) Len() int { return t.n }

// Copy returns a copy that later changes do not affect, in constant time.
func (t *Numbers[V]) Copy() *Numbers[V] {
	its := &Numbers[V]{blocks: *t.blocks.Copy(), n: t.n, edition: new(edition)}
	t.edition = new(edition)
	return its
}

func (b *numberBlock[V]) place(number uint64) (i int, ok bool) {
	bit := uint64(1) << (number % blockNumbers)
	return bits.OnesCount64(b.has & (bit - 1)), b.has&bit != 0
}

// own returns a block that may be changed, nil if there is none.
func (t *Numbers[V]) own(at uint64) *numberBlock[V] {
	if b := t.recent; b != nil && t.recentAt == at && b.edition == t.edition {
		return b
	}
	b, ok := t.blocks.Get(at)
	if !ok {
		return nil
	}
	if b.edition != t.edition {
		b = &numberBlock[V]{edition: t.edition, has: b.has, list: append(make([]V, 0, cap(b.list)), b.list...)}
		t.blocks.Set(at, b)
	}
	t.recent, t.recentAt = b, at
	return b
}

// Get returns the value of a number.
func (t *Numbers[V]) Get(number uint64) (v V, found bool) {
	b, ok := t.blocks.Get(number / blockNumbers)
	if !ok {
		return v, false
	}
	i, ok := b.place(number)
	if !ok {
		return v, false
	}
	return b.list[i], true
}

// Set stores the value of a number, replacing an existing one.
func (t *Numbers[V]) Set(number uint64, v V) {
	at := number / blockNumbers
	b := t.own(at)
	if b == nil {
		b = &numberBlock[V]{edition: t.edition}
		t.blocks.Set(at, b)
		t.recent, t.recentAt = b, at
	}
	i, had := b.place(number)
	if had {
		b.list[i] = v
		return
	}
	b.has |= 1 << (number % blockNumbers)
	if n := len(b.list); n == cap(b.list) {
		b.list = append(make([]V, 0, 2*n+1), b.list...) // blockNumbers in the end
	}
	b.list = slices.Insert(b.list, i, v)
	t.n++
}

// Delete removes a number.
func (t *Numbers[V]) Delete(number uint64) {
	at := number / blockNumbers
	b := t.own(at)
	if b == nil {
		return
	}
	i, had := b.place(number)
	if !had {
		return
	}
	t.n--
	if len(b.list) == 1 {
		t.blocks.Delete(at)
		t.recent = nil
		return
	}
	b.has &^= 1 << (number % blockNumbers)
	b.list = slices.Delete(b.list, i, i+1)
	if 2*len(b.list) <= cap(b.list) {
		b.list = slices.Clip(slices.Clone(b.list))
	}
}

// Below returns the greatest number below the given one, and its value.
func (t *Numbers[V]) Below(number uint64) (below uint64, v V, found bool) {
	if number == 0 {
		return 0, v, false
	}
	most := number - 1
	t.blocks.Descend(most/blockNumbers, func(at uint64, b *numberBlock[V]) bool {
		has := b.has
		if at == most/blockNumbers {
			has &= 1<<(most%blockNumbers+1) - 1
		}
		if has == 0 {
			return true
		}
		below, v, found = at*blockNumbers+uint64(bits.Len64(has)-1), b.list[bits.OnesCount64(has)-1], true
		return false
	})
	return below, v, found
}
