package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// filled is a machine with pending jobs of 256 bytes that no worker serves, over 8 tenants. It has no twin.
type filled struct {
	*Machine
	b   *testing.B
	now rota.Clock
	// rules is the version that entries are sealed with.
	rules uint32
}

func fill(b *testing.B, pending int) *filled {
	b.Helper()
	m := &filled{New(), b, startClock, entry.FirstRules}
	m.entry(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: "n", Random: make([]byte, 32),
		ClusterId: "bench", StartMs: startClock}}})
	m.entry(queueOp("default", "queue_cap", "100000000"), queueOp("backlog", "queue_cap", "100000000"))
	for i := 0; i < pending; {
		var ops []*fsmpb.Op
		for ; i < pending && len(ops) < 1000; i++ {
			ops = append(ops, submitOp(benchJob(fmt.Sprintf("backlog-%08d", i), func(s *rota.JobSpec) {
				s.Queue, s.Tenant = "backlog", rota.TenantID(fmt.Sprint("t", i%8))
			})))
		}
		m.entry(ops...)
	}
	return m
}

func benchJob(id string, change ...func(*rota.JobSpec)) *rota.JobSpec {
	return jobSpec(id, append(change, func(s *rota.JobSpec) { s.Payload = make([]byte, 256) })...)
}

func (m *filled) seal(ops ...*fsmpb.Op) []byte {
	data, err := entry.Seal(&fsmpb.Entry{Term: 1, NowMs: int64(m.now), Ops: ops}, m.rules)
	if err != nil {
		m.b.Fatal(err)
	}
	return data
}

func (m *filled) entry(ops ...*fsmpb.Op) Applied { return m.run(m.seal(ops...)) }

func (m *filled) run(data []byte) Applied {
	a, err := m.Apply(m.Header.Index+1, 1, data)
	if err != nil {
		m.b.Fatal(err)
	}
	for _, o := range a.Outcomes {
		if o.GetKind() != 0 {
			m.b.Fatal(o)
		}
	}
	return a
}

var sizes = []int{1_000, 1_000_000}

func each(b *testing.B, f func(b *testing.B, m *filled)) {
	for _, n := range sizes {
		if n > 1_000_000 || n == 1_000_000 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprint("pending=", n), func(b *testing.B) {
			m := fill(b, n)
			b.ResetTimer()
			f(b, m)
		})
	}
}

const batch = 100

// life is one batch of jobs through its four entries; it returns the sealed bytes to apply, made outside the
// measurement.
type life struct {
	m    *filled
	jobs []string
	n    int
	// change, if set, is applied to each job.
	change func(*rota.JobSpec)
}

func (l *life) submit() []byte {
	ops := make([]*fsmpb.Op, batch)
	l.jobs = l.jobs[:0]
	for i := range ops {
		l.n++
		id := fmt.Sprintf("job-%09d", l.n)
		l.jobs = append(l.jobs, id)
		ops[i] = submitOp(benchJob(id, func(s *rota.JobSpec) {
			if l.change != nil {
				l.change(s)
			}
		}))
	}
	return l.m.seal(ops...)
}

func (l *life) rounds() []byte {
	var ops []*fsmpb.Op
	for _, r := range l.m.View.Decide(1000) {
		ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}})
	}
	return l.m.seal(ops...)
}

func (l *life) verbs(v rota.LeaseVerb) []byte {
	ops := make([]*fsmpb.Op, batch)
	for i, id := range l.jobs {
		j, _ := l.m.View.Job(rota.JobID(id))
		if j.Lease == nil {
			l.m.b.Fatalf("job %s has no lease", id)
		}
		ops[i] = verb(v, *j.Lease)
	}
	return l.m.seal(ops...)
}

func newLife(m *filled) *life {
	for i := range 4 {
		m.entry(registerOp(fmt.Sprint("w", i), 100, "s", false))
	}
	return &life{m: m}
}

// BenchmarkLife measures the CPU of one job in Apply: submit, assign, ack, complete.
func BenchmarkLife(b *testing.B) {
	each(b, func(b *testing.B, m *filled) { measure(b, newLife(m), "submit", "round", "ack", "complete") })
}

func BenchmarkSubmit(b *testing.B) {
	each(b, func(b *testing.B, m *filled) { measure(b, newLife(m), "submit") })
}

func BenchmarkRoundApply(b *testing.B) {
	each(b, func(b *testing.B, m *filled) { measure(b, newLife(m), "round") })
}

func BenchmarkComplete(b *testing.B) {
	each(b, func(b *testing.B, m *filled) { measure(b, newLife(m), "complete") })
}

// measure runs whole lives and times only the named steps; an operation is one job.
func measure(b *testing.B, l *life, steps ...string) {
	b.ReportAllocs()
	b.StopTimer()
	timed := func(name string, data []byte) {
		for _, s := range steps {
			if s == name {
				b.StartTimer()
				l.m.run(data)
				b.StopTimer()
				return
			}
		}
		l.m.run(data)
	}
	for done := 0; done < b.N; done += batch {
		timed("submit", l.submit())
		timed("round", l.rounds())
		timed("ack", l.verbs(rota.VerbAck))
		timed("complete", l.verbs(rota.VerbComplete))
	}
}

// BenchmarkSweep measures one sweep that fires a thousand timers; an operation is one.
func BenchmarkSweep(b *testing.B) {
	each(b, func(b *testing.B, m *filled) {
		b.ReportAllocs()
		b.StopTimer()
		n := 0
		for done := 0; done < b.N; done += limits.MaxFiringsPerSweep {
			ops := make([]*fsmpb.Op, limits.MaxFiringsPerSweep)
			for i := range ops {
				n++
				ops[i] = submitOp(jobSpec(fmt.Sprint("s", n), func(s *rota.JobSpec) { s.Delay = time.Millisecond }))
			}
			m.entry(ops...)
			m.now += 10
			data := m.seal(sweepOp())
			b.StartTimer()
			a := m.run(data)
			b.StopTimer()
			if a.Sweep.Fired != limits.MaxFiringsPerSweep {
				b.Fatalf("fired %d", a.Sweep.Fired)
			}
		}
	})
}

// BenchmarkIdleSweep measures a sweep that finds nothing due.
func BenchmarkIdleSweep(b *testing.B) {
	each(b, func(b *testing.B, m *filled) {
		data := m.seal(sweepOp())
		for b.Loop() {
			m.run(data)
		}
	})
}

// BenchmarkFreeze must stay under 5 ms at a million jobs (RAFT §4.1); the
// entry after it pays for the copies.
func BenchmarkFreeze(b *testing.B) {
	each(b, func(b *testing.B, m *filled) {
		for b.Loop() {
			m.Freeze()
		}
	})
}

func BenchmarkSnapshotRecords(b *testing.B) {
	each(b, func(b *testing.B, m *filled) {
		f := m.Freeze()
		n := 0
		for b.Loop() {
			n = 0
			if err := f.Records(func(_ byte, rec []byte) error { n += len(rec); return nil }); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(n))
	})
}

func BenchmarkRestore(b *testing.B) {
	each(b, func(b *testing.B, m *filled) {
		for b.Loop() {
			if _, err := reload(m.Machine); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	each(b, func(b *testing.B, m *filled) {
		for b.Loop() {
			m.Check()
		}
	})
}

// BenchmarkSettle measures the digest of one entry that touched a job and its queue.
func BenchmarkSettle(b *testing.B) {
	m := fill(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		m.Ledger.Gen++
		m.JobTable.Edit("backlog-00000001")
		m.QueueTable.Edit("backlog")
		m.settleHeader()
		m.Ledger.Settle()
	}
}
