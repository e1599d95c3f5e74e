package loadgen

import (
	"context"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/limits"
)

// Filling describes the jobs submitted: their number and payload size, spread in turn over queues and tenants.
type Filling struct {
	Jobs, Producers, Batch, Payload, Queues, Tenants int
	// Keys is the number of keys, of which each job has one, in addition to a unique key of its own; 0 gives none.
	Keys int
	// Costs gives each job a cost, a key whose rate it weighs, and a budget; its handler reports 1.
	Costs bool
	Queue string
}

// JobsPlan is a load of jobs whose handlers do nothing.
type JobsPlan struct {
	Filling
	Workers, Slots int
	// Rate is jobs a second in open loop; 0 submits as fast as possible.
	Rate           float64
	Hold           time.Duration
	Drop, Heedless bool
	Admins         []string
	Profile        string
}

// Jobs measures the time from submission to completion.
func (l *Lab) Jobs(ctx context.Context, plan *JobsPlan) (*Report, error) {
	queues := queueNames(plan.Queue, plan.Queues)
	if err := l.ready(ctx, &plan.Filling, queues); err != nil {
		return nil, err
	}
	load := Load{
		Kind: "bench", Jobs: plan.Jobs, Patience: Patience + plan.Hold,
		Workers: Workers{
			Queues: queues, Count: plan.Workers, Slots: plan.Slots, Prefetch: min(plan.Slots, rota.MaxPrefetch),
			Handle: func(ctx context.Context, job *client.Job) (client.Result, error) {
				if plan.Costs {
					_ = job.Spend(keyName, 1)
				}
				return hold(ctx, job, plan.Hold)
			},
		},
		Spec:      plan.specs(queues),
		Producers: plan.Producers, Batch: batchOf(plan.Batch, plan.Payload),
		Drop: plan.Drop, Heedless: plan.Heedless, Admins: plan.Admins, Profile: plan.Profile,
	}
	if plan.Rate > 0 {
		load.At = Steady(plan.Rate)
	}
	report, _, err := l.Run(ctx, load)
	return report, err
}

// Steady returns a schedule of rate jobs a second.
func Steady(rate float64) func(i int) time.Duration {
	return func(i int) time.Duration { return time.Duration(float64(i) / rate * float64(time.Second)) }
}

// batchOf keeps a call below the largest message.
func batchOf(batch, payload int) int {
	const perJob = 256 // ids, names and framing, generously
	return max(1, min(batch, limits.MaxMessageBytes/2/(payload+perJob)))
}

// specs sets the queue, tenant and key of each job in turn, and the same payload. Every pair of them occurs if their
// numbers have no common divisor.
func (f *Filling) specs(queues []rota.QueueName) func(i int, id rota.JobID) rota.JobSpec {
	payload := make([]byte, f.Payload)
	for i := range payload {
		payload[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[i%36]
	}
	return func(i int, id rota.JobID) rota.JobSpec {
		s := rota.NewJobSpec("bench", payload)
		s.ID, s.Queue, s.Tenant = id, queues[i%len(queues)], rota.DefaultTenant
		if t := i % f.Tenants; t > 0 {
			s.Tenant = rota.TenantID(fmt.Sprintf("bench-%d", t))
		}
		if f.Keys > 0 {
			s.Unique, s.Keys = &rota.Unique{Key: string(id)}, []string{fmt.Sprintf("%s:%d", keyName, i%f.Keys)}
		}
		if f.Costs {
			s.Keys = []string{fmt.Sprintf("%s:%d", keyName, i%max(f.Keys, 1))}
			s.Costs = rota.Costs{keyName: int64(2+i%20) * rota.CostUnit}
		}
		return s
	}
}
