package archive

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// eventEntries makes n entries of two events each, the first one from events after the cluster's first.
func eventEntries(from, n int) []EventEntry {
	list := make([]EventEntry, n)
	for i := range list {
		k := from/2 + i
		list[i] = EventEntry{Index: rota.Index(10 + 3*k), Before: uint64(2 * k), Count: 2,
			Chain: [32]byte{byte(k), byte(k >> 8)},
			Prior: rota.Digest{Hi: uint64(k)}, Post: rota.Digest{Lo: uint64(k)},
			Bytes: bytes.Repeat([]byte{byte(k)}, 1+k%50)}
	}
	return list
}

func openEvents(t *testing.T, path string, retained uint64) (*Events, *bbolt.DB) {
	t.Helper()
	db, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	db.NoSync = true
	s, err := OpenEvents(db, retained)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return s, db
}

// all reads everything from an event on.
func all(t *testing.T, s *Events, from uint64) (got []EventEntry) {
	t.Helper()
	for {
		part, err := s.Read(from)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) == 0 {
			return got
		}
		got = append(got, part...)
		from = part[len(part)-1].End()
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	s, db := openEvents(t, path, 1000)
	want := eventEntries(0, 300)
	for i, part := range [][]EventEntry{want[:1], want[1:100], want[50:100], want[200:], want[90:210]} {
		if err := s.Put(part); err != nil {
			t.Fatal(err)
		}
		missing := [][2]uint64{{2, 600}, {200, 600}, {200, 600}, {200, 400}, {600, 600}}[i]
		if from, to := s.Missing(0, 600); from != missing[0] || to != missing[1] {
			t.Errorf("after %d parts %d to %d are missing", i+1, from, to)
		}
	}
	if got := all(t, s, 0); !reflect.DeepEqual(got, want) {
		t.Fatalf("%d entries come back, other than the %d that were put", len(got), len(want))
	}
	_ = db.Close()
	s, _ = openEvents(t, path, 1000)
	if got := all(t, s, 301); !reflect.DeepEqual(got, want[150:]) {
		t.Error("after opening again others come back")
	}
	if at, err := s.At(want[7].Index + 2); err != nil || !reflect.DeepEqual(at[0], want[7]) {
		t.Errorf("at an index after the eighth: %+v, %v", at, err)
	}
	if at, err := s.At(want[0].Index - 1); err != nil || at != nil {
		t.Errorf("before the first: %+v, %v", at, err)
	}
	if oldest, next := s.Range(); oldest != 0 || next != 600 {
		t.Errorf("from %d to %d are kept", oldest, next)
	}
}

func TestEvents_retains(t *testing.T) {
	t.Parallel()
	s, _ := openEvents(t, filepath.Join(t.TempDir(), FileName), 100)
	for k := range 50 {
		part := eventEntries(40*k, 20)
		for i := range part {
			part[i].Bytes = make([]byte, chunkBytes/20) // a chunk of its own
		}
		if err := s.Put(part); err != nil {
			t.Fatal(err)
		}
	}
	if oldest, next := s.Range(); next != 2000 || next-oldest < 100 || next-oldest > 200 {
		t.Errorf("from %d to %d are kept", oldest, next)
	}
}

func TestEvents_tellsOfDamage(t *testing.T) {
	t.Parallel()
	s, db := openEvents(t, filepath.Join(t.TempDir(), FileName), 1000)
	if err := s.Put(eventEntries(0, 50)); err != nil {
		t.Fatal(err)
	}
	err := db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(eventsBucket)
		k, v := b.Cursor().First()
		v = bytes.Clone(v)
		v[len(v)-1] ^= 1
		return b.Put(bytes.Clone(k), v)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(0); err == nil || !strings.Contains(err.Error(), "entries 10 to 157") {
		t.Errorf("a damaged chunk: %v", err)
	}
	walked := 0
	s.Walk(func(first, last rota.Index, entries []EventEntry, err error) bool {
		if walked++; err == nil || first != 10 || entries != nil {
			t.Errorf("walked over %d to %d, %v", first, last, err)
		}
		return true
	})
	if walked != 1 {
		t.Errorf("%d chunks were walked", walked)
	}
}

// TestEventChunk pins the head of the format; the frame is zstd's.
func TestEventChunk(t *testing.T) {
	t.Parallel()
	const golden = "testdata/events-v1.hex"
	list := eventEntries(8, 3)
	b := EncodeEvents(list)
	if *update {
		if err := os.WriteFile(golden, []byte(hex.EncodeToString(b)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	old, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"an old chunk": old, "a new one": b} {
		if got, err := DecodeEvents(data); err != nil || !reflect.DeepEqual(got, list) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if !bytes.Equal(b[5:chunkHeadBytes], old[5:chunkHeadBytes]) {
		t.Errorf("the head is %x, %x was written", b[5:chunkHeadBytes], old[5:chunkHeadBytes])
	}
	for i := range b {
		b[i] ^= 0x10
		if _, err := DecodeEvents(b); err == nil {
			t.Errorf("byte %d flipped: taken", i)
		}
		b[i] ^= 0x10
		if _, err := DecodeEvents(b[:i]); err == nil {
			t.Errorf("%d of %d bytes: taken", i, len(b))
		}
	}
}

// TestEventChunk_isItsOwn checks that chunks made in reused memory, also concurrently, do not change when the next one
// is made.
func TestEventChunk_isItsOwn(t *testing.T) {
	t.Parallel()
	var makers sync.WaitGroup
	defer makers.Wait()
	for maker := range 4 {
		makers.Go(func() {
			var chunks [][]byte
			for i := range 20 {
				chunks = append(chunks, EncodeEvents(eventEntries(1000*maker+40*i, 1+7*i%19)))
			}
			for i, chunk := range chunks {
				want := eventEntries(1000*maker+40*i, 1+7*i%19)
				if got, err := DecodeEvents(chunk); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("maker %d, chunk %d: %+v, %v", maker, i, got, err)
				}
			}
		})
	}
}

// FuzzEventChunk checks that any bytes, also past the checksum, are refused or read, and that entries that were read
// are written and read again as the same entries.
func FuzzEventChunk(f *testing.F) {
	f.Add(EncodeEvents(eventEntries(0, 1)))
	f.Add(EncodeEvents(eventEntries(4, 20)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= 5 {
			b = bytes.Clone(b)
			s := checksum(b[5:])
			b[1], b[2], b[3], b[4] = byte(s>>24), byte(s>>16), byte(s>>8), byte(s)
		}
		entries, err := DecodeEvents(b)
		if err != nil {
			return
		}
		again, err := DecodeEvents(EncodeEvents(entries))
		if err != nil || !reflect.DeepEqual(again, entries) {
			t.Fatalf("%+v\nbecame\n%+v, %v", entries, again, err)
		}
	})
}
