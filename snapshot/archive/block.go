package archive

import (
	"bytes"
	"encoding/binary"
	"math"
	"sort"

	"go.etcd.io/bbolt"
)

// Records that are written together are stored in blocks in recordsBucket. The key is the first number that the block
// covers. The value is: manyRecords, the records in the order of their numbers, for each its number (8) and where it
// ends (4), the number of records (4), the last number that the block covers (8), CRC32C over key, kind and all after
// the records (4). A single record is stored as it is, and covers only its own number.
//
// A held number that a block covers without having its record has none: its job ended again since. A held number that
// no block covers is damage: so a wrong key, or a lost page, cannot be mistaken for ends that never existed.
//
// A key for each record was rejected: half the cost of a flush was bbolt's elements and pages.
const (
	manyRecords byte = 3
	// blockBytes is the size up to which a block is filled: that much is written again when one of its records is
	// deleted. A record of half that size is stored alone.
	blockBytes = 16 << 10
	// blocksFrom is the number of records from which a flush makes blocks of them.
	blocksFrom = 32

	placeBytes   = 8 + 4
	blockEndSize = 4 + 8 + 4
)

// block is the value of one key of recordsBucket: one record, or many.
type block struct {
	// key is nil for none.
	key, value, places []byte
	// first to last are the numbers that it covers, all before the next key.
	first, last, next uint64
	// plain means that it is a single record.
	plain bool
	// torn means that its bytes are not those written there, and that it covers nothing; cut means that the next key is
	// a wrong one, within its numbers.
	torn, cut bool
}

// recordRow is a record by its number. For a torn block it is any number up to last.
type recordRow struct {
	seq, last uint64
	value     []byte
	torn      bool
}

// blockSum returns the checksum of a block, over everything after its records.
func blockSum(key, end []byte) uint32 {
	return updateSum(updateSum(checksum(key), []byte{manyRecords}), end)
}

// read locates a block's records and the last number that it covers.
func (x *block) read() {
	x.first, x.torn = number(x.key), true
	if len(x.value) == 0 || x.value[0] != manyRecords {
		x.last, x.plain, x.torn = x.first, true, false
		return
	}
	if len(x.value) < 1+blockEndSize {
		return
	}
	end := x.value[len(x.value)-blockEndSize:]
	n := uint64(binary.BigEndian.Uint32(end))
	if n*placeBytes > uint64(len(x.value)-1-blockEndSize) {
		return
	}
	tail := x.value[len(x.value)-blockEndSize-int(n)*placeBytes:]
	if blockSum(x.key, tail[:len(tail)-4]) != binary.BigEndian.Uint32(tail[len(tail)-4:]) {
		return
	}
	last := binary.BigEndian.Uint64(end[4:])
	if x.torn = last < x.first; !x.torn {
		x.last, x.places, x.cut = min(last, x.next-1), tail[:len(tail)-blockEndSize], last >= x.next
	}
}

// covers reports whether the block covers a number that is not before its key.
func (x *block) covers(seq uint64) bool { return x.key != nil && !x.torn && seq <= x.last }

// placed returns the record at an index, from 0.
func (x *block) placed(at int) recordRow {
	place, from := x.places[at*placeBytes:], uint32(1)
	if at > 0 {
		from = binary.BigEndian.Uint32(x.places[at*placeBytes-4:])
	}
	seq, to := number(place[:8]), binary.BigEndian.Uint32(place[8:])
	if from > to || uint64(to) > uint64(len(x.value)) {
		return recordRow{seq: seq, last: seq, value: x.value[:0]}
	}
	return recordRow{seq: seq, last: seq, value: x.value[from:to:to]}
}

// appendRows appends its records, or the row of a torn block.
func (x *block) appendRows(rows []recordRow) []recordRow {
	switch {
	case x.key == nil:
		return rows
	case x.torn:
		return append(rows, recordRow{seq: x.first, last: x.next - 1, torn: true})
	case x.plain:
		return append(rows, recordRow{seq: x.first, last: x.first, value: x.value})
	}
	for at := range len(x.places) / placeBytes {
		if row := x.placed(at); row.seq <= x.last {
			rows = append(rows, row)
		}
	}
	return rows
}

// blockOf finds the block that would cover a number: the last that does not begin after it.
func blockOf(c *bbolt.Cursor, seq uint64) block {
	at := seqKey(seq)
	k, v := c.Seek(at)
	behind := k
	switch {
	case bytes.Equal(k, at):
		behind, _ = c.Next()
	case k == nil:
		k, v = c.Last()
	default:
		k, v = before(c, at)
	}
	x := block{key: k, value: v, next: max(place(behind), seq+1)}
	switch {
	case k == nil:
	case len(k) == 8:
		x.read()
	default:
		x.first, x.torn = seq, true
	}
	if behind == nil || len(behind) == 8 || x.covers(seq) {
		return x
	}
	k, v = c.Seek(behind)
	behind, _ = c.Next()
	return block{key: k, value: v, first: seq, next: max(place(behind), seq+1), torn: true}
}

