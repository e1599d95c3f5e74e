package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rotasched/rota"
	"pgregory.net/rapid"
)

func TestDamage(t *testing.T) {
	t.Parallel()
	whole := pack(t, small(), 128)
	parts := cut(t, whole)
	if len(parts) < 7 {
		t.Fatalf("only %d parts", len(parts))
	}
	t.Run("every flipped bit is refused", func(t *testing.T) {
		t.Parallel()
		for at := range whole {
			for bit := range 9 {
				b := slices.Clone(whole)
				b[at] ^= byte(1 << bit)
				if bit == 8 {
					b[at] ^= 0xff
				}
				if err := mustRefuse(t, b); at >= len(magic) && !errors.As(err, new(*DamagedError)) {
					t.Fatalf("byte %d: %v", at, err)
				}
			}
		}
	})
	t.Run("every truncation is refused", func(t *testing.T) {
		t.Parallel()
		for n := range whole {
			mustBeDamaged(t, whole[:n:n], int64(n), "snapshot is truncated ")
		}
	})
	t.Run("names the place of a cut", func(t *testing.T) {
		t.Parallel()
		third := parts[3]
		size := len(third.bytes) - headBytes
		mustBeDamaged(t, nil, 0, "truncated in the header (expected 8 bytes, 0 came)")
		mustBeDamaged(t, whole[:20], 20, "truncated in the header (expected 71 bytes, 4 came)")
		mustBeDamaged(t, whole[:third.start], third.start,
			"truncated before block 3 (expected it or the end marker)")
		mustBeDamaged(t, whole[:third.start+1], -1, "truncated in the head of block 3 (expected 16 bytes, 1 came)")
		mustBeDamaged(t, whole[:third.start+20], -1,
			fmt.Sprintf("truncated in block 3 (expected %d bytes, 4 came)", size))
		mustBeDamaged(t, whole[:len(whole)-1], -1, "truncated in the end marker (expected 32 bytes, 31 came)")
	})
	t.Run("names the part with a flipped bit", func(t *testing.T) {
		t.Parallel()
		flip := func(at int64) []byte {
			b := slices.Clone(whole)
			b[at] ^= 4
			return b
		}
		mustBeDamaged(t, flip(8), 0, "the header has checksum ")
		mustBeDamaged(t, flip(parts[3].start+4), parts[3].start, "the head of block 3 has checksum ")
		mustBeDamaged(t, flip(parts[3].start+17), parts[3].start, "block 3 has checksum ")
		mustBeDamaged(t, flip(int64(len(whole)-1)), parts[len(parts)-1].start, "the end marker has checksum ")
	})
}

