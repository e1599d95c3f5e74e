package fsm

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

// tomb is a tombstone in its canonical bytes. There are up to a million of them and
// next to none is ever asked for, so that what counts is what they take: a row of six
// pointers took twice the memory, and four times the collector's work.
type tomb string

// TreeKey is the id, which the bytes begin with.
func (t tomb) TreeKey() rota.JobID {
	r := tombReader(t)
	return rota.JobID(r.str())
}

// row reads a tombstone. Its texts are parts of the bytes.
func (t tomb) row() (row tombRow) {
	r := tombReader(t)
	row.id = rota.JobID(r.str())
	row.queue = rota.QueueName(r.str())
	row.typ = rota.JobType(r.str())
	row.tenant = rota.TenantID(r.str())
	row.state = rota.JobState(r.uint())
	row.reason = rota.Reason(r.uint())
	row.attempt = int32(r.int())
	copy(row.lease[:], r.raw(uint64(len(row.lease))))
	row.worker = rota.WorkerID(r.str())
	row.outputDigest = r.str()
	row.submitted = r.moment()
	row.finished = r.moment()
	row.due = row.finished.Date + rota.Date(r.int())
	row.seq = r.uint()
	row.number = r.uint()
	content := r.raw(16)
	row.content = rota.Digest{Hi: binary.BigEndian.Uint64([]byte(content[:8])), Lo: binary.BigEndian.Uint64([]byte(content[8:]))}
	row.life = int32(r.int())
	row.retried = r.moment()
	row.freeAt = rota.Clock(r.int())
	row.fingerprint = r.str()
	copy(row.unique[:], r.str())
	row.batch = r.uint()
	row.logged = r.uint() != 0
	if n := r.uint(); n > 0 {
		row.earlier = make([]unlogged, n)
	}
	for i := range row.earlier {
		a := &row.earlier[i]
		copy(a.lease[:], r.raw(uint64(len(a.lease))))
		a.worker, a.attempt, a.logged = rota.WorkerID(r.str()), int32(r.int()), r.uint() != 0
	}
	return row
}

// tombReader reads what tombRow.canonical wrote here: there is no fault to find.
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

// tombs are the tombstones by id. They change by new ones in their places, so that a
// frozen copy shares all of them.
type tombs struct {
	tree tree.Tree[rota.JobID, tomb]
	l    *ledger
	// order is derived: the terminal jobs by their numbers, and by their dates.
	order tombOrder
	// ends is derived: the numbers of ends by those of the lives that ended, for lists.
	ends tree.Numbers[uint64]
	// texts are by queue: tombstones of one horizon leave together, and one that stays
	// would keep a whole piece of memory with others' of a shorter one.
	texts map[rota.QueueName]*entry.Texts
}

// get returns a copy of a tombstone, nil where there is none.
func (t *tombs) get(id rota.JobID) *tombRow {
	kept, ok := t.tree.Get(id)
	if !ok {
		return nil
	}
	row := kept.row()
	return &row
}

// insert puts a tombstone whose id is free, and gives what is kept of it.
func (t *tombs) insert(r *tombRow) tomb {
	kept, _ := t.set(r)
	return kept
}

// load is insert for one read from a snapshot.
func (t *tombs) load(r *tombRow) (fresh bool) {
	_, had := t.set(r)
	return !had
}

func (t *tombs) set(r *tombRow) (kept tomb, had bool) {
	in := t.texts[r.queue]
	if in == nil {
		in = &entry.Texts{}
		t.texts[rota.QueueName(strings.Clone(string(r.queue)))] = in // nothing of r is kept, so that its texts need no objects
	}
	kept = r.keep(&t.l.enc, in)
	t.l.add(t.l.hashTomb(kept))
	_, had = t.tree.Set(kept)
	t.order.set(r.seq, tombEntry{r.due, kept.TreeKey()})
	t.ends.Set(r.number, r.seq)
	return kept, had
}

// reject marks a tombstone as one whose proof was rejected.
func (t *tombs) reject(id rota.JobID) {
	t.change(id, func(row *tombRow) { row.reason = rota.ReasonProofRejected })
}

// change puts a tombstone in the place of an older one of its job.
func (t *tombs) change(id rota.JobID, how func(*tombRow)) {
	old, ok := t.tree.Get(id)
	if !ok {
		return
	}
	row := old.row()
	how(&row)
	t.l.sub(t.l.hashTomb(old))
	t.insert(&row)
}

func (t *tombs) drop(id rota.JobID, seq uint64) {
	if gone, ok := t.tree.Delete(id); ok {
		t.l.sub(t.l.hashTomb(gone))
		t.order.delete(seq)
		t.ends.Delete(gone.row().number)
	}
}

func (t *tombs) len() int { return t.tree.Len() }

// scan calls f for every tombstone in the order of ids; the row is valid until the next.
func (t *tombs) scan(f func(rota.JobID, *tombRow) bool) { scanTombs(&t.tree, "", f) }

// freeze returns a copy that later changes do not reach.
func (t *tombs) freeze() *tree.Tree[rota.JobID, tomb] { return t.tree.Copy() }

