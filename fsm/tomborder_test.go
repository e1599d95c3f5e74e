package fsm

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// TestTombOrder compares the order with a plain list: numbers in any order, different dates, removals in any order.
func TestTombOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		chance := rand.New(rand.NewPCG(seed, seed))
		o := state.NewTombOrder()
		type entry struct {
			seq uint64
			state.TombEntry
		}
		var naive []entry
		same := func() {
			t.Helper()
			slices.SortFunc(naive, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
			seq, id, ok := o.First()
			if o.N != len(naive) || ok != (len(naive) > 0) || ok && (seq != naive[0].seq || id != naive[0].ID) {
				t.Fatalf("seed %d: %d (%s) of %d is the oldest, of %v", seed, seq, id, o.N, naive)
			}
			dueSeq, e, ok := o.Earliest()
			if !ok {
				return
			}
			want := slices.MinFunc(naive, func(a, b entry) int {
				return cmp.Compare(a.Due, b.Due)
			}) // the first of equals
			if dueSeq != want.seq || e != want.TombEntry {
				t.Fatalf("seed %d: %d is due first, want %+v", seed, dueSeq, want)
			}
			i := chance.IntN(len(naive))
			most := chance.IntN(len(naive) + 2)
			if n := o.Before(naive[i].seq, most); n != min(i, most) {
				t.Fatalf("seed %d: %d are before %d, want %d, at most %d", seed, n, naive[i].seq, i, most)
			}
			if e, ok := o.At(naive[i].seq); !ok || e != naive[i].TombEntry {
				t.Fatalf("seed %d: number %d is %+v", seed, naive[i].seq, e)
			}
		}
		for range 1_500 {
			seq := uint64(chance.IntN(6 * state.MaxTombBlock))
			if i := slices.IndexFunc(naive, func(e entry) bool { return e.seq == seq }); i >= 0 {
				naive = slices.Delete(naive, i, i+1)
			}
			if chance.IntN(3) > 0 {
				e := state.TombEntry{Due: rota.Date(chance.IntN(100)), ID: rota.JobID(fmt.Sprint("j", seq))}
				naive = append(naive, entry{seq, e})
				o.Set(seq, e)
			} else {
				o.Delete(seq)
				if _, ok := o.At(seq); ok {
					t.Fatalf("seed %d: number %d is there", seed, seq)
				}
			}
			same()
		}
		for len(naive) > 0 {
			o.Delete(naive[len(naive)-1].seq)
			naive = naive[:len(naive)-1]
			same()
		}
		if o.N != 0 || o.Blocks.Len() != 0 || o.ByDue.Len() != 0 {
			t.Fatalf("%d ids in %d blocks, %d by date, are left of none", o.N, o.Blocks.Len(), o.ByDue.Len())
		}
	}
}

// TestTombOrder_shrinks checks that if one tombstone in a block stays, as the others' horizon was shorter, the block
// takes only the memory that one needs.
func TestTombOrder_shrinks(t *testing.T) {
	t.Parallel()
	o := state.NewTombOrder()
	const blocks = 100
	for seq := range uint64(blocks * state.MaxTombBlock) {
		o.Set(seq, state.TombEntry{Due: rota.Date(seq), ID: "j"})
	}
	for seq := range uint64(blocks * state.MaxTombBlock) {
		if seq%state.MaxTombBlock != 7 {
			o.Delete(seq)
		}
	}
	room := 0
	o.Blocks.Scan(func(_ uint64, b *state.TombBlock) bool {
		room += cap(b.List)
		return true
	})
	if o.N != blocks || room > 2*blocks {
		t.Fatalf("%d entries have room for %d", o.N, room)
	}
}
