package fsm

import (
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
	"github.com/tidwall/btree"
)

// tombOrder lists ended jobs by the numbers of their ends, and finds the one that is due
// first. Numbers are dense where all have one horizon, so that blocks of them stay full
// where the nodes of a tree would be half empty, and one date for each block makes an
// order of dates. Where horizons differ blocks empty out, and shrink.
type tombOrder struct {
	blocks btree.Map[uint64, *tombBlock]
	byDue  *btree.BTreeG[blockDue]
	n      int
}

// tombBlock has the entries of tombBlockMost numbers, as far as they are there.
type tombBlock struct {
	has  uint64 // a bit for each number, the lowest for the first
	list []tombEntry
	due  rota.Date // the earliest of them
}

// tombBlockMost makes the list of a full block 1,520 bytes, which fit a size of the allocator.
const tombBlockMost = 63

type tombEntry struct {
	due rota.Date
	id  rota.JobID
}

// blockDue is where a block stands in the order of dates.
type blockDue struct {
	due   rota.Date
	block uint64
}

func newTombOrder() tombOrder {
	return tombOrder{byDue: btree.NewBTreeGOptions(func(a, b blockDue) bool {
		if a.due != b.due {
			return a.due < b.due
		}
		return a.block < b.block
	}, btree.Options{NoLocks: true})}
}

// place returns where the entry of a number stands in its block's list, or would.
func (b *tombBlock) place(seq uint64) (i int, ok bool) {
	bit := uint64(1) << (seq % tombBlockMost)
	return bits.OnesCount64(b.has & (bit - 1)), b.has&bit != 0
}

// set puts the entry of a number, in the place of another if there is one.
func (o *tombOrder) set(seq uint64, e tombEntry) {
	at := seq / tombBlockMost
	b, ok := o.blocks.Get(at)
	if !ok {
		b = &tombBlock{due: e.due}
		o.blocks.Set(at, b)
		o.byDue.Set(blockDue{b.due, at})
	}
	i, had := b.place(seq)
	if had {
		b.list[i] = e
	} else {
		b.has |= 1 << (seq % tombBlockMost)
		if n := len(b.list); n == cap(b.list) {
			b.list = append(make([]tombEntry, 0, 2*n+1), b.list...) // 63 in the end
		}
		b.list = slices.Insert(b.list, i, e)
		o.n++
	}
	o.reckon(at, b)
}

func (o *tombOrder) delete(seq uint64) {
	at := seq / tombBlockMost
	b, ok := o.blocks.Get(at)
	if !ok {
		return
	}
	i, had := b.place(seq)
	if !had {
		return
	}
	o.n--
	b.has &^= 1 << (seq % tombBlockMost)
	b.list = slices.Delete(b.list, i, i+1)
	if len(b.list) == 0 {
		o.blocks.Delete(at)
		o.byDue.Delete(blockDue{b.due, at})
		return
	}
	if 2*len(b.list) <= cap(b.list) {
		b.list = slices.Clip(slices.Clone(b.list))
	}
	o.reckon(at, b)
}

// reckon puts a block where its entries say in the order of dates.
func (o *tombOrder) reckon(at uint64, b *tombBlock) {
	due := b.list[0].due
	for i := range b.list {
		due = min(due, b.list[i].due)
	}
	if due != b.due {
		o.byDue.Delete(blockDue{b.due, at})
		b.due = due
		o.byDue.Set(blockDue{b.due, at})
	}
}

// at returns the entry of a number.
func (o *tombOrder) at(seq uint64) (e tombEntry, ok bool) {
	b, ok := o.blocks.Get(seq / tombBlockMost)
	if !ok {
		return e, false
	}
	i, ok := b.place(seq)
	if !ok {
		return e, false
	}
	return b.list[i], true
}

// first returns the one with the lowest number, which ended first.
func (o *tombOrder) first() (seq uint64, id rota.JobID, ok bool) {
	block, b, ok := o.blocks.Min()
	if !ok {
		return 0, "", false
	}
	return block*tombBlockMost + uint64(bits.TrailingZeros64(b.has)), b.list[0].id, true
}

// earliest returns the one that is due first; of several the one that ended first.
func (o *tombOrder) earliest() (seq uint64, e tombEntry, ok bool) {
	first, ok := o.byDue.Min()
	if !ok {
		return 0, e, false
	}
	b, _ := o.blocks.Get(first.block)
	has := b.has
	for _, e = range b.list {
		if e.due == first.due {
			break
		}
		has &= has - 1 // the next number that is there
	}
	return first.block*tombBlockMost + uint64(bits.TrailingZeros64(has)), e, true
}

// before counts those with lower numbers, most at most.
func (o *tombOrder) before(seq uint64, most int) (n int) {
	o.blocks.Scan(func(block uint64, b *tombBlock) bool {
		if block == seq/tombBlockMost {
			i, _ := b.place(seq)
			n += i
		} else if block < seq/tombBlockMost {
			n += len(b.list)
		}
		return block < seq/tombBlockMost && n < most
	})
	return min(n, most)
}
