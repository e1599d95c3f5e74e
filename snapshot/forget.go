package snapshot

import (
	"bytes"
	"math"
	"sort"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// Forget gives up the events of all entries after an index: a node whose state
// differed told them (SPEC §2.5). They are missing from then on, and come from
// another node.
func (s *EventStore) Forget(after rota.Index) error {
	s.write.Lock()
	defer s.write.Unlock()
	chunks := append([]chunkHead(nil), s.chunks...)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(eventsBucket)
		for len(chunks) > 0 && chunks[len(chunks)-1].last > after {
			h := chunks[len(chunks)-1]
			chunks = chunks[:len(chunks)-1]
			entries, broken := DecodeEvents(bytes.Clone(b.Get(h.key())))
			if err := b.Delete(h.key()); err != nil {
				return err
			}
			keep := sort.Search(len(entries), func(i int) bool { return entries[i].Index > after })
			if broken != nil || keep == 0 {
				continue
			}
			var err error
			if chunks, err = putRun(b, chunks, entries[:keep]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return carried("forget events", err, "events of a state that differed cannot be dropped")
	}
	s.mu.Lock()
	s.chunks = chunks
	s.mu.Unlock()
	return nil
}

// Forget gives up all records from a number on: a node whose state differed made
// them (SPEC §2.5). Their numbers are lacking from then on, and are fetched from
// another node.
func (a *Archive) Forget(from uint64) error {
	return a.change(func(tx *bbolt.Tx, s *archiveState) error {
		records, ids := tx.Bucket(archiveRecords), tx.Bucket(archiveIDs)
		type row struct {
			seq uint64
			id  []byte
		}
		var rows []row
		c := records.Cursor()
		for k, v := c.Seek(seqKey(from)); k != nil; k, v = c.Next() {
			r := row{seq: number(k)}
			if intact(r.seq, v) {
				_, id := recordHead(v)
				r.id = bytes.Clone(id)
			}
			rows = append(rows, r)
		}
		for _, r := range rows {
			if err := s.drop(records, r.seq); err != nil {
				return err
			}
			if mark, known := parseMark(r.id, ids.Get(r.id)); len(r.id) > 0 && known && mark.Seq >= from {
				if err := ids.Delete(r.id); err != nil {
					return err
				}
			}
		}
		s.held.removeSpan(Span{From: from, To: math.MaxUint64})
		s.absent.removeSpan(Span{From: from, To: math.MaxUint64})
		return nil
	}, nil)
}
