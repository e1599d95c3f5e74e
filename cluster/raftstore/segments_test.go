package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore/wal"
)

// plainState writes the raft state of a directory as v0.1.0 does: a gap in the log, a term and a vote.
func plainState(t *testing.T) (dir string, entries []*raft.Log) {
	t.Helper()
	dir = t.TempDir()
	stores := openTestStoresWith(t, dir, Options{Plain: true})
	entries = testEntries(31, 90, 3)
	entries[7].Data, entries[8].Extensions, entries[9].Type = bytes.Repeat([]byte("large"),
		5000), []byte("e"), raft.LogNoop
	err := errors.Join(stores.Log.StoreLogs(testEntries(1, 20, 2)), stores.Log.StoreLogs(entries),
		stores.Stable.SetUint64(keyCurrentTerm, 3))
	vote(t, stores, 3, "a:1")
	if err = errors.Join(err, stores.Close()); err != nil {
		t.Fatal(err)
	}
	writeSnapshot(t, dir, 3, 30)
	return dir, entries
}

// wantState checks that a directory has the contents that plainState wrote, wherever the log is.
func wantState(t *testing.T, what, dir string, opts Options, entries []*raft.Log) {
	t.Helper()
	report, err := Preflight(dir, nil)
	if err != nil || report.LastIndex != 90 || report.WholeFrom != 31 || report.Term != 3 {
		t.Fatalf("%s: %+v, %v", what, report, err)
	}
	stopped, err := OpenStopped(dir)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	var entry raft.Log
	if err := stopped.GetLog(50, &entry); err != nil || stopped.First != 31 || stopped.Last != 90 ||
		string(entry.Data) != "payload-50" {
		t.Errorf("%s: a stopped log has %d to %d, %v", what, stopped.First, stopped.Last, err)
	}
	if err := stopped.Close(); err != nil {
		t.Error(err)
	}
	stores := openTestStoresWith(t, dir, opts)
	wantVote(t, stores, 3, "a:1")
	for _, want := range entries {
		var got raft.Log
		if err := stores.Log.GetLog(want.Index, &got); err != nil || got.Term != want.Term || got.Type != want.Type ||
			!bytes.Equal(got.Data, want.Data) || !bytes.Equal(got.Extensions, want.Extensions) {
			t.Errorf("%s: entry %d is %+v, %v", what, want.Index, got, err)
		}
	}
	if err := errors.Join(stores.Log.StoreLogs(testEntries(91, 92, 3)), stores.Log.DeleteRange(91, 92),
		stores.Close()); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestMove moves the log of a directory that v0.1.0 wrote, and stops after each step: the next start finds the same
// entries, term and vote.
func TestMove(t *testing.T) {
	t.Parallel()
	origin, entries := plainState(t)
	wantState(t, "in raft.db", origin, Options{Plain: true}, entries)
	again := func(t *testing.T) string {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(origin)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	copied := func(t *testing.T, dir string) wal.Head {
		old, err := openToRead(filepath.Join(dir, raftFile))
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close()
		head, err := copyEntries(dir, sealedLog{old}, logSpan{31, 90}, true)
		if err != nil {
			t.Fatal(err)
		}
		return head
	}
	for name, died := range map[string]func(t *testing.T, dir string){
		"from the beginning": func(*testing.T, string) {},
		"half copied": func(t *testing.T, dir string) {
			copied(t, dir)
			if err := os.Truncate(filepath.Join(dir, logDir, "00000000000000000001.wal"), 3000); err != nil {
				t.Fatal(err)
			}
		},
		"copied": func(t *testing.T, dir string) { copied(t, dir) },
		"half written": func(t *testing.T, dir string) {
			copied(t, dir)
			if err := os.WriteFile(filepath.Join(dir, movedFile), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"written": func(t *testing.T, dir string) {
			if err := copyValues(filepath.Join(dir, raftFile), filepath.Join(dir, movedFile), copied(t, dir),
				true); err != nil {
				t.Fatal(err)
			}
		},
		"renamed": func(t *testing.T, dir string) {
			if err := moveLog(dir, true); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := again(t)
			died(t, dir)
			if name != "renamed" {
				wantState(t, "still in raft.db", dir, Options{Plain: true}, entries)
			}
			wantState(t, "moved", dir, Options{}, entries)
			wantState(t, "reopened", dir, Options{}, entries)
			if _, err := os.Stat(filepath.Join(dir, movedFile)); err == nil {
				t.Error("the file of the move is left")
			}
			if _, err := Open(dir, Options{Plain: true, NoSync: true}); rota.KindOf(err) != rota.KindConflict {
				t.Errorf("a log that has moved opens as one in raft.db: %v", err)
			}
		})
	}
}

// TestMove_damage: a damaged entry is not moved, and the directory stays as it is.
func TestMove_damage(t *testing.T) {
	t.Parallel()
	dir, _ := plainState(t)
	bolt, err := raftboltdb.NewBoltStore(filepath.Join(dir, raftFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(bolt.StoreLog(&raft.Log{Index: 50, Term: 3, Data: []byte("another")}),
		bolt.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Preflight(dir, nil); rota.KindOf(err) != rota.KindConflict ||
			!strings.Contains(err.Error(), "log entry 50") {
			t.Errorf("Preflight: %v", err)
		}
		if _, err := Open(dir, Options{NoSync: true}); err == nil || !strings.Contains(err.Error(), "log entry 50") {
			t.Errorf("Open: %v", err)
		}
		for _, name := range []string{logDir, movedFile} {
			if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a move that failed leaves %s: %v", name, err)
			}
		}
	}
}

// TestDescribeFault: a full disk gets its own error with its remedy, whatever write met it.
func TestDescribeFault(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := describeFault("/data", fmt.Errorf("write the log: %w", cause))
		if rota.KindOf(err) != rota.KindExhausted || !strings.Contains(err.Error(), "free space") {
			t.Errorf("got %v", err)
		}
	}
	if err := describeFault("/data", io.ErrUnexpectedEOF); err != io.ErrUnexpectedEOF {
		t.Errorf("another error became %v", err)
	}
}

// TestDataDir_moving: a directory of v0.1.0 keeps its format until a move is requested, a new one has the new format.
func TestDataDir_moving(t *testing.T) {
	t.Parallel()
	open := func(dir string) *DataDir {
		t.Helper()
		d, err := OpenDataDir(dir, "n1", "test", false)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	dir := filepath.Join(t.TempDir(), "d")
	d := open(dir)
	if d.Plain() || d.snapshot().Format != NodeFormat {
		t.Errorf("a new directory has format %d", d.snapshot().Format)
	}
	next := d.snapshot()
	next.Format = plainFormat
	if err := errors.Join(d.store(next), d.Close()); err != nil {
		t.Fatal(err)
	}
	d = open(dir)
	if !d.Plain() {
		t.Error("a directory of v0.1.0 changed its format at a start")
	}
	if err := errors.Join(d.MarkMoving(), d.MarkMoving(), d.Close()); err != nil {
		t.Fatal(err)
	}
	if d = open(dir); d.Plain() || d.Starts() != 3 {
		t.Errorf("%+v", d.snapshot())
	}
	_ = d.Close()
}

// TestPreflight_lostLog: the log, its head, or both are gone or older than the other.
func TestPreflight_lostLog(t *testing.T) {
	t.Parallel()
	edit := func(dir string, do func(*raftboltdb.BoltStore) error) error {
		bolt, err := raftboltdb.NewBoltStore(filepath.Join(dir, raftFile))
		if err != nil {
			return err
		}
		return errors.Join(do(bolt), bolt.Close())
	}
	for name, c := range map[string]struct {
		do   func(dir string) error
		want string
	}{
		"no raft.db": {func(dir string) error { return os.Remove(filepath.Join(dir, raftFile)) },
			"the votes are lost"},
		"empty raft.db": {func(dir string) error { return os.Truncate(filepath.Join(dir, raftFile), 0) },
			"the votes are lost"},
		"no log": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, logDir)) },
			"without entry 90"},
		"another raft.db": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, raftFile)),
				edit(dir, func(*raftboltdb.BoltStore) error { return nil }))
		}, "the votes are lost"},
		"a damaged head": {func(dir string) error {
			return edit(dir, func(b *raftboltdb.BoltStore) error {
				return b.Set(keyLog, sealValue([]byte("other"), encodeHead(wal.Head{})))
			})
		}, "rota.log.1"},
		"a short head": {func(dir string) error {
			return edit(dir, func(b *raftboltdb.BoltStore) error {
				return b.Set(keyLog,
					sealValue(keyLog, []byte{1, 2}))
			})
		}, "rota.log.1"},
		"two logs": {func(dir string) error {
			return edit(dir, func(b *raftboltdb.BoltStore) error {
				return b.StoreLog(sealEntry(testEntries(5, 5,
					1)[0]))
			})
		}, "the head of another"},
		"a log rolled back": {func(dir string) error {
			path := filepath.Join(dir, logDir, "00000000000000000001.wal")
			return os.Truncate(path, 5000)
		}, "without entry 90"},
		"a vote under a flipped key": {func(dir string) error {
			return edit(dir, func(b *raftboltdb.BoltStore) error {
				return b.Set([]byte("rota.vote.3"), sealValue(keyVote, encodeVote(7, []byte("n2"))))
			})
		}, "\"rota.vote.3\" does not match"},
		"a spaced log of an unreleased build": {func(dir string) error {
			return edit(dir, func(b *raftboltdb.BoltStore) error { return b.Set(keySpaced, []byte("x")) })
		}, "unreleased build"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, _ := plainState(t)
			if err := moveLog(dir, true); err != nil {
				t.Fatal(err)
			}
			if err := c.do(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := Preflight(dir, nil); rota.KindOf(err) != rota.KindConflict ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a conflict with %q", err, c.want)
			}
			if holds, err := (&DataDir{path: dir}).hasRaftState(); err != nil || !holds {
				t.Errorf("it counts as fresh, %v", err)
			}
		})
	}
}

