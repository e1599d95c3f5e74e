package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// fillTiers returns an adaptive queue with pending jobs over all tiers, 8 tenants and 5 types; free means that a worker
// has room for a batch of them.
func fillTiers(b *testing.B, pending int, priorities ...int32) *filled {
	b.Helper()
	m := fill(b, 0)
	m.entry(presetOp("default", "dfps", "queue_cap", "100000000"))
	for i := 0; i < pending; {
		var ops []*fsmpb.Op
		for ; i < pending && len(ops) < 1000; i++ {
			ops = append(ops, submitOp(benchJob(fmt.Sprintf("job-%08d", i), func(s *rota.JobSpec) {
				s.Tenant, s.Type = rota.TenantID(fmt.Sprint("t", i%8)), rota.JobType(fmt.Sprint("type", i%5))
				s.Priority, s.SizeBytes = priorities[i%len(priorities)], int64(i%1000)<<12
			})))
		}
		m.entry(ops...)
	}
	return m
}

// BenchmarkDecideAdaptive measures one round of 256 over a sample of an adaptive queue.
func BenchmarkDecideAdaptive(b *testing.B) {
	for _, n := range sizes {
		if n == 1_000_000 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprint("pending=", n), func(b *testing.B) {
			m := fillTiers(b, n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
			for i := range 16 {
				m.entry(registerOp(fmt.Sprint("w", i), 100, "s", false))
			}
			b.ReportAllocs()
			placed := 0
			for b.Loop() {
				placed = 0
				for _, r := range m.View.Decide(256) {
					placed += len(r.Pairs)
				}
			}
			if placed != 256 {
				b.Fatalf("%d placed", placed)
			}
		})
	}
}

// BenchmarkPromotions measures the promotion of 100,000 jobs that aged together; an operation is one of them.
func BenchmarkPromotions(b *testing.B) {
	m := fillTiers(b, 100_000, 9)
	b.ReportAllocs()
	b.ResetTimer()
	b.StopTimer()
	for done := 0; done < b.N; {
		for range 60 { // seconds: no job is promoted a fourth time
			m.now += 1_000
			m.entry()
		}
		if m.Timers.Promote.Len() == 0 {
			m = fillTiers(b, 100_000, 9)
			continue
		}
		sweep := m.seal(sweepOp())
		for more := true; more; {
			b.StartTimer()
			a := m.run(sweep)
			b.StopTimer()
			more = a.Sweep.More
			done += a.Sweep.Fired
		}
	}
}

// BenchmarkDecidePreempting looks for room for critical jobs among 10,000 workers full of preemptible leases.
func BenchmarkDecidePreempting(b *testing.B) {
	m := fill(b, 0)
	m.entry(queueOp("default", "queue_cap", "100000000", "preempt", "on", "oldest_every", "0"))
	const workers = 10_000
	for i := range workers {
		m.entry(registerOp(fmt.Sprint("w", i), 2, "s", false))
	}
	for i := 0; i < 2*workers; {
		var ops []*fsmpb.Op
		for ; i < 2*workers && len(ops) < 1000; i++ {
			ops = append(ops, submitOp(benchJob(fmt.Sprint("back", i), priority(9))))
		}
		m.entry(ops...)
	}
	for m.View.Waiting() {
		for _, r := range m.View.Decide(1000) {
			m.entry(&fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}})
		}
	}
	for i := range 100 {
		m.entry(submitOp(benchJob(fmt.Sprint("crit", i), priority(0))))
	}
	b.ReportAllocs()
	for b.Loop() {
		if r := m.View.Decide(1000); len(r) != 1 || len(r[0].Preempts) != limits.MaxPreemptions {
			b.Fatalf("%d rounds", len(r))
		}
	}
}
