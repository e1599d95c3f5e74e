package archive

import (
	"bytes"
	"math"
	"sort"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// Forget deletes the events of all entries after an index, when a node whose state differed recorded them (SPEC §2.5).
// They count as missing from then on, and are fetched from another node.
func (s *Events) Forget(after rota.Index) error {
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

// Forget deletes all records from a number on, when a node whose state differed made them (SPEC §2.5). Their numbers
// count as missing from then on, and are fetched from another node.
func (a *Jobs) Forget(from uint64) error {
	return a.change(func(tx *bbolt.Tx, s *bookkeeping) error {
		records := tx.Bucket(recordsBucket)
		var seqs []uint64
		var gone [][]byte
		c := newRecordCursor(records)
		for row, ok := c.seek(from); ok; row, ok = c.step() {
			if seqs = append(seqs, max(row.seq, from)); intact(row.seq, row.value) {
				_, id := recordHead(row.value)
				gone = append(gone, bytes.Clone(id))
			}
		}
		s.held.removeSpan(Span{From: from, To: math.MaxUint64})
		s.absent.removeSpan(Span{From: from, To: math.MaxUint64})
		if err := s.take(records, seqs); err != nil {
			return err
		}
		if err := marksOf(tx).drop(gone, func(mark []byte) bool {
			seq, known := markSeq(mark)
			return known && seq >= from
		}); err != nil {
			return err
		}
		for { // blocks that cover earlier ends
			k, _ := records.Cursor().Seek(seqKey(from))
			if k == nil {
				return nil
			}
			if err := remove(records, k); err != nil {
				return err
			}
		}
	}, nil)
}
