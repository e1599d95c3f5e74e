package fsm

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// BenchmarkReplay applies the log of jobs that were submitted, placed and completed, as every node of a busy cluster
// does; an operation is one job. It reports CPU time in addition to wall time, which a busy machine stretches; CPU time
// includes the garbage collector.
func BenchmarkReplay(b *testing.B) {
	log := replayLog(b)
	jobs := len(log) / 3 * batch
	b.ReportAllocs()
	b.ResetTimer()
	var spent time.Duration
	done := 0
	for done < b.N {
		m := New()
		runtime.GC()
		before := cpuTime(b)
		for i, data := range log {
			a, err := m.Apply(m.Header.Index+1, 1, data)
			if err != nil {
				b.Fatal(err)
			}
			m.Recycle(a.Events)
			if i%100 == 0 { // as the archive does
				var seqs []uint64
				for _, s := range m.View.Staged(1<<20, 1<<40) {
					seqs = append(seqs, s.Seq)
				}
				m.View.Archived(seqs)
			}
		}
		spent += cpuTime(b) - before
		done += jobs
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(done), "cpu-ns/job")
	b.ReportMetric(0, "ns/op")
}

// replayLog returns the log of 20,000 jobs in entries of a hundred, placed on four workers.
func replayLog(b *testing.B) (log [][]byte) {
	b.Helper()
	m := &filled{New(), b, startClock, 1}
	keep := func(ops ...*fsmpb.Op) {
		data := m.seal(ops...)
		m.run(data)
		log = append(log, data)
	}
	keep(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: "n", Random: make([]byte, 32),
		ClusterId: "bench", StartMs: startClock}}})
	keep(queueOp("default", "queue_cap", "100000000"))
	keep(registerOp("w0", 100, "s", false), registerOp("w1", 100, "s", false), registerOp("w2", 100, "s", false),
		registerOp("w3", 100, "s", false))
	l := &life{m: m}
	for range 200 {
		m.now += 10
		for _, step := range []func() []byte{l.submit, l.rounds, func() []byte { return l.verbs(rota.VerbComplete) }} {
			data := step()
			m.run(data)
			log = append(log, data)
		}
	}
	return log
}

// cpuTime returns the CPU time used by this process so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Skip(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
