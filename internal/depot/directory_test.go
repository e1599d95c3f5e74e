package depot

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rotasched/rota"
)

// named checks a backup that holds nothing but its own index.
func named(cluster rota.ClusterID) func(io.Reader) (Name, error) {
	return func(r io.Reader) (Name, error) {
		text, err := io.ReadAll(r)
		if err != nil || len(text) < 4 || string(text[:4]) != "rota" {
			return Name{}, errors.Join(err, errors.New("it is no backup"))
		}
		return Name{cluster, rota.Index(len(text))}, nil
	}
}

func writing(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func open(t *testing.T, path string) *Directory {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// files returns the names in a directory.
func files(t *testing.T, path string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		names = append(names, f.Name())
	}
	return names
}

func TestName(t *testing.T) {
	t.Parallel()
	for _, n := range []Name{{"c-1", 0}, {"c-abc-d", 1<<64 - 1}, {"x", 429}} {
		if got, ok := ParseName(n.String()); !ok || got != n {
			t.Errorf("%s is read as %+v, %v", n, got, ok)
		}
	}
	for _, s := range []string{"", ".snap", "-.snap", "c-1.snap", "c-0000000000000000001.snap", "c-00000000000000000001.snap.age",
		"../c-00000000000000000001.snap", "c-99999999999999999999.snap", "c-+0000000000000000001.snap", "-00000000000000000001.snap"} {
		if n, ok := ParseName(s); ok {
			t.Errorf("%q is read as %+v", s, n)
		}
	}
}

func TestPut(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path)
	b, err := d.Put(t.Context(), "n1", writing("rota-backup"), named("c-1"))
	if err != nil || b.Index != 11 || b.Bytes != 11 || b.Cluster != "c-1" {
		t.Fatalf("%+v, %v", b, err)
	}
	if again, err := d.Put(t.Context(), "n2", writing("rota-BACKUP"), named("c-1")); err != nil || again != b {
		t.Errorf("the same index again: %+v, %v", again, err)
	}
	if text, err := os.ReadFile(b.File); err != nil || string(text) != "rota-backup" {
		t.Errorf("%q, %v: a backup was replaced", text, err)
	}
	if info, err := os.Stat(b.File); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
	if got := files(t, path); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// Nothing that is wrong gets a name, and nothing of it stays.
func TestPut_refuses(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	flip := func(path string) {
		text, err := os.ReadFile(path)
		if err == nil {
			text[len(text)-1] ^= 1
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			panic(err)
		}
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	for what, of := range map[string]struct {
		ctx     context.Context
		write   func(io.Writer) error
		written func(string)
	}{
		"broken off":  {t.Context(), func(w io.Writer) error { _ = writing("rota-ba")(w); return broken }, nil},
		"called off":  {ended, writing("rota-backup"), nil},
		"forged":      {t.Context(), writing("atro-backup"), nil},
		"a bit flips": {t.Context(), writing("rota-backup"), flip},
		"cut off":     {t.Context(), writing("rota-backup"), func(path string) { _ = os.Truncate(path, 9) }},
		"taken away":  {t.Context(), writing("rota-backup"), func(path string) { _ = os.Remove(path) }},
	} {
		path := t.TempDir()
		d := open(t, path)
		d.written = of.written
		if b, err := d.Put(of.ctx, "n1", of.write, named("c-1")); err == nil {
			t.Errorf("%s: stored as %+v", what, b)
		}
		if got := files(t, path); len(got) != 0 {
			t.Errorf("%s: %q is left", what, got)
		}
	}
}

// A process that is killed in the middle leaves no backup, and the next one is stored over it.
func TestPut_killed(t *testing.T) {
	t.Parallel()
	if path := os.Getenv("DEPOT_KILLED"); path != "" {
		d := open(t, path)
		_, _ = d.Put(t.Context(), "n1", func(w io.Writer) error {
			_ = writing("rota-half of a ba")(w)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}, named("c-1"))
	}
	path := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPut_killed$")
	cmd.Env = append(os.Environ(), "DEPOT_KILLED="+path)
	if err := cmd.Run(); err == nil {
		t.Fatal("it lived")
	}
	d := open(t, path)
	if got := files(t, path); len(got) != 1 || !Partial(got[0]) {
		t.Fatalf("%q is left", got)
	}
	if all, err := d.List(); err != nil || len(all) != 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	if _, err := d.Put(t.Context(), "n1", writing("rota-backup"), named("c-1")); err != nil {
		t.Fatal(err)
	}
	if got := files(t, path); len(got) != 1 || Partial(got[0]) {
		t.Errorf("%q is left", got)
	}
}

// Only a cluster's own backups go, and never its last three.
func TestPrune(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path)
	foreign := []string{Name{"c-2", 1}.String(), Name{"c-1-2", 1}.String(), "notes.txt", "c-1-1.snap", ".rota-n2.part"}
	for _, name := range foreign {
		if err := os.WriteFile(filepath.Join(path, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 {
		if _, err := d.Put(t.Context(), "n1", writing("rota"+strings.Repeat("x", 10*i)), named("c-1")); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range []struct{ keep, gone, left int }{{9, 0, 8}, {5, 3, 5}, {0, 2, 3}, {1, 0, 3}} {
		gone, err := d.Prune("c-1", of.keep)
		all, listErr := d.List()
		own := Of(all, "c-1")
		if err != nil || listErr != nil || len(gone) != of.gone || len(own) != of.left || own[len(own)-1].Index != 74 {
			t.Errorf("keep %d: %d gone, %+v left, %v, %v", of.keep, len(gone), own, err, listErr)
		}
	}
	left := files(t, path)
	for _, name := range foreign {
		if !slices.Contains(left, name) {
			t.Errorf("%s is gone", name)
		}
	}
}

func TestOpen_refuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file + "-absent"} {
		if _, err := Open(path); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("%s is opened: %v", path, err)
		}
	}
}

// A full disk stores nothing, and leaves nothing there.
func TestPut_fullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a full disk is made by mounting a small one, which wants root")
	}
	path := t.TempDir()
	if said, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path).CombinedOutput(); err != nil {
		t.Skipf("no small disk: mount: %v: %s", err, said)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", path).Run() })
	d := open(t, path)
	if _, err := d.Put(t.Context(), "n1", writing("rota"+strings.Repeat("x", 1<<20)), named("c-1")); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	if got := files(t, path); len(got) != 0 {
		t.Errorf("%q is left", got)
	}
	if _, err := d.Put(t.Context(), "n1", writing("rota-backup"), named("c-1")); err != nil {
		t.Errorf("a smaller one: %v", err)
	}
}
