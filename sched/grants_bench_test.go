package sched

import (
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// BenchmarkRound_grants decides 256 assignments of a million jobs by turns with 1,000 workers
// that may work for every tenant, and with the same ones of 100 principals that may work for
// ten tenants each; it reports the
// middle round of each, and what the grants add.
func BenchmarkRound_grants(b *testing.B) {
	const million = 1_000_000
	for _, c := range []struct {
		name string
		scene
	}{
		{"one class", scene{jobs: million, tenants: 1000, classes: 1, batch: 1, fair: true}},
		{"100 classes", scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true}},
		{"100 classes unfair", scene{jobs: million, tenants: 1000, classes: 100, batch: 1}},
		{"100 classes with cpu", scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true, cpu: true}},
		{"round robin", scene{jobs: million, tenants: 1000, classes: 100, batch: 1, fair: true, strategy: rota.StrategyRoundRobin}},
	} {
		b.Run(c.name, func(b *testing.B) {
			free, pending, _, p := c.build(b)
			c.principals = 100
			narrow, _, _ := c.supply()
			in := RoundInput{Queue: "q", Policy: p, Limit: 256, Now: 1_700_000_000_000}
			var took [2][]time.Duration
			for b.Loop() {
				in.Seed[0]++
				for i, s := range []*Supply{free, narrow} {
					began := time.Now()
					n := len(NewDraft(s, nil).Round(pending, in))
					took[i] = append(took[i], time.Since(began))
					if n != 256 {
						b.Fatal(n)
					}
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			middle := len(took[0]) / 2
			b.ReportMetric(float64(took[0][middle].Nanoseconds()), "ns/free")
			b.ReportMetric(float64(took[1][middle].Nanoseconds()), "ns/narrow")
			b.ReportMetric(100*(float64(took[1][middle])/float64(took[0][middle])-1), "%more")
		})
	}
}
