package tree

import (
	"math/bits"
	"slices"
)

// node is a node of a tree. Its keys stand in the rows, each of them in a place of its
// own of the memory; so a search looks at the marks, and at one key at its end. Neighbours
// begin alike, as ids of one run or of one moment do: marks leave that out.
type node[K ~string, V Row[K]] struct {
	edition *edition
	// begin is what all its keys begin with, of which the first begins bytes count.
	begin  [beginMost]byte
	begins uint8
	// marks are the eight bytes behind that of each row's key.
	marks []uint64
	// rows ascend by key. Where there are children, they are one more: what is less than
	// a row stands in the child of its place.
	rows     []V
	children []*node[K, V]
}

const (
	// beginMost bounds what marks leave out; with it a node is 128 bytes.
	beginMost = 47
	// sharper is by how many bytes marks must come further into the keys to be
	// computed anew.
	sharper = 4
)

// markOf are the first eight bytes of a text as a number, so that a text whose number is
// less is before the other. Texts whose numbers are equal may be in any order.
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

// search is the place of the first row that is not before a key.
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
	for n := len(marks); n > 0; n /= 2 { // without a branch that is guessed wrong half the time
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

// insert puts a row in at a place.
func (n *node[K, V]) insert(i int, k string, v V) {
	n.fit(k)
	n.marks = slices.Insert(n.marks, i, markOf(k[n.begins:]))
	n.rows = slices.Insert(n.rows, i, v)
}

// put puts a row in the place of another.
func (n *node[K, V]) put(i int, k string, v V) {
	n.fit(k)
	n.marks[i], n.rows[i] = markOf(k[n.begins:]), v
}

func (n *node[K, V]) delete(i int) {
	n.marks = slices.Delete(n.marks, i, i+1)
	n.rows = slices.Delete(n.rows, i, i+1)
}

// join takes in all rows, and children, of the next node.
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

// fit makes sure that a key begins as all of the node do.
func (n *node[K, V]) fit(k string) {
	if len(n.rows) == 0 {
		n.begins = uint8(copy(n.begin[:], k))
		return
	}
	n.blunt(alike(k, string(n.begin[:n.begins])))
}

// blunt leaves no more out than so many bytes. The marks are computed from what is left out
// and from themselves.
func (n *node[K, V]) blunt(begins int) {
	by := int(n.begins) - begins
	if by <= 0 {
		return
	}
	back := markOf(string(n.begin[begins:n.begins]))
	for i, mark := range n.marks {
		n.marks[i] = back | mark>>(8*by) // nothing is left of it from 8 bytes on
	}
	n.begins = uint8(begins)
}

// sharpen leaves out all that the keys begin with, where that is worth to look at each.
func (n *node[K, V]) sharpen() {
	if len(n.rows) < 2 {
		return
	}
	first := string(n.rows[0].TreeKey())
	begins := min(beginMost, alike(first, string(n.rows[len(n.rows)-1].TreeKey())))
	if begins < int(n.begins)+sharper {
		return
	}
	n.begins = uint8(copy(n.begin[:begins], first))
	for i, v := range n.rows {
		n.marks[i] = markOf(string(v.TreeKey())[begins:])
	}
}

// alike counts the bytes that two texts begin with both.
func alike(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
