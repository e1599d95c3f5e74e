package archive

import (
	"errors"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
)

// unpacker decompresses the frames of all archives; it is safe for concurrent use.
var unpacker = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBodyBytes))
})

// ErrRecordDamaged means that a record exists but differs from the one written, or is missing where one should be. Such
// a record is never served; Drop makes room for another node's copy.
var ErrRecordDamaged = errors.New("the archived record is damaged")

// ErrMarksDamaged means that the index of ended jobs by id is damaged: the job may be here or not. Scrub restores the
// index from the records.
var ErrMarksDamaged = errors.New("the archive's list of ids is damaged")

// read returns a record as it was written; nil if there is none. marked means that the number came from a mark.
func read(tx *bbolt.Tx, seq uint64, marked bool) ([]byte, error) {
	value, known, covered := recordAt(tx.Bucket(recordsBucket), seq)
	if known {
		return readRow(seq, value)
	}
	if covered && !marked {
		return nil, nil
	}
	var s bookkeeping
	if err := s.load(tx.Bucket(metaBucket)); err != nil {
		return nil, err
	}
	if s.owes(seq) {
		return nil, ErrRecordDamaged
	}
	return nil, nil
}

// readRow returns a record as it was written.
func readRow(seq uint64, value []byte) ([]byte, error) {
	z, err := unpacker()
	if err != nil {
		return nil, carried(opJobs, err, "no decompressor")
	}
	body, ok := unpack(z, seq, value)
	if !ok {
		return nil, ErrRecordDamaged
	}
	return body, nil
}

// ended reads and decodes a record.
func ended(tx *bbolt.Tx, seq uint64, marked bool) (e fsm.Ended, ok bool, err error) {
	body, err := read(tx, seq, marked)
	if body == nil || err != nil {
		return e, false, err
	}
	if e, err = fsm.DecodeEnded(body); err != nil || e.Seq != seq {
		return fsm.Ended{}, false, ErrRecordDamaged
	}
	e.Job.Archived = true
	return e, true, nil
}

// Get reads the latest end of a job that is kept here. An error means damage, and the number is returned too.
func (a *Jobs) Get(id rota.JobID) (e fsm.Ended, ok bool, err error) {
	err = a.db.View(func(tx *bbolt.Tx) error {
		mark, known, err := marksOf(tx).of(id)
		if !known {
			return err
		}
		if e, ok, err = ended(tx, mark.Seq, true); err != nil {
			e.Seq = mark.Seq
		} else if ok && e.Job.ID != id {
			e, ok, err = fsm.Ended{}, false, ErrMarksDamaged
		}
		return err
	})
	return e, ok, err
}

// At reads the record of a number.
func (a *Jobs) At(seq uint64) (e fsm.Ended, ok bool, err error) {
	err = a.db.View(func(tx *bbolt.Tx) error {
		var err error
		e, ok, err = ended(tx, seq, false)
		return err
	})
	return e, ok, err
}

// Mark returns how a job ended last, without reading its record; false if the job is unknown. An error means that it
// could not be looked up.
func (a *Jobs) Mark(id rota.JobID) (mark fsm.Mark, ok bool, err error) {
	err = a.db.View(func(tx *bbolt.Tx) error {
		var err error
		mark, ok, err = marksOf(tx).of(id)
		return err
	})
	return mark, ok, err
}

