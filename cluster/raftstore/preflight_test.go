package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/boltfile"
)

// writeState creates raft state: a term, entries, and snapshots at the given indexes.
func writeState(t *testing.T, dir string, term uint64, entries []*raft.Log, snapshotsAt ...uint64) {
	t.Helper()
	stores := openTestStores(t, dir, nil)
	err := stores.Stable.SetUint64(keyCurrentTerm, term)
	for from := 0; from < len(entries); {
		to := from + 1
		for to < len(entries) && entries[to].Index == entries[to-1].Index+1 {
			to++
		}
		err = errors.Join(err, stores.Log.StoreLogs(entries[from:to]))
		from = to
	}
	if err = errors.Join(err, stores.Close()); err != nil {
		t.Fatal(err)
	}
	for _, index := range snapshotsAt {
		writeSnapshot(t, dir, term, index)
	}
}

// writeSnapshot writes a snapshot as raft does and returns its directory.
func writeSnapshot(t *testing.T, dir string, term, index uint64) string {
	t.Helper()
	store, err := raft.NewFileSnapshotStoreWithLogger(dir, 10, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	_, transport := raft.NewInmemTransport("")
	defer transport.Close()
	sink, err := store.Create(1, index, term, raft.Configuration{}, 1, transport)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sink.Write(bytes.Repeat([]byte("state"), 1000))
	if err = errors.Join(err, sink.Close()); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, snapshotsDir, sink.ID())
}

func flipByte(t *testing.T, path string, at int64) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 0x10
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		make func(t *testing.T, dir string)
		want string // part of the error; empty if the start succeeds
		sees func(r *Report) bool
	}{
		{name: "an empty directory is empty", make: func(*testing.T, string) {},
			sees: func(r *Report) bool { return r.Empty }},
		{name: "stores that were never used are empty",
			make: func(t *testing.T, dir string) { openTestStores(t, dir, nil).Close() },
			sees: func(r *Report) bool { return r.Empty }},
		{name: "a file that a crash left empty is empty",
			make: func(t *testing.T, dir string) { os.WriteFile(filepath.Join(dir, raftFile), nil, 0o600) },
			sees: func(r *Report) bool { return r.Empty }},
		{name: "a term alone is state",
			make: func(t *testing.T, dir string) { writeState(t, dir, 1, nil) },
			sees: func(r *Report) bool { return !r.Empty && r.Term == 1 }},
		{name: "a whole log is counted",
			make: func(t *testing.T, dir string) { writeState(t, dir, 3, testEntries(1, 50, 3)) },
			sees: func(r *Report) bool { return r.FirstIndex == 1 && r.LastIndex == 50 && r.Entries == 50 }},
		{name: "a log that continues after a snapshot",
			make: func(t *testing.T, dir string) { writeState(t, dir, 3, testEntries(91, 120, 3), 100) },
			sees: func(r *Report) bool { return r.SnapshotIndex == 100 && r.LastIndex == 120 }},
		{name: "a gap that an installed snapshot covers",
			make: func(t *testing.T, dir string) {
				writeState(t, dir, 3, append(testEntries(1, 20, 1), testEntries(101, 120, 3)...), 100)
			},
			sees: func(r *Report) bool { return r.Entries == 40 }},
		{name: "a log that ends before its snapshot",
			make: func(t *testing.T, dir string) { writeState(t, dir, 3, testEntries(1, 20, 3), 100) },
			sees: func(r *Report) bool { return r.SnapshotIndex == 100 && r.LastIndex == 20 }},
		{name: "a gap after the snapshot",
			make: func(t *testing.T, dir string) { writeState(t, dir, 3, testEntries(110, 120, 3), 100) },
			want: "entries 101 to 109 are missing"},
		{name: "a gap in the log",
			make: func(t *testing.T, dir string) {
				writeState(t, dir, 3, append(testEntries(1, 20, 3), testEntries(22, 30, 3)...))
			},
			want: "entries 21 to 21 are missing"},
		{name: "a log that begins late without a snapshot",
			make: func(t *testing.T, dir string) { writeState(t, dir, 3, testEntries(5, 20, 3)) },
			want: "entries 1 to 4 are missing"},
		{name: "a forgotten term",
			make: func(t *testing.T, dir string) { writeState(t, dir, 2, testEntries(1, 20, 3)) },
			want: "ends in term 3 but the stored term is 2"},
		{name: "terms that fall",
			make: func(t *testing.T, dir string) {
				writeState(t, dir, 9, append(testEntries(1, 20, 3), testEntries(21, 30, 2)...))
			},
			want: "entry 21 has term 2 after term 3"},
		{name: "snapshots without a log file",
			make: func(t *testing.T, dir string) { writeSnapshot(t, dir, 3, 100) },
			want: "missing or empty although snapshots exist"},
		{name: "a stranger among the snapshots",
			make: func(t *testing.T, dir string) { os.MkdirAll(filepath.Join(dir, snapshotsDir, "mine"), 0o700) },
			want: "not that of a snapshot"},
		{name: "a file that is not a bbolt file",
			make: func(t *testing.T, dir string) {
				os.WriteFile(filepath.Join(dir, raftFile), bytes.Repeat([]byte("x"), 1<<16), 0o600)
			},
			want: "head 0"},
		{name: "a file cut off",
			make: func(t *testing.T, dir string) {
				writeState(t, dir, 3, testEntries(1, 2000, 3))
				os.Truncate(filepath.Join(dir, raftFile), 20_000)
			},
			want: "damaged"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c.make(t, dir)
			report, err := Preflight(dir, nil)
			if c.want == "" {
				if err != nil || !c.sees(report) {
					t.Fatalf("report %+v, %v", report, err)
				}
				return
			}
			if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "NEW node id") {
				t.Fatalf("got %v\nwant a refusal with %q that names a remedy", err, c.want)
			}
		})
	}
}

