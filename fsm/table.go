package fsm

import (
	"maps"
	"math"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/tree"
)

// row is one record of a table. Its canonical encoding decides the digest.
type row interface {
	canonical(*encoder)
	meta() *rowMeta
	// detach is called on a copy of a row: what it points to and may change becomes
	// its own.
	detach()
}

// rowMeta is a row's own bookkeeping, no part of its canonical encoding.
type rowMeta struct {
	// word is gen and bytes in one: there may be ten million rows of jobs, and a word more
	// would take a size class more of each.
	word uint64
	// hash is what the row added to the digest, valid once its entry is settled.
	hash rota.Digest
}

// bytesBits is the room for bytes: 16 MiB, far beyond the largest row. What is left for
// gen lasts for 34 years of a thousand entries a second, and begins anew with the process.
const bytesBits = 24

// goneGen is the gen of a row that was dropped in the entry that made it.
const goneGen = math.MaxUint64 >> bytesBits

func (m *rowMeta) meta() *rowMeta { return m }

// gen is the entry that made or changed this copy; within that entry it may be changed in
// place. Afterwards it never changes again, but in a mutable table that was not frozen since.
func (m *rowMeta) gen() uint64 { return m.word >> bytesBits }

// bytes is what the tally counts for the row.
func (m *rowMeta) bytes() int64 { return int64(m.word & (1<<bytesBits - 1)) }

func metaOf(gen uint64, bytes int64) rowMeta { return rowMeta{word: gen<<bytesBits | uint64(bytes)} }

func (m *rowMeta) detach() {}

// ledger keeps the incremental multiset hash: the sum, in two lanes mod 2⁶⁴, of
// every row's hash (SPEC §2.5). Rows touched by an entry are hashed once, when
// the entry is settled.
type ledger struct {
	gen   uint64
	sum   rota.Digest
	tally tally
	dirty []dirtyRow
	enc   encoder
	// unlogged says that no log holds the entries: rows are neither hashed nor counted.
	unlogged bool
}

type dirtyRow struct {
	tag byte
	row row
}

func hashRow(enc *encoder, tag byte, r row) rota.Digest { return hashBytes(encodeRow(enc, tag, r)) }

// encodeRow returns a row's canonical form behind its tag, valid until enc is used again.
func encodeRow(enc *encoder, tag byte, r row) []byte {
	enc.b = append(enc.b[:0], tag)
	r.canonical(enc)
	return enc.b
}

// enter adds a row to the digest, and to the tally what it is more than was counted for it.
func (l *ledger) enter(tag byte, r row) {
	if l.unlogged {
		return
	}
	m := r.meta()
	m.hash = hashRow(&l.enc, tag, r)
	l.add(m.hash)
	if w, ok := r.(weighed); ok {
		n := int64(len(l.enc.b)-1) + w.besides()
		l.tally.add(w, n-m.bytes())
		m.word = metaOf(m.gen(), n).word
	}
}

// leave takes from the tally what was counted for a row.
func (l *ledger) leave(r row) {
	if w, ok := r.(weighed); ok {
		l.tally.add(w, -r.meta().bytes())
	}
}

func (l *ledger) add(d rota.Digest) { l.sum.Hi += d.Hi; l.sum.Lo += d.Lo }
func (l *ledger) sub(d rota.Digest) { l.sum.Hi -= d.Hi; l.sum.Lo -= d.Lo }

// touch registers a fresh copy made in this entry.
func (l *ledger) touch(tag byte, r row) { l.dirty = append(l.dirty, dirtyRow{tag, r}) }

// settle hashes what the entry touched.
func (l *ledger) settle() {
	for _, d := range l.dirty {
		m := d.row.meta()
		if m.gen() == goneGen {
			continue
		}
		l.enter(d.tag, d.row)
	}
	clear(l.dirty)
	l.dirty = l.dirty[:0]
}

