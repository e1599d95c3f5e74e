package archive

import (
	"bytes"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// pruneAtOnce bounds the records that one transaction deletes, so that a flush never waits long for it.
const pruneAtOnce = 20_000

// Prune deletes the oldest records: those of jobs that ended before a date, and as many more as keep the rest within
// maxBytes (0: no bound). It returns how many it deleted.
func (a *Jobs) Prune(before rota.Date, maxBytes uint64) (pruned int, err error) {
	for {
		n := 0
		err := a.change(func(tx *bbolt.Tx, s *bookkeeping) error {
			var err error
			n, err = s.prune(tx, before, maxBytes)
			return err
		}, func(s *bookkeeping) error {
			if s.records == 0 {
				return errNoChange
			}
			return nil
		})
		pruned += n
		if err != nil || n < pruneAtOnce {
			return pruned, err
		}
	}
}

func (s *bookkeeping) prune(tx *bbolt.Tx, before rota.Date, maxBytes uint64) (n int, err error) {
	records, ids := tx.Bucket(recordsBucket), marksOf(tx)
	var seqs, unsure []uint64
	size := s.bytes
	var gone [][]byte
	of := make(map[uint64]bool)
	c := newRecordCursor(records)
	for row, ok := c.seek(0); ok && len(seqs) < pruneAtOnce; row, ok = c.step() {
		size -= row.size
		date, id := recordHead(row.value)
		if !intact(row.seq, row.value) {
			unsure = append(unsure, row.seq) // deleted with the next one that is due
			continue
		}
		if date >= before && (maxBytes == 0 || size+row.size <= maxBytes) {
			break
		}
		gone, of[row.seq] = append(gone, bytes.Clone(id)), true
		seqs, unsure = append(append(seqs, unsure...), row.seq), unsure[:0]
	}
	if err := ids.drop(gone, func(mark []byte) bool {
		seq, known := markSeq(mark)
		return known && of[seq]
	}); err != nil || len(seqs) == 0 {
		return 0, err
	}
	s.floor = max(s.floor, seqs[len(seqs)-1])
	s.held.cut(s.floor)
	s.absent.cut(s.floor)
	return len(seqs), s.cutBlocks(records)
}

// cutBlocks deletes the records up to the floor, and everything else stored there.
//
// Each next key is sought after the deleted one. Asking for the first key again was rejected: bbolt walks over all
// pages that the transaction has emptied, every time.
func (s *bookkeeping) cutBlocks(b *bbolt.Bucket) error {
	for k, _ := b.Cursor().First(); k != nil && number(k) <= s.floor; k, _ = b.Cursor().Seek(k) {
		k = bytes.Clone(k) // its page may be freed
		x := blockOf(b.Cursor(), max(number(k), 1))
		if !bytes.Equal(x.key, k) || x.torn {
			s.recount = true
			if err := remove(b, k); err != nil {
				return err
			}
			continue
		}
		if x.last > s.floor {
			var seqs []uint64
			for _, row := range x.appendRows(nil) {
				if row.seq <= s.floor {
					seqs = append(seqs, row.seq)
				}
			}
			return s.take(b, seqs)
		}
		for _, row := range x.appendRows(nil) {
			s.records, s.bytes = s.records-1, s.bytes-row.size
		}
		if err := remove(b, k); err != nil {
			return err
		}
	}
	return nil
}

// Drop deletes damaged records: their numbers count as missing from now on, and are fetched again from another node.
func (a *Jobs) Drop(seqs []uint64) error {
	return a.change(func(tx *bbolt.Tx, s *bookkeeping) error {
		records, gone := tx.Bucket(recordsBucket), [][]byte(nil)
		for _, seq := range seqs {
			value, _, covered := recordAt(records, seq)
			if intact(seq, value) {
				_, id := recordHead(value)
				gone = append(gone, bytes.Clone(id))
			} else if !covered && s.owes(seq) {
				s.recount = true // it was counted, wherever it is
			}
			s.held.remove(seq)
		}
		if err := s.take(records, slices.Clone(seqs)); err != nil {
			return err
		}
		return marksOf(tx).drop(gone, func([]byte) bool { return true })
	}, nil)
}
