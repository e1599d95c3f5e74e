package raftstore

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// treeOf returns everything in a directory: names, modes, modification times and contents.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s %d %d\n", path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			fmt.Fprintf(&b, "%x\n", text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestLookAt finds all faults that a start would report, and changes no byte.
func TestLookAt(t *testing.T) {
	t.Parallel()
	write := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name    string
		change  func(*testing.T, string)
		node    rota.NodeID
		cluster string
		want    []string
	}{
		{"whole", nil, "n1", "c1", nil},
		{"remnants of a crash stay", func(t *testing.T, dir string) {
			write(".node.json-1.tmp", "x")(t, dir)
			write("snapshots/1-2-3.tmp/state.bin", "x")(t, dir)
		}, "n1", "c1", nil},
		{"another node and another cluster", nil, "n2", "c2", []string{"--node n1", "--cluster c1"}},
		{"a copy of another node", remove(lockName), "n2", "c1", []string{"--node n1", "--adopt-data"}},
		{"no log", remove(raftFile), "n1", "c1", []string{"missing or empty"}},
		{"no log, of another node", remove(raftFile), "n2", "c1", []string{"--node n1", "missing or empty"}},
		{"no record", remove(nodeFile), "n1", "c1", []string{"missing although raft state exists"}},
		{"a newer record", write(nodeFile, `{"format":9}`), "n1", "c1", []string{"has format 9"}},
		{"a newer record and a damaged log", func(t *testing.T, dir string) {
			write(nodeFile, `{"format":9}`)(t, dir)
			write(raftFile, strings.Repeat("x", 4096))(t, dir)
		}, "n1", "c1", []string{"has format 9", "raft.db is damaged"}},
		{"a strange snapshot", write("snapshots/mine/x", "x"), "n1", "c1",
			[]string{"its name is not that of a snapshot"}},
		{"a damaged snapshot that nothing replaces", write("snapshots/1-9-3/state.bin", "x"), "n1", "c1",
			[]string{"meta data cannot be read"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := usedDir(t, "k1")
			if c.change != nil {
				c.change(t, dir)
			}
			before := treeOf(t, dir)
			look, faults := LookAt(dir, c.node, c.cluster, false)
			if after := treeOf(t, dir); after != before {
				t.Errorf("the directory was\n%s\nand is\n%s", before, after)
			}
			if len(faults) != len(c.want) {
				t.Fatalf("faults %v", faults)
			}
			for i, want := range c.want {
				if !strings.Contains(faults[i].Error(), want) {
					t.Errorf("fault %d is %q, want %q", i, faults[i], want)
				}
			}
			if len(c.want) == 0 && (look.Report == nil || look.Report.LastIndex != 5 || look.ClusterID != "k1" ||
				look.Fresh) {
				t.Errorf("%+v", look)
			}
			_, err := OpenDataDir(dir, c.node, c.cluster, false)
			if err == nil {
				_, err = Preflight(dir, nil)
			}
			if (err == nil) != (len(c.want) == 0) {
				t.Errorf("the look returns %v, a start %v", faults, err)
			}
		})
	}
}

// TestLookAt_running reports the process that holds a directory: the node's own process is not a fault.
func TestLookAt_running(t *testing.T) {
	t.Parallel()
	dir := usedDir(t, "k1")
	held := openDir(t, dir)
	before := treeOf(t, dir)
	want := fmt.Sprintf("process %d, node n1", os.Getpid())
	if look, faults := LookAt(dir, "n1", "c1", false); look.Holder != want || len(faults) > 0 || look.Report != nil {
		t.Errorf("%+v, %v", look, faults)
	}
	if _, faults := LookAt(dir, "n2", "c1", false); len(faults) != 2 ||
		!strings.Contains(faults[1].Error(), "in use by "+want) {
		t.Errorf("another node: %v", faults)
	}
	if after := treeOf(t, dir); after != before {
		t.Errorf("the directory was\n%s\nand is\n%s", before, after)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if look, faults := LookAt(dir, "n1", "c1", false); look.Holder != "" || len(faults) > 0 || look.Report == nil {
		t.Errorf("after its end: %+v, %v", look, faults)
	}
}

// TestLookAt_absent looks at where a directory would be created, and creates none.
func TestLookAt_absent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if look, faults := LookAt(filepath.Join(dir, "a", "b"), "n1", "c1", false); !look.Absent || len(faults) > 0 {
		t.Errorf("%+v, %v", look, faults)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("it made %v, %v", names, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "data")} {
		if _, faults := LookAt(path, "n1", "c1", false); len(faults) != 1 ||
			!strings.Contains(faults[0].Error(), file) {
			t.Errorf("%s: %v", path, faults)
		}
	}
	if os.Geteuid() == 0 {
		t.Log("permissions are not checked: root has them all")
		return
	}
	shut := filepath.Join(dir, "shut")
	if err := os.Mkdir(shut, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{shut, filepath.Join(shut, "data")} {
		if _, faults := LookAt(path, "n1", "c1", false); len(faults) != 1 ||
			!strings.Contains(faults[0].Error(), "chown") {
			t.Errorf("%s: %v", path, faults)
		}
	}
}
