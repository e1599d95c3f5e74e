package state

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/tidwall/btree"
	"github.com/zeebo/xxh3"
)

// Tomb is a tombstone in its canonical bytes. There are up to a million, hardly any of which is ever read, so their
// size matters: a row of six pointers took twice the memory, and four times the collector's work.
type Tomb string

// TreeKey returns the id, with which the bytes begin.
func (t Tomb) TreeKey() rota.JobID {
	r := tombReader(t)
	return rota.JobID(r.str())
}

// Row decodes a tombstone. Its texts are substrings of the bytes.
func (t Tomb) Row() (row TombRow) {
	r := tombReader(t)
	row.ID = rota.JobID(r.str())
	row.Queue = rota.QueueName(r.str())
	row.Typ = rota.JobType(r.str())
	row.Tenant = rota.TenantID(r.str())
	row.State = rota.JobState(r.uint())
	row.Reason = rota.Reason(r.uint())
	row.Attempt = int32(r.int())
	copy(row.Lease[:], r.raw(uint64(len(row.Lease))))
	row.Worker = rota.WorkerID(r.str())
	row.OutputDigest = r.str()
	row.Submitted = r.moment()
	row.Finished = r.moment()
	row.Due = row.Finished.Date + rota.Date(r.int())
	row.Seq = r.uint()
	row.Number = r.uint()
	content := r.raw(16)
	row.Content = rota.Digest{Hi: binary.BigEndian.Uint64([]byte(content[:8])),
		Lo: binary.BigEndian.Uint64([]byte(content[8:]))}
	row.Life = int32(r.int())
	row.Retried = r.moment()
	row.FreeAt = rota.Clock(r.int())
	row.Fingerprint = r.str()
	copy(row.Unique[:], r.str())
	row.Batch = r.uint()
	row.Logged = r.uint() != 0
	if n := r.uint(); n > 0 {
		row.Earlier = make([]Unlogged, n)
	}
	for i := range row.Earlier {
		a := &row.Earlier[i]
		copy(a.Lease[:], r.raw(uint64(len(a.Lease))))
		a.Worker, a.Attempt, a.Logged = rota.WorkerID(r.str()), int32(r.int()), r.uint() != 0
	}
	return row
}

// tombReader reads what TombRow.Canonical wrote in this process, which cannot be malformed.
type tombReader string

func (r *tombReader) raw(n uint64) (part string) {
	part, *r = string((*r)[:n]), (*r)[n:]
	return part
}

func (r *tombReader) str() string { return r.raw(r.uint()) }

func (r *tombReader) uint() (v uint64) {
	for i := 0; ; i++ {
		c := (*r)[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			*r = (*r)[i+1:]
			return v
		}
	}
}

func (r *tombReader) int() int64 {
	v := r.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *tombReader) moment() rota.Moment {
	c := r.int()
	return rota.Moment{Clock: rota.Clock(c), Date: rota.Date(c + r.int())}
}

// Tombs holds the tombstones by id. A change replaces a tombstone by a new one, so a frozen copy shares all of them.
type Tombs struct {
	Tree tree.Tree[rota.JobID, Tomb]
	L    *Ledger
	// Order is derived: the terminal jobs by their numbers, and by their dates.
	Order TombOrder
	// Ends is derived, for lists: the numbers of ends by those of the lives that ended.
	Ends tree.Numbers[uint64]
	// Texts are kept by queue: tombstones of one horizon are dropped together, and a longer-lived one would keep a
	// whole piece of memory with those of a shorter horizon.
	Texts map[rota.QueueName]*entry.Texts
}

// Get returns a copy of a tombstone, nil if there is none.
func (t *Tombs) Get(id rota.JobID) *TombRow {
	kept, ok := t.Tree.Get(id)
	if !ok {
		return nil
	}
	row := kept.Row()
	return &row
}

// Insert adds a tombstone whose id is free and returns its stored form.
func (t *Tombs) Insert(r *TombRow) Tomb {
	kept, _ := t.set(r)
	return kept
}

// Load is Insert for a tombstone read from a snapshot.
func (t *Tombs) Load(r *TombRow) (fresh bool) {
	_, had := t.set(r)
	return !had
}

func (t *Tombs) set(r *TombRow) (kept Tomb, had bool) {
	in := t.Texts[r.Queue]
	if in == nil {
		in = &entry.Texts{}
		t.Texts[rota.QueueName(strings.Clone(string(
			r.Queue)))] = in // nothing of r is kept, so its texts need no objects
	}
	kept = r.Keep(&t.L.Enc, in)
	t.L.Add(t.L.HashTomb(kept))
	_, had = t.Tree.Set(kept)
	t.Order.Set(r.Seq, TombEntry{r.Due, kept.TreeKey()})
	t.Ends.Set(r.Number, r.Seq)
	return kept, had
}