func TestPreflightSnapshots(t *testing.T) {
	t.Parallel()

	t.Run("reaps the unfinished", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		writeState(t, dir, 3, testEntries(1, 20, 3), 10)
		left := filepath.Join(dir, snapshotsDir, "3-15-1.tmp")
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Fatal(err)
		}
		report, err := Preflight(dir, nil)
		if err != nil || len(report.Reaped) != 1 || report.Snapshots != 1 {
			t.Fatalf("report %+v, %v", report, err)
		}
		if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it still exists: %v", err)
		}
	})

	spoil := map[string]func(t *testing.T, snapshot string){
		"state flipped": func(t *testing.T, s string) { flipByte(t, filepath.Join(s, snapshotState), 77) },
		"state cut":     func(t *testing.T, s string) { os.Truncate(filepath.Join(s, snapshotState), 77) },
		"state gone":    func(t *testing.T, s string) { os.Remove(filepath.Join(s, snapshotState)) },
		"meta gone":     func(t *testing.T, s string) { os.Remove(filepath.Join(s, snapshotMeta)) },
		"meta spoilt": func(t *testing.T, s string) {
			os.WriteFile(filepath.Join(s, snapshotMeta), []byte("{"), 0o600)
		},
	}
	for name, damage := range spoil {
		t.Run(name+" is done without where log and an older one suffice", func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeState(t, dir, 3, testEntries(40, 90, 3), 50)
			newest := writeSnapshot(t, dir, 3, 80)
			damage(t, newest)
			report, err := Preflight(dir, nil)
			if err != nil || len(report.SetAside) != 1 || report.SnapshotIndex != 50 {
				t.Fatalf("report %+v, %v", report, err)
			}
			if _, err := os.Stat(filepath.Join(dir, snapshotsAside, filepath.Base(newest))); err != nil {
				t.Error(err)
			}
			if report, err = Preflight(dir, nil); err != nil || len(report.SetAside) != 0 {
				t.Errorf("the second time: %+v, %v", report, err)
			}
		})
		t.Run(name+" refuses the start where the log is too short", func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeState(t, dir, 3, testEntries(60, 90, 3), 50)
			newest := writeSnapshot(t, dir, 3, 80)
			damage(t, newest)
			_, err := Preflight(dir, nil)
			if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(), "51 to 59") ||
				!strings.Contains(err.Error(), filepath.Base(newest)) {
				t.Fatalf("got %v", err)
			}
		})
		t.Run(name+" refuses the start where it reached further than the log", func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeState(t, dir, 3, testEntries(1, 70, 3))
			damage(t, writeSnapshot(t, dir, 3, 80))
			_, err := Preflight(dir, nil)
			if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(), "it reached 80") {
				t.Fatalf("got %v: what it acknowledged from 71 to 80 is forgotten", err)
			}
		})
	}
}

// TestPreflightFindsFlips flips single bytes of raft.db, with and without the log in it: each flip must be rejected or
// leave all data that is read unchanged. The files of the log have tests of their own.
func TestPreflightFindsFlips(t *testing.T) {
	t.Parallel()
	t.Run("the log in raft.db", func(t *testing.T) { t.Parallel(); findsFlips(t, Options{Plain: true}) })
	t.Run("the log in its files", func(t *testing.T) { t.Parallel(); findsFlips(t, Options{}) })
}

