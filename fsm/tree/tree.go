package tree

import "slices"

// most is the maximum number of rows in a node; a node with fewer than least is joined with its neighbour.
const (
	most  = 64
	least = most / 4
)

// Tree is a copy-on-write B-tree; the zero Tree is empty. Ids mostly ascend, as clients create them from the time. A
// full node that gets a row after its last one stays full; the usual split in half would leave it half empty for good.
// This, that it retains nothing it removed, and that it stores no keys, as rows have theirs, is why it is our own
// implementation.
type Tree[K ~string, V Row[K]] struct {
	root *node[K, V]
	n    int
	// edition marks the nodes that this tree alone holds.
	edition *edition
}

type edition struct{ _ byte }

// Row is an element of a Tree. TreeKey returns its key, which never changes.
type Row[K ~string] interface{ TreeKey() K }

// Len returns the number of rows.
func (t *Tree[K, V]) Len() int { return t.n }

// Get returns the row of a key.
func (t *Tree[K, V]) Get(k K) (v V, found bool) {
	for n := t.root; n != nil; {
		i, found := n.search(string(k))
		if found {
			return n.rows[i], true
		}
		if n.children == nil {
			break
		}
		n = n.children[i]
	}
	return v, false
}

// Copy returns a tree that later changes do not affect, in constant time.
func (t *Tree[K, V]) Copy() *Tree[K, V] {
	c := *t
	t.edition, c.edition = new(edition), new(edition)
	return &c
}

// Set stores a row under its key and returns the previous one.
func (t *Tree[K, V]) Set(v V) (old V, had bool) {
	if t.edition == nil {
		t.edition = new(edition)
	}
	if t.root == nil {
		t.root = &node[K, V]{edition: t.edition}
	}
	old, had, middle, right := t.set(&t.root, string(v.TreeKey()), v)
	if right != nil {
		left := t.root
		t.root = &node[K, V]{edition: t.edition, children: []*node[K, V]{left, right}}
		t.root.insert(0, string(middle.TreeKey()), middle)
	}
	if !had {
		t.n++
	}
	return old, had
}

// set stores a row below a node. If the node had no room, right is the node that was split off and middle the row
// between the two.
func (t *Tree[K, V]) set(at **node[K, V], k string, v V) (old V, had bool, middle V,
	right *node[K, V]) {
	n := t.own(at)
	i, found := n.search(k)
	if found {
		old, n.rows[i] = n.rows[i], v
		return old, true, middle, nil
	}
	if n.children == nil {
		if len(n.rows) < most {
			n.insert(i, k, v)
			return old, false, middle, nil
		}
		if i == most {
			middle, right = t.cut(n, most-1)
		} else {
			middle, right = t.cut(n, most/2)
		}
		to := n
		if i > len(n.rows) {
			to, i = right, i-len(n.rows)-1
		}
		to.insert(i, k, v)
		return old, false, middle, right
	}
	old, had, middle, right = t.set(&n.children[i], k, v)
	if right == nil {
		return old, had, middle, nil
	}
	n.insert(i, string(middle.TreeKey()), middle)
	n.children = slices.Insert(n.children, i+1, right)
	if len(n.rows) <= most {
		return old, had, middle, nil
	}
	place := most / 2
	if i == most {
		place = most - 1
	}
	middle, right = t.cut(n, place)
	return old, had, middle, right
}

// cut removes the row at an index and everything after it from a node.
func (t *Tree[K, V]) cut(n *node[K, V], place int) (middle V, right *node[K, V]) {
	right = &node[K, V]{edition: t.edition, begin: n.begin, begins: n.begins,
		marks: slices.Clone(n.marks[place+1:]), rows: slices.Clone(n.rows[place+1:])}
	middle = n.rows[place]
	n.marks, n.rows = n.marks[:place], slices.Delete(n.rows, place, len(n.rows))
	if n.children != nil {
		right.children = slices.Clone(n.children[place+1:])
		n.children = slices.Delete(n.children, place+1, len(n.children))
	}
	n.sharpen()
	right.sharpen()
	return middle, right
}