// Reject records that a tombstone's proof was rejected.
func (t *Tombs) Reject(id rota.JobID) {
	t.Change(id, func(row *TombRow) { row.Reason = rota.ReasonProofRejected })
}

// Change replaces a tombstone of a job by a changed copy.
func (t *Tombs) Change(id rota.JobID, how func(*TombRow)) {
	old, ok := t.Tree.Get(id)
	if !ok {
		return
	}
	row := old.Row()
	how(&row)
	t.L.Sub(t.L.HashTomb(old))
	t.Insert(&row)
}

// Drop removes a tombstone and its place in the order of ends.
func (t *Tombs) Drop(id rota.JobID, seq uint64) {
	if gone, ok := t.Tree.Delete(id); ok {
		t.L.Sub(t.L.HashTomb(gone))
		t.Order.Delete(seq)
		t.Ends.Delete(gone.Row().Number)
	}
}

// Len returns the number of tombstones.
func (t *Tombs) Len() int { return t.Tree.Len() }

// Scan calls f for every tombstone in the order of ids; the row is valid until the next call.
func (t *Tombs) Scan(f func(rota.JobID, *TombRow) bool) { ScanTombs(&t.Tree, "", f) }

// Freeze returns a copy that later changes do not affect.
func (t *Tombs) Freeze() *tree.Tree[rota.JobID, Tomb] { return t.Tree.Copy() }

// ScanTombs is Scan starting at the first id that is not before from.
func ScanTombs(t *tree.Tree[rota.JobID, Tomb], from rota.JobID, f func(rota.JobID, *TombRow) bool) {
	var row TombRow
	t.Ascend(from, func(id rota.JobID, kept Tomb) bool {
		row = kept.Row()
		return f(id, &row)
	})
}

// TombOrder lists ended jobs by the numbers of their ends and finds the one that is due first. If all have one horizon
// the numbers are dense: blocks of them stay full, where the nodes of a tree would be half empty, and one date per
// block gives an order of dates. If horizons differ, blocks empty out and shrink.
type TombOrder struct {
	Blocks btree.Map[uint64, *TombBlock]
	ByDue  *btree.BTreeG[blockDue]
	// edition marks the blocks that may be changed in place: others are in a frozen copy.
	edition *edition
	N       int
	// recent is the block changed last, unless it is gone: the next change is mostly in it too.
	recent   *TombBlock
	recentAt uint64
}

// TombBlock holds the entries that exist among maxTombBlock numbers.
type TombBlock struct {
	edition *edition
	has     uint64 // a bit for each number, the lowest for the first
	List    []TombEntry
	due     rota.Date // the earliest of them
}

// MaxTombBlock makes the list of a full block 1,520 bytes, which fit a size class of the allocator.
const MaxTombBlock = 63

// TombEntry is a tombstone's id and the date on which it is dropped.
type TombEntry struct {
	Due rota.Date
	ID  rota.JobID
}

// blockDue is a block's place in the order of dates.
type blockDue struct {
	due   rota.Date
	block uint64
}

// edition marks the blocks created since the last frozen copy.
type edition struct{ _ byte }

// Freeze returns a copy that later changes do not affect, without the order of dates.
func (o *TombOrder) Freeze() *TombOrder {
	its := &TombOrder{Blocks: *o.Blocks.Copy(), N: o.N}
	o.edition = new(edition)
	return its
}

// own returns a block that may be changed, nil if there is none.
func (o *TombOrder) own(at uint64) *TombBlock {
	if b := o.recent; b != nil && o.recentAt == at && b.edition == o.edition {
		return b
	}
	b, ok := o.Blocks.Get(at)
	if !ok {
		return nil
	}
	if b.edition != o.edition {
		b = &TombBlock{edition: o.edition, has: b.has, List: append(make([]TombEntry, 0, cap(b.List)), b.List...),
			due: b.due}
		o.Blocks.Set(at, b)
	}
	o.recent, o.recentAt = b, at
	return b
}

// NewTombOrder returns an empty order.
func NewTombOrder() TombOrder {
	return TombOrder{ByDue: btree.NewBTreeGOptions(func(a, b blockDue) bool {
		if a.due != b.due {
			return a.due < b.due
		}
		return a.block < b.block
	}, btree.Options{NoLocks: true})}
}

// place returns the index of a number's entry in its block's list, or where it would be.
func (b *TombBlock) place(seq uint64) (i int, ok bool) {
	bit := uint64(1) << (seq % MaxTombBlock)
	return bits.OnesCount64(b.has & (bit - 1)), b.has&bit != 0
}

