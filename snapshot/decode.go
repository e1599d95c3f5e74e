package snapshot

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/rotasched/rota"
)

// growBytes is how much memory is allocated for a declared length before the bytes arrive: a short file that declares a
// large length costs no more than this.
const growBytes = 256 << 10

// decoder reads a file part by part. Every length is bounded before memory is allocated for it, and every checksum is
// compared before its content is used.
type decoder struct {
	r    io.Reader
	at   int64
	zstd *zstd.Decoder
	hash *xxh3.Hasher
	add  func(kind byte, record []byte) error
	// number is the block being read, from 1.
	number int
	// packed and raw are the block's bytes; raw is a part of space. The memory of both is reused for the next block.
	packed, raw, space []byte
	sum                end
}

func newDecoder(r io.Reader) *decoder { return &decoder{r: r, hash: xxh3.New()} }

func (d *decoder) close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}

// preamble reads and verifies everything before the first block. It checks the checksum before the format, so that a
// flipped bit is not mistaken for a newer binary.
func (d *decoder) preamble() (rota.SnapshotInfo, error) {
	var none rota.SnapshotInfo
	n, err := d.fill(d.room(len(magic)))
	if found := d.packed[:n]; (err == nil || isEnd(err)) && !strings.HasPrefix(magic, string(found)) {
		return none, foreign(found)
	}
	if err != nil {
		return none, d.cut(err, "the header", len(magic), n)
	}
	if err := d.more(prefixBytes, "the header"); err != nil {
		return none, err
	}
	format := uint32(binary.LittleEndian.Uint16(d.packed[len(magic):]))
	draft := binary.LittleEndian.Uint16(d.packed[len(magic)+2:])
	size := binary.LittleEndian.Uint32(d.packed[len(magic)+4:])
	if size > maxHeaderBytes {
		return none, damaged(0, "the header declares %d bytes, maximum %d: the file is damaged",
			size, maxHeaderBytes)
	}
	if err := d.more(prefixBytes+int(size)+4, "the header"); err != nil {
		return none, err
	}
	body := d.packed[:prefixBytes+int(size)]
	if has, written := checksum(body), binary.LittleEndian.Uint32(d.packed[len(body):]); has != written {
		return none, damaged(0, "the header has checksum %08x, %08x was written: the file is damaged",
			has, written)
	}
	if format > Format {
		return none, newer(format)
	}
	if draft != 0 {
		return none, rota.Refusef(rota.KindConflict, "format",
			"the snapshot was written by draft %d of rota, from before its first release: "+
				"run the binary that wrote it", draft)
	}
	info, ok := parseHeader(body[prefixBytes:])
	if !ok || format != Format {
		return none, damaged(0, "the header is intact but is not of format %d", format)
	}
	_, _ = d.hash.Write(d.packed)
	return info, nil
}

// block reads one block and passes on its records, or reads the end marker.
func (d *decoder) block() (last bool, err error) {
	d.number++
	start := d.at
	if n, err := d.fill(d.room(headBytes)); err != nil {
		if n == 0 && isEnd(err) {
			return false, damaged(start, "snapshot is truncated before block %d (expected it or the end marker)",
				d.number)
		}
		return false, d.cut(err, "the head of block "+strconv.Itoa(d.number), headBytes, n)
	}
	h, has, written := parseHead(d.packed)
	if has != written {
		return false, damaged(start, "the head of block %d has checksum %08x, %08x was written: "+
			"the file is damaged",
			d.number, has, written)
	}
	if h.raw == 0 {
		return true, d.end(h, start)
	}
	if h.raw > maxBlockBytes {
		return false, damaged(start, "block %d declares %d bytes, maximum %d",
			d.number, h.raw, maxBlockBytes)
	}
	if h.packed > maxFrameBytes(h.raw) {
		return false, damaged(start, "block %d declares %d compressed bytes for %d, maximum %d",
			d.number, h.packed, h.raw, maxFrameBytes(h.raw))
	}
	d.packed = d.packed[:0]
	if err := d.more(int(h.packed), "block "+strconv.Itoa(d.number)); err != nil {
		return false, err
	}
	if has := checksum(d.packed); has != h.sum {
		return false, damaged(start, "block %d has checksum %08x, %08x was written: the file is damaged",
			d.number, has, h.sum)
	}
	if err := d.unpack(h, start); err != nil {
		return false, err
	}
	return false, d.records(start)
}

