package state

import (
	"maps"
	"math"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/tree"
)

// Row is one record of a table. Its canonical encoding determines the digest.
type Row interface {
	Canonical(*Encoder)
	meta() *RowMeta
	// Detach is called on a copy of a row: everything it points to that may change becomes the copy's own.
	Detach()
}

// RowMeta is a row's bookkeeping, outside its canonical encoding.
type RowMeta struct {
	// word holds gen and bytes: there may be ten million job rows, and another word would move each to a larger size
	// class.
	word uint64
	// Hash is the row's contribution to the digest, valid once its entry is settled.
	Hash rota.Digest
}

// bytesBits is the width of bytes: 16 MiB, far beyond the largest row. The bits left for gen last for 34 years at a
// thousand entries per second, and gen restarts with the process.
const bytesBits = 24

// goneGen is the gen of a row that was dropped in the entry that created it.
const goneGen = math.MaxUint64 >> bytesBits

func (m *RowMeta) meta() *RowMeta { return m }

// Gen returns the entry that made or changed this copy; within that entry it may be changed in place. Afterwards it
// never changes again, except in a mutable table that was not frozen since.
func (m *RowMeta) Gen() uint64 { return m.word >> bytesBits }

// bytes returns what the tally counts for the row.
func (m *RowMeta) bytes() int64 { return int64(m.word & (1<<bytesBits - 1)) }

func metaOf(gen uint64, bytes int64) RowMeta { return RowMeta{word: gen<<bytesBits | uint64(bytes)} }

// Detach does nothing: most rows point to nothing that changes.
func (m *RowMeta) Detach() {}

// Ledger keeps the incremental multiset hash: the sum, in two lanes mod 2⁶⁴, of every row's hash (SPEC §2.5). Rows
// touched by an entry are hashed once, when the entry is settled.
type Ledger struct {
	Gen   uint64
	Sum   rota.Digest
	Tally tally
	dirty []dirtyRow
	Enc   Encoder
	// Unlogged reports that no log holds the entries: rows are neither hashed nor counted.
	Unlogged bool
}

type dirtyRow struct {
	tag byte
	row Row
}

// HashRow returns the digest of a row under its tag.
func HashRow(enc *Encoder, tag byte, r Row) rota.Digest { return HashBytes(EncodeRow(enc, tag, r)) }

// EncodeRow returns a row's canonical form preceded by its tag, valid until enc is used again.
func EncodeRow(enc *Encoder, tag byte, r Row) []byte {
	enc.B = append(enc.B[:0], tag)
	r.Canonical(enc)
	return enc.B
}

// enter adds a row to the digest, and adds its growth to the tally.
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

// leave subtracts a row from the tally.
func (l *Ledger) leave(r Row) {
	if w, ok := r.(Weighed); ok {
		l.Tally.Add(w, -r.meta().bytes())
	}
}

// Add adds the digest of a row to the sum.
func (l *Ledger) Add(d rota.Digest) { l.Sum.Hi += d.Hi; l.Sum.Lo += d.Lo }

// Sub subtracts the digest of a row from the sum.
func (l *Ledger) Sub(d rota.Digest) { l.Sum.Hi -= d.Hi; l.Sum.Lo -= d.Lo }

// touch registers a new copy made in this entry.
func (l *Ledger) touch(tag byte, r Row) { l.dirty = append(l.dirty, dirtyRow{tag, r}) }

// Settle hashes the rows that the entry touched.
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

// Table is an ordered copy-on-write tree of rows that change by copies. Iteration is in key order by construction.
// Freezing costs about a microsecond and never stops applying. (A plain Go map was rejected: it has no order and no
// cheap copy.)
type Table[K ~string, R any, P interface {
	*R
	Row
	tree.Row[K]
}] struct {
	tag  byte
	Tree tree.Tree[K, P]
	l    *Ledger
	// Mutable reports that only frozen copies of the table keep rows beyond an entry. shared is the entry after which
	// it was last frozen: a newer row is in no frozen copy, and is changed in place.
	Mutable bool
	shared  uint64
	// Last is the row changed last, under lastKey: an operation looks up the same few rows repeatedly. Get sets
	// neither, as reads run concurrently.
	Last    P
	lastKey K
	// Known, if set, finds rows without a search, for a table whose rows are looked up many times per operation. It is
	// never iterated over.
	Known map[K]P
	// Dropped are the rows of a mutable table that were dropped in this entry and that nothing references. spare are
	// those of earlier entries, emptied, for reuse.
	Dropped, spare []P
	// Empty resets a dropped row; nil sets it to the zero value.
	Empty func(P)
	// Filed and left, if set, are called for each row that enters the table, including a changed copy, and for each
	// that leaves it.
	Filed, Left func(P)
}