// Set stores the entry of a number, replacing an existing one.
func (o *TombOrder) Set(seq uint64, e TombEntry) {
	at := seq / MaxTombBlock
	b := o.own(at)
	if b == nil {
		b = &TombBlock{edition: o.edition, due: e.Due}
		o.Blocks.Set(at, b)
		o.ByDue.Set(blockDue{b.due, at})
		o.recent, o.recentAt = b, at
	}
	i, had := b.place(seq)
	if had {
		b.List[i] = e
		o.recount(at, b)
		return
	}
	b.has |= 1 << (seq % MaxTombBlock)
	if n := len(b.List); n == cap(b.List) {
		b.List = append(make([]TombEntry, 0, 2*n+1), b.List...) // 63 in the end
	}
	b.List = slices.Insert(b.List, i, e)
	o.N++
	o.redate(at, b, min(b.due, e.Due))
}

// Delete removes a number, if present.
func (o *TombOrder) Delete(seq uint64) {
	at := seq / MaxTombBlock
	b := o.own(at)
	if b == nil {
		return
	}
	i, had := b.place(seq)
	if !had {
		return
	}
	o.N--
	due := b.List[i].Due
	b.has &^= 1 << (seq % MaxTombBlock)
	b.List = slices.Delete(b.List, i, i+1)
	if len(b.List) == 0 {
		o.Blocks.Delete(at)
		o.ByDue.Delete(blockDue{b.due, at})
		o.recent = nil
		return
	}
	if 2*len(b.List) <= cap(b.List) {
		b.List = slices.Clip(slices.Clone(b.List))
	}
	if due == b.due {
		o.recount(at, b)
	}
}

// recount updates a block's place in the order of dates from its entries.
func (o *TombOrder) recount(at uint64, b *TombBlock) {
	due := b.List[0].Due
	for i := range b.List {
		due = min(due, b.List[i].Due)
	}
	o.redate(at, b, due)
}

// redate moves a block to the place of its earliest date.
func (o *TombOrder) redate(at uint64, b *TombBlock, due rota.Date) {
	if due != b.due {
		o.ByDue.Delete(blockDue{b.due, at})
		b.due = due
		o.ByDue.Set(blockDue{b.due, at})
	}
}

// At returns the entry of a number.
func (o *TombOrder) At(seq uint64) (e TombEntry, ok bool) {
	b, ok := o.Blocks.Get(seq / MaxTombBlock)
	if !ok {
		return e, false
	}
	i, ok := b.place(seq)
	if !ok {
		return e, false
	}
	return b.List[i], true
}

// Below returns the entry with the greatest number below the given one.
func (o *TombOrder) Below(number uint64) (seq uint64, e TombEntry, ok bool) {
	if number == 0 {
		return 0, e, false
	}
	most := number - 1
	o.Blocks.Descend(most/MaxTombBlock, func(at uint64, b *TombBlock) bool {
		has := b.has
		if at == most/MaxTombBlock {
			has &= 1<<(most%MaxTombBlock+1) - 1
		}
		if has != 0 {
			seq, e, ok = at*MaxTombBlock+uint64(bits.Len64(has)-1), b.List[bits.OnesCount64(has)-1], true
		}
		return !ok
	})
	return seq, e, ok
}

// First returns the entry with the lowest number, which ended first.
func (o *TombOrder) First() (seq uint64, id rota.JobID, ok bool) {
	block, b, ok := o.Blocks.Min()
	if !ok {
		return 0, "", false
	}
	return block*MaxTombBlock + uint64(bits.TrailingZeros64(b.has)), b.List[0].ID, true
}

// Earliest returns the entry that is due first, ties by the one that ended first.
func (o *TombOrder) Earliest() (seq uint64, e TombEntry, ok bool) {
	first, ok := o.ByDue.Min()
	if !ok {
		return 0, e, false
	}
	b, _ := o.Blocks.Get(first.block)
	has := b.has
	for _, e = range b.List {
		if e.Due == first.due {
			break
		}
		has &= has - 1 // the next existing number
	}
	return first.block*MaxTombBlock + uint64(bits.TrailingZeros64(has)), e, true
}

// Before counts the entries with lower numbers, up to `most`.
func (o *TombOrder) Before(seq uint64, most int) (n int) {
	o.Blocks.Scan(func(block uint64, b *TombBlock) bool {
		if block == seq/MaxTombBlock {
			i, _ := b.place(seq)
			n += i
		} else if block < seq/MaxTombBlock {
			n += len(b.List)
		}
		return block < seq/MaxTombBlock && n < most
	})
	return min(n, most)
}

// HashTomb is HashRow for a tombstone.
func (l *Ledger) HashTomb(t Tomb) rota.Digest {
	if l.Unlogged || Planted.DedupeNotInSnapshot() {
		return rota.Digest{}
	}
	l.Enc.B = append(append(l.Enc.B[:0], TagTomb), t...)
	h := xxh3.Hash128(l.Enc.B)
	return rota.Digest{Hi: h.Hi, Lo: h.Lo}
}