// table is an ordered copy-on-write tree of rows that change by copies. A walk is in key
// order by construction; freeze costs about a microsecond and never stops
// applying (a plain Go map was refused: it has no order and no cheap copy).
type table[K ~string, R any, P interface {
	*R
	row
	tree.Row[K]
}] struct {
	tag  byte
	tree tree.Tree[K, P]
	l    *ledger
	// mutable says that nobody but frozen copies of the table ever holds a row beyond an
	// entry. shared is the entry after which it was frozen last: a row that is younger
	// is in no frozen copy, and is changed where it lies.
	mutable bool
	shared  uint64
	// last is the row that was changed last, under lastKey: an operation asks for the same
	// few rows again and again. A look alone sets neither, as reads run beside each other.
	last    P
	lastKey K
	// known, where it is made, finds the rows without a search: for a table that is asked for the
	// same rows many times an operation. What it holds is never walked.
	known map[K]P
	// dropped are the rows of a mutable table that left it in this entry and that nobody
	// holds; spare those of entries before, empty, to be used anew.
	dropped, spare []P
	// empty makes a dropped row new; nil sets it to nothing.
	empty func(P)
	// filed and left, where they are set, are called for each row that the table has from now on,
	// a changed copy too, and for each that leaves it.
	filed, left func(P)
}

// spareMost bounds the rows that are kept to be used anew: a few entries' worth.
const spareMost = 1 << 11

// init gives an empty table its tag in snapshots and the ledger of the digest.
func (t *table[K, R, P]) init(tag byte, l *ledger) { t.tag, t.l = tag, l }

func (t *table[K, R, P]) get(k K) P {
	if t.last != nil && t.lastKey == k {
		return t.last
	}
	if t.known != nil {
		return t.known[k]
	}
	p, _ := t.tree.Get(k)
	return p
}

// fresh returns an empty row, to be filled and inserted.
func (t *table[K, R, P]) fresh() P {
	n := len(t.spare)
	if n == 0 {
		return new(R)
	}
	p := t.spare[n-1]
	t.spare = t.spare[:n-1]
	return p
}

// recycle empties the rows that the entry dropped, once it is settled. One that was used
// beyond its entry would be seen to be empty at once.
func (t *table[K, R, P]) recycle() {
	for i, p := range t.dropped {
		t.dropped[i] = nil
		if len(t.spare) < spareMost {
			if t.empty != nil {
				t.empty(p)
			} else {
				var empty R
				*p = empty
			}
			t.spare = append(t.spare, p)
		}
	}
	t.dropped = t.dropped[:0]
}

// edit returns the row, or a copy in its place, to be changed until the entry is
// settled; nil where there is none. Which of the two shows nowhere: a verb that keeps a
// row from before would meet its own changes as soon as an entry holds it twice.
func (t *table[K, R, P]) edit(k K) P {
	p := t.get(k)
	if p == nil {
		return nil
	}
	return t.change(k, p)
}

// change is edit for a caller that has found the row already.
func (t *table[K, R, P]) change(k K, p P) P {
	t.last, t.lastKey = p, k
	if p.meta().gen() == t.l.gen {
		return p
	}
	t.l.sub(p.meta().hash)
	meta := metaOf(t.l.gen, p.meta().bytes())
	if t.mutable && p.meta().gen() > t.shared {
		*p.meta() = meta
		t.l.touch(t.tag, p)
		return p
	}
	q := t.fresh()
	*q = *p
	q.detach()
	*q.meta() = meta
	t.put(k, q)
	t.last = q
	t.l.touch(t.tag, q)
	return q
}

// insert puts a row whose key is free.
func (t *table[K, R, P]) insert(k K, p P) {
	*p.meta() = metaOf(t.l.gen, 0)
	t.put(k, p)
	t.last, t.lastKey = p, k
	t.l.touch(t.tag, p)
}

