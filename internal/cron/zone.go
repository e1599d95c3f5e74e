package cron

import (
	_ "embed" // zones.bin
	"fmt"
	"sync"
	"time"

	"github.com/rotasched/rota"
)

// embedded holds the zones of the release that release_gen.go names, as Pack writes them.
//
//go:embed zones.bin
var embedded []byte

// StaleAfter is the age from which a release is reported as out of date: IANA publishes three to ten a year.
const StaleAfter = 183 * 24 * time.Hour

// Zones holds the time zones of one release of the IANA time zone database. It is safe for concurrent use.
type Zones struct {
	name     string
	released rota.Date
	zones    map[string]*time.Location
}

// Embedded returns the zones of the release in this binary.
var Embedded = sync.OnceValue(func() *Zones {
	z, err := Open(Release, released, embedded)
	if err != nil {
		panic("cron: the embedded time zone data: " +
			err.Error()) // zones.bin is part of the build, and TestEmbedded reads it
	}
	return z
})

// EmbeddedPacked returns the embedded zones as Pack wrote them. The caller must not change them.
func EmbeddedPacked() []byte { return embedded }

// Open reads the zones that Pack wrote, and parses each of them. Name is the one that Name returns.
func Open(name string, released rota.Date, packed []byte) (*Zones, error) {
	files, err := unpack(packed)
	if err != nil {
		return nil, err
	}
	z := &Zones{name: name, released: released, zones: make(map[string]*time.Location, len(files))}
	for zone, data := range files {
		if z.zones[zone], err = time.LoadLocationFromTZData(zone, data); err != nil {
			return nil, refuseData("zone %q: %v; use a zoneinfo zip or the PyPI package tzdata", zone, err)
		}
	}
	return z, nil
}

// Name returns the name of the zones in the log: the release, such as 2026f, and for an installed one its hash.
func (z *Zones) Name() string { return z.name }

// Released returns the date of the release.
func (z *Zones) Released() rota.Date { return z.released }

// Stale returns how old the release is at a date, and whether it should be replaced.
func (z *Zones) Stale(now rota.Date) (age time.Duration, stale bool) {
	age = time.Duration(now-z.released) * time.Millisecond
	return age, age > StaleAfter
}

// Len returns the number of zones, aliases included.
func (z *Zones) Len() int { return len(z.zones) }

// Zone returns a zone by its name, such as Europe/Berlin; the empty name is UTC.
func (z *Zones) Zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if l := z.zones[name]; l != nil {
		return l, nil
	}
	return nil, rota.Refusef(rota.KindInvalid, "tz",
		"tz: got %.80q, want a time zone of release %s; use a name such as Europe/Berlin, or UTC", name, z.name)
}

func refuseData(format string, args ...any) error {
	return rota.Refusef(rota.KindInvalid, "tzdata", "tzdata: %s", fmt.Sprintf(format, args...))
}
