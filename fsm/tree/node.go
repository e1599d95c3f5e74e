package tree

import (
	"math/bits"
	"slices"
)

// node is a node of a tree. Its keys are in the rows, each at its own place in memory, so a search compares the marks,
// and only one key at its end. Neighbours begin alike, as ids of one run or of one moment do: marks omit that common
// prefix.
type node[K ~string, V Row[K]] struct {
	edition *edition
	// begin is the common prefix of all its keys, with length begins.
	begin  [maxBegin]byte
	begins uint8
	// marks are the eight bytes after the prefix of each row's key.
	marks []uint64
	// rows ascend by key. An inner node has one more child than rows: keys less than a row are in the child at its
	// index.
	rows     []V
	children []*node[K, V]
}

const (
	// maxBegin is the maximum prefix that marks omit; with it a node is 128 bytes.
	maxBegin = 47
	// sharper is the minimum number of bytes by which the prefix must grow for the marks to be recalculated.
	sharper = 4
)

// markOf returns the first eight bytes of a text as a number. A text with a smaller number is before the other; texts
// with equal numbers may be in any order.
func markOf(s string) (mark uint64) {
	if len(s) >= 8 {
		return uint64(s[7]) | uint64(s[6])<<8 | uint64(s[5])<<16 | uint64(s[4])<<24 |
			uint64(s[3])<<32 | uint64(s[2])<<40 | uint64(s[1])<<48 | uint64(s[0])<<56
	}
	for i := range len(s) {
		mark |= uint64(s[i]) << (56 - 8*i)
	}
	return mark
}

// search returns the index of the first row that is not before a key.
func (n *node[K, V]) search(k string) (i int, found bool) {
	begins := int(n.begins)
	if begin := n.begin[:begins]; len(k) < begins || k[:begins] != string(begin) {
		if k < string(begin) {
			return 0, false
		}
		return len(n.rows), false
	}
	mark, marks := markOf(k[begins:]), n.marks
	lo := 0
	for n := len(marks); n > 0; n /= 2 { // avoids a branch that is predicted wrong half the time
		half := (n + 1) / 2
		_, less := bits.Sub64(marks[lo+half-1], mark, 0)
		lo += half & -int(less)
	}
	if lo == len(marks) || marks[lo] != mark {
		return lo, false
	}
	hi := lo + 1
	for hi < len(marks) && marks[hi] == mark {
		hi++
	}
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		switch at := string(n.rows[mid].TreeKey()); {
		case at == k:
			return mid, true
		case at < k:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return lo, false
}

// insert adds a row at an index.
func (n *node[K, V]) insert(i int, k string, v V) {
	n.fit(k)
	n.marks = slices.Insert(n.marks, i, markOf(k[n.begins:]))
	n.rows = slices.Insert(n.rows, i, v)
}

// put replaces the row at an index.
func (n *node[K, V]) put(i int, k string, v V) {
	n.fit(k)
	n.marks[i], n.rows[i] = markOf(k[n.begins:]), v
}

func (n *node[K, V]) delete(i int) {
	n.marks = slices.Delete(n.marks, i, i+1)
	n.rows = slices.Delete(n.rows, i, i+1)
}

// join takes over all rows and children of the next node.
func (n *node[K, V]) join(next *node[K, V]) {
	if len(next.rows) > 0 {
		n.fit(string(next.begin[:next.begins]))
		next.blunt(int(n.begins))
	}
	n.marks, n.rows = append(n.marks, next.marks...), append(n.rows, next.rows...)
	if n.children != nil {
		n.children = append(n.children, next.children...)
	}
}

// fit shortens the prefix so that a key shares it.
func (n *node[K, V]) fit(k string) {
	if len(n.rows) == 0 {
		n.begins = uint8(copy(n.begin[:], k))
		return
	}
	n.blunt(alike(k, string(n.begin[:n.begins])))
}

// blunt shortens the prefix to at most `begins` bytes. It recalculates the marks from the removed bytes and the old
// marks.
func (n *node[K, V]) blunt(begins int) {
	by := int(n.begins) - begins
	if by <= 0 {
		return
	}
	back := markOf(string(n.begin[begins:n.begins]))
	for i, mark := range n.marks {
		n.marks[i] = back | mark>>(8*by) // from 8 bytes on nothing of the old mark is left
	}
	n.begins = uint8(begins)
}

// sharpen extends the prefix to everything that the keys share, if that is worth looking at each key.
func (n *node[K, V]) sharpen() {
	if len(n.rows) < 2 {
		return
	}
	first := string(n.rows[0].TreeKey())
	begins := min(maxBegin, alike(first, string(n.rows[len(n.rows)-1].TreeKey())))
	if begins < int(n.begins)+sharper {
		return
	}
	n.begins = uint8(copy(n.begin[:begins], first))
	for i, v := range n.rows {
		n.marks[i] = markOf(string(v.TreeKey())[begins:])
	}
}

// alike returns the length of the common prefix of two texts.
func alike(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
