package fsm

import (
	"cmp"

	"github.com/rotasched/rota"
	"github.com/tidwall/btree"
	"github.com/zeebo/xxh3"
)

// row is one record of a table. Its canonical encoding decides the digest.
type row interface {
	canonical(*encoder)
	meta() *rowMeta
}

// rowMeta is a row's own bookkeeping, no part of its canonical encoding.
type rowMeta struct {
	// gen is the entry that made this copy; within that entry it may be changed
	// in place, afterwards it never changes again.
	gen uint64
	// hash is what the row added to the digest, valid once its entry is settled.
	hash rota.Digest
	// gone says that the row was dropped in the entry that made it.
	gone bool
}

func (m *rowMeta) meta() *rowMeta { return m }

// ledger keeps the incremental multiset hash: the sum, in two lanes mod 2⁶⁴, of
// every row's hash (SPEC §2.5). Rows touched by an entry are hashed once, when
// the entry is settled.
type ledger struct {
	gen   uint64
	sum   rota.Digest
	dirty []dirtyRow
	enc   encoder
}

type dirtyRow struct {
	tag byte
	row row
}

func hashRow(enc *encoder, tag byte, r row) rota.Digest {
	enc.b = append(enc.b[:0], tag)
	r.canonical(enc)
	h := xxh3.Hash128(enc.b)
	return rota.Digest{Hi: h.Hi, Lo: h.Lo}
}

func (l *ledger) add(d rota.Digest) { l.sum.Hi += d.Hi; l.sum.Lo += d.Lo }
func (l *ledger) sub(d rota.Digest) { l.sum.Hi -= d.Hi; l.sum.Lo -= d.Lo }

// touch registers a fresh copy made in this entry.
func (l *ledger) touch(tag byte, r row) { l.dirty = append(l.dirty, dirtyRow{tag, r}) }

// settle hashes what the entry touched.
func (l *ledger) settle() {
	for _, d := range l.dirty {
		m := d.row.meta()
		if m.gone {
			continue
		}
		m.hash = hashRow(&l.enc, d.tag, d.row)
		l.add(m.hash)
	}
	clear(l.dirty)
	l.dirty = l.dirty[:0]
}

// table is an ordered copy-on-write tree of immutable rows. A walk is in key
// order by construction; freeze costs about a microsecond and never stops
// applying (a plain Go map was refused: it has no order and no cheap copy).
type table[K cmp.Ordered, R any, P interface {
	*R
	row
}] struct {
	tag  byte
	tree btree.Map[K, P]
	l    *ledger
}

func (t *table[K, R, P]) get(k K) P {
	p, _ := t.tree.Get(k)
	return p
}

// edit gives a copy of the row that may be changed until the entry is settled;
// nil where there is none.
func (t *table[K, R, P]) edit(k K) P {
	p, ok := t.tree.Get(k)
	if !ok || p.meta().gen == t.l.gen {
		return p
	}
	c := new(R)
	*c = *p
	q := P(c)
	t.l.sub(p.meta().hash)
	*q.meta() = rowMeta{gen: t.l.gen}
	t.tree.Set(k, q)
	t.l.touch(t.tag, q)
	return q
}

// insert puts a row whose key is free.
func (t *table[K, R, P]) insert(k K, p P) {
	*p.meta() = rowMeta{gen: t.l.gen}
	t.tree.Set(k, p)
	t.l.touch(t.tag, p)
}

// load puts a row read from a snapshot; its hash is added at once.
func (t *table[K, R, P]) load(k K, p P) (fresh bool) {
	*p.meta() = rowMeta{gen: t.l.gen, hash: hashRow(&t.l.enc, t.tag, p)}
	t.l.add(p.meta().hash)
	_, had := t.tree.Set(k, p)
	return !had
}

func (t *table[K, R, P]) drop(k K) {
	p, ok := t.tree.Delete(k)
	if !ok {
		return
	}
	m := p.meta()
	if m.gen == t.l.gen {
		m.gone = true
		return
	}
	t.l.sub(m.hash)
}

func (t *table[K, R, P]) len() int { return t.tree.Len() }

func (t *table[K, R, P]) scan(f func(K, P) bool) { t.tree.Scan(f) }

// freeze gives a copy that later changes do not reach.
func (t *table[K, R, P]) freeze() *btree.Map[K, P] { return t.tree.Copy() }
