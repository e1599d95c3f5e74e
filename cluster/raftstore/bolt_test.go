package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/rotasched/rota/internal/boltfile"
)

// variousEntries have every field, in runs of one and of many, small and of several pages.
func variousEntries() (runs [][]*raft.Log) {
	index := uint64(0)
	for _, sizes := range [][]int{{0}, {1, 200}, {70_000}, {9_000, 3, 5_000, 0}, {5_000}, {5_000}, {300}, {40_000}} {
		var run []*raft.Log
		for _, size := range sizes {
			index++
			run = append(run, &raft.Log{Index: index, Term: 1 + index/3, Type: raft.LogType(index % 2), Data: bytes.Repeat([]byte{byte(index)}, size),
				Extensions: []byte{1, byte(index)}, AppendedAt: time.Unix(1_700_000_000, int64(index)).UTC()})
		}
		runs = append(runs, run)
	}
	return runs
}

// TestBoltStore_isRaftBoltDBs: both write the same bytes, and read each other's.
func TestBoltStore_isRaftBoltDBs(t *testing.T) {
	ours, theirs := filepath.Join(t.TempDir(), raftFile), filepath.Join(t.TempDir(), raftFile)
	fill := func(s interface {
		raft.LogStore
		raft.StableStore
		Close() error
	}, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range variousEntries() {
			err = errors.Join(err, s.StoreLogs(run))
		}
		err = errors.Join(err, s.Set([]byte("a"), []byte("b")), s.SetUint64([]byte("c"), 7), s.DeleteRange(1, 2), s.DeleteRange(11, 12), s.Close())
		if err != nil {
			t.Fatal(err)
		}
	}
	mine, err := openBolt(ours, true)
	fill(mine, err)
	library, err := raftboltdb.New(raftboltdb.Options{Path: theirs, NoSync: true})
	fill(library, err)
	if a, b := contentOf(t, ours), contentOf(t, theirs); !reflect.DeepEqual(a, b) {
		t.Errorf("the files differ: %d and %d values", len(a), len(b))
	}
	if mine, err = openBolt(theirs, true); err != nil {
		t.Fatal(err)
	}
	if library, err = raftboltdb.New(raftboltdb.Options{Path: ours, NoSync: true}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []raft.LogStore{mine, library} {
		first, err1 := s.FirstIndex()
		last, err2 := s.LastIndex()
		if err := errors.Join(err1, err2); err != nil || first != 3 || last != 10 {
			t.Errorf("%T has the entries from %d to %d: %v", s, first, last, err)
		}
		for _, run := range variousEntries() {
			for _, want := range run {
				var got raft.Log
				err := s.GetLog(want.Index, &got)
				if gone := want.Index < 3 || want.Index > 10; gone != errors.Is(err, raft.ErrLogNotFound) || !gone && err != nil {
					t.Errorf("%T: entry %d: %v", s, want.Index, err)
				} else if !gone && (!bytes.Equal(got.Data, want.Data) || !bytes.Equal(got.Extensions, want.Extensions) || got.Term != want.Term ||
					got.Type != want.Type || got.Index != want.Index || !got.AppendedAt.Equal(want.AppendedAt)) {
					t.Errorf("%T: entry %d is another one", s, want.Index)
				}
			}
		}
	}
	for _, s := range []raft.StableStore{mine, library} {
		value, err1 := s.Get([]byte("a"))
		number, err2 := s.GetUint64([]byte("c"))
		if err := errors.Join(err1, err2); err != nil || string(value) != "b" || number != 7 {
			t.Errorf("%T: %q, %d: %v", s, value, number, err)
		}
		if _, err := s.Get([]byte("z")); err == nil || err.Error() != raftboltdb.ErrKeyNotFound.Error() {
			t.Errorf("%T: a value that is not there: %v", s, err)
		}
	}
	if err := errors.Join(mine.Close(), library.Close()); err != nil {
		t.Fatal(err)
	}
}

// contentOf has every value in a file's buckets.
func contentOf(t *testing.T, path string) map[string]string {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: raftFileLock})
	if err != nil {
		t.Fatal(err)
	}
	content := make(map[string]string)
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(key, value []byte) error { content[string(name)+"/"+string(key)] = string(value); return nil })
		})
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return content
}