// TestFresh: a node that waited for others without success stays fresh, also in its second life.
func TestFresh(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		if err := openTestStores(t, dir, nil).Close(); err != nil {
			t.Fatal(err)
		}
		if holds, err := (&DataDir{path: dir}).hasRaftState(); err != nil || holds {
			t.Errorf("holds state: %v, %v", holds, err)
		}
		if report, err := Preflight(dir, nil); err != nil || !report.Empty {
			t.Errorf("%+v, %v", report, err)
		}
	}
	stores := openTestStores(t, dir, nil)
	if err := errors.Join(stores.Log.StoreLogs(testEntries(1, 1, 1)), stores.Close()); err != nil {
		t.Fatal(err)
	}
	if holds, err := (&DataDir{path: dir}).hasRaftState(); err != nil || !holds {
		t.Errorf("with an entry: holds state: %v, %v", holds, err)
	}
}

// TestMark: the mark follows a busy log every 100 ms, and is at its end once writing has stopped.
func TestMark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		stores := openTestStores(t, dir, nil)
		defer stores.Close()
		marked := func() uint64 {
			head, ok, err := readHead(stores.bolt)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			return head.Mark.Index
		}
		for i := uint64(1); i <= 100; i++ {
			if err := stores.Log.StoreLogs(testEntries(i, i, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
			if m := marked(); m > i || m+11 < i {
				t.Fatalf("the mark is at %d when the log ends at %d", m, i)
			}
		}
		time.Sleep(2 * markEvery)
		if m := marked(); m != 100 {
			t.Errorf("the mark is at %d when writing has stopped", m)
		}
		if err := stores.Log.DeleteRange(41, 100); err != nil {
			t.Fatal(err)
		}
		if m := marked(); m != 40 {
			t.Errorf("the mark is at %d when the log was cut to 40", m)
		}
	})
}
