package snapshot

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"go.etcd.io/bbolt"
)

// Records that are written together lie in blocks in archiveRecords, by the number of the
// first: manyRecords, then the records in the order of their numbers, then for each its
// number (8) and where it ends (4), how many they are (4), CRC32C over key, kind and all
// behind the records (4). A block's numbers come before the next key. A record alone
// stands plain, as all once did.
//
// A key for each was refused: half of what a flush took was bbolt's elements and pages.
const (
	manyRecords byte = 3
	// blockBytes is what a block is filled up to: what is written again where one of its
	// records goes. A record of half as much stands alone.
	blockBytes = 16 << 10
	// blocksFrom is the number of records from which a flush makes blocks of them.
	blocksFrom = 32

	placeBytes   = 8 + 4
	blockEndSize = 4 + 4
)

// recordRow is a record by its number. Of a block whose places are damaged, it is any
// number up to last, and has no value.
type recordRow struct {
	seq, last uint64
	value     []byte
}

// blockSum is the checksum of a block, over its places and how many they are.
func blockSum(key, places []byte) uint32 {
	return updateSum(updateSum(checksum(key), []byte{manyRecords}), places)
}

// blockPlaces finds the places of a block's records; false where they are damaged.
func blockPlaces(key, value []byte) (places []byte, ok bool) {
	if len(value) < 1+blockEndSize {
		return nil, false
	}
	n := uint64(binary.BigEndian.Uint32(value[len(value)-blockEndSize:]))
	if n == 0 || n*placeBytes > uint64(len(value)-1-blockEndSize) {
		return nil, false
	}
	tail := value[len(value)-blockEndSize-int(n)*placeBytes:]
	if blockSum(key, tail[:len(tail)-4]) != binary.BigEndian.Uint32(tail[len(tail)-4:]) {
		return nil, false
	}
	return tail[:len(tail)-blockEndSize], true
}

// placed gives the record at a place, the first being 0.
func placed(value, places []byte, at int) recordRow {
	place, from := places[at*placeBytes:], uint32(1)
	if at > 0 {
		from = binary.BigEndian.Uint32(places[at*placeBytes-4:])
	}
	seq, to := number(place[:8]), binary.BigEndian.Uint32(place[8:])
	if from > to || uint64(to) > uint64(len(value)) {
		return recordRow{seq, seq, value[:0]}
	}
	return recordRow{seq, seq, value[from:to:to]}
}

// appendBlock appends the records of a key, whose numbers are below next.
func appendBlock(rows []recordRow, key, value []byte, next uint64) []recordRow {
	if len(value) == 0 || value[0] != manyRecords {
		return append(rows, recordRow{number(key), number(key), value})
	}
	places, ok := blockPlaces(key, value)
	if !ok {
		return append(rows, recordRow{number(key), next - 1, nil})
	}
	for at := range len(places) / placeBytes {
		rows = append(rows, placed(value, places, at))
	}
	return rows
}

// blockOf finds the key under which a number would be, and the one behind it: the
// greatest number for none.
func blockOf(c *bbolt.Cursor, seq uint64) (key, value []byte, next uint64) {
	after := func(k []byte) uint64 {
		if k == nil {
			return math.MaxUint64
		}
		return number(k)
	}
	k, v := c.Seek(seqKey(seq))
	if k != nil && number(k) == seq {
		behind, _ := c.Next()
		return k, v, after(behind)
	}
	if next = after(k); k == nil {
		key, value = c.Last()
	} else {
		key, value = c.Prev()
	}
	return key, value, next
}

// recordAt finds the record of a number. It may be damaged: of a block whose places are,
// every number is.
func recordAt(b *bbolt.Bucket, seq uint64) (value []byte, ok bool) {
	key, value, _ := blockOf(b.Cursor(), seq)
	if key == nil {
		return nil, false
	}
	if len(value) == 0 || value[0] != manyRecords {
		return value, number(key) == seq
	}
	places, whole := blockPlaces(key, value)
	if !whole {
		return nil, true
	}
	n := len(places) / placeBytes
	at := sort.Search(n, func(i int) bool { return number(places[i*placeBytes:i*placeBytes+8]) >= seq })
	if at == n {
		return nil, false
	}
	row := placed(value, places, at)
	return row.value, row.seq == seq
}

// recordCursor walks the records in the order of their numbers.
type recordCursor struct {
	c    *bbolt.Cursor
	next uint64
	rows []recordRow
}

