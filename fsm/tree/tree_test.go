package tree

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// sound returns the first fault in a tree's structure.
func (t *Tree[K, V]) sound() error {
	n, depth := 0, -1
	var walk func(at *node[K, V], deep int) error
	walk = func(at *node[K, V], deep int) error {
		n += len(at.rows)
		switch {
		case len(at.rows) == 0 || len(at.rows) > most || len(at.marks) != len(at.rows):
			return fmt.Errorf("a node holds %d rows and %d marks", len(at.rows), len(at.marks))
		case at.children != nil && len(at.children) != len(at.rows)+1:
			return fmt.Errorf("a node holds %d rows and %d children", len(at.rows), len(at.children))
		case at.children == nil && depth >= 0 && depth != deep:
			return fmt.Errorf("leaves at depths %d and %d", depth, deep)
		case at.children == nil:
			depth = deep
		}
		for _, row := range at.rows[len(at.rows):cap(at.rows)] {
			var none V
			if any(row) != any(none) {
				return fmt.Errorf("%v is held for too long", row.TreeKey())
			}
		}
		for i, row := range at.rows {
			k, begin := string(row.TreeKey()), string(at.begin[:at.begins])
			if !strings.HasPrefix(k, begin) || at.marks[i] != markOf(k[len(begin):]) {
				return fmt.Errorf("%q is under %q with mark %x", k, begin, at.marks[i])
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
		return fmt.Errorf("%d rows of %d", n, t.Len())
	}
	return nil
}

// numbered is a row of a tree, comparable.
type numbered struct {
	key string
	n   int
}

func (k numbered) TreeKey() string { return k.key }

// treeKeys are forms of keys, with numbers in order or not: alone, after a common prefix, after a prefix longer than a
// node omits, of any length, with zero bytes at their ends, and as prefixes of each other.
var treeKeys = []func(int) string{
	func(i int) string { return fmt.Sprintf("%07d", i) },
	func(i int) string { return fmt.Sprintf("run-%d-%07d", i%3, i) },
	func(i int) string { return strings.Repeat("long-", 11) + fmt.Sprintf("%07d", i) },
	func(i int) string { return fmt.Sprint(i) },
	func(i int) string {
		return strings.Repeat("\x00", i%11) + strings.Repeat("\xff", i/11%11) + strings.Repeat("\x00", i/121%11)
	},
	func(i int) string { return fmt.Sprintf("%x", sha256.Sum256([]byte{byte(i), byte(i >> 8)}))[:1+i%40] },
}

// TestTree compares a tree with a map, and its copies with copies of that: keys in order and out of order, enough for
// three levels.
func TestTree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(18) {
		r := rand.New(rand.NewPCG(seed, 1))
		space, form := []int{40, 500, 20_000}[seed%3], treeKeys[seed/2%6]
		var tr Tree[string, numbered]
		want := map[string]int{}
		type copied struct {
			tree *Tree[string, numbered]
			want map[string]int
		}
		var copies []copied
		next := 0
		for step := range 30_000 {
			i, rising := r.IntN(space), seed%2 == 1
			if rising && step%3 != 2 {
				next, i = next+1, next+space
			}
			k := form(i)
			shrink := step/6_000%2 == 1 && r.IntN(4) != 0
			switch {
			case shrink && tr.Len() > 0:
				if r.IntN(2) == 0 { // an existing one
					tr.Ascend(k, func(at string, _ numbered) bool { k = at; return false })
				}
				fallthrough
			case !rising && r.IntN(3) == 0:
				v, had := tr.Delete(k)
				if w, has := want[k]; had != has || v.n != w {
					t.Fatalf("seed %d: deleted %q: %d %v, want %d %v", seed, k, v.n, had, w, has)
				}
				delete(want, k)
			default:
				v, had := tr.Set(numbered{k, step})
				if w, has := want[k]; had != has || v.n != w {
					t.Fatalf("seed %d: set %q over %d %v, want %d %v", seed, k, v.n, had, w, has)
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
			holds(t, c.tree, c.want, form(r.IntN(space)))
		}
		for _, k := range slices.Sorted(maps.Keys(want)) {
			tr.Delete(k)
		}
		if tr.Len() != 0 || tr.root != nil {
			t.Fatalf("seed %d: %d are left", seed, tr.Len())
		}
	}
}

func holds(t *testing.T, tr *Tree[string, numbered], want map[string]int, from string) {
	t.Helper()
	if err := tr.sound(); err != nil {
		t.Fatal(err)
	}
	keys := slices.Sorted(maps.Keys(want))
	var got, tail []string
	tr.Scan(func(k string, v numbered) bool {
		got = append(got, k)
		if w, had := tr.Get(k); v.n != want[k] || w != v || !had {
			t.Fatalf("%q is %d and %d, want %d", k, v.n, w.n, want[k])
		}
		return true
	})
	at, _ := slices.BinarySearch(keys, from)
	tr.Ascend(from, func(k string, _ numbered) bool { tail = append(tail, k); return len(tail) < 99 })
	if !slices.Equal(got, keys) || !slices.Equal(tail, keys[at:min(len(keys), at+99)]) {
		t.Fatalf("%d keys, from %q %q, want %d and %q", len(got), from, tail, len(keys), keys[at:min(len(keys), at+99)])
	}
	if _, had := tr.Get("none"); had {
		t.Fatal("a missing key")
	}
}

// TestTree_ascending checks that ascending keys fill their nodes, and that a lookup allocates nothing.
func TestTree_ascending(t *testing.T) {
	t.Parallel()
	var tr Tree[string, numbered]
	const n = 100_000
	for i := range n {
		tr.Set(numbered{fmt.Sprintf("run-%07d", i), i})
	}
	nodes := 0
	var walk func(*node[string, numbered])
	walk = func(at *node[string, numbered]) {
		nodes++
		for _, c := range at.children {
			walk(c)
		}
	}
	walk(tr.root)
	if nodes > n/most*105/100 {
		t.Errorf("%d nodes hold %d keys", nodes, n)
	}
}
