package archive

import (
	"bytes"
	"math"

	"github.com/klauspost/compress/zstd"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// maxScrub bounds the damaged numbers that are reported at once.
const maxScrub = 10_000

// Scrub verifies records from a number on, about maxBytes of them: next is where to continue, 0 at the end. Pass the
// damaged numbers, and those that no block covers, to Drop. A mark that does not lead to its record is written again.
func (a *Jobs) Scrub(from uint64, maxBytes int) (next uint64, read int, damaged []uint64, err error) {
	z, err := unpacker()
	if err != nil {
		return 0, 0, nil, carried(opJobs, err, "no decompressor")
	}
	var unmarked []uint64
	torn := false
	err = a.db.View(func(tx *bbolt.Tx) error {
		var s bookkeeping
		if err := s.load(tx.Bucket(metaBucket)); err != nil {
			return err
		}
		m, c := marksOf(tx), tx.Bucket(recordsBucket).Cursor()
		for next = max(from, 1); next < math.MaxUint64 && !torn; {
			if read >= maxBytes || len(damaged) >= maxScrub {
				return nil
			}
			x := stretchAt(c, next)
			if torn = x.torn(); torn {
				return nil
			}
			if !x.covered {
				owed := s.owed(next, x.to, maxScrub)
				damaged = append(damaged, owed.numbers()...)
				if x.to++; len(damaged) >= maxScrub {
					x.to = damaged[len(damaged)-1] + 1
				}
				next = x.to
				continue
			}
			for _, row := range x.block.appendRows(nil) {
				if row.seq < next {
					continue
				}
				read += len(row.value)
				if whole, marked := verify(z, m, row); !whole {
					damaged = append(damaged, row.seq)
				} else if !marked {
					unmarked = append(unmarked, row.seq)
				}
			}
			next = x.to + 1
		}
		next = 0
		return nil
	})
	if err == nil && len(unmarked) > 0 {
		err = a.mark(unmarked)
	}
	if err == nil && torn {
		err = a.change(func(tx *bbolt.Tx, s *bookkeeping) error {
			b := tx.Bucket(recordsBucket)
			if x := stretchAt(b.Cursor(), next); x.torn() {
				lost, err := s.tear(b, x.block)
				damaged = append(damaged, lost.numbers()...)
				return err
			}
			return nil
		}, nil)
	}
	if err != nil {
		err = carried(opJobs, err, "the archive %s cannot be read", a.db.Path())
	}
	return next, read, damaged, err
}

// verify reports whether a record is the one written, and whether its job's id leads to it.
func verify(z *zstd.Decoder, m marks, row recordRow) (whole, marked bool) {
	body, ok := unpack(z, row.seq, row.value)
	if !ok {
		return false, false
	}
	e, err := fsm.DecodeEnded(body)
	if err != nil || e.Seq != row.seq {
		return false, false
	}
	l := m.leafOf(m.b.Cursor(), []byte(e.Job.ID))
	return true, bytes.Equal(l.mark([]byte(e.Job.ID)), appendMark(nil, &e))
}

// mark writes the marks of records that were found without one. A record with a later one is deleted.
func (a *Jobs) mark(seqs []uint64) error {
	var w writer
	defer func() { w.release() }() // bbolt refers to its rooms until the transaction is over
	return a.change(func(tx *bbolt.Tx, s *bookkeeping) error {
		w = writer{s: s, records: tx.Bucket(recordsBucket), ids: marksOf(tx), doubt: true}
		var list []fresh
		for _, seq := range seqs {
			e, ok, err := ended(tx, seq, false)
			if ok && err == nil {
				list = append(list, fresh{seq: seq, last: seq, record: &incoming{mark: markOf(&e)}})
			}
		}
		if err := w.putMarks(list); err != nil {
			return err
		}
		var lost []uint64
		for i := range list {
			if list[i].lost {
				lost = append(lost, list[i].seq)
			}
		}
		return s.take(w.records, lost)
	}, nil)
}

// IDSpan is a range of ids from one on and before another; an empty To means no upper bound.
type IDSpan struct{ From, To rota.JobID }

// MarkScrub is the result of checking the marks.
type MarkScrub struct {
	// Next is where to continue, empty at the end.
	Next rota.JobID
	Read int
	// Torn counts ranges of ids whose marks differ from the written ones: new marks are collected there from now on,
	// and Scrub restores the old ones.
	Torn int
	// Partial are all ranges whose marks are incomplete.
	Partial []IDSpan
	// Damaged are numbers that marks refer to and that have no record. Pass them to Drop.
	Damaged []uint64
}

// ScrubMarks verifies marks from an id on, about maxBytes of them.
func (a *Jobs) ScrubMarks(from rota.JobID, maxBytes int) (found MarkScrub, err error) {
	var torn, wrong, over [][]byte
	err = a.db.View(func(tx *bbolt.Tx) error {
		var s bookkeeping
		if err := s.load(tx.Bucket(metaBucket)); err != nil {
			return err
		}
		m, records := marksOf(tx), finder{b: tx.Bucket(recordsBucket)}
		c := m.b.Cursor()
		for at := append([]byte(nil), from...); ; {
			if len(at) == 0 {
				at = firstID
			}
			l := m.leafOf(c, at)
			if found.Read += len(l.body); l.torn {
				torn = append(torn, bytes.Clone(at))
			}
			doubt := !l.whole
			for _, row := range l.appendRows(nil) {
				seq, known := markSeq(row.mark)
				switch value, there, covered := records.get(seq); {
				case known && seq <= s.floor:
					over = append(over, bytes.Clone(row.id))
				case !known || there && !ofJob(value, row.id) && intact(seq, value):
					wrong, doubt = append(wrong, bytes.Clone(row.id)), true
				case !there && covered && s.owes(seq): // otherwise Scrub reports it
					found.Damaged = append(found.Damaged, seq)
				}
			}
			if doubt {
				found.Partial = append(found.Partial, IDSpan{rota.JobID(l.key), rota.JobID(l.upper)})
			}
			if found.Next = rota.JobID(l.upper); l.upper == nil || found.Read >= maxBytes ||
				len(found.Damaged) >= maxScrub {
				return nil
			}
			at = bytes.Clone(l.upper)
		}
	})
	if found.Torn = len(torn) + len(wrong); err == nil && found.Torn+len(over) > 0 {
		err = a.change(func(tx *bbolt.Tx, s *bookkeeping) error { return marksOf(tx).repair(torn, wrong, over) }, nil)
	}
	if err != nil {
		err = carried(opJobs, err, "the archive %s cannot be read", a.db.Path())
	}
	return found, err
}

func ofJob(value, id []byte) bool {
	_, of := recordHead(value)
	return bytes.Equal(of, id)
}

// repair replaces torn leaves by partial ones, and deletes wrong marks and those of records that retention deleted.
func (m marks) repair(torn, wrong, over [][]byte) error {
	for _, id := range torn {
		if l := m.leafOf(m.b.Cursor(), id); l.torn {
			if err := m.put(l, nil, false); err != nil {
				return err
			}
		}
	}
	always := func([]byte) bool { return true }
	if err := m.drop(over, always); err != nil {
		return err
	}
	m.doubt = true
	return m.drop(wrong, always)
}

// Completed records the marks of ranges as complete: since ScrubMarks found them incomplete, Scrub has gone through all
// records.
func (a *Jobs) Completed(partial []IDSpan) error {
	if len(partial) == 0 {
		return nil
	}
	return a.change(func(tx *bbolt.Tx, s *bookkeeping) error {
		m := marksOf(tx)
		for _, x := range partial {
			to := []byte(x.To)
			if x.To == "" {
				to = nil
			}
			for at := []byte(x.From); at != nil && below(at, to); {
				l := m.leafOf(m.b.Cursor(), at)
				if at = bytes.Clone(l.upper); l.whole || l.torn {
					continue
				}
				l.whole = true
				if err := m.put(l, l.appendRows(nil), false); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil)
}
