package sched

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOrdered compares an ordered set with a sorted slice as it grows and shrinks, at its ends and in the middle.
func TestOrdered(t *testing.T) {
	t.Parallel()
	type pair struct{ key, value int }
	less := func(a, b pair) bool { return a.key < b.key }
	find := func(list []pair, k int) (int, bool) {
		return slices.BinarySearchFunc(list, k, func(p pair, k int) int { return cmp.Compare(p.key, k) })
	}
	for seed := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, 7))
		space := []int{30, 400, 5_000, 1_000_000}[seed%4]
		var o ordered[pair]
		var want []pair
		for step := range 24_000 {
			x := pair{r.IntN(space), step}
			if seed >= 8 && step%4 != 0 {
				x.key = space + step // mostly ascending
			}
			drop := r.IntN(3) == 0
			if step/4_000%3 == 2 {
				drop = r.IntN(8) != 0
			}
			if drop && len(want) > 0 {
				if r.IntN(8) > 0 {
					x = want[[]int{0, len(want) - 1, r.IntN(len(want))}[r.IntN(3)]]
				}
				at, has := find(want, x.key)
				if o.remove(x, less) != has {
					t.Fatalf("seed %d: removing %d is not %v", seed, x.key, has)
				}
				if has {
					want = slices.Delete(want, at, at+1)
				}
			} else {
				at, has := find(want, x.key)
				if o.insert(x, less) != has {
					t.Fatalf("seed %d: inserting %d is not %v", seed, x.key, has)
				}
				if has {
					want[at] = x
				} else {
					want = slices.Insert(want, at, x)
				}
			}
			first, ok := o.min()
			if o.len() != len(want) || ok != (len(want) > 0) || ok && first != want[0] {
				t.Fatalf("seed %d, step %d: %d members from %v, want %d", seed, step, o.len(), first, len(want))
			}
			if step%977 > 0 {
				continue
			}
			probe := pair{key: r.IntN(2 * space)}
			at, _ := find(want, probe.key)
			if got := o.rank(probe, less); got != at {
				t.Fatalf("seed %d: rank %d, want %d", seed, got, at)
			}
			for c, rest := range map[*cursor[pair]][]pair{new(o.cursor()): want, new(o.from(probe, less)): want[at:]} {
				for _, w := range rest {
					if x, ok := c.next(); !ok || x != w {
						t.Fatalf("seed %d, step %d: %v %v, want %v", seed, step, x, ok, w)
					}
				}
				if x, ok := c.next(); ok {
					t.Fatalf("seed %d: %v is one too many", seed, x)
				}
			}
		}
	}
}