// unpack decompresses the frame in packed into raw. The frame must declare exactly the length that the head declares,
// and gets exactly that much memory.
func (d *decoder) unpack(h head, start int64) error {
	var front zstd.Header
	if err := front.Decode(d.packed); err != nil || !front.HasFCS ||
		front.FrameContentSize != uint64(h.raw) || front.DictionaryID != 0 {
		return damaged(start, "block %d is not a zstd frame of %d bytes", d.number, h.raw)
	}
	if d.zstd == nil {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxBlockBytes), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return carried(opRead, err, "no decompressor")
		}
		d.zstd = z
	}
	d.space = slices.Grow(d.space[:0], int(h.raw))
	raw, err := d.zstd.DecodeAll(d.packed, d.space[:0:h.raw])
	if err != nil {
		return damaged(start, "block %d does not decompress: %v", d.number, err)
	}
	if len(raw) != int(h.raw) {
		return damaged(start, "block %d has %d bytes, but %d were written", d.number, len(raw), h.raw)
	}
	d.raw = raw
	_, _ = d.hash.Write(raw)
	d.sum.bytes += uint64(len(raw))
	return nil
}

// records passes on the records of the block in raw.
func (d *decoder) records(start int64) error {
	for rest := d.raw; len(rest) > 0; {
		kind := rest[0]
		size, n := binary.Uvarint(rest[1:])
		// One length has one encoding: a last byte of zero would be another.
		if n <= 0 || n > 1 && rest[n] == 0 {
			return damaged(start, "record %d, in block %d, has no length", d.sum.records+1, d.number)
		}
		rest = rest[1+n:]
		if size > uint64(len(rest)) || size > MaxRecordBytes {
			return damaged(start, "record %d, in block %d, declares %d bytes, %d are left in the block",
				d.sum.records+1, d.number, size, len(rest))
		}
		record := rest[:size:size]
		rest = rest[size:]
		if len(d.raw) > BlockBytes && len(rest) > 0 {
			return damaged(start, "block %d of %d bytes has several records: only one may make it larger than %d",
				d.number, len(d.raw), BlockBytes)
		}
		if err := d.add(kind, record); err != nil {
			return carried(opRead, err, "record %d of kind %d, in block %d, was rejected",
				d.sum.records+1, kind, d.number)
		}
		d.sum.records++
	}
	return nil
}

// end reads the end marker and compares it with the preceding content.
func (d *decoder) end(h head, start int64) error {
	if h.packed != endBytes {
		return damaged(start, "the end marker declares %d bytes, want %d", h.packed, endBytes)
	}
	d.packed = d.packed[:0]
	if err := d.more(endBytes, "the end marker"); err != nil {
		return err
	}
	if has := checksum(d.packed); has != h.sum {
		return damaged(start, "the end marker has checksum %08x, %08x was written: the file is damaged",
			has, h.sum)
	}
	written := parseEnd(d.packed)
	if d.sum.records != written.records || d.sum.bytes != written.bytes {
		return damaged(start, "snapshot has %d records of %d bytes, but %d of %d were written: "+
			"blocks are missing or duplicated",
			d.sum.records, d.sum.bytes, written.records, written.bytes)
	}
	if d.sum.hash = d.hash.Sum128(); d.sum.hash != written.hash {
		return damaged(start, "snapshot has hash %016x%016x, %016x%016x was written: "+
			"header and blocks do not belong together",
			d.sum.hash.Hi, d.sum.hash.Lo, written.hash.Hi, written.hash.Lo)
	}
	return nil
}

// nothingMore verifies that the reader ends with the snapshot.
func (d *decoder) nothingMore() error {
	start := d.at
	n, err := d.fill(d.room(1))
	switch {
	case n > 0:
		d.at = start
		return damaged(start, "bytes follow the end marker: the file is damaged, or two were joined")
	case errors.Is(err, io.EOF):
		return nil
	}
	return d.failed(err)
}

// room empties packed and makes it n bytes long.
func (d *decoder) room(n int) []byte {
	d.packed = slices.Grow(d.packed[:0], n)[:n]
	return d.packed
}

// more reads until packed holds size bytes, and allocates memory as they arrive.
func (d *decoder) more(size int, part string) error {
	had := len(d.packed)
	for len(d.packed) < size {
		have := len(d.packed)
		step := min(size-have, max(have, growBytes))
		d.packed = slices.Grow(d.packed, step)[:have+step]
		if n, err := d.fill(d.packed[have:]); err != nil {
			return d.cut(err, part, size-had, have-had+n)
		}
	}
	return nil
}

// fill reads until b is full; at counts the bytes read.
func (d *decoder) fill(b []byte) (int, error) {
	n, err := io.ReadFull(d.r, b)
	d.at += int64(n)
	return n, err
}

// cut returns the error of a part that was not read completely: the file ends, or the reader failed.
func (d *decoder) cut(err error, part string, expected, came int) error {
	if !isEnd(err) {
		return d.failed(err)
	}
	return damaged(d.at, "snapshot is truncated in %s (expected %d bytes, %d came)", part, expected, came)
}

// failed wraps an error of the reader, which does not concern the file's content.
func (d *decoder) failed(err error) error {
	return carried(opRead, err, "reading at byte %d failed", d.at)
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
