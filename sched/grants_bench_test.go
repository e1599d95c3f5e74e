package sched

import (
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// BenchmarkRound_grants decides 256 assignments of a million jobs, alternately with 1,000 workers that may work for
// every tenant, and with the same workers of 100 principals that share the tenants. It reports the fastest round of
// each, and the cost of the grants.
func BenchmarkRound_grants(b *testing.B) {
	const million = 1_000_000
	for _, c := range []struct {
		name string
		scene
	}{
		{"100 tenants one class", scene{jobs: million, tenants: 100, classes: 1, batch: 1, fair: true}},
		{"100 tenants 100 classes", scene{jobs: million, tenants: 100, classes: 100, batch: 1, fair: true}},
		{"one class", scene{jobs: million, tenants: 1000, classes: 1, batch: 1, fair: true}},
		{"100 classes", scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true}},
		{"100 classes unfair", scene{jobs: million, tenants: 1000, classes: 100, batch: 1}},
		{"100 classes with cpu", scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true, cpu: true}},
		{"round robin", scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true,
			strategy: rota.StrategyRoundRobin}},
	} {
		b.Run(c.name, func(b *testing.B) {
			wide, pending, _, p := c.build(b)
			c.principals = 100
			narrow, _, _ := c.supply()
			in := RoundInput{Queue: "q", Policy: p, Limit: 256, Now: 1_700_000_000_000}
			var took [2][]time.Duration
			for b.Loop() {
				in.Seed[0]++
				for i, s := range []*Supply{wide, narrow} {
					began := time.Now()
					n := len(NewDraft(s, nil).Round(pending, in))
					took[i] = append(took[i], time.Since(began))
					if n != 256 {
						b.Fatal(n)
					}
				}
			}
			free, narrowed := slices.Min(took[0]), slices.Min(took[1]) // not slowed down by other processes
			b.ReportMetric(float64(free.Nanoseconds()), "ns/free")
			b.ReportMetric(float64(narrowed.Nanoseconds()), "ns/narrow")
			b.ReportMetric(100*(float64(narrowed)/float64(free)-1), "%more")
		})
	}
}
