package raftstore

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

func openDir(t *testing.T, path string) *DataDir {
	t.Helper()
	d, err := OpenDataDir(path, "n1", "c1", false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// usedDir creates a data directory with raft state, and closes it.
func usedDir(t *testing.T, id rota.ClusterID) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	d := openDir(t, path)
	if !d.Fresh() {
		t.Error("a new directory is not fresh")
	}
	if id != "" {
		if err := d.SetClusterID(id); err != nil {
			t.Fatal(err)
		}
	}
	writeState(t, path, 1, testEntries(1, 5, 1))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDataDirKeeps(t *testing.T) {
	t.Parallel()
	path := usedDir(t, "k1")
	first := openDir(t, path)
	if first.Fresh() || first.ClusterID() != "k1" || first.Starts() != 2 || len(first.Identity()) != 32 {
		t.Errorf("fresh %v, cluster %q, starts %d, identity %q", first.Fresh(), first.ClusterID(), first.Starts(),
			first.Identity())
	}
	identity := first.Identity()
	if err := first.SetClusterID("k1"); err != nil {
		t.Errorf("the same cluster id again: %v", err)
	}
	err := first.SetClusterID("k2")
	if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(), "k1") {
		t.Errorf("another cluster id: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := openDir(t, path)
	if second.Identity() != identity || second.Starts() != 3 {
		t.Errorf("identity %q became %q, starts %d", identity, second.Identity(), second.Starts())
	}
	for name, want := range map[string]fs.FileMode{"": 0o700, nodeFile: 0o600, lockName: 0o600} {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q has mode %v, %v", name, info.Mode(), err)
		}
	}
}

func TestDataDirRefuses(t *testing.T) {
	t.Parallel()
	copyTo := func(t *testing.T, from, to string) {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct {
		name string
		open func(t *testing.T, path string) error
		want []string
	}{
		{"a second process", func(t *testing.T, path string) error {
			openDir(t, path)
			_, err := OpenDataDir(path, "n1", "c1", true)
			return err
		}, []string{"in use by process", "node n1", "--data"}},
		{"another node", func(t *testing.T, path string) error {
			_, err := OpenDataDir(path, "n2", "c1", true)
			return err
		}, []string{"belongs to node n1", "--node n1"}},
		{"another cluster name", func(t *testing.T, path string) error {
			_, err := OpenDataDir(path, "n1", "c2", true)
			return err
		}, []string{`belongs to cluster "c1"`, "--cluster c1"}},
		{"a copy", func(t *testing.T, path string) error {
			copied := filepath.Join(t.TempDir(), "copy")
			copyTo(t, path, copied)
			_, err := OpenDataDir(copied, "n1", "c1", false)
			return err
		}, []string{"was copied or moved from elsewhere", "forgotten votes", "Start the original", "new id",
			"--adopt-data"}},
		{"an older state put back in place", func(t *testing.T, path string) error {
			backup := filepath.Join(t.TempDir(), "backup")
			copyTo(t, path, backup)
			names, _ := os.ReadDir(path)
			for _, name := range names {
				os.RemoveAll(filepath.Join(path, name.Name()))
			}
			copyTo(t, backup, path)
			_, err := OpenDataDir(path, "n1", "c1", false)
			return err
		}, []string{"restored in place", "--adopt-data"}},
		{"a new directory with a backup in it", func(t *testing.T, path string) error {
			backup := filepath.Join(t.TempDir(), "backup")
			copyTo(t, path, backup)
			os.RemoveAll(path)
			copyTo(t, backup, path)
			_, err := OpenDataDir(path, "n1", "c1", false)
			return err
		}, []string{"was copied", "--adopt-data"}},
		{"raft state without node.json", func(t *testing.T, path string) error {
			os.Remove(filepath.Join(path, nodeFile))
			_, err := OpenDataDir(path, "n1", "c1", true)
			return err
		}, []string{"node.json is damaged", "missing although raft state exists", "NEW node id"}},
		{"node.json without the raft state of a member", func(t *testing.T, path string) error {
			os.Remove(filepath.Join(path, raftFile))
			os.RemoveAll(filepath.Join(path, logDir))
			_, err := OpenDataDir(path, "n1", "c1", true)
			return err
		}, []string{"raft.db is damaged", "belongs to cluster id k1", "NEW node id"}},
		{"a spoilt node.json", func(t *testing.T, path string) error {
			os.WriteFile(filepath.Join(path, nodeFile), []byte(`{"format":1`), 0o600)
			_, err := OpenDataDir(path, "n1", "c1", true)
			return err
		}, []string{"node.json is damaged"}},
		{"a newer format", func(t *testing.T, path string) error {
			os.WriteFile(filepath.Join(path, nodeFile), []byte(`{"format":9}`), 0o600)
			_, err := OpenDataDir(path, "n1", "c1", true)
			return err
		}, []string{"format 9", "newer"}},
		{"a draft from before the first release", func(t *testing.T, path string) error {
			editNode(t, path, func(text string) string {
				return strings.Replace(text, `"node":`, `"draft": 36, "node":`,
					1)
			})
			_, err := OpenDataDir(path, "n1", "c1", true)
			return err
		}, []string{"was written by draft 36 of rota, from before its first release",
			"Start with an empty --data, or run the binary that wrote it"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.open(t, usedDir(t, "k1"))
			if rota.KindOf(err) != rota.KindConflict {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in: %v", want, err)
				}
			}
		})
	}
	t.Run("a later binary of this format is accepted", func(t *testing.T) {
		t.Parallel()
		path := usedDir(t, "k1")
		editNode(t, path, func(text string) string {
			return strings.Replace(text, `"cluster_name":`, `"later": {"sum": ["a", 1]}, "cluster_name":`, 1)
		})
		d, err := OpenDataDir(path, "n1", "c1", false)
		if err != nil {
			t.Fatal(err)
		}
		if d.ClusterID() != "k1" {
			t.Errorf("the cluster is %q", d.ClusterID())
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("an id that is none", func(t *testing.T) {
		t.Parallel()
		_, err := OpenDataDir(filepath.Join(t.TempDir(), "d"), "a b", "c1", false)
		if rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("got %v", err)
		}
	})
}

// editNode changes node.json as another binary would, with the correct checksum.
func editNode(t *testing.T, dir string, edit func(text string) string) {
	t.Helper()
	name := filepath.Join(dir, nodeFile)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	was := recordSum(data)
	text := edit(string(data))
	if text == string(data) {
		t.Fatal("nothing was changed")
	}
	if err := os.WriteFile(name, []byte(strings.Replace(text, was, recordSum([]byte(text)), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDataDirAdopts(t *testing.T) {
	t.Parallel()
	path := usedDir(t, "k1")
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(path)); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDataDir(copied, "n1", "c1", true)
	if err != nil {
		t.Fatal(err)
	}
	if d.ClusterID() != "k1" || d.record.Adoptions != 1 || d.path != copied {
		t.Errorf("adopted: %+v", d.record)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	openDir(t, copied) // from now on the copy is the original
}

func TestDataDirMayMoveOnItsDisk(t *testing.T) {
	t.Parallel()
	path := usedDir(t, "k1")
	moved := filepath.Join(filepath.Dir(path), "moved")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	openDir(t, moved)
}

func TestDataDirSurvivesACrashAtItsMaking(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	d := openDir(t, path)
	if err := errors.Join(d.Close(), os.Remove(filepath.Join(path, nodeFile))); err != nil {
		t.Fatal(err)
	}
	if d = openDir(t, path); d.Starts() != 1 || !d.Fresh() {
		t.Errorf("starts %d, fresh %v", d.Starts(), d.Fresh())
	}
}

func TestDataDirFresh(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		write func(t *testing.T, path string)
		fresh bool
	}{
		"nothing":              {func(*testing.T, string) {}, true},
		"stores never written": {func(t *testing.T, path string) { openTestStores(t, path, nil).Close() }, true},
		"no snapshot": {func(t *testing.T, path string) {
			os.MkdirAll(filepath.Join(path, snapshotsDir), 0o700)
		}, true},
		"a term":     {func(t *testing.T, path string) { writeState(t, path, 1, nil) }, false},
		"an entry":   {func(t *testing.T, path string) { writeState(t, path, 1, testEntries(1, 1, 1)) }, false},
		"a snapshot": {func(t *testing.T, path string) { writeSnapshot(t, path, 1, 9) }, false},
		"an unreadable file": {func(t *testing.T, path string) {
			os.WriteFile(filepath.Join(path, raftFile), []byte("junk"), 0o600)
		}, false},
		// Its heads are whole: bbolt opens it, and reads as many bytes as the page states.
		"a damaged page": {func(t *testing.T, path string) {
			openTestStores(t, path, nil).Close()
			file := filepath.Join(path, raftFile)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for at := 2 * os.Getpagesize(); at < len(data); at += os.Getpagesize() {
				if binary.NativeEndian.Uint16(data[at+8:]) == 2 { // a leaf
					flipByte(t, file, int64(at+12)) // its number of further pages
				}
			}
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "data")
			d := openDir(t, path)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			c.write(t, path)
			if d = openDir(t, path); d.Fresh() != c.fresh {
				t.Errorf("fresh is %v", d.Fresh())
			}
		})
	}
}

func TestFreeSpace(t *testing.T) {
	t.Parallel()
	free, total, err := FreeSpace(t.TempDir())
	if err != nil || total == 0 || free > total {
		t.Errorf("free %d of %d, %v", free, total, err)
	}
	if _, _, err := FreeSpace("/no/such/path"); err == nil {
		t.Error("no error for a missing path")
	}
}
