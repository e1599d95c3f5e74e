package raftstore

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

// An interrupted recovery, wherever the crash was, keeps every node from starting and ends the same way: the new files
// are in place, and all old ones are aside.
func TestRecovery_interrupted(t *testing.T) {
	t.Parallel()
	for _, crash := range []struct {
		name string
		// moved are the old files that were moved aside before the crash, placed the new files that were moved in.
		moved, placed []string
	}{
		{name: "before anything was moved"},
		{name: "while the old was moved", moved: []string{"raft.db"}},
		{name: "while the new was moved", moved: []string{"raft.db", "audit"}, placed: []string{"archive.db"}},
		{name: "before the end", moved: []string{"raft.db", "audit"}, placed: []string{"archive.db", "raft.db"}},
	} {
		t.Run(crash.name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir()
			d, err := OpenDataDir(path, "n1", "test", false)
			if err != nil {
				t.Fatal(err)
			}
			old := d.Identity()
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			put(t, path, "old", "raft.db", "audit")
			if d, err = OpenRecovery(path); err != nil {
				t.Fatal(err)
			}
			to, err := d.New()
			if err != nil {
				t.Fatal(err)
			}
			put(t, to, "new", "raft.db", "archive.db")
			aside, err := d.Recover("c-new", 7)
			if err != nil {
				t.Fatal(err)
			}
			move(t, path, aside, crash.moved...)
			if len(crash.placed) > 0 {
				next := d.record
				next.Recovery = &RecoveryRecord{Aside: filepath.Base(aside), Placing: true}
				if err := d.store(next); err != nil {
					t.Fatal(err)
				}
				move(t, to, path, crash.placed...)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenDataDir(path, "n1", "test", true); rota.KindOf(err) != rota.KindConflict {
				t.Fatalf("a node starts during a recovery: %v", err)
			}
			if d, err = OpenRecovery(path); err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if got, err := d.FinishRecovery(); err != nil || got != aside {
				t.Fatalf("finished to %s, %v", got, err)
			}
			held(t, path, "new", "raft.db", "archive.db")
			held(t, aside, "old", "raft.db", "audit")
			if d.ClusterID() != "c-new" || d.Identity() == old || d.Recovering() {
				t.Errorf("the directory is of %s, identity %s before and %s now", d.ClusterID(), old, d.Identity())
			}
			if _, err := d.FinishRecovery(); err == nil {
				t.Error("a completed recovery was finished again")
			}
		})
	}
}

func put(t *testing.T, dir, text string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func move(t *testing.T, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// held checks that a directory has exactly these files, apart from those that stay in place.
func held(t *testing.T, dir, text string, names ...string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if !slices.Contains(names, f.Name()) && (!staysInPlace(f.Name()) || f.Name() == newDir) {
			t.Errorf("%s is left in %s", f.Name(), dir)
		}
	}
	for _, name := range names {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s in %s holds %q, %v; want %q", name, dir, got, err, text)
		}
	}
}
