package cron

import (
	"archive/zip"
	"bytes"
	_ "embed" // zoneinfo.zip
	"io"
	"sync"
	"time"

	"github.com/rotasched/rota"
)

// TZData is the release of the time zone database in zoneinfo.zip, which is a copy of the one
// that comes with Go (lib/time).
const TZData = "2025c"

//go:embed zoneinfo.zip
var zoneinfo []byte

// maxZone bounds the name of a zone; the longest has 32 bytes.
const maxZone = 64

// zones opens the zones of tzdata by name, each once.
var zones struct {
	sync.Mutex
	files  map[string]*zip.File
	opened map[string]*time.Location
}

// Zone returns a zone of tzdata by its name, such as Europe/Berlin; none is UTC.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	zones.Lock()
	defer zones.Unlock()
	if l := zones.opened[name]; l != nil {
		return l, nil
	}
	if zones.files == nil {
		if err := openZones(); err != nil {
			return nil, err
		}
	}
	f := zones.files[name]
	if f == nil || len(name) > maxZone {
		return nil, rota.Refusef(rota.KindInvalid, "tz", "tz %.80q is no time zone of tzdata %s: name one such as Europe/Berlin, or UTC", name, TZData)
	}
	l, err := load(f)
	if err != nil {
		return nil, err
	}
	zones.opened[name] = l
	return l, nil
}

func openZones() error {
	r, err := zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		return &rota.Error{Kind: rota.KindInternal, Subject: "tz", Text: "the embedded tzdata cannot be read", Cause: err}
	}
	zones.files, zones.opened = make(map[string]*zip.File, len(r.File)), make(map[string]*time.Location)
	for _, f := range r.File {
		if !f.FileInfo().IsDir() {
			zones.files[f.Name] = f
		}
	}
	return nil
}

func load(f *zip.File) (l *time.Location, err error) {
	r, err := f.Open()
	if err == nil {
		var b []byte
		if b, err = io.ReadAll(r); err == nil {
			l, err = time.LoadLocationFromTZData(f.Name, b)
		}
		_ = r.Close() // it is in memory
	}
	if err != nil {
		return nil, &rota.Error{Kind: rota.KindInternal, Subject: "tz", Text: "zone " + f.Name + " of the embedded tzdata cannot be read", Cause: err}
	}
	return l, nil
}
