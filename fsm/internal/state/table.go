package state

import (
	"maps"
	"math"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/tree"
)

// Row is one record of a table. Its canonical encoding decides the digest.
type Row interface {
	Canonical(*Encoder)
	meta() *RowMeta
	// Detach is called on a copy of a row: what it points to and may change becomes
	// its own.
	Detach()
}

// RowMeta is a row's own bookkeeping, no part of its canonical encoding.
type RowMeta struct {
	// word is gen and bytes in one: there may be ten million rows of jobs, and a word more
	// would take a size class more of each.
	word uint64
	// Hash is what the row added to the digest, valid once its entry is settled.
	Hash rota.Digest
}

// bytesBits is the room for bytes: 16 MiB, far beyond the largest row. What is left for
// gen lasts for 34 years of a thousand entries a second, and begins anew with the process.
const bytesBits = 24

// goneGen is the gen of a row that was dropped in the entry that made it.
const goneGen = math.MaxUint64 >> bytesBits

func (m *RowMeta) meta() *RowMeta { return m }

// Gen is the entry that made or changed this copy; within that entry it may be changed in
// place. Afterwards it never changes again, but in a mutable table that was not frozen since.
func (m *RowMeta) Gen() uint64 { return m.word >> bytesBits }

// bytes is what the tally counts for the row.
func (m *RowMeta) bytes() int64 { return int64(m.word & (1<<bytesBits - 1)) }

func metaOf(gen uint64, bytes int64) RowMeta { return RowMeta{word: gen<<bytesBits | uint64(bytes)} }

func (m *RowMeta) Detach() {}

// Ledger keeps the incremental multiset hash: the sum, in two lanes mod 2⁶⁴, of
// every row's hash (SPEC §2.5). Rows touched by an entry are hashed once, when
// the entry is settled.
type Ledger struct {
	Gen   uint64
	Sum   rota.Digest
	Tally tally
	dirty []dirtyRow
	Enc   Encoder
	// Unlogged says that no log holds the entries: rows are neither hashed nor counted.
	Unlogged bool
}

type dirtyRow struct {
	tag byte
	row Row
}

// HashRow is the digest of a row under its tag.
func HashRow(enc *Encoder, tag byte, r Row) rota.Digest { return HashBytes(EncodeRow(enc, tag, r)) }

// EncodeRow returns a row's canonical form behind its tag, valid until enc is used again.
func EncodeRow(enc *Encoder, tag byte, r Row) []byte {
	enc.B = append(enc.B[:0], tag)
	r.Canonical(enc)
	return enc.B
}

// enter adds a row to the digest, and to the tally what it is more than was counted for it.
func (l *Ledger) enter(tag byte, r Row) {
	if l.Unlogged {
		return
	}
	m := r.meta()
	m.Hash = HashRow(&l.Enc, tag, r)
	l.Add(m.Hash)
	if w, ok := r.(Weighed); ok {
		n := int64(len(l.Enc.B)-1) + w.Besides()
		l.Tally.Add(w, n-m.bytes())
		m.word = metaOf(m.Gen(), n).word
	}
}

// leave takes from the tally what was counted for a row.
func (l *Ledger) leave(r Row) {
	if w, ok := r.(Weighed); ok {
		l.Tally.Add(w, -r.meta().bytes())
	}
}

// Add adds the digest of a row to the sum.
func (l *Ledger) Add(d rota.Digest) { l.Sum.Hi += d.Hi; l.Sum.Lo += d.Lo }

// Sub takes the digest of a row out of the sum.
func (l *Ledger) Sub(d rota.Digest) { l.Sum.Hi -= d.Hi; l.Sum.Lo -= d.Lo }

// touch registers a fresh copy made in this entry.
func (l *Ledger) touch(tag byte, r Row) { l.dirty = append(l.dirty, dirtyRow{tag, r}) }

// Settle hashes what the entry touched.
func (l *Ledger) Settle() {
	for _, d := range l.dirty {
		m := d.row.meta()
		if m.Gen() == goneGen {
			continue
		}
		l.enter(d.tag, d.row)
	}
	clear(l.dirty)
	l.dirty = l.dirty[:0]
}

