package fsm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// sound tells the first thing that is wrong with a tree's form.
func (t *tree[K, V]) sound() error {
	n, depth := 0, -1
	var walk func(at *treeNode[K, V], deep int) error
	walk = func(at *treeNode[K, V], deep int) error {
		n += len(at.pairs)
		switch {
		case len(at.pairs) == 0 || len(at.pairs) > treeMost:
			return fmt.Errorf("a node holds %d pairs", len(at.pairs))
		case at.children != nil && len(at.children) != len(at.pairs)+1:
			return fmt.Errorf("a node holds %d pairs and %d children", len(at.pairs), len(at.children))
		case at.children == nil && depth >= 0 && depth != deep:
			return fmt.Errorf("leaves at depths %d and %d", depth, deep)
		case at.children == nil:
			depth = deep
		}
		var none treePair[K, V]
		for _, p := range at.pairs[len(at.pairs):cap(at.pairs)] {
			if p.key != none.key {
				return fmt.Errorf("%v is held beyond its time", p.key)
			}
		}
		for _, c := range at.children {
			if err := walk(c, deep+1); err != nil {
				return err
			}
		}
		return nil
	}
	if t.root != nil {
		if err := walk(t.root, 0); err != nil {
			return err
		}
	}
	if n != t.Len() {
		return fmt.Errorf("%d pairs of %d", n, t.Len())
	}
	return nil
}

// at is the row at a place in key order.
func (t *table[K, R, P]) at(place int) (row P) {
	t.scan(func(_ K, p P) bool {
		row, place = p, place-1
		return place >= 0
	})
	return row
}

// TestTree holds a tree against a map, and its copies against copies of that: keys in
// order and out of it, as many as make three levels.
func TestTree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		space := []int{40, 500, 20_000}[seed%3]
		var tr tree[int, int]
		want := map[int]int{}
		type copied struct {
			tree *tree[int, int]
			want map[int]int
		}
		var copies []copied
		next := 0
		for step := range 30_000 {
			k, rising := r.IntN(space), seed%2 == 1
			if rising && step%3 != 2 {
				next, k = next+1, next+space
			}
			shrink := step/6_000%2 == 1 && r.IntN(4) != 0
			switch {
			case shrink && tr.Len() > 0:
				if r.IntN(2) == 0 { // one that is there
					tr.Ascend(k, func(at, _ int) bool { k = at; return false })
				}
				fallthrough
			case !rising && r.IntN(3) == 0:
				v, had := tr.Delete(k)
				if w, has := want[k]; had != has || v != w {
					t.Fatalf("seed %d: deleted %d: %d %v, want %d %v", seed, k, v, had, w, has)
				}
				delete(want, k)
			default:
				v, had := tr.Set(k, step)
				if w, has := want[k]; had != has || v != w {
					t.Fatalf("seed %d: set %d over %d %v, want %d %v", seed, k, v, had, w, has)
				}
				want[k] = step
			}
			if step%5_000 == 17 {
				copies = append(copies, copied{tr.Copy(), maps.Clone(want)})
			}
			if step%1_000 == 0 {
				if err := tr.sound(); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
		}
		for _, c := range append(copies, copied{&tr, want}) {
			holds(t, c.tree, c.want, r.IntN(space))
		}
		for _, k := range slices.Sorted(maps.Keys(want)) {
			tr.Delete(k)
		}
		if tr.Len() != 0 || tr.root != nil {
			t.Fatalf("seed %d: %d are left", seed, tr.Len())
		}
	}
}

func holds(t *testing.T, tr *tree[int, int], want map[int]int, from int) {
	t.Helper()
	if err := tr.sound(); err != nil {
		t.Fatal(err)
	}
	keys := slices.Sorted(maps.Keys(want))
	var got, tail []int
	tr.Scan(func(k, v int) bool {
		got = append(got, k)
		if w, had := tr.Get(k); v != want[k] || w != v || !had {
			t.Fatalf("%d is %d and %d, want %d", k, v, w, want[k])
		}
		return true
	})
	at, _ := slices.BinarySearch(keys, from)
	tr.Ascend(from, func(k, _ int) bool { tail = append(tail, k); return len(tail) < 99 })
	if !slices.Equal(got, keys) || !slices.Equal(tail, keys[at:min(len(keys), at+99)]) {
		t.Fatalf("%d keys, from %d %v, want %d and %v", len(got), from, tail, len(keys), keys[at:min(len(keys), at+99)])
	}
	if _, had := tr.Get(-1); had {
		t.Fatal("a key that is not there")
	}
}

// Keys that ascend fill their nodes, and looking costs no allocation.
func TestTree_ascending(t *testing.T) {
	t.Parallel()
	var tr tree[int, int]
	const n = 100_000
	for i := range n {
		tr.Set(i, i)
	}
	nodes := 0
	var walk func(*treeNode[int, int])
	walk = func(at *treeNode[int, int]) {
		nodes++
		for _, c := range at.children {
			walk(c)
		}
	}
	walk(tr.root)
	if nodes > n/treeMost*105/100 {
		t.Errorf("%d nodes hold %d keys", nodes, n)
	}
}
