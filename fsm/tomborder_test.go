package fsm

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

// TestTombOrder holds the order against a plain list: numbers in any order, dates that
// differ, ends that leave in any.
func TestTombOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		chance := rand.New(rand.NewPCG(seed, seed))
		o := newTombOrder()
		type entry struct {
			seq uint64
			tombEntry
		}
		var naive []entry
		same := func() {
			t.Helper()
			slices.SortFunc(naive, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
			seq, id, ok := o.first()
			if o.n != len(naive) || ok != (len(naive) > 0) || ok && (seq != naive[0].seq || id != naive[0].id) {
				t.Fatalf("seed %d: %d (%s) of %d is the oldest, of %v", seed, seq, id, o.n, naive)
			}
			dueSeq, e, ok := o.earliest()
			if !ok {
				return
			}
			want := slices.MinFunc(naive, func(a, b entry) int { return cmp.Compare(a.due, b.due) }) // the first of equals
			if dueSeq != want.seq || e != want.tombEntry {
				t.Fatalf("seed %d: %d is due first, %+v is wanted", seed, dueSeq, want)
			}
			i := chance.IntN(len(naive))
			most := chance.IntN(len(naive) + 2)
			if n := o.before(naive[i].seq, most); n != min(i, most) {
				t.Fatalf("seed %d: %d are before %d, %d are wanted, %d at most", seed, n, naive[i].seq, i, most)
			}
			if e, ok := o.at(naive[i].seq); !ok || e != naive[i].tombEntry {
				t.Fatalf("seed %d: number %d is %+v", seed, naive[i].seq, e)
			}
		}
		for range 1_500 {
			seq := uint64(chance.IntN(6 * tombBlockMost))
			if i := slices.IndexFunc(naive, func(e entry) bool { return e.seq == seq }); i >= 0 {
				naive = slices.Delete(naive, i, i+1)
			}
			if chance.IntN(3) > 0 {
				e := tombEntry{rota.Date(chance.IntN(100)), rota.JobID(fmt.Sprint("j", seq))}
				naive = append(naive, entry{seq, e})
				o.set(seq, e)
			} else {
				o.delete(seq)
				if _, ok := o.at(seq); ok {
					t.Fatalf("seed %d: number %d is there", seed, seq)
				}
			}
			same()
		}
		for len(naive) > 0 {
			o.delete(naive[len(naive)-1].seq)
			naive = naive[:len(naive)-1]
			same()
		}
		if o.n != 0 || o.blocks.Len() != 0 || o.byDue.Len() != 0 {
			t.Fatalf("%d ids in %d blocks, %d by date, are left of none", o.n, o.blocks.Len(), o.byDue.Len())
		}
	}
}

// TestTombOrder_shrinks: where one tombstone in a block stays, as the others' horizon was
// shorter, the block takes no more than that one needs.
func TestTombOrder_shrinks(t *testing.T) {
	t.Parallel()
	o := newTombOrder()
	const blocks = 100
	for seq := range uint64(blocks * tombBlockMost) {
		o.set(seq, tombEntry{due: rota.Date(seq), id: "j"})
	}
	for seq := range uint64(blocks * tombBlockMost) {
		if seq%tombBlockMost != 7 {
			o.delete(seq)
		}
	}
	room := 0
	o.blocks.Scan(func(_ uint64, b *tombBlock) bool {
		room += cap(b.list)
		return true
	})
	if o.n != blocks || room > 2*blocks {
		t.Fatalf("%d entries have room for %d", o.n, room)
	}
}
