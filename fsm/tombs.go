package fsm

import (
	"encoding/binary"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/tree"
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
	content := r.raw(16)
	row.content = rota.Digest{Hi: binary.BigEndian.Uint64([]byte(content[:8])), Lo: binary.BigEndian.Uint64([]byte(content[8:]))}
	row.life = int32(r.int())
	row.retried = r.moment()
	row.freeAt = rota.Clock(r.int())
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
		t.texts[r.queue] = in
	}
	kept = r.keep(&t.l.enc, in)
	t.l.add(t.l.hashTomb(kept))
	_, had = t.tree.Set(kept)
	t.order.set(r.seq, tombEntry{r.due, kept.TreeKey()})
	return kept, had
}

// keep returns the bytes of a tombstone, among texts if there are any; e is the caller's, to
// write over.
func (r *tombRow) keep(e *encoder, in *entry.Texts) tomb {
	e.b = e.b[:0]
	r.canonical(e)
	if in == nil {
		return tomb(e.b)
	}
	return tomb(in.Keep(e.b))
}

// reject marks a tombstone as one whose proof was rejected.
func (t *tombs) reject(id rota.JobID) {
	old, ok := t.tree.Get(id)
	if !ok {
		return
	}
	row := old.row()
	row.reason = rota.ReasonProofRejected
	t.l.sub(t.l.hashTomb(old))
	t.insert(&row)
}

func (t *tombs) drop(id rota.JobID, seq uint64) {
	if gone, ok := t.tree.Delete(id); ok {
		t.l.sub(t.l.hashTomb(gone))
		t.order.delete(seq)
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

// hashTomb is hashRow for a tombstone.
func (l *ledger) hashTomb(t tomb) rota.Digest {
	if planted.dedupeNotInSnapshot() {
		return rota.Digest{}
	}
	l.enc.b = append(append(l.enc.b[:0], tagTomb), t...)
	h := xxh3.Hash128(l.enc.b)
	return rota.Digest{Hi: h.Hi, Lo: h.Lo}
}