// Range reads from a number on, up to another, about maxBytes, at least one record if there is any. Numbers that are
// damaged here, or known not to exist anywhere, are not covered.
func (a *Jobs) Range(from, to uint64, maxBytes int) (s peer.ArchiveSlice, err error) {
	err = a.db.View(func(tx *bbolt.Tx) error {
		var meta bookkeeping // of the same moment as the records
		if err := meta.load(tx.Bucket(metaBucket)); err != nil {
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
		c := tx.Bucket(recordsBucket).Cursor()
		for _, span := range held {
			for next := span.From; next <= span.To; {
				x := stretchAt(c, next)
				to := min(x.to, span.To)
				if x.covered {
					if full := takeRows(&s, &covered, &x, to, &maxBytes); full {
						return nil
					}
				}
				next = to + 1
			}
		}
		return nil
	})
	return s, err
}

// takeRows moves a run's records into a slice, up to a number; full means that the next would be too much.
func takeRows(s *peer.ArchiveSlice, covered *Spans, x *stretch, to uint64, maxBytes *int) (full bool) {
	next := x.from
	for _, row := range x.block.appendRows(nil) {
		if row.seq < next || row.seq > to {
			continue
		}
		body, err := readRow(row.seq, row.value)
		if err == nil && len(s.Records) > 0 && *maxBytes < len(body) {
			covered.Add(next, row.seq-1)
			return true
		}
		if err != nil {
			covered.Add(next, row.seq-1)
			next = row.seq + 1
			continue
		}
		*maxBytes -= len(body)
		s.Records = append(s.Records, peer.ArchiveRecord{Seq: row.seq, Data: body})
	}
	covered.Add(next, to)
	return false
}

// Reading is the archive at one moment, for a list. It must be closed soon: space deleted meanwhile cannot be reused
// until then.
type Reading struct {
	tx     *bbolt.Tx
	cursor markCursor
	at     []byte
	// records walks the records backwards: rows are the rest of a block, passed is its first number.
	records *bbolt.Cursor
	rows    []recordRow
	passed  uint64
	// Damaged are the numbers of requested records that are damaged.
	Damaged []uint64
}

var _ fsm.History = (*Reading)(nil)

// Read begins a reading.
func (a *Jobs) Read() (*Reading, error) {
	tx, err := a.db.Begin(false)
	if err != nil {
		return nil, carried(opJobs, err, "the archive cannot be read")
	}
	return &Reading{tx: tx, cursor: markCursor{marks: marksOf(tx), c: tx.Bucket(idsBucket).Cursor()},
		records: tx.Bucket(recordsBucket).Cursor(), passed: math.MaxUint64}, nil
}

// Close ends the reading.
func (r *Reading) Close() { _ = r.tx.Rollback() }

// Next implements fsm.History.
func (r *Reading) Next(after rota.JobID) (fsm.Mark, bool) {
	var row markRow
	var ok bool
	if r.at != nil && string(r.at) == string(after) {
		row, ok = r.cursor.step()
	} else {
		row, ok = r.cursor.after([]byte(after))
	}
	for ; ok; row, ok = r.cursor.step() {
		if r.at = row.id; peer.IsLog(rota.JobID(row.id)) {
			break // they come after all jobs
		}
		if mark, ok := parseMark(row.id, row.mark); ok {
			return mark, true
		}
		r.cursor.lacks = true
	}
	r.at = nil
	return fsm.Mark{}, false
}

// Before implements fsm.History. It goes backwards: records already passed are not found again.
func (r *Reading) Before(seq uint64) (fsm.Mark, bool) {
	for {
		for len(r.rows) > 0 {
			row := r.rows[len(r.rows)-1]
			if r.rows = r.rows[:len(r.rows)-1]; row.seq >= seq {
				continue
			}
			if mark, ok := markOfRow(row); ok {
				return mark, true
			}
			r.Damaged = append(r.Damaged, row.seq)
		}
		if r.passed = min(r.passed, seq); r.passed == 0 {
			return fsm.Mark{}, false
		}
		x := blockOf(r.records, r.passed-1)
		if x.key == nil {
			r.passed = 0
			continue
		}
		r.rows, r.passed = x.appendRows(r.rows[:0]), x.first
	}
}

// markOfRow extracts the data of a mark from a record.
func markOfRow(row recordRow) (fsm.Mark, bool) {
	if row.torn {
		return fsm.Mark{}, false
	}
	body, err := readRow(row.seq, row.value)
	if err != nil {
		return fsm.Mark{}, false
	}
	mark, err := fsm.DecodeMark(body)
	return mark, err == nil && mark.Seq == row.seq
}

// Lacks reports whether ended jobs may be missing among those that Next passed, because their index is damaged.
func (r *Reading) Lacks() bool { return r.cursor.lacks }

// Ended implements fsm.History.
func (r *Reading) Ended(seq uint64) (rota.Job, bool) {
	e, ok, err := ended(r.tx, seq, true)
	if err != nil {
		r.Damaged = append(r.Damaged, seq)
	}
	return e.Job, ok
}

// Record returns the latest record of a job in the form that other nodes accept; false if there is none. An error means
// damage, and the number is returned too, or that it could not be read.
func (a *Jobs) Record(id rota.JobID) (r peer.ArchiveRecord, ok bool, err error) {
	err = a.db.View(func(tx *bbolt.Tx) error {
		mark, known, err := marksOf(tx).of(id)
		if !known {
			return err
		}
		body, err := read(tx, mark.Seq, true)
		r, ok = peer.ArchiveRecord{Seq: mark.Seq, Data: body}, err == nil && body != nil
		return err
	})
	return r, ok, err
}
