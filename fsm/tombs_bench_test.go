package fsm

import (
	"runtime"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// BenchmarkTombstones measures the cost of completed and archived jobs: memory, and the CPU time of one garbage
// collection.
func BenchmarkTombstones(b *testing.B) {
	const jobs = 300_000
	for range b.N {
		m := &filled{New(), b, startClock, 1}
		m.entry(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: "n",
			Random: make([]byte, 32), ClusterId: "bench", StartMs: startClock}}})
		m.entry(queueOp("default"))
		l := newLife(m)
		collect := func() (alive uint64, spent float64) {
			const times = 10
			runtime.GC()
			start := cpuTime(b)
			for range times {
				runtime.GC()
			}
			spent = float64((cpuTime(b) - start).Microseconds()) / times
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			return s.HeapAlloc, spent
		}
		alive, spent := collect()
		for l.n < jobs {
			m.run(l.submit())
			m.run(l.rounds())
			m.run(l.verbs(rota.VerbComplete))
			flushAll(m.Machine)
		}
		after, marking := collect()
		b.ReportMetric(float64(after-alive)/jobs, "B/tombstone")
		b.ReportMetric(marking-spent, "gc-us")
		b.ReportMetric(0, "ns/op")
		runtime.KeepAlive(m)
	}
}
