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

// entries lists the files of a folder: no temporary file may stay.
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

// saveState saves src as SaveStream saves its bytes.
func saveState(path string, src Source) (rota.SnapshotInfo, error) {
	return save(path, func(w io.Writer) (rota.SnapshotInfo, error) { return Write(w, src) })
}

func TestSave(t *testing.T) {
	t.Parallel()
	t.Run("is read again", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "backup.rota")
		info, err := saveState(path, small())
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
			_, err := saveState(path, small())
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

func TestSaveLeavesNothing(t *testing.T) {
	t.Parallel()
	t.Run("when the source fails", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		_, err := saveState(filepath.Join(folder, "backup.rota"), broken{small()})
		if !errors.Is(err, io.ErrNoProgress) || len(entries(t, folder)) != 0 {
			t.Fatalf("%v, %v", entries(t, folder), err)
		}
	})
	t.Run("when the folder is not there", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "no", "backup.rota")
		if _, err := saveState(path, small()); !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	})
}

func TestSaveStream(t *testing.T) {
	t.Parallel()
	whole := pack(t, small(), 128)
	t.Run("saves a valid backup, byte for byte", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "backup.rota")
		info, err := SaveStream(path, bytes.NewReader(whole))
		if got, _ := os.ReadFile(path); err != nil || info.Index != 4711 || !bytes.Equal(got, whole) {
			t.Fatalf("%+v, %v", info, err)
		}
	})
	t.Run("leaves nothing of an invalid one", func(t *testing.T) {
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
