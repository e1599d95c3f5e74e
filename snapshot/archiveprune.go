package snapshot

import (
	"bytes"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// pruneAtOnce bounds the records that one transaction deletes, so that a flush
// never waits long for it.
const pruneAtOnce = 20_000

// Prune takes the oldest records: those of jobs that ended before a date, and as
// many more as hold the rest to maxBytes (0: no bound). It gives how many went.
func (a *Archive) Prune(before rota.Date, maxBytes uint64) (pruned int, err error) {
	for {
		n := 0
		err := a.change(func(tx *bbolt.Tx, s *archiveState) error {
			var err error
			n, err = s.prune(tx, before, maxBytes)
			return err
		}, func(s *archiveState) error {
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

func (s *archiveState) prune(tx *bbolt.Tx, before rota.Date, maxBytes uint64) (n int, err error) {
	records, ids := tx.Bucket(archiveRecords), tx.Bucket(archiveIDs)
	var seqs, unsure []uint64
	bytes := s.bytes
	c := records.Cursor()
	for key, value := c.First(); key != nil && len(seqs) < pruneAtOnce; key, value = c.Next() {
		bytes -= uint64(len(value))
		if !intact(number(key), value) {
			unsure = append(unsure, number(key)) // goes with the next that is due
			continue
		}
		if date, _ := recordHead(value); date >= before && (maxBytes == 0 || bytes+uint64(len(value)) <= maxBytes) {
			break
		}
		seqs, unsure = append(append(seqs, unsure...), number(key)), unsure[:0]
	}
	for _, seq := range seqs {
		_, id := recordHead(records.Get(seqKey(seq)))
		if mark, known := parseMark(id, ids.Get(id)); known && mark.Seq == seq {
			if err := ids.Delete(append([]byte(nil), id...)); err != nil {
				return 0, err
			}
		}
		if err := s.drop(records, seq); err != nil {
			return 0, err
		}
		s.floor = max(s.floor, seq)
	}
	s.held.cut(s.floor)
	s.absent.cut(s.floor)
	return len(seqs), nil
}

// Drop gives damaged records up: their numbers are lacking from now on, and are
// fetched again from another node.
func (a *Archive) Drop(seqs []uint64) error {
	return a.change(func(tx *bbolt.Tx, s *archiveState) error {
		records, ids := tx.Bucket(archiveRecords), tx.Bucket(archiveIDs)
		for _, seq := range seqs {
			if value := records.Get(seqKey(seq)); intact(seq, value) { // it is the mark that is damaged
				_, id := recordHead(value)
				if err := ids.Delete(bytes.Clone(id)); err != nil {
					return err
				}
			}
			if err := s.drop(records, seq); err != nil {
				return err
			}
			s.held.remove(seq)
		}
		return nil
	}, nil)
}
