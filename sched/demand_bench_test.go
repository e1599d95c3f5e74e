package sched

import (
	"fmt"
	"math"
	"testing"

	"github.com/rotasched/rota"
)

// evenCaps returns the same number for every tenant, domain and key.
type evenCaps int64

func (c evenCaps) Tenant(rota.TenantID) int64                 { return int64(c) }
func (c evenCaps) Window(rota.QueueName, rota.TenantID) int64 { return math.MaxInt64 }
func (evenCaps) Amount(string) Amount                         { return Amount{Left: math.MaxInt64} }
func (evenCaps) Weight(string, *Item) int64                   { return 1 }
func (evenCaps) Key(string) int64                             { return math.MaxInt64 }

func (c evenCaps) Domain(rota.QueueName, string) int64 { return math.MaxInt64 }

// BenchmarkRoundOfTiers decides 256 assignments of an adaptive queue with 1,000
// workers.
func BenchmarkRoundOfTiers(b *testing.B) {
	const million = 1_000_000
	for _, c := range []struct {
		name string
		scene
	}{
		{"one tenant one class", scene{jobs: million, tenants: 1, classes: 1}},
		{"1000 tenants 100 classes", scene{jobs: million, tenants: 1000, classes: 100}},
		{"99 percent blocked", scene{jobs: million, tenants: 1000, classes: 100, blocked: 99}},
		{"interleaved", scene{jobs: million, tenants: 1000, classes: 100, interleave: true}},
	} {
		c.tiered, c.mixed, c.batch, c.strategy = true, true, 1, rota.StrategyShuffle
		s, pending, items, p := c.build(b)
		b.Run(c.name, func(b *testing.B) {
			in := RoundInput{Interleave: c.interleave, Policy: p, Limit: 256, Now: 1_700_000_600_000, Stats: someStats}
			b.ReportAllocs()
			for b.Loop() {
				in.Seed[0]++
				if n := len(NewDraft(s, nil).Round(pending, in)); n != 256 {
					b.Fatal(n)
				}
			}
		})
		b.Run(c.name+", one out one in", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i = (i + 1) % len(items) {
				it := *items[i]
				pending.Remove(items[i])
				if it.TierPlace != nil {
					place := *it.TierPlace
					place.TierAt += rota.Clock(len(items))
					it.TierPlace = &place
				}
				items[i] = &it
				pending.Add(items[i])
			}
		})
	}
}

// BenchmarkCaps decides a round with caps that bound nothing, and with caps that shut every tenant after one
// assignment.
func BenchmarkCaps(b *testing.B) {
	for _, tenants := range []int{1, 1000} {
		s, pending, _, p := scene{jobs: 1_000_000, tenants: tenants, classes: 100, batch: 1, fair: true}.build(b)
		for _, c := range []struct {
			name string
			caps Caps
		}{{"none", nil}, {"endless", evenCaps(math.MaxInt64)}, {"one each", evenCaps(1)}} {
			b.Run(fmt.Sprintf("%d tenants, %s", tenants, c.name), func(b *testing.B) {
				in := RoundInput{Policy: p, Limit: 256, Now: 1_700_000_000_000}
				b.ReportAllocs()
				for b.Loop() {
					in.Seed[0]++
					NewDraft(s, c.caps).Round(pending, in)
				}
			})
		}
	}
}

// BenchmarkPlaces measures, among 1,000,000 jobs in 10,000 lanes, the number of jobs before one, the search for the
// first critical job, and holding the low ones.
func BenchmarkPlaces(b *testing.B) {
	for _, c := range []struct {
		name string
		scene
	}{{"fair", scene{fair: true}}, {"unfair", scene{}}, {"tiered", scene{tiered: true}}} {
		c.jobs, c.tenants, c.classes, c.batch, c.mixed = 1_000_000, 100, 34, 1, true
		_, pending, items, _ := c.build(b)
		name := fmt.Sprintf("%s %d lanes", c.name, pending.Lanes())
		b.Run(name+" before", func(b *testing.B) {
			for i := 0; b.Loop(); i = (i + 7919) % len(items) {
				pending.Before(items[i])
			}
		})
		b.Run(name+" critical", func(b *testing.B) {
			for b.Loop() {
				pending.Critical(func(*Item) bool { return false })
			}
		})
		b.Run(name+" hold and free", func(b *testing.B) {
			for b.Loop() {
				pending.HoldLow(LowHeld)
				pending.HoldLow(LowFree)
			}
		})
	}
}
