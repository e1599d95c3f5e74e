package fsm

import (
	"cmp"
	"slices"
)

// treeMost is how many rows a node of a tree holds at most, treeLeast below how many it
// is joined with its neighbour.
const (
	treeMost  = 64
	treeLeast = treeMost / 4
)

// tree is a copy-on-write B-tree. Ids mostly ascend, as clients mint them from the time:
// a node that is full and whose last place is asked for stays full, where one that is cut in
// half, as is usual, would stay half empty for good. That, and that nothing it let go of
// is held, is why it is one of our own.
type tree[K cmp.Ordered, V any] struct {
	root *treeNode[K, V]
	n    int
	// edition marks the nodes that this tree alone holds.
	edition *treeEdition
}

type treeEdition struct{ _ byte }

type treeNode[K cmp.Ordered, V any] struct {
	edition *treeEdition
	// pairs ascend. Where there are children, they are one more: what is less than a pair
	// stands in the child of its place.
	pairs    []treePair[K, V]
	children []*treeNode[K, V]
}

type treePair[K cmp.Ordered, V any] struct {
	key   K
	value V
}

// Len counts the pairs.
func (t *tree[K, V]) Len() int { return t.n }

// Get finds a key's value.
func (t *tree[K, V]) Get(k K) (v V, found bool) {
	for n := t.root; n != nil; {
		i, found := n.search(k)
		if found {
			return n.pairs[i].value, true
		}
		if n.children == nil {
			break
		}
		n = n.children[i]
	}
	return v, false
}

// Copy gives a tree that later changes do not reach, in constant time.
func (t *tree[K, V]) Copy() *tree[K, V] {
	c := *t
	t.edition, c.edition = new(treeEdition), new(treeEdition)
	return &c
}

// Set puts a value under a key, and gives the one that was there.
func (t *tree[K, V]) Set(k K, v V) (old V, had bool) {
	if t.edition == nil {
		t.edition = new(treeEdition)
	}
	if t.root == nil {
		t.root = &treeNode[K, V]{edition: t.edition}
	}
	old, had, middle, right := t.set(&t.root, k, v)
	if right != nil {
		t.root = &treeNode[K, V]{edition: t.edition, pairs: []treePair[K, V]{middle},
			children: []*treeNode[K, V]{t.root, right}}
	}
	if !had {
		t.n++
	}
	return old, had
}

// set puts a pair below a node. Where that had no room, right is what was cut off it and
// middle what stands between the two.
func (t *tree[K, V]) set(at **treeNode[K, V], k K, v V) (old V, had bool, middle treePair[K, V], right *treeNode[K, V]) {
	n := t.own(at)
	i, found := n.search(k)
	if found {
		old, n.pairs[i].value = n.pairs[i].value, v
		return old, true, middle, nil
	}
	if n.children == nil {
		if len(n.pairs) < treeMost {
			n.pairs = slices.Insert(n.pairs, i, treePair[K, V]{k, v})
			return old, false, middle, nil
		}
		if i == treeMost {
			middle, right = t.cut(n, treeMost-1)
		} else {
			middle, right = t.cut(n, treeMost/2)
		}
		to := n
		if i > len(n.pairs) {
			to, i = right, i-len(n.pairs)-1
		}
		to.pairs = slices.Insert(to.pairs, i, treePair[K, V]{k, v})
		return old, false, middle, right
	}
	old, had, middle, right = t.set(&n.children[i], k, v)
	if right == nil {
		return old, had, middle, nil
	}
	n.pairs = slices.Insert(n.pairs, i, middle)
	n.children = slices.Insert(n.children, i+1, right)
	if len(n.pairs) <= treeMost {
		return old, had, middle, nil
	}
	place := treeMost / 2
	if i == treeMost {
		place = treeMost - 1
	}
	middle, right = t.cut(n, place)
	return old, had, middle, right
}

// cut takes the pair at a place out of a node, and what is behind it.
func (t *tree[K, V]) cut(n *treeNode[K, V], place int) (middle treePair[K, V], right *treeNode[K, V]) {
	right = &treeNode[K, V]{edition: t.edition, pairs: slices.Clone(n.pairs[place+1:])}
	middle = n.pairs[place]
	n.pairs = slices.Delete(n.pairs, place, len(n.pairs))
	if n.children != nil {
		right.children = slices.Clone(n.children[place+1:])
		n.children = slices.Delete(n.children, place+1, len(n.children))
	}
	return middle, right
}