func TestDamageOfParts(t *testing.T) {
	t.Parallel()
	whole := pack(t, small(), 128)
	parts := cut(t, whole)
	t.Run("parts that do not belong together are refused", func(t *testing.T) {
		t.Parallel()
		for i := 1; i < len(parts)-1; i++ {
			mustBeDamaged(t, join(slices.Delete(slices.Clone(parts), i, i+1)...), -1,
				"blocks are missing or duplicated")
			doubled := slices.Insert(slices.Clone(parts), i, parts[i])
			mustBeDamaged(t, join(doubled...), -1, "blocks are missing or duplicated")
		}
		swapped := slices.Clone(parts)
		swapped[2], swapped[4] = swapped[4], swapped[2]
		mustBeDamaged(t, join(swapped...), -1, "header and blocks do not belong together")
		other := small()
		other.info.Index++
		swapped = slices.Clone(parts)
		swapped[0] = cut(t, pack(t, other, 128))[0]
		mustBeDamaged(t, join(swapped...), -1, "header and blocks do not belong together")
	})
	t.Run("bytes after the end are refused", func(t *testing.T) {
		t.Parallel()
		mustBeDamaged(t, append(slices.Clone(whole), 0), int64(len(whole)), "bytes follow the end marker")
		mustBeDamaged(t, append(slices.Clone(whole), whole...), int64(len(whole)), "bytes follow the end marker")
	})
	t.Run("any overwritten stretch is refused", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(r *rapid.T) {
			at := rapid.IntRange(0, len(whole)-1).Draw(r, "at")
			junk := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(r, "junk")
			b := slices.Clone(whole)
			copy(b[at:], junk)
			if !bytes.Equal(b, whole) {
				if s, _, k, err := load(b); err == nil || s != nil || k.finished != 0 {
					r.Fatalf("read: %v", err)
				}
			}
		})
	})
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	t.Run("another file", func(t *testing.T) {
		t.Parallel()
		for _, b := range []string{"x", "PK\x03\x04 a zip",
			"\x89PNG\r\n\x1a\n and so on", strings.Repeat("\x00", 4096)} {
			err := mustRefuse(t, []byte(b))
			if !strings.Contains(err.Error(), "not a rota snapshot") || errors.As(err, new(*DamagedError)) {
				t.Fatal(err)
			}
		}
	})
	t.Run("a newer format", func(t *testing.T) {
		t.Parallel()
		info := small().info
		info.Format = 2
		err := mustRefuse(t, append(appendPreamble(nil, info), "whatever format 2 has"...))
		if !strings.HasSuffix(err.Error(), "snapshot format 2 is newer than this binary's 1: upgrade first") ||
			errors.As(err, new(*DamagedError)) {
			t.Fatal(err)
		}
		info.Format = 0
		mustBeDamaged(t, appendPreamble(nil, info), 0, "not of format 0")
	})
	t.Run("a draft", func(t *testing.T) {
		t.Parallel()
		whole := pack(t, small(), 128)
		sum := len(cut(t, whole)[0].bytes) - 4
		binary.LittleEndian.PutUint16(whole[10:], 36)
		mustBeDamaged(t, whole, 0, "checksum") // a flipped bit is not mistaken for a draft
		binary.LittleEndian.PutUint32(whole[sum:], checksum(whole[:sum]))
		const want = "the snapshot was written by draft 36 of rota, from before its first release: run the binary that wrote it"
		if err := mustRefuse(t, whole); rota.KindOf(err) != rota.KindConflict || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	t.Run("a header that is whole but not one", func(t *testing.T) {
		t.Parallel()
		info := formatOne(small())
		info.ClusterID = "no id / at all"
		mustBeDamaged(t, appendPreamble(nil, info), 0, "not of format 1")
		b := binary.LittleEndian.AppendUint32([]byte(magic), Format)
		b = binary.LittleEndian.AppendUint32(b, maxHeaderBytes+1)
		mustBeDamaged(t, b, 0, "the header declares 4097 bytes, maximum 4096")
		for _, size := range []int{0, 1, fixedHeaderBytes - 1, fixedHeaderBytes + 1, maxHeaderBytes} {
			b := binary.LittleEndian.AppendUint32([]byte(magic), Format)
			b = binary.LittleEndian.AppendUint32(b, uint32(size))
			b = append(b, make([]byte, size)...)
			mustBeDamaged(t, binary.LittleEndian.AppendUint32(b, checksum(b)), 0, "not of format 1")
		}
	})
	t.Run("records that are none", func(t *testing.T) {
		t.Parallel()
		long := binary.AppendUvarint([]byte{1}, 1<<63)
		for text, raw := range map[string][]byte{
			"has no length":           {1},
			"record 2, in block 1":    {1, 0, 9},
			"declares 5 bytes, 1 are": {1, 5, 9},
			"in block 1, has no":      {1, 0x80, 0},
			"declares 92233":          long,
			"has several records":     append(bigRecord(BlockBytes), 1, 0),
		} {
			mustBeDamaged(t, forgeFile(t, 1, raw), -1, text)
		}
	})
}

// bigRecord returns a record of n bytes as stored in a block.
func bigRecord(n int) []byte {
	return append(binary.AppendUvarint([]byte{1}, uint64(n)), make([]byte, n)...)
}

func TestRefuseFrames(t *testing.T) {
	t.Parallel()
	preamble := part{bytes: appendPreamble(nil, formatOne(newState()))}
	raw := bigRecord(1000)
	frame := squeeze(t, raw)
	at := int64(len(preamble.bytes))
	var unsized bytes.Buffer
	z, err := zstd.NewWriter(&unsized)
	if err != nil {
		t.Fatal(err)
	}
	// Two writes with a flush between them: the streaming writer cannot know the size.
	for range 2 {
		if _, err := z.Write(raw); err != nil || z.Flush() != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}, frame...)
	for name, c := range map[string]struct {
		raw   uint32
		frame []byte
		text  string
	}{
		"a frame of another length":  {uint32(len(raw)) + 1, frame, "block 1 is not a zstd frame of 1004 bytes"},
		"a frame without its length": {2 * uint32(len(raw)), unsized.Bytes(), "is not a zstd frame of 2006 bytes"},
		"a skippable frame":          {uint32(len(raw)), skippable, "block 1 is not a zstd frame"},
		"no frame":                   {5, []byte("plain"), "block 1 is not a zstd frame"},
		"an empty frame":             {5, nil, "block 1 is not a zstd frame"},
		"a cut frame":                {uint32(len(raw)), frame[:len(frame)-1], "block 1 does not decompress"},
		"a second frame":             {uint32(len(raw)), append(slices.Clone(frame), frame...), "block 1 does not"},
		"too much for its content":   {1, make([]byte, maxFrameBytes(1)+1), "declares 66 compressed bytes for 1"},
		"too much content":           {maxBlockBytes + 1, frame, "maximum 16777222"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := join(preamble, forge(c.raw, c.frame), forgeEnd(1, preamble, raw))
			mustBeDamaged(t, b, at, c.text)
		})
	}
	t.Run("an end marker of another size", func(t *testing.T) {
		t.Parallel()
		b := join(preamble, forge(0, make([]byte, 31)))
		mustBeDamaged(t, b, at, "the end marker declares 31 bytes, want 32")
	})
	t.Run("an end marker of other counts", func(t *testing.T) {
		t.Parallel()
		mustBeDamaged(t, forgeFile(t, 2, raw), -1, "snapshot has 1 records of 1003 bytes, but 2 of 1003 were written")
		sum := parseEnd(forgeEnd(1, preamble, raw).bytes[headBytes:])
		sum.bytes--
		b := join(preamble, forge(uint32(len(raw)), frame), forge(0, sum.append(nil)))
		mustBeDamaged(t, b, -1, "snapshot has 1 records of 1003 bytes, but 1 of 1002 were written")
	})
}

// zeros is a reader that never ends; a decoder must not read on after it.
type zeros struct{ read int64 }

func (z *zeros) Read(b []byte) (int, error) {
	clear(b)
	z.read += int64(len(b))
	return len(b), nil
}

func TestEndlessReaderIsLeftAlone(t *testing.T) {
	t.Parallel()
	z := &zeros{}
	r := io.MultiReader(bytes.NewReader(pack(t, small(), BlockBytes)), z)
	if _, err := Inspect(r); err == nil || z.read != 1 {
		t.Fatalf("%d bytes were read beyond the end: %v", z.read, err)
	}
	z = &zeros{}
	if _, err := Inspect(z); err == nil || z.read != 8 {
		t.Fatalf("%d bytes were read of no snapshot: %v", z.read, err)
	}
}
