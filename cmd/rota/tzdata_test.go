package main

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli/queue"
	"github.com/rotasched/rota/internal/cron"
)

// zoneZip writes a zip with one zone, and its release if given.
func zoneZip(t *testing.T, version string, modified time.Time) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "zones.zip")
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	files := map[string]string{"zoneinfo/Etc/X": "TZif2" + strings.Repeat("\x00", 39)}
	if version != "" {
		files["zoneinfo/+VERSION"] = version
	}
	for name, text := range files {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Modified: modified})
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestZonesIn reads the contents of a file, and allows flags first.
func TestZonesIn(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		path     string
		given    rota.TZInstall
		release  string
		released rota.Date
		says     string
	}{
		"this binary":  {release: cron.Release, released: cron.Embedded().Released()},
		"a whole file": {path: zoneZip(t, "2026f", day), release: "2026f", released: rota.DateOf(day)},
		"flags": {path: zoneZip(t, "2026f", day), given: rota.TZInstall{Release: "2026g", Released: 7},
			release: "2026g", released: 7}, "no release": {path: zoneZip(t, "", day), says: "pass --release"},
		"no date":   {path: zoneZip(t, "2026f", time.Time{}), says: "pass --released"},
		"not there": {path: filepath.Join(t.TempDir(), "none"), says: "no such file"},
		"no file":   {path: t.TempDir(), says: "want a zip of zones"},
		"not a zip": {path: "tzdata_test.go", says: "not a zip"},
		"flags and not": {path: zoneZip(t, "", time.Time{}), given: rota.TZInstall{Release: "2026g", Released: 7},
			release: "2026g", released: 7},
	} {
		var args []string
		if c.path != "" {
			args = []string{c.path}
		}
		got, err := queue.ZonesIn(args, c.given)
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", name, err, c.says)
			}
		case err != nil || got.Release != c.release || got.Released != c.released || len(got.Data) == 0:
			t.Errorf("%s: %s of %s with %d bytes, %v", name, got.Release, got.Released, len(got.Data), err)
		}
	}
}
