package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/rotasched/rota"
)

// fatalRecorder replaces ending the process.
type fatalRecorder struct {
	mu     sync.Mutex
	errs   []error
	called chan struct{}
}

func newFatalRecorder() *fatalRecorder { return &fatalRecorder{called: make(chan struct{}, 16)} }

func (r *fatalRecorder) fatal(err error) {
	r.mu.Lock()
	r.errs = append(r.errs, err)
	r.mu.Unlock()
	r.called <- struct{}{}
}

func (r *fatalRecorder) all() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.errs...)
}

// ample is far longer than any step here takes on a busy machine.
const ample = 90 * time.Second

func openTestStores(t *testing.T, dir string, fatal func(error)) *Stores {
	t.Helper()
	if fatal == nil {
		fatal = func(err error) { t.Errorf("fatal: %v", err) }
	}
	return openTestStoresWith(t, dir, Options{Fatal: fatal})
}

func openTestStoresWith(t *testing.T, dir string, opts Options) *Stores {
	t.Helper()
	opts.NoSync, opts.StallAfter = true, ample
	stores, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stores.Close() })
	return stores
}

func testEntries(first, last, term uint64) []*raft.Log {
	var entries []*raft.Log
	for index := first; index <= last; index++ {
		entries = append(entries, &raft.Log{Index: index, Term: term, Data: fmt.Appendf(nil, "payload-%d", index)})
	}
	return entries
}

func TestStores(t *testing.T) {
	t.Parallel()

	t.Run("keep entries as they came, over a reopening", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		stores := openTestStores(t, dir, nil)
		extended := &raft.Log{Index: 3, Term: 1, Data: []byte("x"), Extensions: []byte("ext")}
		entries := append(testEntries(1, 2, 1), extended)
		if err := stores.Log.StoreLogs(entries); err != nil {
			t.Fatal(err)
		}
		if string(extended.Extensions) != "ext" || entries[0].Extensions != nil {
			t.Fatal("the caller's entry was changed: its checksum would travel to the followers")
		}
		if err := stores.Close(); err != nil {
			t.Fatal(err)
		}
		stores = openTestStores(t, dir, nil)
		for _, want := range entries {
			var got raft.Log
			if err := stores.Log.GetLog(want.Index, &got); err != nil {
				t.Fatal(err)
			}
			if got.Term != want.Term || !bytes.Equal(got.Data, want.Data) ||
				!bytes.Equal(got.Extensions, want.Extensions) {
				t.Errorf("entry %d came back as %+v", want.Index, got)
			}
		}
		if err := stores.Log.DeleteRange(1, 2); err != nil {
			t.Fatal(err)
		}
		first, _ := stores.Log.FirstIndex()
		last, _ := stores.Log.LastIndex()
		if first != 3 || last != 3 {
			t.Errorf("log is %d to %d after the cut", first, last)
		}
		var gone raft.Log
		if err := stores.Log.GetLog(1, &gone); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("a cut entry gives %v", err)
		}
	})

	t.Run("answer after Close without calling it damage", func(t *testing.T) {
		t.Parallel()
		stores := openTestStores(t, t.TempDir(), nil)
		if err := stores.Log.StoreLogs(testEntries(1, 600, 1)); err != nil {
			t.Fatal(err)
		}
		if err := stores.Close(); err != nil {
			t.Fatal(err)
		}
		var entry raft.Log
		if err := stores.Log.GetLog(1, &entry); err == nil {
			t.Error("a closed store can be read")
		}
		if err := stores.Log.StoreLogs(testEntries(601, 601, 1)); !strings.Contains(err.Error(), "closed") {
			t.Errorf("a closed store answers %v", err)
		}
	})

	t.Run("make the file for the owner only", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		openTestStores(t, dir, nil)
		info, err := os.Stat(filepath.Join(dir, raftFile))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	})
}

func TestStoresRefuse(t *testing.T) {
	t.Parallel()

	t.Run("a second process", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		openTestStores(t, dir, nil)
		_, err := Open(dir, Options{})
		if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(), "another process") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a look-through while they are open", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		openTestStores(t, dir, nil)
		_, err := Preflight(dir, nil)
		if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(), "another process") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a look-through while a page is being written", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		openTestStores(t, dir, nil)
		file, err := os.OpenFile(filepath.Join(dir, raftFile), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var whole [1]byte
		if _, err := file.ReadAt(whole[:], 16); err != nil { // in the first head
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte{whole[0] ^ 1}, 16); err != nil {
			t.Fatal(err)
		}
		_, err = Preflight(dir, nil)
		if _, err := file.WriteAt(whole[:], 16); err != nil {
			t.Fatal(err)
		}
		if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(), "another process") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("what raft would panic over", func(t *testing.T) {
		t.Parallel()
		stores := openTestStores(t, t.TempDir(), nil)
		for _, bad := range []*raft.Log{
			{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte("\xff\xff")},
			{Index: 1, Term: 1, Type: 77},
		} {
			if err := stores.Log.StoreLog(bad); err == nil {
				t.Errorf("stored %+v", bad)
			}
		}
		if last, _ := stores.Log.LastIndex(); last != 0 {
			t.Errorf("last index %d", last)
		}
		if stores.Failed() != nil {
			t.Error("a refusal is not a failure of the disk")
		}
	})
}

