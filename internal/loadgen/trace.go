package loadgen

import (
	"context"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/flowfile"
)

// traceQueue is the queue that traces are replayed in.
const traceQueue rota.QueueName = "trace"

// TracePlan configures the replay of a job log: its speed-up, and the workers that share the machine's processors.
type TracePlan struct {
	Speedup float64
	Workers int
}

// Trace replays a job log.
func (l *Lab) Trace(ctx context.Context, plan TracePlan, log *flowfile.SWFLog) (*Report, error) {
	if err := l.EnsureQueues(ctx, traceQueue); err != nil {
		return nil, err
	}
	r := &replay{log: log, speedup: plan.Speedup}
	share := r.share(plan.Workers)
	l.Talk("%d jobs, machine of %d processors, %d workers of %d, about %s", len(log.Jobs), log.Machine(), plan.Workers,
		share, r.at(len(log.Jobs)-1).Round(time.Second))
	report, ledger, err := l.Run(ctx, Load{
		Kind: "trace", Jobs: len(log.Jobs), Patience: Patience + r.longest(),
		Workers: Workers{
			Queues: []rota.QueueName{traceQueue}, Count: plan.Workers, Slots: int(min(share, rota.MaxSlots)),
			CPUMilli: share * 1000,
			Handle:   Simulate,
		},
		At: r.at, Spec: r.spec, Producers: 16, Batch: 100,
	})
	if err != nil {
		return nil, err
	}
	report.Waits = r.waits(ledger)
	return report, nil
}

// replay is a log converted to jobs.
type replay struct {
	log     *flowfile.SWFLog
	speedup float64
}

// at returns when job i is due, from the start: the first at once.
func (r *replay) at(i int) time.Duration {
	return r.scaled(r.log.Jobs[i].Submit - r.log.Jobs[0].Submit)
}

func (r *replay) scaled(seconds int64) time.Duration {
	return time.Duration(float64(max(seconds, 0)) / r.speedup * float64(time.Second))
}

// spec returns the submission of job i.
func (r *replay) spec(i int, id rota.JobID) rota.JobSpec {
	j := &r.log.Jobs[i]
	s := rota.NewJobSpec("trace", nil)
	s.ID, s.Queue = id, traceQueue
	s.Tenant = rota.DefaultTenant
	if j.User >= 0 {
		s.Tenant = rota.TenantID(fmt.Sprintf("u%d", j.User))
	}
	if j.Queue >= 0 {
		s.Priority = int32(min(j.Queue, rota.MaxPriority))
	}
	s.CPUMilli = j.Processors() * 1000
	s.Simulate = r.scaled(j.Run)
	return s
}

// share returns one worker's processors of the machine.
func (r *replay) share(workers int) int64 {
	return max(r.log.Machine()/int64(workers), r.log.Largest())
}

// longest returns the longest run time of the replay.
func (r *replay) longest() time.Duration {
	most := int64(0)
	for i := range r.log.Jobs {
		most = max(most, r.log.Jobs[i].Run)
	}
	return r.scaled(most)
}

// sizeClasses divide jobs by processors, up to and including most.
var sizeClasses = []struct {
	name string
	most int64
}{{"serial", 1}, {"small", 8}, {"medium", 64}, {"large", 1 << 62}}

func sizeClass(processors int64) string {
	for _, c := range sizeClasses {
		if processors <= c.most {
			return c.name
		}
	}
	return ""
}

// ClassWait has the waits of the jobs of a class.
type ClassWait struct {
	Class     string  `json:"class"`
	Jobs      int     `json:"jobs"`
	WaitP50Ms float64 `json:"wait_p50_ms"`
	WaitP99Ms float64 `json:"wait_p99_ms"`
}

// waits calculates the waits of each class from the ledger; classes without jobs are left out.
func (r *replay) waits(ledger *Ledger) []ClassWait {
	var waits []ClassWait
	for _, c := range sizeClasses {
		spans := ledger.spans(planned, started, func(i int) bool {
			return sizeClass(r.log.Jobs[i].Processors()) == c.name
		})
		if len(spans) > 0 {
			waits = append(waits, ClassWait{c.name, len(spans), quantile(spans, 0.50), quantile(spans, 0.99)})
		}
	}
	return waits
}
