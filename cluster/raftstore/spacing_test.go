package raftstore

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/rotasched/rota"
)

// TestSpace stores and cuts entries of all sizes and compares them with a list, in a log that becomes spaced midway and
// is reopened: each entry reads as it was written, wherever it is.
func TestSpace(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 5))
	dir := t.TempDir()
	stores := openTestStores(t, dir, nil)
	first, kept := uint64(1), []*raft.Log(nil)
	next := func() uint64 { return first + uint64(len(kept)) }
	spaced := 50 + random.IntN(100)
	for round := range 400 {
		var err error
		switch at := random.IntN(10); {
		case round == spaced:
			err = errors.Join(stores.Space(), stores.Space())
		case at < 6:
			entries := testEntries(next(), next()+random.Uint64N(4), uint64(round+1))
			for _, e := range entries {
				e.Data = bytes.Repeat([]byte{byte(e.Index)}, random.IntN(3*largeFrom))
			}
			err = stores.Log.StoreLogs(entries)
			kept = append(kept, entries...)
		case at < 8 && len(kept) > 0:
			n := random.IntN(len(kept)) + 1 // sometimes all of them, as a snapshot does
			err = stores.Log.DeleteRange(first, first+uint64(n)-1)
			first, kept = first+uint64(n), kept[n:]
		case at == 8 && len(kept) > 0:
			n := random.IntN(len(kept))
			err = stores.Log.DeleteRange(first+uint64(n), next()-1)
			kept = kept[:n]
		case at == 9:
			err = stores.Close()
			stores = openTestStores(t, dir, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		low, high, err := stores.Stored()
		if len(kept) == 0 {
			if err != nil || low != 0 || high != 0 {
				t.Fatalf("round %d: an empty log has entries %d to %d, %v", round, low, high, err)
			}
			continue
		}
		if err != nil || low != first || high != next()-1 {
			t.Fatalf("round %d: entries %d to %d, %v; want %d to %d", round, low, high, err, first, next()-1)
		}
		for _, want := range kept {
			var got raft.Log
			if err := stores.ReadStored(want.Index, &got); err != nil || got.Index != want.Index || got.Term != want.Term || !bytes.Equal(got.Data, want.Data) {
				t.Fatalf("round %d: entry %d reads as %d of term %d, %v", round, want.Index, got.Index, got.Term, err)
			}
		}
		var none raft.Log
		for _, index := range []uint64{first - 1, next()} {
			if err := stores.ReadStored(index, &none); !errors.Is(err, raft.ErrLogNotFound) {
				t.Fatalf("round %d: entry %d, which is not there: %v", round, index, err)
			}
		}
	}
	if err := stores.Close(); err != nil {
		t.Fatal(err)
	}
	stopped, err := OpenStopped(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	if len(kept) > 0 && (stopped.First != first || stopped.Last != next()-1) {
		t.Errorf("stopped, the log has %d to %d; want %d to %d", stopped.First, stopped.Last, first, next()-1)
	}
}

// TestSpace_writesOnce counts the page bytes that bbolt writes for large entries that arrive one by one.
func TestSpace_writesOnce(t *testing.T) {
	t.Parallel()
	const size, many = 32 << 10, 40
	pages := func(spaced bool) int64 {
		stores := openTestStores(t, t.TempDir(), nil)
		if spaced {
			if err := stores.Space(); err != nil {
				t.Fatal(err)
			}
		}
		before := stores.bolt.Stats().TxStats.PageAlloc
		for _, e := range testEntries(1, many, 1) {
			e.Data = bytes.Repeat([]byte("d"), size)
			if err := stores.Log.StoreLog(e); err != nil {
				t.Fatal(err)
			}
		}
		return (stores.bolt.Stats().TxStats.PageAlloc - before) / many
	}
	plain, spaced := pages(false), pages(true)
	t.Logf("an entry of %d bytes takes %d bytes of pages, %d in a log that is spaced", size, plain, spaced)
	if plain < 3*size { // otherwise there is nothing to space a log for
		t.Errorf("bbolt makes %d bytes of pages for an entry of %d: the log need not be spaced any more", plain, size)
	}
	if spaced > 2*size {
		t.Errorf("%d bytes of pages for an entry of %d", spaced, size)
	}
}

// TestSpace_refused damages the value that records how a log is spaced.
func TestSpace_refused(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		damage func(*raftboltdb.BoltStore) error
		want   string
	}{
		"the checksum": {func(b *raftboltdb.BoltStore) error { return b.Set(keySpaced, make([]byte, 12)) }, "checksum"},
		"the length":   {func(b *raftboltdb.BoltStore) error { return b.Set(keySpaced, sealValue(keySpaced, []byte("short"))) }, "5 bytes"},
		"all of it": {func(b *raftboltdb.BoltStore) error {
			return b.Set(keySpaced, sealValue(keySpaced, bytes.Repeat([]byte{0xff}, 8)))
		}, "log entry 9 is damaged"},
		"a spacer alone":  {func(b *raftboltdb.BoltStore) error { return b.DeleteRange(spacing*2+1, spacing*2+1) }, "entries after entry 3 exist"},
		"one of them all": {func(b *raftboltdb.BoltStore) error { return b.StoreLog(&raft.Log{Index: 1000*spacing + 2}) }, "exist, but not that entry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			stores := openTestStores(t, dir, nil)
			entries := testEntries(1, 5, 1)
			entries[2].Data = make([]byte, largeFrom)
			if err := errors.Join(stores.Space(), stores.Log.StoreLogs(entries), stores.Stable.SetUint64(keyCurrentTerm, 1), stores.Close()); err != nil {
				t.Fatal(err)
			}
			if report, err := Preflight(dir, nil); err != nil || report.Entries != 5 {
				t.Fatalf("before: %+v, %v", report, err)
			}
			bolt, err := raftboltdb.NewBoltStore(filepath.Join(dir, raftFile))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(one.damage(bolt), bolt.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := Preflight(dir, nil); rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(), one.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestMarkSpaced: binaries that do not know spacing reject a directory whose log is spaced.
func TestMarkSpaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *DataDir {
		d, err := OpenDataDir(dir, "n1", "test", false)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	if format := d.snapshot().Format; format != plainFormat {
		t.Errorf("a new directory has format %d, which older binaries do not read", format)
	}
	if err := errors.Join(d.MarkSpaced(), d.MarkSpaced(), d.Close()); err != nil {
		t.Fatal(err)
	}
	d = open()
	defer d.Close()
	if r := d.snapshot(); r.Format != NodeFormat || r.Starts != 2 {
		t.Errorf("opened again, it is %+v", r)
	}
}
