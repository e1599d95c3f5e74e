package snapshot

import (
	"bytes"
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// unpacker opens the frames of all archives; it is safe for concurrent use.
var unpacker = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBodyBytes))
})

// ErrRecordDamaged says that a record is there and is not what was written. It
// is never served; Drop makes room for another node's.
var ErrRecordDamaged = errors.New("the archived record is damaged")

// read gives a record as it was written; nil where there is none.
func read(tx *bbolt.Tx, seq uint64) ([]byte, error) {
	value := tx.Bucket(archiveRecords).Get(seqKey(seq))
	if value == nil {
		return nil, nil
	}
	z, err := unpacker()
	if err != nil {
		return nil, carried(opArchive, err, "no decompressor")
	}
	body, ok := unpack(z, seq, value)
	if !ok {
		return nil, ErrRecordDamaged
	}
	return body, nil
}

// ended reads a record in words.
func ended(tx *bbolt.Tx, seq uint64) (e fsm.Ended, ok bool, err error) {
	body, err := read(tx, seq)
	if body == nil || err != nil {
		return e, false, err
	}
	if e, err = fsm.DecodeEnded(body); err != nil || e.Seq != seq {
		return fsm.Ended{}, false, ErrRecordDamaged
	}
	e.Job.Archived = true
	return e, true, nil
}

// Get reads the latest end of a job that is kept here. An error is damage, and
// tells its number too.
func (a *Archive) Get(id rota.JobID) (e fsm.Ended, ok bool, err error) {
	err = a.db.View(func(tx *bbolt.Tx) error {
		mark, known := parseMark([]byte(id), tx.Bucket(archiveIDs).Get([]byte(id)))
		if !known {
			return nil
		}
		var err error
		if e, ok, err = ended(tx, mark.Seq); err != nil {
			e.Seq = mark.Seq
		}
		return err
	})
	return e, ok, err
}

// At reads the record of a number.
func (a *Archive) At(seq uint64) (e fsm.Ended, ok bool, err error) {
	err = a.db.View(func(tx *bbolt.Tx) error {
		var err error
		e, ok, err = ended(tx, seq)
		return err
	})
	return e, ok, err
}

// State tells how a job ended, without reading its record; false where nothing
// is known of it. An error says that it could not be looked up.
func (a *Archive) State(id rota.JobID) (state rota.JobState, ok bool, err error) {
	err = a.db.View(func(tx *bbolt.Tx) error {
		var mark fsm.Mark
		mark, ok = parseMark([]byte(id), tx.Bucket(archiveIDs).Get([]byte(id)))
		state = mark.State
		return nil
	})
	return state, ok, err
}

// Range reads from a number on, to another at most, about maxBytes, one record at
// least if there is any. What is damaged here, or known to be nowhere, is not
// covered.
func (a *Archive) Range(from, to uint64, maxBytes int) (s rota.ArchiveSlice, err error) {
	err = a.db.View(func(tx *bbolt.Tx) error {
		var meta archiveState // of the very moment of which the records are
		if err := meta.load(tx.Bucket(archiveMeta)); err != nil {
			return err
		}
		var covered, held Spans
		defer func() { s.Covered, s.Floor = covered, meta.floor }()
		for _, x := range meta.held {
			if x.To >= from && x.From <= to {
				held.Add(max(x.From, from), min(x.To, to))
			}
		}
		for _, x := range meta.absent {
			held.removeSpan(x)
		}
		c := tx.Bucket(archiveRecords).Cursor()
		for _, span := range held {
			next := span.From
			for key, _ := c.Seek(seqKey(span.From)); key != nil && number(key) <= span.To; key, _ = c.Next() {
				seq := number(key)
				body, err := read(tx, seq)
				if err != nil {
					covered.Add(next, seq-1)
					next = seq + 1
					continue
				}
				if len(s.Records) > 0 && maxBytes < len(body) {
					covered.Add(next, seq-1)
					return nil
				}
				maxBytes -= len(body)
				s.Records = append(s.Records, Entry{Seq: seq, Data: body})
			}
			covered.Add(next, span.To)
		}
		return nil
	})
	return s, err
}

// Reading is the archive at one moment, for a list. It must be closed soon: what
// is deleted meanwhile cannot be used again until then.
type Reading struct {
	tx     *bbolt.Tx
	cursor *bbolt.Cursor
	at     []byte
	// Damaged are the numbers of records that were asked for and are damaged.
	Damaged []uint64
}

var _ fsm.History = (*Reading)(nil)

// Read begins a reading.
func (a *Archive) Read() (*Reading, error) {
	tx, err := a.db.Begin(false)
	if err != nil {
		return nil, carried(opArchive, err, "the archive cannot be read")
	}
	return &Reading{tx: tx, cursor: tx.Bucket(archiveIDs).Cursor()}, nil
}

// Close ends the reading.
func (r *Reading) Close() { _ = r.tx.Rollback() }

// Next implements fsm.History.
func (r *Reading) Next(after rota.JobID) (fsm.Mark, bool) {
	var key, value []byte
	if r.at != nil && string(r.at) == string(after) {
		key, value = r.cursor.Next()
	} else if key, value = r.cursor.Seek([]byte(after)); bytes.Equal(key, []byte(after)) && key != nil {
		key, value = r.cursor.Next()
	}
	for ; key != nil; key, value = r.cursor.Next() {
		r.at = key
		if mark, ok := parseMark(key, value); ok {
			return mark, true
		}
	}
	r.at = nil
	return fsm.Mark{}, false
}

// Ended implements fsm.History.
func (r *Reading) Ended(seq uint64) (rota.Job, bool) {
	e, ok, err := ended(r.tx, seq)
	if err != nil {
		r.Damaged = append(r.Damaged, seq)
	}
	return e.Job, ok
}

// Record gives the latest record of a job as other nodes take it; false where
// there is none. An error is damage, and tells its number too, or that it could
// not be read.
func (a *Archive) Record(id rota.JobID) (r rota.ArchiveRecord, ok bool, err error) {
	err = a.db.View(func(tx *bbolt.Tx) error {
		mark, known := parseMark([]byte(id), tx.Bucket(archiveIDs).Get([]byte(id)))
		if !known {
			return nil
		}
		body, err := read(tx, mark.Seq)
		r, ok = rota.ArchiveRecord{Seq: mark.Seq, Data: body}, err == nil && body != nil
		return err
	})
	return r, ok, err
}