func TestDamagedEntryEndsTheProcess(t *testing.T) {
	t.Parallel()
	spoil := map[string]func(*raft.Log){
		"data":        func(l *raft.Log) { l.Data[0] ^= 1 },
		"term":        func(l *raft.Log) { l.Term++ },
		"type":        func(l *raft.Log) { l.Type = raft.LogNoop },
		"index":       func(l *raft.Log) { l.Index++ },
		"extensions":  func(l *raft.Log) { l.Extensions[0] ^= 1 },
		"no checksum": func(l *raft.Log) { l.Extensions = nil },
	}
	for name, change := range spoil {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := raft.NewInmemStore()
			entry := sealEntry(&raft.Log{Index: 7, Term: 2, Data: []byte("data"), Extensions: []byte("e")})
			change(entry)
			at := entry.Index
			if err := inner.StoreLog(entry); err != nil {
				t.Fatal(err)
			}
			recorder := newFatalRecorder()
			writer := newWriter("/data", Options{Fatal: recorder.fatal}.withDefaults())
			defer writer.close()
			store := &logStore{inner: sealedLog{&movedLog{inner, 7, at}}, writer: writer}
			var got raft.Log
			err := store.GetLog(7, &got)
			var damage *DamagedEntryError
			if !errors.As(err, &damage) || damage.Index != 7 {
				t.Fatalf("got %v", err)
			}
			if errs := recorder.all(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "NEW node id") {
				t.Errorf("fatal: %v", errs)
			}
			if err := store.StoreLogs(testEntries(8, 8, 2)); err == nil {
				t.Error("written after the fatal error")
			}
		})
	}
}

// movedLog returns the entry of one index in place of another.
type movedLog struct {
	raft.LogStore
	from, to uint64
}

func (m *movedLog) GetLog(index uint64, entry *raft.Log) error {
	if index == m.from {
		index = m.to
	}
	return m.LogStore.GetLog(index, entry)
}

func TestLogStore_keepsTheLogOfTheSnapshotBefore(t *testing.T) {
	t.Parallel()
	keep := uint64(40)
	inner := raft.NewInmemStore()
	writer := newWriter("/data", Options{}.withDefaults())
	defer writer.close()
	store := &logStore{inner: inner, writer: writer, keepFrom: func() uint64 { return keep }}
	if err := store.StoreLogs(testEntries(1, 100, 1)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ low, high, first, last uint64 }{
		{1, 20, 21, 100},  // below it: as raft asks
		{21, 80, 40, 100}, // above it: reduced
		{40, 80, 40, 100}, // nothing may be deleted
		{90, 100, 40, 89}, // a conflicting tail is deleted completely
	} {
		if err := store.DeleteRange(c.low, c.high); err != nil {
			t.Fatal(err)
		}
		first, _ := store.FirstIndex()
		last, _ := store.LastIndex()
		if first != c.first || last != c.last {
			t.Errorf("after cutting %d to %d the log is %d to %d, not %d to %d", c.low, c.high, first, last, c.first,
				c.last)
		}
	}
}

func TestVote(t *testing.T) {
	t.Parallel()

	t.Run("is not found before the first one, in raft's words", func(t *testing.T) {
		t.Parallel()
		stores := openTestStores(t, t.TempDir(), nil)
		_, err := stores.Stable.GetUint64(keyLastVoteTerm)
		_, err2 := stores.Stable.Get(keyLastVoteCand)
		_, err3 := stores.Stable.GetUint64(keyCurrentTerm)
		_, err4 := stores.Stable.Get([]byte("other"))
		for _, err := range []error{err, err2, err3, err4} {
			if err == nil || err.Error() != "not found" {
				t.Errorf("got %v, raft compares the text with \"not found\"", err)
			}
		}
	})

	t.Run("a crash between its two calls leaves the former one whole", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		stores := openTestStores(t, dir, nil)
		vote(t, stores, 4, "a:1")
		if err := stores.Stable.SetUint64(keyLastVoteTerm, 5); err != nil {
			t.Fatal(err)
		}
		wantVote(t, stores, 4, "a:1") // the half vote is not visible even before the crash
		if err := stores.Close(); err != nil {
			t.Fatal(err)
		}
		stores = openTestStores(t, dir, nil)
		wantVote(t, stores, 4, "a:1")
		vote(t, stores, 5, "b:1")
		wantVote(t, stores, 5, "b:1")
		if err := stores.Close(); err != nil {
			t.Fatal(err)
		}
		wantVote(t, openTestStores(t, dir, nil), 5, "b:1")
	})

	t.Run("a candidate without a term is refused", func(t *testing.T) {
		t.Parallel()
		stores := openTestStores(t, t.TempDir(), nil)
		if err := stores.Stable.Set(keyLastVoteCand, []byte("a:1")); !errors.Is(err, errVoteHalf) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("damage refuses the start", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		stores := openTestStores(t, dir, nil)
		vote(t, stores, 4, "a:1")
		if err := stores.Close(); err != nil {
			t.Fatal(err)
		}
		bolt, err := raftboltdb.NewBoltStore(filepath.Join(dir, raftFile))
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := bolt.Get(keyVote)
		if err != nil {
			t.Fatal(err)
		}
		sealed[7]++
		if err := errors.Join(bolt.Set(keyVote, sealed), bolt.Close()); err != nil {
			t.Fatal(err)
		}
		recorder := newFatalRecorder()
		if _, err := Open(dir, Options{Fatal: recorder.fatal}); rota.KindOf(err) != rota.KindConflict {
			t.Errorf("OpenStores gives %v", err)
		}
		if _, err := Preflight(dir, nil); rota.KindOf(err) != rota.KindConflict {
			t.Errorf("Preflight gives %v", err)
		}
	})
}