func newRecordCursor(b *bbolt.Bucket) *recordCursor { return &recordCursor{c: b.Cursor()} }

// seek gives the first record from a number on.
func (r *recordCursor) seek(seq uint64) (row recordRow, ok bool) {
	key, value, next := blockOf(r.c, seq)
	if r.rows, r.next = r.rows[:0], next; key != nil {
		r.rows = appendBlock(r.rows, key, value, next)
	}
	for row, ok = r.step(); ok && row.last < seq; row, ok = r.step() {
	}
	return row, ok
}

// step gives the next record.
func (r *recordCursor) step() (row recordRow, ok bool) {
	for len(r.rows) == 0 {
		if r.next == math.MaxUint64 {
			return row, false
		}
		var key, value []byte
		key, value, r.next = blockOf(r.c, r.next)
		r.rows = appendBlock(r.rows[:0], key, value, r.next)
	}
	row, r.rows = r.rows[0], r.rows[1:]
	return row, true
}

// putBlock writes records in the order of their numbers under one key.
func putBlock(b *bbolt.Bucket, rows []recordRow) error {
	if len(rows) == 1 {
		return b.Put(seqKey(rows[0].seq), slices.Clone(rows[0].value))
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
	key := seqKey(rows[0].seq)
	return b.Put(key, endBlock(value, key, places))
}

func appendPlace(places []byte, seq uint64, end int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(places, seq), uint32(end))
}

// endBlock appends to a block's records what lies behind them.
func endBlock(b, key, places []byte) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint32(append(b, places...), uint32(len(places)/placeBytes))
	return binary.BigEndian.AppendUint32(b, blockSum(key, b[at:]))
}

// drop takes the records of numbers out. A block whose places are damaged goes as a
// whole, with all its numbers: they are lacking from then on.
func (s *archiveState) drop(b *bbolt.Bucket, seqs []uint64) error {
	slices.Sort(seqs)
	var rows []recordRow
	damaged := false
	for at := 0; at < len(seqs); {
		key, value, next := blockOf(b.Cursor(), seqs[at])
		to := at + sort.Search(len(seqs)-at, func(i int) bool { return seqs[at+i] >= next })
		some := seqs[at:to]
		if at = to; key == nil {
			continue
		}
		rows = appendBlock(rows[:0], key, value, next)
		if rows[0].value == nil {
			s.lose(Span{From: rows[0].seq, To: rows[0].last})
			damaged = true
		}
		kept := slices.DeleteFunc(rows, func(r recordRow) bool {
			_, goes := slices.BinarySearch(some, r.seq)
			if goes = goes || r.value == nil; goes && r.value != nil {
				s.records, s.bytes = s.records-1, s.bytes-uint64(len(r.value))
			}
			return goes
		})
		if err := replaceBlock(b, key, value, kept); err != nil {
			return err
		}
	}
	if damaged {
		s.count(b)
	}
	return nil
}

// replaceBlock writes what is left of a block.
func replaceBlock(b *bbolt.Bucket, key, value []byte, kept []recordRow) error {
	if len(kept) > 0 && len(value) > 0 && value[0] != manyRecords {
		return nil // none of it went
	}
	if len(kept) == 0 || kept[0].seq != number(key) {
		if err := b.Delete(slices.Clone(key)); err != nil {
			return err
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return putBlock(b, kept)
}

// lose takes the numbers of a span for lacking, but those that are known to be nowhere.
func (s *archiveState) lose(x Span) {
	s.held.removeSpan(x)
	for _, y := range s.absent {
		s.held.Add(max(x.From, y.From), min(x.To, y.To))
	}
}

// count counts all records anew: of a block whose places are damaged nobody knows how
// many there were.
func (s *archiveState) count(b *bbolt.Bucket) {
	s.records, s.bytes = 0, 0
	c := newRecordCursor(b)
	for row, ok := c.seek(0); ok; row, ok = c.step() {
		if row.value != nil {
			s.records, s.bytes = s.records+1, s.bytes+uint64(len(row.value))
		}
	}
}

// numbers are those from…to that should have a record here.
func (s *archiveState) numbers(from, to uint64) (seqs []uint64) {
	var held Spans
	for _, x := range s.held {
		if x.To >= from && x.From <= to {
			held.Add(max(x.From, from), min(x.To, to))
		}
	}
	for _, x := range s.absent {
		held.removeSpan(x)
	}
	for _, x := range held {
		for seq := x.From; seq <= x.To; seq++ {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}