// MaxSpare is the maximum number of rows kept for reuse: those of a few entries.
const MaxSpare = 1 << 11

// Init sets an empty table's tag in snapshots and the ledger of the digest.
func (t *Table[K, R, P]) Init(tag byte, l *Ledger) { t.tag, t.l = tag, l }

// Get returns the row of a key, or nil. The caller must not change it.
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

// Fresh returns an empty row to fill and insert.
func (t *Table[K, R, P]) Fresh() P {
	n := len(t.spare)
	if n == 0 {
		return new(R)
	}
	p := t.spare[n-1]
	t.spare = t.spare[:n-1]
	return p
}

// Recycle empties the rows that the entry dropped, once it is settled. A row used beyond its entry would appear empty
// at once.
func (t *Table[K, R, P]) Recycle() {
	for i, p := range t.Dropped {
		t.Dropped[i] = nil
		if len(t.spare) < MaxSpare {
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

// Edit returns the row, or a copy in its place, to be changed until the entry is settled; nil if there is none. Callers
// cannot tell which of the two: a verb that keeps a row from before would see its own changes as soon as an entry edits
// it twice.
func (t *Table[K, R, P]) Edit(k K) P {
	p := t.Get(k)
	if p == nil {
		return nil
	}
	return t.Change(k, p)
}

// Change is Edit for a caller that already has the row.
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

// Insert adds a row whose key is free.
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

// Load adds a row read from a snapshot; its hash is added at once.
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

// Len returns the number of rows.
func (t *Table[K, R, P]) Len() int { return t.Tree.Len() }

// Scan visits the rows in key order while f returns true.
func (t *Table[K, R, P]) Scan(f func(K, P) bool) { t.Tree.Scan(f) }

// Freeze returns a copy that later changes do not affect.
func (t *Table[K, R, P]) Freeze() *tree.Tree[K, P] {
	t.shared = t.l.Gen
	return t.Tree.Copy()
}

// tally counts the bytes, in canonical form and at the end of each entry, of the rows that users make grow: in total
// and per queue and tenant (SPEC §4.13). It is derived from the rows, and Check recounts it (Invariant I4).
type tally struct {
	All     int64
	Queues  CountsBy[rota.QueueName]
	Tenants CountsBy[rota.TenantID]
}

// Weighed is a row that the tally counts.
type Weighed interface {
	Row
	// owner returns the queue and the tenant that the row counts for, "" for none. It never changes.
	owner() (rota.QueueName, rota.TenantID)
	// Besides returns the bytes of the data that a hash replaces in the row's canonical form.
	Besides() int64
}

// Add adds n, which may be negative, to the counts of a row's owner.
func (t *tally) Add(w Weighed, n int64) {
	if n == 0 {
		return
	}
	t.All += n
	queue, tenant := w.owner()
	t.Queues.Add(queue, n)
	t.Tenants.Add(tenant, n)
}

// CountsBy holds non-zero numbers by name. Consecutive changes mostly have the same name, so the number of the last
// name is kept outside the map until another name is used.
type CountsBy[K ~string] struct {
	of   map[K]int64
	last K
	n    int64
}

// Add adds n to the number of a name and returns the result; "" is not a name.
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

// Get changes nothing, as reads run concurrently.
func (c *CountsBy[K]) Get(k K) int64 {
	if k == c.last {
		return c.n
	}
	return c.of[k]
}

// Whole returns all numbers in a new map.
func (c CountsBy[K]) Whole() map[K]int64 {
	c.of = maps.Clone(c.of)
	c.settle()
	return c.of
}

// Named reports whether a counted row, other than `of` itself, belongs to the queue or the tenant.
func (l *Ledger) Named(of Weighed) bool {
	queue, tenant := of.owner()
	if l.Tally.Queues.Get(queue)+l.Tally.Tenants.Get(tenant) > of.meta().bytes() {
		return true
	}
	for _, d := range l.dirty { // rows of this entry are not counted yet
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

// KeysUnder returns a table's keys with a prefix.
func KeysUnder[R any, P interface {
	*R
	Row
	tree.Row[string]
}](t *Table[string, R, P], prefix string) (keys []string) {
	t.Tree.Ascend(prefix, func(key string, _ P) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		keys = append(keys, key)
		return true
	})
	return keys
}
