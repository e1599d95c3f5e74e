package tree

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNumbers compares Numbers and every copy of them, however they change later, with a plain map.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		chance := rand.New(rand.NewPCG(seed, 7))
		var its Numbers[uint64]
		naive := map[uint64]uint64{}
		type copied struct {
			its   *Numbers[uint64]
			naive map[uint64]uint64
		}
		var copies []copied
		same := func(its *Numbers[uint64], naive map[uint64]uint64) {
			t.Helper()
			want := slices.Sorted(maps.Keys(naive))
			slices.Reverse(want)
			if its.Len() != len(want) {
				t.Fatalf("seed %d: %d numbers, want %d", seed, its.Len(), len(want))
			}
			at, i := uint64(10*blockNumbers), 0
			for ; ; i++ {
				below, v, ok := its.Below(at)
				if !ok {
					break
				}
				if i == len(want) || below != want[i] || v != naive[below] {
					t.Fatalf("seed %d: %d is below %d, of %v", seed, below, at, want)
				}
				at = below
			}
			if i != len(want) {
				t.Fatalf("seed %d: %d of %d are walked", seed, i, len(want))
			}
			n := chance.Uint64N(10 * blockNumbers)
			v, ok := its.Get(n)
			if w, had := naive[n]; ok != had || v != w {
				t.Fatalf("seed %d: number %d is %d %v", seed, n, v, ok)
			}
		}
		for i := range uint64(800) {
			n := chance.Uint64N(9 * blockNumbers)
			if chance.IntN(5) > 1 {
				its.Set(n, i)
				naive[n] = i
			} else {
				its.Delete(n)
				delete(naive, n)
			}
			if chance.IntN(50) == 0 {
				copies = append(copies, copied{its.Copy(), maps.Clone(naive)})
			}
			if i%40 == 0 {
				same(&its, naive)
			}
		}
		same(&its, naive)
		for _, c := range copies {
			same(c.its, c.naive)
		}
		for n := range naive {
			its.Delete(n)
		}
		if same(&its, nil); its.blocks.Len() != 0 {
			t.Fatalf("%d blocks are left of nothing", its.blocks.Len())
		}
	}
}