// Table is an ordered copy-on-write tree of rows that change by copies. A walk is in key
// order by construction; freeze costs about a microsecond and never stops
// applying (a plain Go map was refused: it has no order and no cheap copy).
type Table[K ~string, R any, P interface {
	*R
	Row
	tree.Row[K]
}] struct {
	tag  byte
	Tree tree.Tree[K, P]
	l    *Ledger
	// Mutable says that nobody but frozen copies of the table ever holds a row beyond an
	// entry. shared is the entry after which it was frozen last: a row that is younger
	// is in no frozen copy, and is changed where it lies.
	Mutable bool
	shared  uint64
	// Last is the row that was changed last, under lastKey: an operation asks for the same
	// few rows again and again. A look alone sets neither, as reads run beside each other.
	Last    P
	lastKey K
	// Known, where it is made, finds the rows without a search: for a table that is asked for the
	// same rows many times an operation. What it holds is never walked.
	Known map[K]P
	// Dropped are the rows of a mutable table that left it in this entry and that nobody
	// holds; spare those of entries before, empty, to be used anew.
	Dropped, spare []P
	// Empty makes a dropped row new; nil sets it to nothing.
	Empty func(P)
	// Filed and left, where they are set, are called for each row that the table has from now on,
	// a changed copy too, and for each that leaves it.
	Filed, Left func(P)
}

// SpareMost bounds the rows that are kept to be used anew: a few entries' worth.
const SpareMost = 1 << 11

// Init gives an empty table its tag in snapshots and the ledger of the digest.
func (t *Table[K, R, P]) Init(tag byte, l *Ledger) { t.tag, t.l = tag, l }

// Get returns the row of a key, or nil. The row must not be changed.
func (t *Table[K, R, P]) Get(k K) P {
	if t.Last != nil && t.lastKey == k {
		return t.Last
	}
	if t.Known != nil {
		return t.Known[k]
	}
	p, _ := t.Tree.Get(k)
	return p
}

// Fresh returns an empty row, to be filled and inserted.
func (t *Table[K, R, P]) Fresh() P {
	n := len(t.spare)
	if n == 0 {
		return new(R)
	}
	p := t.spare[n-1]
	t.spare = t.spare[:n-1]
	return p
}

// Recycle empties the rows that the entry dropped, once it is settled. One that was used
// beyond its entry would be seen to be empty at once.
func (t *Table[K, R, P]) Recycle() {
	for i, p := range t.Dropped {
		t.Dropped[i] = nil
		if len(t.spare) < SpareMost {
			if t.Empty != nil {
				t.Empty(p)
			} else {
				var empty R
				*p = empty
			}
			t.spare = append(t.spare, p)
		}
	}
	t.Dropped = t.Dropped[:0]
}

// Edit returns the row, or a copy in its place, to be changed until the entry is
// settled; nil where there is none. Which of the two shows nowhere: a verb that keeps a
// row from before would meet its own changes as soon as an entry holds it twice.
func (t *Table[K, R, P]) Edit(k K) P {
	p := t.Get(k)
	if p == nil {
		return nil
	}
	return t.Change(k, p)
}

// Change is edit for a caller that has found the row already.
func (t *Table[K, R, P]) Change(k K, p P) P {
	t.Last, t.lastKey = p, k
	if p.meta().Gen() == t.l.Gen {
		return p
	}
	t.l.Sub(p.meta().Hash)
	meta := metaOf(t.l.Gen, p.meta().bytes())
	if t.Mutable && p.meta().Gen() > t.shared {
		*p.meta() = meta
		t.l.touch(t.tag, p)
		return p
	}
	q := t.Fresh()
	*q = *p
	q.Detach()
	*q.meta() = meta
	t.put(k, q)
	t.Last = q
	t.l.touch(t.tag, q)
	return q
}

// Insert puts a row whose key is free.
func (t *Table[K, R, P]) Insert(k K, p P) {
	*p.meta() = metaOf(t.l.Gen, 0)
	t.put(k, p)
	t.Last, t.lastKey = p, k
	t.l.touch(t.tag, p)
}

// put files a row under its key.
func (t *Table[K, R, P]) put(k K, p P) (had bool) {
	if t.Known != nil {
		t.Known[k] = p
	}
	if t.Filed != nil {
		t.Filed(p)
	}
	_, had = t.Tree.Set(p)
	return had
}