// put files a row under its key.
func (t *table[K, R, P]) put(k K, p P) (had bool) {
	if t.known != nil {
		t.known[k] = p
	}
	if t.filed != nil {
		t.filed(p)
	}
	_, had = t.tree.Set(p)
	return had
}

// load puts a row read from a snapshot; its hash is added at once.
func (t *table[K, R, P]) load(k K, p P) (fresh bool) {
	*p.meta() = metaOf(t.l.gen, 0)
	t.l.enter(t.tag, p)
	t.last = nil
	return !t.put(k, p)
}

func (t *table[K, R, P]) drop(k K) {
	p, ok := t.tree.Delete(k)
	if !ok {
		return
	}
	if t.lastKey == k {
		t.last = nil
	}
	delete(t.known, k)
	if t.left != nil {
		t.left(p)
	}
	t.l.leave(p)
	m := p.meta()
	if t.mutable && m.gen() > t.shared {
		t.dropped = append(t.dropped, p)
	}
	if m.gen() == t.l.gen {
		*m = metaOf(goneGen, 0)
		return
	}
	t.l.sub(m.hash)
}

func (t *table[K, R, P]) len() int { return t.tree.Len() }

func (t *table[K, R, P]) scan(f func(K, P) bool) { t.tree.Scan(f) }

// freeze returns a copy that later changes do not reach.
func (t *table[K, R, P]) freeze() *tree.Tree[K, P] {
	t.shared = t.l.gen
	return t.tree.Copy()
}

// tally counts the bytes of the rows that users make grow, in canonical form and at the end of
// each entry: in all, and of each queue and tenant (SPEC §4.13). It is derived of the rows,
// and recounted by Check (Invariant I4).
type tally struct {
	all     int64
	queues  countsBy[rota.QueueName]
	tenants countsBy[rota.TenantID]
}

// weighed is a row that the tally counts.
type weighed interface {
	row
	// owner is the queue and the tenant that it counts for, "" for none. It never changes.
	owner() (rota.QueueName, rota.TenantID)
	// besides counts the bytes that a hash stands for in the row's canonical form.
	besides() int64
}

// add counts so many bytes more, or fewer, of a row's owner.
func (t *tally) add(w weighed, n int64) {
	if n == 0 {
		return
	}
	t.all += n
	queue, tenant := w.owner()
	t.queues.add(queue, n)
	t.tenants.add(tenant, n)
}

// countsBy are numbers by name, none of them 0. Most of what is counted is of the same name as what was before: that one's
// number stands beside the map until another's is asked for.
type countsBy[K ~string] struct {
	of   map[K]int64
	last K
	n    int64
}

// add counts so many more of a name, and returns how many there are now; "" is no name.
func (c *countsBy[K]) add(k K, n int64) int64 {
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
func (c *countsBy[K]) settle() {
	switch {
	case c.n == 0:
		delete(c.of, c.last)
	case c.of == nil:
		c.of = map[K]int64{c.last: c.n}
	default:
		c.of[c.last] = c.n
	}
}

// get changes nothing, as reads run beside each other.
func (c *countsBy[K]) get(k K) int64 {
	if k == c.last {
		return c.n
	}
	return c.of[k]
}

// whole returns all of them, in a map of its own.
func (c countsBy[K]) whole() map[K]int64 {
	c.of = maps.Clone(c.of)
	c.settle()
	return c.of
}

// named reports whether a row that the tally counts, but for its own, is of a queue or of a
// tenant.
func (l *ledger) named(of weighed) bool {
	queue, tenant := of.owner()
	if l.tally.queues.get(queue)+l.tally.tenants.get(tenant) > of.meta().bytes() {
		return true
	}
	for _, d := range l.dirty { // those of this entry are not counted yet
		w, ok := d.row.(weighed)
		if !ok || d.row == row(of) || d.row.meta().gen() == goneGen {
			continue
		}
		if q, t := w.owner(); queue != "" && q == queue || tenant != "" && t == tenant {
			return true
		}
	}
	return false
}