// Delete removes a key and returns its row.
func (t *Tree[K, V]) Delete(k K) (v V, had bool) {
	if t.root == nil {
		return v, false
	}
	gone, had := t.remove(&t.root, string(k), false)
	if !had {
		return v, false
	}
	t.n--
	for t.root != nil && len(t.root.rows) == 0 {
		if t.root.children == nil {
			t.root = nil
		} else {
			t.root = t.root.children[0]
		}
	}
	return gone, true
}

// remove removes a key, or the last one, from below a node.
func (t *Tree[K, V]) remove(at **node[K, V], k string, last bool) (gone V, had bool) {
	n := t.own(at)
	i, found := len(n.rows), false
	if !last {
		i, found = n.search(k)
	}
	switch {
	case n.children == nil:
		if last {
			i, found = i-1, true
		}
		if found {
			gone = n.rows[i]
			n.delete(i)
		}
		return gone, found
	case found:
		gone = n.rows[i]
		before, _ := t.remove(&n.children[i], k, true)
		n.put(i, string(before.TreeKey()), before)
	default:
		if gone, found = t.remove(&n.children[i], k, last); !found {
			return gone, false
		}
	}
	if len(n.children[i].rows) < least && len(n.children) > 1 {
		t.even(n, min(i, len(n.rows)-1))
	}
	return gone, true
}

// even joins the two children around the row at an index, or redistributes their rows if they are too many for one
// node.
func (t *Tree[K, V]) even(n *node[K, V], place int) {
	left, right := t.own(&n.children[place]), t.own(&n.children[place+1])
	between := n.rows[place]
	left.insert(len(left.rows), string(between.TreeKey()), between)
	left.join(right)
	if len(left.rows) <= most {
		n.delete(place)
		n.children = slices.Delete(n.children, place+1, place+2)
		return
	}
	middle, rest := t.cut(left, len(left.rows)/2)
	n.put(place, string(middle.TreeKey()), middle)
	n.children[place+1] = rest
}

// own ensures that only this tree holds a node.
func (t *Tree[K, V]) own(at **node[K, V]) *node[K, V] {
	if n := *at; n.edition != t.edition {
		*at = &node[K, V]{edition: t.edition, begin: n.begin, begins: n.begins, marks: slices.Clone(n.marks),
			rows: slices.Clone(n.rows), children: slices.Clone(n.children)}
	}
	return *at
}

// Scan calls f for every row in key order until it returns false.
func (t *Tree[K, V]) Scan(f func(K, V) bool) {
	if t.root != nil {
		t.root.scan(0, f)
	}
}

// Ascend is Scan starting at the first key that is not before from.
func (t *Tree[K, V]) Ascend(from K, f func(K, V) bool) {
	if t.root != nil {
		t.root.ascend(string(from), f)
	}
}

// Last returns the row with the greatest key that is not after to.
func (t *Tree[K, V]) Last(to K) (v V, found bool) {
	for n := t.root; n != nil; {
		i, here := n.search(string(to))
		if here {
			return n.rows[i], true
		}
		if i > 0 {
			v, found = n.rows[i-1], true
		}
		if n.children == nil {
			break
		}
		n = n.children[i]
	}
	return v, found
}

// scan visits a node's rows starting with the child at an index.
func (n *node[K, V]) scan(i int, f func(K, V) bool) bool {
	for ; i <= len(n.rows); i++ {
		if n.children != nil && !n.children[i].scan(0, f) {
			return false
		}
		if i < len(n.rows) && !f(n.rows[i].TreeKey(), n.rows[i]) {
			return false
		}
	}
	return true
}

func (n *node[K, V]) ascend(from string, f func(K, V) bool) bool {
	i, found := n.search(from)
	if n.children != nil && !found && !n.children[i].ascend(from, f) {
		return false
	}
	if i == len(n.rows) {
		return true
	}
	return f(n.rows[i].TreeKey(), n.rows[i]) && n.scan(i+1, f)
}
