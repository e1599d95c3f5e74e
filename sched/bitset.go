package sched

import "math/bits"

// bitset is a set of small numbers. Methods that read treat numbers beyond its words as absent.
type bitset []uint64

func wordsFor(n int) int { return (n + 63) / 64 }

func (b bitset) has(i int) bool {
	return i>>6 < len(b) && b[i>>6]&(1<<(i&63)) != 0
}

func (b *bitset) set(i int) {
	for len(*b) <= i>>6 {
		*b = append(*b, 0)
	}
	(*b)[i>>6] |= 1 << (i & 63)
}

func (b bitset) clear(i int) {
	if i>>6 < len(b) {
		b[i>>6] &^= 1 << (i & 63)
	}
}

func (b *bitset) put(i int, member bool) {
	if member {
		b.set(i)
	} else {
		b.clear(i)
	}
}

func (b bitset) count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// word returns word i, 0 beyond the end.
func (b bitset) word(i int) uint64 {
	if i < len(b) {
		return b[i]
	}
	return 0
}

// meets reports whether the sets have a member in common.
func (b bitset) meets(o bitset) bool {
	for i := range min(len(b), len(o)) {
		if b[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// first returns the least member, −1 if the set is empty.
func (b bitset) first() int {
	for i, w := range b {
		if w != 0 {
			return i<<6 + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// nth returns the member with n lesser members, −1 if there are too few.
func (b bitset) nth(n int) int {
	for i, w := range b {
		c := bits.OnesCount64(w)
		if n >= c {
			n -= c
			continue
		}
		for ; n > 0; n-- {
			w &= w - 1
		}
		return i<<6 + bits.TrailingZeros64(w)
	}
	return -1
}

func (b bitset) equal(o bitset) bool {
	for i := range max(len(b), len(o)) {
		if b.word(i) != o.word(i) {
			return false
		}
	}
	return true
}
