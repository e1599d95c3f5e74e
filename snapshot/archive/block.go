package archive

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"github.com/klauspost/compress/s2"
	"go.etcd.io/bbolt"
)

// Records that are written together are stored in blocks in recordsBucket. The key is the first number that the block
// covers. The value is: packedRecords, the records in the order of their numbers as one S2 block, for each its number
// (8) and where it ends before compression (4), the number of records (4), the last number that the block covers (8),
// CRC32C over the key and all before (4). A single record is stored as it is, and covers only its own number. Blocks of
// format 2 are manyRecords, the records without compression, which the checksum leaves out and whose ends are counted
// from the value's begin, and the rest as above.
//
// A held number that a block covers without having its record has none: its job ended again since. A held number that
// no block covers is damage: so a wrong key, or a lost page, cannot be mistaken for ends that never existed.
//
// A key for each record was rejected: half the cost of a flush was bbolt's elements and pages.
const (
	manyRecords   byte = 3
	packedRecords byte = 4
	// blockBytes is the size up to which a block is filled, before compression: that much is written again when one of
	// its records is deleted, and decompressed to read one. A record of half that size is stored alone.
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
	// packed are the compressed records; body holds them once they were unpacked. Blocks of format 2 have neither.
	packed, body []byte
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
	// value has size bytes, or none if they cannot be read.
	value []byte
	size  uint64
	torn  bool
}

// blockSum returns the checksum of a block whose records take some bytes after its kind. Compressed records are
// included: a flipped bit there may damage all of them, so the block counts as torn.
func blockSum(key, block []byte, records int) uint32 {
	sum := updateSum(checksum(key), block[:1])
	if block[0] == packedRecords {
		sum = updateSum(sum, block[1:1+records])
	}
	return updateSum(sum, block[1+records:])
}