// maxEmptied bounds the pages that before skips: the deletions of one transaction cannot empty more.
const maxEmptied = 1 << 20

// before returns the last key before the cursor's key, which is at or after a bound. Within a transaction bbolt's Prev
// stops at a page that deletions have emptied as if it were the bucket's beginning; only its other moves skip such
// pages.
func before(c *bbolt.Cursor, bound []byte) (k, v []byte) {
	if k, v = c.Prev(); k != nil {
		return k, v
	}
	first, _ := c.Bucket().Cursor().First()
	for range maxEmptied {
		if k != nil || first == nil || bytes.Compare(first, bound) >= 0 {
			break
		}
		k, v = c.Prev()
	}
	return k, v
}

// place returns the number of a key, even of one with a wrong length; the greatest number for none.
func place(key []byte) uint64 {
	if key == nil {
		return math.MaxUint64
	}
	var at [8]byte
	copy(at[:], key)
	return number(at[:])
}

// recordAt finds the record of a number, which may be damaged. Without a record, covered reports whether the number is
// known to have none, or whether no block covers it.
func recordAt(b *bbolt.Bucket, seq uint64) (value []byte, known, covered bool) {
	x := blockOf(b.Cursor(), seq)
	if !x.covers(seq) {
		return nil, false, false
	}
	if x.plain {
		return x.value, true, true
	}
	n := len(x.places) / placeBytes
	at := sort.Search(n, func(i int) bool { return number(x.places[i*placeBytes:i*placeBytes+8]) >= seq })
	if at == n {
		return nil, false, true
	}
	row := x.placed(at)
	return row.value, row.seq == seq, true
}

// stretch is a run of numbers that one block covers, or that no block covers.
type stretch struct {
	from, to uint64
	covered  bool
	block    block
}

// stretchAt returns the run of numbers that begins at from.
func stretchAt(c *bbolt.Cursor, from uint64) stretch {
	x := blockOf(c, from)
	if x.covers(from) {
		return stretch{from: from, to: x.last, covered: true, block: x}
	}
	return stretch{from: from, to: x.next - 1, block: x}
}

// torn reports whether the block that would cover the numbers is damaged.
func (s *stretch) torn() bool { return s.block.key != nil && s.block.torn }

// recordCursor walks the records in the order of their numbers.
type recordCursor struct {
	c    *bbolt.Cursor
	next uint64
	rows []recordRow
}

func newRecordCursor(b *bbolt.Bucket) *recordCursor { return &recordCursor{c: b.Cursor()} }

// seek returns the first record from a number on.
func (r *recordCursor) seek(seq uint64) (row recordRow, ok bool) {
	r.load(seq)
	for row, ok = r.step(); ok && row.last < seq; row, ok = r.step() {
	}
	return row, ok
}

func (r *recordCursor) load(seq uint64) {
	x := blockOf(r.c, seq)
	r.rows, r.next = x.appendRows(r.rows[:0]), x.next
}

// step returns the next record.
func (r *recordCursor) step() (row recordRow, ok bool) {
	for len(r.rows) == 0 {
		if r.next == math.MaxUint64 {
			return row, false
		}
		at := r.next
		if r.load(at); len(r.rows) > 0 && r.rows[0].seq < at {
			r.rows = r.rows[:0] // nothing begins there: the key is a wrong one
		}
	}
	row, r.rows = r.rows[0], r.rows[1:]
	return row, true
}

// appendPlace appends to a block's places.
func appendPlace(places []byte, seq uint64, end int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(places, seq), uint32(end))
}

// endBlock appends to a block's records the part that follows them.
func endBlock(b, key, places []byte, last uint64) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint32(append(b, places...), uint32(len(places)/placeBytes))
	b = binary.BigEndian.AppendUint64(b, last)
	return binary.BigEndian.AppendUint32(b, blockSum(key, b[at:]))
}

// putBlock writes the records of a block that covers the numbers first to last.
func putBlock(b *bbolt.Bucket, first, last uint64, rows []recordRow) error {
	key := seqKey(first)
	if len(rows) == 1 && rows[0].seq == first && first == last {
		return b.Put(key, bytes.Clone(rows[0].value))
	}
	size := 1 + blockEndSize
	for _, r := range rows {
		size += len(r.value) + placeBytes
	}
	value := append(make([]byte, 0, size), manyRecords)
	places := make([]byte, 0, len(rows)*placeBytes)
	for _, r := range rows {
		value = append(value, r.value...)
		places = appendPlace(places, r.seq, len(value))
	}
	return b.Put(key, endBlock(value, key, places, last))
}
