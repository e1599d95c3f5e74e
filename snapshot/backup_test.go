package snapshot

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// entries names what is in a folder: no temporary file may stay.
func entries(t *testing.T, folder string) []string {
	t.Helper()
	list, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestSaveFile(t *testing.T) {
	t.Parallel()
	t.Run("is read again", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "backup.rota")
		info, err := SaveFile(path, small())
		if err != nil {
			t.Fatal(err)
		}
		stat, err := os.Stat(path)
		if err != nil || stat.Mode() != 0o600 || stat.Size() != info.Bytes {
			t.Fatalf("%v, %v", stat, err)
		}
		if got := entries(t, filepath.Dir(path)); !reflect.DeepEqual(got, []string{"backup.rota"}) {
			t.Fatalf("folder has %v", got)
		}
		if inspected, err := InspectFile(path); err != nil || inspected != info {
			t.Fatalf("%+v, %v", inspected, err)
		}
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		k := &sink{}
		s, _, err := Read(f, func(info rota.SnapshotInfo) (Sink[*state], error) { k.info = info; return k, nil })
		if err != nil || !reflect.DeepEqual(s.rows, small().rows) {
			t.Fatal(err)
		}
	})
	t.Run("refuses to overwrite", func(t *testing.T) {
		t.Parallel()
		for name, lay := range map[string]func(path string) error{
			"a file":          func(path string) error { return os.WriteFile(path, []byte("precious"), 0o600) },
			"a dangling link": func(path string) error { return os.Symlink("nowhere", path) },
			"a folder":        func(path string) error { return os.Mkdir(path, 0o700) },
		} {
			path := filepath.Join(t.TempDir(), "backup.rota")
			if err := lay(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			_, err := SaveFile(path, small())
			after, _ := os.Lstat(path)
			if rota.KindOf(err) != rota.KindConflict || !reflect.DeepEqual(before, after) ||
				len(entries(t, filepath.Dir(path))) != 1 {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
	t.Run("refuses to overwrite what came in the meantime", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "backup.rota")
		_, err := save(path, func(w io.Writer) (rota.SnapshotInfo, error) {
			if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
				t.Error(err)
			}
			return Write(w, small())
		})
		b, _ := os.ReadFile(path)
		if rota.KindOf(err) != rota.KindConflict || string(b) != "precious" ||
			len(entries(t, filepath.Dir(path))) != 1 {
			t.Fatalf("%q, %v", b, err)
		}
	})
}

func TestSaveFileLeavesNothing(t *testing.T) {
	t.Parallel()
	t.Run("when the source fails", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		_, err := SaveFile(filepath.Join(folder, "backup.rota"), broken{small()})
		if !errors.Is(err, io.ErrNoProgress) || len(entries(t, folder)) != 0 {
			t.Fatalf("%v, %v", entries(t, folder), err)
		}
	})
	t.Run("when the folder is not there", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "no", "backup.rota")
		if _, err := SaveFile(path, small()); !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	})
}

func TestSaveStream(t *testing.T) {
	t.Parallel()
	whole := pack(t, small(), 128)
	t.Run("saves what verifies, byte for byte", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "backup.rota")
		info, err := SaveStream(path, bytes.NewReader(whole))
		if got, _ := os.ReadFile(path); err != nil || info.Index != 4711 || !bytes.Equal(got, whole) {
			t.Fatalf("%+v, %v", info, err)
		}
	})
	t.Run("leaves nothing of what does not", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		_, err := SaveStream(filepath.Join(folder, "backup.rota"), bytes.NewReader(whole[:len(whole)-1]))
		if !errors.As(err, new(*DamagedError)) || rota.KindOf(err) != rota.KindInvalid || len(entries(t, folder)) != 0 {
			t.Fatalf("%v, %v", entries(t, folder), err)
		}
	})
}

func TestOpenFileRefuses(t *testing.T) {
	t.Parallel()
	if _, err := OpenFile(filepath.Join(t.TempDir(), "none")); rota.KindOf(err) != rota.KindNotFound {
		t.Fatal(err)
	}
	if _, err := OpenFile(t.TempDir()); rota.KindOf(err) != rota.KindInvalid {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cut.rota")
	if err := os.WriteFile(path, pack(t, small(), 128)[:99], 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := InspectFile(path)
	if !errors.As(err, new(*DamagedError)) || rota.KindOf(err) != rota.KindInvalid ||
		!strings.Contains(err.Error(), path) {
		t.Fatal(err)
	}
}

// closing counts how often it was closed.
type closing struct {
	io.Reader
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

func TestFirstReadable(t *testing.T) {
	t.Parallel()
	whole := pack(t, small(), 128)
	flipped := bytes.Clone(whole)
	flipped[200] ^= 1
	later := small().info
	later.Format = 2
	files := map[string][]byte{"whole": whole, "cut": whole[:300], "flipped": flipped,
		"newer": appendPreamble(nil, later)}
	for _, c := range []struct {
		name       string
		candidates []string
		best       string
		kinds      []rota.Kind
		kind       rota.Kind
		text       string
	}{
		{"the newest", []string{"whole", "cut"}, "whole", nil, rota.KindNone, ""},
		{"the one before the damaged ones", []string{"flipped", "cut", "gone", "newer", "whole", "cut"}, "whole",
			[]rota.Kind{rota.KindInvalid, rota.KindInvalid, rota.KindNotFound, rota.KindConflict}, rota.KindNone, ""},
		{"none", []string{"newer", "cut"}, "", []rota.Kind{rota.KindConflict, rota.KindInvalid}, rota.KindConflict,
			"none of 2 snapshots is readable, newest first: 1: read snapshot: snapshot format 2 is newer than"},
		{"nothing to choose from", nil, "", nil, rota.KindNotFound, "there is no snapshot"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opened, closed := 0, 0
			best, skipped, err := FirstReadable(c.candidates, func(name string) (io.ReadCloser, error) {
				b, ok := files[name]
				if !ok {
					return nil, rota.Refusef(rota.KindNotFound, name, "%s is gone", name)
				}
				opened++
				return closing{bytes.NewReader(b), &closed}, nil
			})
			var kinds []rota.Kind
			for i, s := range skipped {
				if s.Position != i {
					t.Errorf("position %d stands at %d", s.Position, i)
				}
				kinds = append(kinds, rota.KindOf(s.Err))
			}
			if best != c.best || !reflect.DeepEqual(kinds, c.kinds) || opened != closed {
				t.Fatalf("best %q, skipped %v, opened %d, closed %d", best, skipped, opened, closed)
			}
			if rota.KindOf(err) != c.kind || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Fatal(err)
			}
		})
	}
}
