package cron

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// bomb packs size zeros.
func bomb(t *testing.T, size int) []byte {
	t.Helper()
	b := bytes.NewBufferString(packMagic)
	w, err := flate.NewWriter(b, flate.BestCompression)
	if err == nil {
		_, err = w.Write(make([]byte, size))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// member is a file of a zip.
type member struct{ name, text string }

func zipOf(t *testing.T, at time.Time, list ...member) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range list {
		f, err := w.CreateHeader(&zip.FileHeader{Name: m.name, Modified: at, Method: zip.Deflate})
		if err == nil {
			_, err = f.Write([]byte(m.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b.Bytes())
}

func TestReadArchive_forms(t *testing.T) {
	files, err := unpack(embedded)
	if err != nil {
		t.Fatal(err)
	}
	berlin := string(files["Europe/Berlin"])
	day := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at       time.Time
		list     []member
		release  string
		released rota.Date
	}{
		"wheel of PyPI": {day, []member{{"tzdata/__init__.py",
			"__version__ = \"2026.7\"\n\nIANA_VERSION = \"2026g\"\n"}, {"tzdata/zoneinfo/__init__.py", ""},
			{"tzdata/zoneinfo/Europe/Berlin", berlin}, {"tzdata/zones", "Europe/Berlin\n"}}, "2026g", rota.DateOf(day)},
		"zoneinfo of a host": {day, []member{{"usr/share/zoneinfo/tzdata.zi", "# version 2026g\n# x"},
			{"usr/share/zoneinfo/right/Europe/Berlin", berlin},
			{"usr/share/zoneinfo/Europe/Berlin", berlin}, {"usr/share/zoneinfo/localtime", berlin}}, "2026g",
			rota.DateOf(day)},
		"+VERSION": {day, []member{{"+VERSION", "2026g\n"}, {"Europe/Berlin", berlin}}, "2026g",
			rota.DateOf(day)}, "lib/time of Go": {time.Time{}, []member{{"Europe/Berlin", berlin}}, "", 0},
		"a release unknown": {day, []member{{"+VERSION", "next\n"}, {"Europe/Berlin", berlin}}, "", rota.DateOf(day)},
	} {
		r := zipOf(t, c.at, c.list...)
		a, err := ReadArchive(r, r.Size())
		if err != nil || a.Release != c.release || a.Released != c.released || len(a.Zones) != 1 ||
			string(a.Zones["Europe/Berlin"]) != berlin {
			t.Errorf("%s: release %q of %s, %d zones, %v", name, a.Release, a.Released, len(a.Zones), err)
		}
	}
}

func TestReadArchive_refuses(t *testing.T) {
	text := bytes.NewReader([]byte("TZif2"))
	for name, r := range map[string]*bytes.Reader{"no zip": text, "no zones": zipOf(t, time.Now(), member{"a", "b"}),
		"empty":        bytes.NewReader(nil),
		"a large file": zipOf(t, time.Now(), member{"zoneinfo/A", "TZif" + strings.Repeat("\x00", maxArchiveFile)})} {
		if _, err := ReadArchive(r, r.Size()); !errors.Is(err, rota.ErrInvalid) ||
			rota.ErrorOf(err).Subject != "tzdata" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
