package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// FuzzRead reads any bytes. A refusal must come without a state; an accepted file must give a state whose digest fits
// and which can be written and read again. The seeds are in testdata/fuzz; run with -update to create them again.
func FuzzRead(f *testing.F) {
	if *update {
		for name, b := range seeds(f) {
			path := filepath.Join("testdata", "fuzz", "FuzzRead", name)
			if err := os.WriteFile(path, fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", b), 0o644); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, info, k, err := load(b)
		inspected, inspectErr := Inspect(bytes.NewReader(b))
		if err != nil {
			if s != nil || k.finished == 1 && inspectErr != nil {
				t.Fatalf("Finish on damage: %v", err)
			}
			return
		}
		if k.finished != 1 || inspectErr != nil || inspected != info || info.Bytes != int64(len(b)) ||
			info.Records != uint64(len(s.rows)) || digestOf(s.rows) != info.Digest {
			t.Fatalf("read %+v, inspected %+v (%v), %d rows", info, inspected, inspectErr, len(s.rows))
		}
		again, _, _, err := load(pack(t, s, BlockBytes))
		if err != nil || !slices.Equal(again.rows, s.rows) {
			t.Fatalf("does not read again: %v", err)
		}
	})
}

// FuzzRecords wraps any bytes in a block and an end marker with correct checksums, which FuzzRead would hardly find,
// and so reaches the records.
func FuzzRecords(f *testing.F) {
	f.Add(uint64(1), []byte{1, 0})
	f.Add(uint64(2), []byte{1, 2, 'a', 'b', 9, 1, 'c'})
	f.Add(uint64(1), []byte{1, 0x80, 0})
	f.Add(uint64(1), binary.AppendUvarint([]byte{1}, 1<<63))
	f.Fuzz(func(t *testing.T, records uint64, raw []byte) {
		if len(raw) == 0 || len(raw) > maxBlockBytes {
			return
		}
		var rows []row
		info, err := decode(bytes.NewReader(forgeFile(t, records, raw)), collect(&rows))
		if err != nil {
			mustRefuse(t, forgeFile(t, records, raw))
			return
		}
		var back []byte
		for _, r := range rows {
			back = append(binary.AppendUvarint(append(back, r.kind), uint64(len(r.record))), r.record...)
		}
		if !bytes.Equal(back, raw) || info.Records != uint64(len(rows)) || records != info.Records {
			t.Fatalf("%d records of %x became %x", len(rows), raw, back)
		}
	})
}

// seeds returns one file for each way to be valid or invalid.
func seeds(t testing.TB) map[string][]byte {
	whole := pack(t, small(), 128)
	parts := cut(t, whole)
	info := small().info
	info.Format = 2
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	preamble := part{bytes: appendPreamble(nil, formatOne(newState()))}
	return map[string][]byte{
		"empty":           nil,
		"no_records":      pack(t, newState(), 128),
		"one_block":       pack(t, small(), BlockBytes),
		"many_blocks":     whole,
		"truncated":       whole[:len(whole)/2],
		"flipped":         flipped,
		"trailing":        append(bytes.Clone(whole), 0),
		"lost_block":      join(slices.Delete(slices.Clone(parts), 2, 3)...),
		"other_magic":     []byte("PK\x03\x04 a zip"),
		"newer_format":    appendPreamble(nil, info),
		"huge_block":      join(preamble, forge(1<<32-1, nil)),
		"huge_frame":      join(preamble, forge(1, make([]byte, 200))),
		"no_frame":        join(preamble, forge(5, []byte("plain"))),
		"record_cut":      forgeFile(t, 1, []byte{1, 5, 9}),
		"length_too_long": forgeFile(t, 1, []byte{1, 0x80, 0}),
		"other_digest":    forgeFile(t, 1, []byte{1, 1, 9}),
	}
}
