package snapshot

import (
	"bytes"

	"github.com/klauspost/compress/zstd"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// Scrub verifies records from a number on, about maxBytes of them: next is where to
// go on, 0 at the end. Those that are damaged, or whose mark is, are for Drop.
func (a *Archive) Scrub(from uint64, maxBytes int) (next uint64, read int, damaged []uint64, err error) {
	z, err := unpacker()
	if err != nil {
		return 0, 0, nil, carried(opArchive, err, "no decompressor")
	}
	err = a.db.View(func(tx *bbolt.Tx) error {
		ids, c := tx.Bucket(archiveIDs), tx.Bucket(archiveRecords).Cursor()
		for k, v := c.Seek(seqKey(from)); k != nil; k, v = c.Next() {
			seq := number(k)
			if read >= maxBytes {
				next = seq
				return nil
			}
			read += len(v)
			if !marked(z, ids, seq, v) {
				damaged = append(damaged, seq)
			}
		}
		return nil
	})
	if err != nil {
		err = carried(opArchive, err, "the archive %s cannot be read", a.db.Path())
	}
	return next, read, damaged, err
}

// marked says that a record is what was written, and found by its job's id. Marks
// have no checksum of their own: what one says is in the record.
func marked(z *zstd.Decoder, ids *bbolt.Bucket, seq uint64, value []byte) bool {
	body, ok := unpack(z, seq, value)
	if !ok {
		return false
	}
	e, err := fsm.DecodeEnded(body)
	return err == nil && e.Seq == seq && bytes.Equal(ids.Get([]byte(e.Job.ID)), appendMark(nil, &e))
}

// DropAt is Drop for the chunk that begins with an entry.
func (s *EventStore) DropAt(first rota.Index) error {
	h, ok := s.find(func(h chunkHead) bool { return h.first >= first })
	if !ok || h.first != first {
		return nil
	}
	return s.Drop(h.before)
}
