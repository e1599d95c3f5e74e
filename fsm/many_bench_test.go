package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// BenchmarkMany measures a job's life with many queues, tenants or workers, compared with one of each: the cost of a
// job should not grow with them. It reports the steps separately; the leader's decisions are one of them. It excludes
// the network.
func BenchmarkMany(b *testing.B) {
	for _, c := range []struct {
		name                            string
		queues, tenants, workers, slots int
	}{
		{"one", 1, 1, 4, 50},
		{"queues=1000", 1000, 1, 4, 50},
		{"tenants=10000", 1, 10_000, 4, 50},
		{"workers=10000", 1, 1, 10_000, 2},
	} {
		b.Run(c.name, func(b *testing.B) {
			spent := map[string]time.Duration{}
			done := 0
			for done < b.N {
				b.StopTimer()
				l := newMany(b, c.queues, c.tenants, c.workers, c.slots)
				b.StartTimer()
				done += l.run(spent)
			}
			b.ReportMetric(0, "ns/op")
			for step, took := range spent {
				b.ReportMetric(float64(took.Nanoseconds())/float64(done), step+"-ns/job")
			}
		})
	}
}

// many is a backlog over many queues and tenants, with workers that each serve an equal part of the queues.
type many struct {
	*filled
	queues, tenants int
}

func newMany(b *testing.B, queues, tenants, workers, slots int) *many {
	l := &many{fill(b, 0), queues, tenants}
	var ops []*fsmpb.Op
	for i := range queues {
		ops = append(ops, queueOp(l.queue(i), "queue_cap", "100000000"))
	}
	l.entry(ops...)
	ops = nil
	for i := range workers {
		ops = append(ops, registerOp(fmt.Sprintf("worker-%d", i), int32(slots), "s", false, func(s *rota.WorkerSpec) {
			s.Queues = nil
			for q := i % queues; q < queues; q += min(workers, queues) {
				s.Queues = append(s.Queues, rota.QueueName(l.queue(q)))
			}
		}))
	}
	l.entry(ops...)
	return l
}

func (l *many) queue(i int) string { return fmt.Sprintf("queue-%d", i) }

// run submits, places and completes 20,000 jobs and returns their number.
func (l *many) run(spent map[string]time.Duration) int {
	const jobs, together = 20_000, 200
	step := func(name string, f func()) {
		before := cpuTime(l.b)
		f()
		spent[name] += cpuTime(l.b) - before
	}
	for n := 0; n < jobs; {
		ops := make([]*fsmpb.Op, together)
		for i := range ops {
			ops[i] = submitOp(benchJob(fmt.Sprintf("job-%09d", n), func(s *rota.JobSpec) {
				s.Queue, s.Tenant = rota.QueueName(l.queue(n%l.queues)), rota.TenantID(fmt.Sprintf("tenant-%d",
					n%l.tenants))
			}))
			n++
		}
		data := l.seal(ops...)
		l.now += 10
		step("submit", func() { l.filled.run(data) })
	}
	for placed := 0; placed < jobs; {
		var rounds []*fsmpb.Round
		l.now += 10
		step("decide", func() { rounds = l.View.Decide(1_024) })
		ops := make([]*fsmpb.Op, len(rounds))
		var leases []rota.LeaseID
		for i, r := range rounds {
			ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}}
		}
		data := l.seal(ops...)
		step("round", func() {
			for _, e := range l.filled.run(data).Events {
				if e.Kind == rota.EventJobAssigned {
					leases = append(leases, e.Lease)
				}
			}
		})
		placed += len(leases)
		ops = ops[:0]
		for _, id := range leases {
			a, _ := l.View.Assignment(id)
			ops = append(ops, verb(rota.VerbComplete, a.Lease))
		}
		data = l.seal(ops...)
		step("complete", func() { l.filled.run(data) })
		var seqs []uint64
		for _, s := range l.View.Staged(1<<20, 1<<40) { // as the archive does
			seqs = append(seqs, s.Seq)
		}
		l.View.Archived(seqs)
	}
	return jobs
}
