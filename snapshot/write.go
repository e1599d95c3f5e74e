package snapshot

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/rotasched/rota"
)

// Write streams src to w and says what it wrote; Bytes is the file's length. It
// holds one block, compresses on the calling goroutine alone, and gives w one
// call a block. After an error what w has got is no snapshot and will be refused.
func Write(w io.Writer, src Source) (rota.SnapshotInfo, error) {
	return write(w, src, BlockBytes)
}

// write is Write with a block size, so that tests get small files of many blocks.
func write(w io.Writer, src Source, blockBytes int) (rota.SnapshotInfo, error) {
	info := src.Info()
	info.Format = Format
	if info.ClusterID != "" {
		if err := rota.CheckID("cluster_id", info.ClusterID); err != nil {
			return rota.SnapshotInfo{}, carried(opWrite, err, "the header")
		}
	}
	e, err := newEncoder(w, blockBytes)
	if err != nil {
		return rota.SnapshotInfo{}, err
	}
	defer e.zstd.Close()
	e.preamble(info)
	if e.err == nil {
		// A source that goes on after a refused yield does not hide the refusal.
		if err := src.Records(e.add); err != nil && e.err == nil {
			e.err = carried(opWrite, err, "the state gave up after record %d", e.sum.records)
		}
	}
	e.flush()
	e.end()
	if e.err != nil {
		return rota.SnapshotInfo{}, e.err
	}
	info.Records, info.Bytes = e.sum.records, e.at
	return info, nil
}

// encoder collects records into a block and writes full blocks. Its first error
// stays, and nothing is written after it.
type encoder struct {
	w    io.Writer
	at   int64
	zstd *zstd.Encoder
	hash *xxh3.Hasher
	// raw is the block being filled, out the room for a head and its frame.
	raw, out   []byte
	blockBytes int
	sum        end
	err        error
}

func newEncoder(w io.Writer, blockBytes int) (*encoder, error) {
	// One frame a block, always with its length in it, and no window beyond a
	// block. The fastest level leaves the core to applying; the next one took 1.7
	// times as long and saved nothing (BenchmarkWrite). CRC off: the block's own
	// checksum is compared before the frame is opened.
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(BlockBytes), zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, carried(opWrite, err, "no compressor")
	}
	return &encoder{w: w, zstd: z, hash: xxh3.New(), blockBytes: blockBytes}, nil
}

func (e *encoder) preamble(info rota.SnapshotInfo) {
	e.out = appendPreamble(e.out[:0], info)
	_, _ = e.hash.Write(e.out)
	e.write(e.out)
}

// add puts one record into the block, which is written when the next does not fit.
func (e *encoder) add(kind byte, record []byte) error {
	if e.err != nil {
		return e.err
	}
	if len(record) > MaxRecordBytes {
		e.err = &rota.Error{Kind: rota.KindInvalid, Op: opWrite, Subject: "record", Text: fmt.Sprintf(
			"record %d of kind %d too long: got %d bytes, maximum %d",
			e.sum.records+1, kind, len(record), MaxRecordBytes)}
		return e.err
	}
	var front [1 + binary.MaxVarintLen64]byte
	front[0] = kind
	n := 1 + binary.PutUvarint(front[1:], uint64(len(record)))
	if len(e.raw)+n+len(record) > e.blockBytes {
		e.flush()
	}
	e.raw = append(append(e.raw, front[:n]...), record...)
	e.sum.records++
	return e.err
}

// flush writes the block, if there is anything in it.
func (e *encoder) flush() {
	if len(e.raw) == 0 || e.err != nil {
		return
	}
	_, _ = e.hash.Write(e.raw)
	e.sum.bytes += uint64(len(e.raw))
	var room [headBytes]byte
	e.out = e.zstd.EncodeAll(e.raw, append(e.out[:0], room[:]...))
	frame := e.out[headBytes:]
	head{raw: uint32(len(e.raw)), packed: uint32(len(frame)), sum: checksum(frame)}.put(e.out)
	e.write(e.out)
	e.raw = e.raw[:0]
}

// end writes the end marker.
func (e *encoder) end() {
	if e.err != nil {
		return
	}
	e.sum.hash = e.hash.Sum128()
	var room [headBytes]byte
	e.out = e.sum.append(append(e.out[:0], room[:]...))
	head{packed: endBytes, sum: checksum(e.out[headBytes:])}.put(e.out)
	e.write(e.out)
}

func (e *encoder) write(b []byte) {
	n, err := e.w.Write(b)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	e.at += int64(n)
	if err != nil {
		e.err = carried(opWrite, err, "writing at byte %d failed", e.at)
	}
}