// scanTombs is scan from the first id that is not before one.
func scanTombs(t *tree.Tree[rota.JobID, tomb], from rota.JobID, f func(rota.JobID, *tombRow) bool) {
	var row tombRow
	t.Ascend(from, func(id rota.JobID, kept tomb) bool {
		row = kept.row()
		return f(id, &row)
	})
}

// tombOrder lists ended jobs by the numbers of their ends, and finds the one that is due
// first. Numbers are dense where all have one horizon, so that blocks of them stay full
// where the nodes of a tree would be half empty, and one date for each block makes an
// order of dates. Where horizons differ blocks empty out, and shrink.
type tombOrder struct {
	blocks btree.Map[uint64, *tombBlock]
	byDue  *btree.BTreeG[blockDue]
	// edition is whose blocks may be changed in place: others are in a frozen copy.
	edition *edition
	n       int
	// recent is the block that was changed last, unless it is gone: the next change is mostly in it too.
	recent   *tombBlock
	recentAt uint64
}

// tombBlock has the entries of tombBlockMost numbers, as far as they are there.
type tombBlock struct {
	edition *edition
	has     uint64 // a bit for each number, the lowest for the first
	list    []tombEntry
	due     rota.Date // the earliest of them
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

// edition marks what was made since the last frozen copy.
type edition struct{ _ byte }

// freeze returns a copy that later changes do not reach, without the order of dates.
func (o *tombOrder) freeze() *tombOrder {
	its := &tombOrder{blocks: *o.blocks.Copy(), n: o.n}
	o.edition = new(edition)
	return its
}

// own returns a block that may be changed, nil where there is none.
func (o *tombOrder) own(at uint64) *tombBlock {
	if b := o.recent; b != nil && o.recentAt == at && b.edition == o.edition {
		return b
	}
	b, ok := o.blocks.Get(at)
	if !ok {
		return nil
	}
	if b.edition != o.edition {
		b = &tombBlock{edition: o.edition, has: b.has, list: append(make([]tombEntry, 0, cap(b.list)), b.list...), due: b.due}
		o.blocks.Set(at, b)
	}
	o.recent, o.recentAt = b, at
	return b
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
	b := o.own(at)
	if b == nil {
		b = &tombBlock{edition: o.edition, due: e.due}
		o.blocks.Set(at, b)
		o.byDue.Set(blockDue{b.due, at})
		o.recent, o.recentAt = b, at
	}
	i, had := b.place(seq)
	if had {
		b.list[i] = e
		o.reckon(at, b)
		return
	}
	b.has |= 1 << (seq % tombBlockMost)
	if n := len(b.list); n == cap(b.list) {
		b.list = append(make([]tombEntry, 0, 2*n+1), b.list...) // 63 in the end
	}
	b.list = slices.Insert(b.list, i, e)
	o.n++
	o.redate(at, b, min(b.due, e.due))
}

func (o *tombOrder) delete(seq uint64) {
	at := seq / tombBlockMost
	b := o.own(at)
	if b == nil {
		return
	}
	i, had := b.place(seq)
	if !had {
		return
	}
	o.n--
	due := b.list[i].due
	b.has &^= 1 << (seq % tombBlockMost)
	b.list = slices.Delete(b.list, i, i+1)
	if len(b.list) == 0 {
		o.blocks.Delete(at)
		o.byDue.Delete(blockDue{b.due, at})
		o.recent = nil
		return
	}
	if 2*len(b.list) <= cap(b.list) {
		b.list = slices.Clip(slices.Clone(b.list))
	}
	if due == b.due {
		o.reckon(at, b)
	}
}

// reckon puts a block where its entries say in the order of dates.
func (o *tombOrder) reckon(at uint64, b *tombBlock) {
	due := b.list[0].due
	for i := range b.list {
		due = min(due, b.list[i].due)
	}
	o.redate(at, b, due)
}

// redate puts a block where its earliest date stands.
func (o *tombOrder) redate(at uint64, b *tombBlock, due rota.Date) {
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

// below returns the one with the greatest number below one.
func (o *tombOrder) below(number uint64) (seq uint64, e tombEntry, ok bool) {
	if number == 0 {
		return 0, e, false
	}
	most := number - 1
	o.blocks.Descend(most/tombBlockMost, func(at uint64, b *tombBlock) bool {
		has := b.has
		if at == most/tombBlockMost {
			has &= 1<<(most%tombBlockMost+1) - 1
		}
		if has != 0 {
			seq, e, ok = at*tombBlockMost+uint64(bits.Len64(has)-1), b.list[bits.OnesCount64(has)-1], true
		}
		return !ok
	})
	return seq, e, ok
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

// hashTomb is hashRow for a tombstone.
func (l *ledger) hashTomb(t tomb) rota.Digest {
	if l.unlogged || plantedGround.dedupeNotInSnapshot() {
		return rota.Digest{}
	}
	l.enc.b = append(append(l.enc.b[:0], tagTomb), t...)
	h := xxh3.Hash128(l.enc.b)
	return rota.Digest{Hi: h.Hi, Lo: h.Lo}
}