// Delete takes a key out, and gives its value.
func (t *tree[K, V]) Delete(k K) (v V, had bool) {
	if t.root == nil {
		return v, false
	}
	gone, had := t.remove(&t.root, k, false)
	if !had {
		return v, false
	}
	t.n--
	for t.root != nil && len(t.root.pairs) == 0 {
		if t.root.children == nil {
			t.root = nil
		} else {
			t.root = t.root.children[0]
		}
	}
	return gone.value, true
}

// remove takes a key, or the last one, out from below a node.
func (t *tree[K, V]) remove(at **treeNode[K, V], k K, last bool) (gone treePair[K, V], had bool) {
	n := t.own(at)
	i, found := len(n.pairs), false
	if !last {
		i, found = n.search(k)
	}
	switch {
	case n.children == nil:
		if last {
			i, found = i-1, true
		}
		if found {
			gone = n.pairs[i]
			n.pairs = slices.Delete(n.pairs, i, i+1)
		}
		return gone, found
	case found:
		gone = n.pairs[i]
		n.pairs[i], _ = t.remove(&n.children[i], k, true)
	default:
		if gone, found = t.remove(&n.children[i], k, last); !found {
			return gone, false
		}
	}
	if len(n.children[i].pairs) < treeLeast && len(n.children) > 1 {
		t.even(n, min(i, len(n.pairs)-1))
	}
	return gone, true
}

// even joins the two children around the pair at a place, or shares their pairs out where
// they are too many for one.
func (t *tree[K, V]) even(n *treeNode[K, V], place int) {
	left, right := t.own(&n.children[place]), t.own(&n.children[place+1])
	pairs := append(append(left.pairs, n.pairs[place]), right.pairs...)
	var children []*treeNode[K, V]
	if left.children != nil {
		children = append(left.children, right.children...)
	}
	left.pairs, left.children = pairs, children
	if len(pairs) <= treeMost {
		n.pairs = slices.Delete(n.pairs, place, place+1)
		n.children = slices.Delete(n.children, place+1, place+2)
		return
	}
	n.pairs[place], n.children[place+1] = t.cut(left, len(pairs)/2)
}

// own makes a node one that this tree alone holds.
func (t *tree[K, V]) own(at **treeNode[K, V]) *treeNode[K, V] {
	if n := *at; n.edition != t.edition {
		*at = &treeNode[K, V]{edition: t.edition, pairs: slices.Clone(n.pairs), children: slices.Clone(n.children)}
	}
	return *at
}

// search is the place of the first pair that is not before a key.
func (n *treeNode[K, V]) search(k K) (i int, found bool) {
	lo, hi := 0, len(n.pairs)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if n.pairs[mid].key < k {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(n.pairs) && n.pairs[lo].key == k
}

// Scan calls f for every pair in key order until it returns false.
func (t *tree[K, V]) Scan(f func(K, V) bool) {
	if t.root != nil {
		t.root.scan(0, f)
	}
}

// Ascend is Scan from the first key that is not before one.
func (t *tree[K, V]) Ascend(from K, f func(K, V) bool) {
	if t.root != nil {
		t.root.ascend(from, f)
	}
}

// scan walks a node from the child at a place on.
func (n *treeNode[K, V]) scan(i int, f func(K, V) bool) bool {
	for ; i <= len(n.pairs); i++ {
		if n.children != nil && !n.children[i].scan(0, f) {
			return false
		}
		if i < len(n.pairs) && !f(n.pairs[i].key, n.pairs[i].value) {
			return false
		}
	}
	return true
}

func (n *treeNode[K, V]) ascend(from K, f func(K, V) bool) bool {
	i, found := n.search(from)
	if n.children != nil && !found && !n.children[i].ascend(from, f) {
		return false
	}
	if i == len(n.pairs) {
		return true
	}
	return f(n.pairs[i].key, n.pairs[i].value) && n.scan(i+1, f)
}