func vote(t *testing.T, stores *Stores, term uint64, candidate string) {
	t.Helper()
	err := stores.Stable.SetUint64(keyLastVoteTerm, term)
	if err = errors.Join(err, stores.Stable.Set(keyLastVoteCand, []byte(candidate))); err != nil {
		t.Fatal(err)
	}
}

func wantVote(t *testing.T, stores *Stores, term uint64, candidate string) {
	t.Helper()
	gotTerm, err := stores.Stable.GetUint64(keyLastVoteTerm)
	gotCandidate, err2 := stores.Stable.Get(keyLastVoteCand)
	if err = errors.Join(err, err2); err != nil || gotTerm != term || string(gotCandidate) != candidate {
		t.Errorf("vote is (%d, %s), %v; want (%d, %s)", gotTerm, gotCandidate, err, term, candidate)
	}
}

// A snapshot ends before it uses the last bytes of the disk, and leaves nothing behind.
func TestSnapshots_leaveTheLogRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	room := uint64(1)
	snapshots, err := OpenSnapshots(dir, slog.New(slog.DiscardHandler), func() uint64 { return room })
	if err != nil {
		t.Fatal(err)
	}
	_, wire := raft.NewInmemTransport("a")
	sink, err := snapshots.Create(raft.SnapshotVersionMax, 7, 1, raft.Configuration{}, 1, wire)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write(make([]byte, snapshotLook)); err != nil {
		t.Fatalf("with room: %v", err)
	}
	room = 0
	if _, err := sink.Write(make([]byte, snapshotLook)); rota.KindOf(err) != rota.KindExhausted {
		t.Fatalf("without room: %v", err)
	}
	if err := sink.Cancel(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(dir, snapshotsDir))
	if err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestSnapshots_newest: the newest snapshot is known without reading the disk: after each snapshot, after a start, and
// after one was set aside.
func TestSnapshots_newest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *Snapshots {
		s, err := OpenSnapshots(dir, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if got := s.Newest(); got != (Kept{}) {
		t.Fatalf("%+v of none", got)
	}
	begun, id := rota.Date(0), ""
	for index := range uint64(5) {
		sink, err := s.Create(1, index+7, 2, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sink.Write(make([]byte, 100+index)); err != nil {
			t.Fatal(err)
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		id = sink.ID()
		got := s.Newest()
		if got.Index != rota.Index(index+7) || got.Bytes != int64(100+index) || got.Date < begun || got.Date == 0 {
			t.Fatalf("%+v after snapshot %d", got, index)
		}
		begun = got.Date
	}
	if got := open().Newest(); got != s.Newest() {
		t.Errorf("%+v after a start, and %+v before it", got, s.Newest())
	}
	if _, err := s.SetAside(id); err != nil {
		t.Fatal(err)
	}
	if got := s.Newest(); got.Index != 10 {
		t.Errorf("%+v once the newest was set aside", got)
	}
}

// TestStores_lost: a log that is no longer where the next start looks for it is lost, whatever the cause; one that is
// still there is not.
func TestStores_lost(t *testing.T) {
	t.Parallel()
	move := func(t *testing.T, dir string) {
		if err := os.Rename(dir, dir+"-moved"); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, dir string)
		want string
	}{
		"left alone":            {func(*testing.T, string) {}, ""},
		"the directory deleted": {func(_ *testing.T, dir string) { _ = os.RemoveAll(dir) }, "is gone"},
		"the file deleted": {func(_ *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, raftFile)) },
			"is gone"}, "the directory moved": {move, "is gone"},
		"a file in its place": {func(t *testing.T, dir string) {
			move(t, dir)
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is gone"},
		"a copy in its place": {func(t *testing.T, dir string) {
			move(t, dir)
			if err := os.CopyFS(dir, os.DirFS(dir+"-moved")); err != nil {
				t.Fatal(err)
			}
		}, "is another file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			s := openTestStores(t, dir, nil)
			c.do(t, dir)
			err := s.Lost()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