func findsFlips(t *testing.T, opts Options) {
	origin := t.TempDir()
	entries := testEntries(1, 400, 3)
	stores := openTestStoresWith(t, origin, opts)
	for i := 0; i < len(entries); i += 10 {
		if i == len(entries)/2 {
			entries[i].Data = bytes.Repeat([]byte("large"), 1000)
		}
		if err := stores.Log.StoreLogs(entries[i : i+10]); err != nil {
			t.Fatal(err)
		}
	}
	vote(t, stores, 3, "a:1")
	if err := errors.Join(stores.Stable.SetUint64(keyCurrentTerm, 3), stores.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(origin, raftFile))
	if err != nil {
		t.Fatal(err)
	}
	// bbolt grows files by 16 MiB: without trimming the empty rest, most flips would hit nothing.
	whole = whole[:(len(bytes.TrimRight(whole, "\x00"))|0xffff)+1]
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	refused, harmless := 0, 0
	const flips = 150
	for range flips {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(origin)); err != nil {
			t.Fatal(err)
		}
		spoilt := bytes.Clone(whole)
		at := random.IntN(len(spoilt))
		for !opts.Plain && spoilt[at] == 0 { // such a raft.db is nearly empty
			at = random.IntN(len(spoilt))
		}
		bit := byte(1) << random.IntN(8)
		spoilt[at] ^= bit
		path := filepath.Join(dir, raftFile)
		if err := os.WriteFile(path, spoilt, 0o600); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("seed %d, byte %d, bit %#x", seed, at, bit)
		report, err := Preflight(dir, nil)
		if err != nil {
			if rota.KindOf(err) != rota.KindConflict {
				t.Errorf("%s: %v", what, err)
			}
			refused++
			continue
		}
		harmless++
		if report.Entries != 400 || report.LastIndex != 400 || report.Term != 3 {
			t.Errorf("%s passes, but the report is %+v", what, report)
		}
		if index := otherEntry(t, dir, opts, entries); index > 0 {
			t.Errorf("%s passes, but entry %d is read differently", what, index)
		}
	}
	t.Logf("%d flips refused, %d harmless", refused, harmless)
	if refused == 0 {
		t.Error("no flip was refused")
	}
}

// otherEntry returns the index of the first entry that is read differently from how it was written, 0 for none.
func otherEntry(t *testing.T, dir string, opts Options, entries []*raft.Log) uint64 {
	t.Helper()
	stores := openTestStoresWith(t, dir, opts)
	defer stores.Close()
	for _, want := range entries {
		var got raft.Log
		if err := stores.Log.GetLog(want.Index, &got); err != nil || got.Term != want.Term || got.Type != want.Type ||
			!bytes.Equal(got.Data, want.Data) {
			return want.Index
		}
	}
	return 0
}

// TestPreflightTakesWhatIsWhole writes and cuts logs in raft.db of every size and shape: none may be reported as damaged.
func TestPreflightTakesWhatIsWhole(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 2))
	dir := t.TempDir()
	path := filepath.Join(dir, raftFile)
	stores := openTestStoresWith(t, dir, Options{Plain: true})
	if err := stores.Stable.SetUint64(keyCurrentTerm, 1); err != nil {
		t.Fatal(err)
	}
	first, last := uint64(1), uint64(0)
	for round := range 600 {
		entries := testEntries(last+1, last+1+random.Uint64N(5), 1)
		for _, entry := range entries {
			entry.Data = make([]byte, random.IntN(10)+random.IntN(10)*random.IntN(1000))
			if random.IntN(20) == 0 {
				entry.Data = make([]byte, 60_000+random.IntN(9_000))
			}
		}
		err := stores.Log.StoreLogs(entries)
		last = entries[len(entries)-1].Index
		if random.IntN(10) == 0 {
			cut := first + random.Uint64N(last-first+1)
			err = errors.Join(err, stores.Log.DeleteRange(first, cut-1))
			first = cut
		}
		if random.IntN(10) == 0 && last > first {
			from := last - random.Uint64N(last-first)
			err = errors.Join(err, stores.Log.DeleteRange(from, last))
			last = from - 1
		}
		vote(t, stores, uint64(round+1), strings.Repeat("a", random.IntN(64)))
		if err = errors.Join(err, boltfile.Check(path, damaged)); err != nil {
			t.Fatalf("seed %d, round %d, log %d to %d: %v", seed, round, first, last, err)
		}
	}
	if err := stores.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := surveyLog(dir)
	if err != nil || len(report.spans) != 1 || report.spans[0] != (logSpan{first, last}) {
		t.Errorf("seed %d: %+v, %v; want %d to %d", seed, report, err, first, last)
	}
}

func TestPreflightCost(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes many entries")
	}
	const costEntries = 40_000
	dir := t.TempDir()
	stores := openTestStores(t, dir, nil)
	payload := bytes.Repeat([]byte("p"), 256)
	for first := uint64(1); first <= costEntries; first += 2_000 {
		entries := testEntries(first, first+1_999, 1)
		for _, entry := range entries {
			entry.Data = payload
		}
		if err := stores.Log.StoreLogs(entries); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(stores.Stable.SetUint64(keyCurrentTerm, 1), stores.Close()); err != nil {
		t.Fatal(err)
	}
	report, err := Preflight(dir, nil)
	if err != nil || report.Entries != costEntries {
		t.Fatalf("report %+v, %v", report, err)
	}
	t.Logf("%d entries of 256 bytes took %s", costEntries, report.Took)
}
