package zones

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/cron"
)

// InForce identifies the time zones by which a state's dates are calculated, and holds their data. The zero value
// is the release in this binary.
type InForce struct {
	rota.TZData
	packed []byte
}

// Of returns the time zones of a state (SPEC §17.7).
func Of(s *fsm.View) (z InForce) {
	z.TZData, z.packed, _ = fsm.InstalledTZData(s)
	return z
}

// Installed returns the name of the installed time zones, as a Backfill records it, or "" if none are installed.
func (z *InForce) Installed() string {
	if z.packed == nil {
		return ""
	}
	return z.Name()
}

// New returns the zones of a replica; wall returns the time of the wall clock.
func New(rp *replica.Replica, wall func() time.Time) *Zones {
	return &Zones{rp: rp, wall: wall}
}

// Zones opens time zones, and keeps the last ones that it opened.
type Zones struct {
	rp   *replica.Replica
	wall func() time.Time

	mu   sync.Mutex
	name string
	last *cron.Zones
}

// Open returns the zones in force. It fails if this binary cannot read them because it is older than the one that
// packed them.
func (zd *Zones) Open(z InForce) (*cron.Zones, error) {
	if z.packed == nil {
		return cron.Embedded(), nil
	}
	zd.mu.Lock()
	defer zd.mu.Unlock()
	name := z.Name()
	if zd.name == name {
		return zd.last, nil
	}
	opened, err := cron.Open(name, z.Released, z.packed)
	if err == nil {
		zd.name, zd.last = name, opened
	}
	return opened, err
}

// Now returns the zones in force.
func (zd *Zones) Now() (*cron.Zones, error) {
	var z InForce
	zd.rp.Look(func(s *fsm.View) { z = Of(s) })
	return zd.Open(z)
}

// Report returns the release in force, with index 0 if it is the one in this binary.
func (z *InForce) Report() *rota.TZData {
	if z.packed != nil {
		return &z.TZData
	}
	sum := sha256.Sum256(cron.EmbeddedPacked())
	return &rota.TZData{Release: cron.Release, Released: cron.Embedded().Released(), SHA256: sum[:],
		Bytes: int64(len(cron.EmbeddedPacked()))}
}

// Used counts the active schedules in each time zone other than UTC.
func Used(s *fsm.View) map[string]int {
	used := make(map[string]int)
	for _, x := range fsm.ActiveOf(s) {
		if x.Times.TZ != "" {
			used[x.Times.TZ]++
		}
	}
	return used
}

// zonesShown bounds the zones that are named.
const zonesShown = 10

// Problems lists the zones of active schedules that this node cannot calculate with, each with the number of
// schedules, and time zones that are out of date where an active schedule uses any.
func (zd *Zones) Problems() (problems []string) {
	var z InForce
	var used map[string]int
	if !zd.rp.Peek(func(s *fsm.View) { z, used = Of(s), Used(s) }) || len(used) == 0 {
		return nil
	}
	zones, err := zd.Open(z)
	if err != nil {
		return []string{fmt.Sprintf(
			"this binary cannot read the installed time zone data %s: while this node leads, no schedule in a time "+
				"zone fires. Run a newer rota here (%v)", z.Name(), err)}
	}
	lacks := slices.DeleteFunc(slices.Sorted(maps.Keys(used)), func(zone string) bool {
		_, err := zones.Zone(zone)
		return err == nil
	})
	for _, zone := range lacks[:min(len(lacks), zonesShown)] {
		problems = append(problems,
			fmt.Sprintf("%d active schedules are in time zone %.80q, which the time zone data %s of this node lacks. "+
				"None of them fires while this node leads: install newer data (rota tzdata install), or run a newer "+
				"rota here",
				used[zone], zone, zones.Name()))
	}
	now := z.Report()
	if age, stale := zones.Stale(rota.DateOf(zd.wall())); stale {
		problems = append(problems,
			fmt.Sprintf("the time zone data, release %s, is %d days old: dates of schedules may be wrong where rules "+
				"of daylight saving time have changed. Install a newer release (rota tzdata install)", now.Release,
				int(age.Hours())/24))
	}
	if z.packed != nil && cron.Release > z.Release {
		problems = append(problems,
			fmt.Sprintf("the time zone data %s is in force, and this binary has the newer release %s: put it into force with "+
				"`rota tzdata install`", z.Name(), cron.Release))
	}
	return problems
}

// Collectors returns the metric of the time zones' age.
func (zd *Zones) Collectors() []prometheus.Collector {
	return []prometheus.Collector{&zoneAge{zd, prometheus.NewDesc("rota_tzdata_age_seconds",
		"Age of the time zone data that calculates dates, by its release. A release older than half a year should be replaced.",
		[]string{"release"}, nil)}}
}

// zoneAge reports the age of the time zones in force, read at each scrape.
type zoneAge struct {
	zd   *Zones
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (g *zoneAge) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

// Collect implements prometheus.Collector.
func (g *zoneAge) Collect(to chan<- prometheus.Metric) {
	var z InForce
	if !g.zd.rp.Peek(func(s *fsm.View) { z = Of(s) }) {
		return
	}
	now := z.Report()
	to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue,
		float64(rota.DateOf(g.zd.wall())-now.Released)/1000, now.Release)
}