// Load puts a row read from a snapshot; its hash is added at once.
func (t *Table[K, R, P]) Load(k K, p P) (fresh bool) {
	*p.meta() = metaOf(t.l.Gen, 0)
	t.l.enter(t.tag, p)
	t.Last = nil
	return !t.put(k, p)
}

// Drop removes the row of a key, if there is one.
func (t *Table[K, R, P]) Drop(k K) {
	p, ok := t.Tree.Delete(k)
	if !ok {
		return
	}
	if t.lastKey == k {
		t.Last = nil
	}
	delete(t.Known, k)
	if t.Left != nil {
		t.Left(p)
	}
	t.l.leave(p)
	m := p.meta()
	if t.Mutable && m.Gen() > t.shared {
		t.Dropped = append(t.Dropped, p)
	}
	if m.Gen() == t.l.Gen {
		*m = metaOf(goneGen, 0)
		return
	}
	t.l.Sub(m.Hash)
}

// Len counts the rows.
func (t *Table[K, R, P]) Len() int { return t.Tree.Len() }

// Scan visits the rows in key order while f returns true.
func (t *Table[K, R, P]) Scan(f func(K, P) bool) { t.Tree.Scan(f) }

// Freeze returns a copy that later changes do not reach.
func (t *Table[K, R, P]) Freeze() *tree.Tree[K, P] {
	t.shared = t.l.Gen
	return t.Tree.Copy()
}

// tally counts the bytes of the rows that users make grow, in canonical form and at the end of
// each entry: in all, and of each queue and tenant (SPEC §4.13). It is derived of the rows,
// and recounted by Check (Invariant I4).
type tally struct {
	All     int64
	Queues  CountsBy[rota.QueueName]
	Tenants CountsBy[rota.TenantID]
}

// Weighed is a row that the tally counts.
type Weighed interface {
	Row
	// owner is the queue and the tenant that it counts for, "" for none. It never changes.
	owner() (rota.QueueName, rota.TenantID)
	// Besides counts the bytes that a hash stands for in the row's canonical form.
	Besides() int64
}

// Add counts so many bytes more, or fewer, of a row's owner.
func (t *tally) Add(w Weighed, n int64) {
	if n == 0 {
		return
	}
	t.All += n
	queue, tenant := w.owner()
	t.Queues.Add(queue, n)
	t.Tenants.Add(tenant, n)
}

// CountsBy are numbers by name, none of them 0. Most of what is counted is of the same name as what was before: that one's
// number stands beside the map until another's is asked for.
type CountsBy[K ~string] struct {
	of   map[K]int64
	last K
	n    int64
}

// Add counts so many more of a name, and returns how many there are now; "" is no name.
func (c *CountsBy[K]) Add(k K, n int64) int64 {
	if k == "" {
		return 0
	}
	if k != c.last {
		c.settle()
		c.last, c.n = k, c.of[k]
	}
	c.n += n
	return c.n
}

// settle writes the last number into the map.
func (c *CountsBy[K]) settle() {
	switch {
	case c.n == 0:
		delete(c.of, c.last)
	case c.of == nil:
		c.of = map[K]int64{c.last: c.n}
	default:
		c.of[c.last] = c.n
	}
}

// Get changes nothing, as reads run beside each other.
func (c *CountsBy[K]) Get(k K) int64 {
	if k == c.last {
		return c.n
	}
	return c.of[k]
}

// Whole returns all of them, in a map of its own.
func (c CountsBy[K]) Whole() map[K]int64 {
	c.of = maps.Clone(c.of)
	c.settle()
	return c.of
}

// Named reports whether a row that the tally counts, but for its own, is of a queue or of a
// tenant.
func (l *Ledger) Named(of Weighed) bool {
	queue, tenant := of.owner()
	if l.Tally.Queues.Get(queue)+l.Tally.Tenants.Get(tenant) > of.meta().bytes() {
		return true
	}
	for _, d := range l.dirty { // those of this entry are not counted yet
		w, ok := d.row.(Weighed)
		if !ok || d.row == Row(of) || d.row.meta().Gen() == goneGen {
			continue
		}
		if q, t := w.owner(); queue != "" && q == queue || tenant != "" && t == tenant {
			return true
		}
	}
	return false
}