// read locates a block's records and the last number that it covers.
func (x *block) read() {
	x.first, x.torn = number(x.key), true
	if len(x.value) == 0 || x.value[0] != manyRecords && x.value[0] != packedRecords {
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
	if blockSum(x.key, x.value[:len(x.value)-4], len(x.value)-1-len(tail)) != binary.BigEndian.Uint32(tail[len(tail)-4:]) {
		return
	}
	last := binary.BigEndian.Uint64(end[4:])
	if x.torn = last < x.first; x.torn {
		return
	}
	x.last, x.places, x.cut = min(last, x.next-1), tail[:len(tail)-blockEndSize], last >= x.next
	if x.value[0] == packedRecords {
		x.packed = x.value[1 : len(x.value)-len(tail)]
	}
}

// records returns the bytes that places refer to; nil if they cannot be unpacked. Their places are verified already, so
// they bound the memory.
func (x *block) records() []byte {
	if x.packed == nil {
		return x.value
	}
	if x.body == nil && len(x.places) > 0 {
		size := int(binary.BigEndian.Uint32(x.places[len(x.places)-4:]))
		if n, err := s2.DecodedLen(x.packed); err == nil && n == size {
			x.body, _ = s2.Decode(make([]byte, size), x.packed)
		}
	}
	return x.body
}

// covers reports whether the block covers a number that is not before its key.
func (x *block) covers(seq uint64) bool { return x.key != nil && !x.torn && seq <= x.last }

// spot returns the number of the record at an index, from 0, and where its bytes begin and end.
func (x *block) spot(at int) (seq uint64, from, to uint32) {
	if x.packed == nil {
		from = 1
	}
	if at > 0 {
		from = binary.BigEndian.Uint32(x.places[at*placeBytes-4:])
	}
	place := x.places[at*placeBytes:]
	return number(place[:8]), from, binary.BigEndian.Uint32(place[8:])
}

// placed returns the record at an index, from 0. Its value is empty if it cannot be read.
func (x *block) placed(at int) recordRow {
	seq, from, to := x.spot(at)
	row := recordRow{seq: seq, last: seq}
	if from <= to {
		row.size = uint64(to - from)
	}
	if records := x.records(); from <= to && uint64(to) <= uint64(len(records)) {
		row.value = records[from:to:to]
	}
	return row
}

// appendRows appends its records, or the row of a torn block.
func (x *block) appendRows(rows []recordRow) []recordRow {
	switch {
	case x.key == nil:
		return rows
	case x.torn:
		return append(rows, recordRow{seq: x.first, last: x.next - 1, torn: true})
	case x.plain:
		return append(rows, recordRow{seq: x.first, last: x.first, value: x.value, size: uint64(len(x.value))})
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

// find returns the index of a number's record in a block that covers it.
func (x *block) find(seq uint64) (at int, known bool) {
	if x.plain {
		return 0, true
	}
	n := len(x.places) / placeBytes
	at = sort.Search(n, func(i int) bool { return number(x.places[i*placeBytes:i*placeBytes+8]) >= seq })
	if at == n {
		return 0, false
	}
	found, _, _ := x.spot(at)
	return at, found == seq
}

// finder finds records by their numbers, and keeps the block that it read last.
type finder struct {
	b  *bbolt.Bucket
	at block
}

// block returns the block that would cover a number.
func (f *finder) block(seq uint64) *block {
	if x := blockOf(f.b.Cursor(), seq); !bytes.Equal(x.key, f.at.key) || x.next != f.at.next || x.torn != f.at.torn {
		f.at = x
	}
	return &f.at
}

// has reports whether a number has a record, which may be damaged; without one, covered reports whether the number is
// known to have none, or whether no block covers it.
func (f *finder) has(seq uint64) (known, covered bool) {
	x := f.block(seq)
	if covered = x.covers(seq); covered {
		_, known = x.find(seq)
	}
	return known, covered
}

// get returns the record of a number; see has.
func (f *finder) get(seq uint64) (value []byte, known, covered bool) {
	x := f.block(seq)
	if covered = x.covers(seq); !covered {
		return nil, false, false
	}
	at, known := x.find(seq)
	switch {
	case !known:
		return nil, false, true
	case x.plain:
		return x.value, true, true
	}
	return x.placed(at).value, true, true
}

// recordAt finds the record of one number; see finder.
func recordAt(b *bbolt.Bucket, seq uint64) (value []byte, known, covered bool) {
	return (&finder{b: b}).get(seq)
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

// maxBlock returns the maximum size of a block.
func maxBlock(records, places int) int { return 1 + s2.MaxEncodedLen(records) + places + blockEndSize }

// appendBlock appends a block in the archive's format to b; it fits if maxBlock does.
func (s *bookkeeping) appendBlock(b, key, records, places []byte, last uint64) []byte {
	kind := manyRecords
	if s.format == Format {
		kind = packedRecords
	}
	begin := len(b)
	switch b = append(b, kind); {
	case kind == manyRecords:
		b = append(b, records...)
	case len(records) > 0:
		b = slices.Grow(b, s2.MaxEncodedLen(len(records)))
		b = b[:len(b)+len(s2.Encode(b[len(b):cap(b)], records))]
	}
	at := len(b)
	b = append(b, places...)
	for end := at + 8; kind == manyRecords && end < len(b); end += placeBytes {
		binary.BigEndian.PutUint32(b[end:], binary.BigEndian.Uint32(b[end:])+1)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(places)/placeBytes))
	b = binary.BigEndian.AppendUint64(b, last)
	return binary.BigEndian.AppendUint32(b, blockSum(key, b[begin:], at-begin-1))
}

// putBlock writes the records of a block that covers the numbers first to last. Records that cannot be read stay
// damaged, and lose their size.
func (s *bookkeeping) putBlock(b *bbolt.Bucket, first, last uint64, rows []recordRow) error {
	key := seqKey(first)
	if len(rows) == 1 && rows[0].seq == first && first == last {
		return b.Put(key, bytes.Clone(rows[0].value))
	}
	var records, places []byte
	for _, r := range rows {
		s.recount = s.recount || uint64(len(r.value)) != r.size
		records = append(records, r.value...)
		places = appendPlace(places, r.seq, len(records))
	}
	return b.Put(key, s.appendBlock(make([]byte, 0, maxBlock(len(records), len(places))), key, records, places, last))
}