// TestBoltStore_apart: a large entry costs its own pages, whatever stands before it, and the
// same store as without is read, cut and found sound.
func TestBoltStore_apart(t *testing.T) {
	const size, many = 40_000, 50
	pages := func(apart bool) (path string, perEntry int64) {
		path = filepath.Join(t.TempDir(), raftFile)
		s, err := openBolt(path, true)
		if err != nil {
			t.Fatal(err)
		}
		s.apart.Store(apart)
		before := s.db.Stats()
		for i := range uint64(many) {
			if err := s.StoreLog(sealEntry(&raft.Log{Index: i + 1, Term: 1, Data: bytes.Repeat([]byte{byte(i)}, size)})); err != nil {
				t.Fatal(err)
			}
		}
		after := s.db.Stats()
		perEntry = (after.TxStats.GetPageAlloc() - before.TxStats.GetPageAlloc()) / many
		if err := errors.Join(s.SetUint64([]byte("CurrentTerm"), 1), s.Close()); err != nil {
			t.Fatal(err)
		}
		return path, perEntry
	}
	if _, perEntry := pages(false); perEntry < 3*size {
		t.Errorf("%d bytes of pages for an entry of %d: is there nothing to be had?", perEntry, size)
	}
	path, perEntry := pages(true)
	if perEntry > size+4*pageLeast {
		t.Errorf("%d bytes of pages for an entry of %d", perEntry, size)
	}
	found := &logSummary{}
	if made, err := surveyKeys(path, found); !made || err != nil || !reflect.DeepEqual(found.spans, []logSpan{{1, many}}) {
		t.Errorf("the walk found %v: %v", found.spans, err)
	}
	if err := boltfile.Check(path, damaged); err != nil {
		t.Error(err)
	}
}

// TestBoltStore_apartIsTheSame holds a store whose entries stand apart, at times or always, to what
// was stored, through cuts at both ends.
func TestBoltStore_apartIsTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), fmt.Sprint(rapid.Uint64().Draw(rt, "name"), raftFile))
		s, err := openBolt(path, true)
		if err != nil {
			rt.Fatal(err)
		}
		kept, first, last := make(map[uint64]int), uint64(1), uint64(0)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				s.apart.Store(rapid.Bool().Draw(rt, "apart"))
			case 1: // the old end
				if first < last {
					high := rapid.Uint64Range(first, last-1).Draw(rt, "high")
					err = s.DeleteRange(first, high)
					first = high + 1
				}
			case 2: // the new end
				if first < last {
					low := rapid.Uint64Range(first+1, last).Draw(rt, "low")
					err = s.DeleteRange(low, last)
					last = low - 1
				}
			default:
				var run []*raft.Log
				for range rapid.IntRange(1, 4).Draw(rt, "entries") {
					last++
					kept[last] = rapid.SampledFrom([]int{0, 100, 3_000, 4_000, 5_000, 30_000}).Draw(rt, "size")
					run = append(run, &raft.Log{Index: last, Term: 1, Data: bytes.Repeat([]byte{byte(last)}, kept[last])})
				}
				err = s.StoreLogs(run)
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		low, err1 := s.FirstIndex()
		high, err2 := s.LastIndex()
		if err := errors.Join(err1, err2); err != nil || high != last || last > 0 && low != first {
			rt.Fatalf("entries %d to %d are there, wanted %d to %d: %v", low, high, first, last, err)
		}
		for index := first; index <= last; index++ {
			var got raft.Log
			if err := s.GetLog(index, &got); err != nil || !bytes.Equal(got.Data, bytes.Repeat([]byte{byte(index)}, kept[index])) {
				rt.Fatalf("entry %d: %v", index, err)
			}
		}
		if err := s.Close(); err != nil {
			rt.Fatal(err)
		}
		found := &logSummary{}
		if _, err := surveyKeys(path, found); err != nil {
			rt.Fatal(err)
		}
		if err := boltfile.Check(path, damaged); err != nil {
			rt.Fatal(err)
		}
	})
}
