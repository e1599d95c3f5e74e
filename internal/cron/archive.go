package cron

import (
	"archive/zip"
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/rotasched/rota"
)

// Archive is the content of a file that brings a release of the time zone database.
type Archive struct {
	// Release is such as 2026f, "" where the file does not contain it.
	Release string
	// Released is the date of the newest zone in the file, 0 where the file has no dates.
	Released rota.Date
	// Zones holds TZif data by the names of zones.
	Zones map[string][]byte
}

const (
	// maxArchiveFiles and maxArchiveFile bound the files of an archive, and each that is read.
	maxArchiveFiles = 10_000
	maxArchiveFile  = 1 << 20
)

var (
	// releaseIn finds the release in tzdata.zi, in +VERSION and in the Python package.
	releaseIn = map[string]*regexp.Regexp{"tzdata.zi": regexp.MustCompile(`^# version ([12]\d{3}[a-z]{1,3})\n`),
		"+VERSION":    regexp.MustCompile(`^([12]\d{3}[a-z]{1,3})\n?$`),
		"__init__.py": regexp.MustCompile(`(?m)^IANA_VERSION = "([12]\d{3}[a-z]{1,3})"$`)}
	// earliest is before every date that a packer of zip files means: those without one write 1980.
	earliest = rota.Date(315_705_600_000) // 1980-01-03
)

// ReadArchive reads a zip of zones: the wheel of the PyPI package tzdata, or a zoneinfo.zip such as that of Go.
// The files of the folders posix and right, and the file localtime, are left out.
func ReadArchive(r io.ReaderAt, size int64) (Archive, error) {
	a := Archive{Zones: make(map[string][]byte)}
	z, err := zip.NewReader(r, size)
	if err != nil {
		return a, refuseData(
			"got a file that is not a zip (%v), want a zoneinfo zip or the wheel of the PyPI package tzdata", err)
	}
	if len(z.File) > maxArchiveFiles {
		return a, refuseData("got %d files in the zip, maximum %d", len(z.File), maxArchiveFiles)
	}
	total := 0
	for _, f := range z.File {
		if f.FileInfo().IsDir() {
			continue
		}
		data, err := readMember(f)
		if err != nil {
			return a, err
		}
		if total += len(data); total > 2*maxUnpacked {
			return a, refuseData("got more than %d bytes in the zip", 2*maxUnpacked)
		}
		a.add(f, data)
	}
	if len(a.Zones) == 0 {
		return a, refuseData(
			"got a zip without TZif files, want a zoneinfo zip or the wheel of the PyPI package tzdata")
	}
	return a, nil
}

func readMember(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, refuseData("file %.80q of the zip: %v", f.Name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxArchiveFile+1))
	if err != nil || len(data) > maxArchiveFile {
		return nil, refuseData("file %.80q of the zip does not decompress to at most %d bytes", f.Name, maxArchiveFile)
	}
	return data, nil
}

// add keeps a file that is a zone, or that names the release.
func (a *Archive) add(f *zip.File, data []byte) {
	name := f.Name
	if _, below, found := strings.Cut("/"+name, "/zoneinfo/"); found {
		name = below
	}
	if !bytes.HasPrefix(data, []byte("TZif")) {
		if find := releaseIn[f.Name[strings.LastIndex(f.Name, "/")+1:]]; find != nil && a.Release == "" {
			if m := find.FindSubmatch(data); m != nil {
				a.Release = string(m[1])
			}
		}
		return
	}
	if strings.HasPrefix(name, "posix/") || strings.HasPrefix(name, "right/") || name == "localtime" ||
		name == "posixrules" {
		return
	}
	a.Zones[name] = data
	if d := rota.DateOf(f.Modified); d > earliest {
		a.Released = max(a.Released, d)
	}
}
