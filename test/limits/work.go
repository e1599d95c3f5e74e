package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// limits are those that every key has.
type limits struct {
	// Concurrency is the maximum number of calls at a time.
	Concurrency int
	// Rate is starts per second, Burst how many of them at once.
	Rate, Burst int
	// Units is units per minute, UnitsBurst how many of them at once.
	Units, UnitsBurst int
}

// standard is the limit that the page reports on.
var standard = limits{Concurrency: 3, Rate: 50, Burst: 50, Units: 100_000, UnitsBurst: 20_000}

// load is how much work a system gets.
type load struct {
	// keys is the number of keys, trickle how many jobs per second those without a backlog have together.
	keys    int
	trickle float64
	// shortKeys is the number of keys with short calls, ahead how many jobs each of them has waiting.
	shortKeys, ahead int
	limits           limits
}

// loadOf returns the load of a system.
func (o options) loadOf(s system) load {
	if s.load != nil {
		return *s.load
	}
	return load{keys: o.keys, trickle: 40, shortKeys: shapes[short].keys, ahead: shapes[short].ahead, limits: standard}
}

// hot returns the keys with a backlog of a load.
func (l load) hot(withHeld bool) map[string]kind {
	hot := hotKeys(withHeld)
	for i := l.shortKeys; i < shapes[short].keys; i++ {
		delete(hot, fmt.Sprintf("%s-%d", short, i))
	}
	return hot
}

// unitsPerS returns the rate of units in units per second.
func (l limits) unitsPerS() float64 { return float64(l.Units) / 60 }

// kind is the limit that holds the calls of a hot key back.
type kind string

const (
	// short calls are limited by starts per second, long ones by concurrency, costly ones by units.
	short  kind = "starts"
	long   kind = "concurrency"
	costly kind = "units"
	// held calls last longer than a lease. They exist only in runs that cut a worker off.
	held kind = "held"
	// cold keys get a trickle.
	cold kind = "cold"
)

// job is one call to make.
type job struct {
	ID  string `json:"id"`
	Key string `json:"key"`
	// Units is the estimate. The provider reports 70 to 100 % of it as spent.
	Units int `json:"units"`
	// Ms is how long the provider holds the call, in milliseconds.
	Ms int `json:"ms"`
}

// shape describes the calls of a kind of key: how many keys, and how many jobs wait ahead of the workers.
type shape struct {
	keys, ahead, units, ms int
}

var shapes = map[kind]shape{
	short:  {keys: 3, ahead: 250, units: 20, ms: 20},
	long:   {keys: 2, ahead: 12, units: 20, ms: 1500},
	costly: {keys: 2, ahead: 20, units: 500, ms: 200},
	held:   {keys: 4, ahead: 3, units: 20},
	cold:   {units: 20, ms: 20},
}

// hotKeys returns the keys with a backlog and their kinds.
func hotKeys(withHeld bool) map[string]kind {
	hot := make(map[string]kind)
	for _, k := range []kind{short, long, costly, held} {
		for i := range shapes[k].keys {
			if k != held || withHeld {
				hot[fmt.Sprintf("%s-%d", k, i)] = k
			}
		}
	}
	return hot
}

// keyNames returns all keys, hot ones first, in a fixed order.
func keyNames(n int) (names []string) {
	for _, k := range []kind{short, long, costly, held} {
		for i := range shapes[k].keys {
			names = append(names, fmt.Sprintf("%s-%d", k, i))
		}
	}
	for i := len(names); i < n; i++ {
		names = append(names, fmt.Sprintf("cold-%d", i))
	}
	return names
}

// feeder keeps a bounded number of jobs ahead of the calls of each hot key. Other keys get jobs at a fixed rate, and so
// do hot keys whose limit the system does not offer, as a backlog would not be held back by anything.
type feeder struct {
	load    load
	cold    []string
	has     map[kind]bool
	send    func(job)
	started func(key string) int
	fed     map[string]int
	due     map[string]float64
	last    time.Time
	random  *rand.Rand
}

// newFeeder returns a feeder. started returns how many jobs of a key have been called at least once.
func newFeeder(l load, has map[kind]bool, send func(job), started func(string) int) *feeder {
	names := keyNames(l.keys)
	return &feeder{load: l, cold: names[min(len(hotKeys(true)), len(names)):], has: has, send: send, started: started,
		fed: make(map[string]int), due: make(map[string]float64), last: time.Now(), random: rand.New(rand.NewPCG(1, 2))}
}

// fill tops the backlog of the given keys up.
func (f *feeder) fill(hot map[string]kind) {
	now := time.Now()
	passed := now.Sub(f.last).Seconds()
	f.last = now
	for key, k := range hot {
		s := shapes[k]
		if !f.has[k] {
			for f.due[key] += passed * f.load.limits.perSecond(k); f.due[key] >= 1; f.due[key]-- {
				f.add(key, s.units, s.ms)
			}
			continue
		}
		ahead := s.ahead
		if k == short {
			ahead = f.load.ahead
		}
		for f.fed[key]-f.started(key) < ahead {
			f.add(key, s.units, s.ms)
		}
	}
	for f.due[""] += passed * f.load.trickle; f.due[""] >= 1 && len(f.cold) > 0; f.due[""]-- {
		f.add(f.cold[f.random.IntN(len(f.cold))], shapes[cold].units, shapes[cold].ms)
	}
}

// perSecond returns how many jobs per second the limit of a hot key allows.
func (l limits) perSecond(k kind) float64 {
	switch k {
	case short:
		return float64(l.Rate)
	case long:
		return float64(l.Concurrency) * 1000 / float64(shapes[long].ms)
	default:
		return l.unitsPerS() / float64(shapes[costly].units)
	}
}

// hold adds the jobs of held keys once; each call lasts the given time.
func (f *feeder) hold(last time.Duration) {
	for key, k := range hotKeys(true) {
		for range shapes[k].ahead {
			if k == held {
				f.add(key, shapes[k].units, int(last.Milliseconds()))
			}
		}
	}
}

func (f *feeder) add(key string, units, ms int) {
	f.fed[key]++
	f.send(job{ID: fmt.Sprintf("%s.%d", key, f.fed[key]), Key: key, Units: units, Ms: ms})
}
