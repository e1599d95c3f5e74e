package snapshot

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// spending counts the bytes and the objects that f allocates. The runtime counts for the whole process, so only the
// tests of this file do not call t.Parallel(): the parallel tests wait until these are done.
func spending(f func()) (bytes, objects uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs
}

// allocated counts the bytes that f allocates.
func allocated(f func()) uint64 {
	n, _ := spending(f)
	return n
}

// TestMemoryIsFlat checks that four times the records need the same memory: nothing for each record or each block. One
// bound on the total was rejected: zstd keeps its tables in a sync.Pool, which under the race detector drops some at
// random, a few objects of a few kilobytes a block. An allocation for each record or for each block is far above that:
// one object a record is a hundred times the bound on objects, one buffer a block ten times the bound on bytes.
func TestMemoryIsFlat(t *testing.T) {
	const few, many = 50_000, 200_000
	type cost struct{ bytes, objects uint64 }
	var write, read [2]cost
	var raw [2]uint64
	for i, records := range []int{few, many} {
		src := newJobs()
		src.records = records
		for n := range records {
			raw[i] += uint64(len(src.rows[n%len(src.rows)]))
		}
		var file bytes.Buffer
		file.Grow(64 << 20)
		write[i].bytes, write[i].objects = spending(func() {
			if _, err := Write(&file, src); err != nil {
				t.Error(err)
			}
		})
		read[i].bytes, read[i].objects = spending(func() {
			if info, err := Inspect(&file); err != nil || info.Records != uint64(records) {
				t.Error(info, err)
			}
		})
	}
	more := raw[1] - raw[0]
	for _, c := range []struct {
		what  string
		least uint64 // maximum cost of the first block
		costs [2]cost
	}{{"writing", 6 << 20, write}, {"reading", 3 << 20, read}} {
		if first := c.costs[0].bytes; first > c.least {
			t.Errorf("%s %d records allocated %d bytes", c.what, few, first)
		}
		if a, b := c.costs[0].objects, c.costs[1].objects; b > a+(many-few)/100 {
			t.Errorf("%s %d records allocated %d objects, %d records %d", c.what, few, a, many, b)
		}
		if a, b := c.costs[0].bytes, c.costs[1].bytes; b > a+more/10 {
			t.Errorf("%s %d bytes more allocated %d bytes instead of %d", c.what, more, b, a)
		}
	}
}

func TestMemoryOfHugeLengths(t *testing.T) {
	preamble := part{bytes: appendPreamble(nil, formatOne(newState()))}
	declare := func(raw, packed uint32) []byte {
		b := make([]byte, headBytes, headBytes+100)
		head{raw: raw, packed: packed}.put(b)
		return append(append(bytes.Clone(preamble.bytes), b...), make([]byte, 100)...)
	}
	longHeader := binary.LittleEndian.AppendUint32([]byte(magic), 1)
	longHeader = binary.LittleEndian.AppendUint32(longHeader, 1<<32-1)
	for name, b := range map[string][]byte{
		"header of 4 GiB":        append(longHeader, make([]byte, 100)...),
		"block of 4 GiB":         declare(1<<32-1, 10),
		"frame of 4 GiB":         declare(100, 1<<32-1),
		"largest, but not there": declare(maxBlockBytes, maxFrameBytes(maxBlockBytes)),
		"end marker of 4 GiB":    declare(0, 1<<32-1),
	} {
		t.Run(name, func(t *testing.T) {
			if spent := allocated(func() { mustRefuse(t, b) }); spent > 2<<20 {
				t.Fatalf("%d bytes allocated for a file of %d", spent, len(b))
			}
		})
	}
	t.Run("a record of 2^62 bytes", func(t *testing.T) {
		raw := binary.AppendUvarint([]byte{1}, 1<<62)
		b := forgeFile(t, 1, raw)
		if spent := allocated(func() { mustRefuse(t, b) }); spent > 2<<20 {
			t.Fatalf("%d bytes allocated", spent)
		}
	})
}

// TestMemoryOfBomb forges files with correct checksums whose frames hold far more than they declare, or exactly as much
// as allowed and then much more.
func TestMemoryOfBomb(t *testing.T) {
	var bomb bytes.Buffer
	z, err := zstd.NewWriter(&bomb, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(z, &zeros{}, 1<<30); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	lying := squeeze(t, make([]byte, 8<<20))
	// The frame's own length field follows magic and descriptor.
	binary.LittleEndian.PutUint32(lying[5:], 1000)
	preamble := part{bytes: appendPreamble(nil, formatOne(newState()))}
	for name, frame := range map[string][]byte{
		"a gigabyte of zeros":                bomb.Bytes()[:1000],
		"a frame that lies about its length": lying,
	} {
		t.Run(name, func(t *testing.T) {
			b := join(preamble, forge(1000, frame))
			spent := allocated(func() { mustBeDamaged(t, b, int64(len(preamble.bytes)), "block 1 ") })
			if spent > 4<<20 {
				t.Fatalf("%d bytes allocated for a file of %d", spent, len(b))
			}
		})
	}
	t.Run("the whole gigabyte declared as the largest block", func(t *testing.T) {
		b := join(preamble, forge(maxBlockBytes, bomb.Bytes()))
		if spent := allocated(func() { mustRefuse(t, b) }); spent > 4<<20 {
			t.Fatalf("%d bytes allocated for a file of %d", spent, len(b))
		}
	})
	t.Run("many largest blocks use one block's memory", func(t *testing.T) {
		raw := bigRecord(MaxRecordBytes)
		block := forge(uint32(len(raw)), squeeze(t, raw))
		parts, raws := []part{preamble}, [][]byte{}
		for range 12 {
			parts, raws = append(parts, block), append(raws, raw)
		}
		b := join(append(parts, forgeEnd(12, preamble, raws...))...)
		spent := allocated(func() {
			if info, err := Inspect(bytes.NewReader(b)); err != nil || info.Records != 12 {
				t.Error(info, err)
			}
		})
		if spent > 3*MaxRecordBytes {
			t.Fatalf("%d bytes allocated for a file of %d", spent, len(b))
		}
	})
}
