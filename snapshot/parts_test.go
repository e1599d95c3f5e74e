package snapshot

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
)

// part is one part of a file, as the byte tables of DESIGN.md divide it.
type part struct {
	start int64
	bytes []byte
}

// cut is a second, naive reader of the layout: it trusts everything and returns the preamble, each block, and the end
// marker.
func cut(t testing.TB, b []byte) []part {
	t.Helper()
	le := binary.LittleEndian
	n := 16 + int(le.Uint32(b[12:])) + 4
	parts := []part{{0, b[:n]}}
	for n < len(b) {
		size := 16 + int(le.Uint32(b[n+4:]))
		parts = append(parts, part{int64(n), b[n : n+size]})
		n += size
	}
	if n != len(b) || len(parts) < 2 || len(parts[len(parts)-1].bytes) != 48 {
		t.Fatalf("not the layout of DESIGN.md: %d parts of %d bytes", len(parts), len(b))
	}
	return parts
}

// join is the inverse of cut.
func join(parts ...part) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p.bytes...)
	}
	return b
}

// plain unpacks a block with the library's streaming reader.
func plain(t testing.TB, block part) []byte {
	t.Helper()
	r, err := zstd.NewReader(bytes.NewReader(block.bytes[16:]))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// forge makes a block of any content with correct checksums.
func forge(raw uint32, frame []byte) part {
	b := append(make([]byte, headBytes), frame...)
	head{raw: raw, packed: uint32(len(frame)), sum: checksum(frame)}.put(b)
	return part{bytes: b}
}

// squeeze compresses raw as the writer does.
func squeeze(t testing.TB, raw []byte) []byte {
	t.Helper()
	e, err := newEncoder(io.Discard, BlockBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer e.zstd.Close()
	return e.zstd.EncodeAll(raw, nil)
}

// forgeEnd makes an end marker that fits the preamble and the raw blocks.
func forgeEnd(records uint64, preamble part, raws ...[]byte) part {
	h := xxh3.New()
	_, _ = h.Write(preamble.bytes)
	sum := end{records: records}
	for _, raw := range raws {
		_, _ = h.Write(raw)
		sum.bytes += uint64(len(raw))
	}
	sum.hash = h.Sum128()
	return forge(0, sum.append(nil))
}

// forgeFile makes a file of one raw block with correct checksums.
func forgeFile(t testing.TB, records uint64, raw []byte) []byte {
	t.Helper()
	preamble := part{bytes: appendPreamble(nil, formatOne(newState()))}
	return join(preamble, forge(uint32(len(raw)), squeeze(t, raw)), forgeEnd(records, preamble, raw))
}
