package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// benchFlags are the flags of `bench jobs`.
type benchFlags struct {
	jobs, producers, batch, workers, slots, payload int
	queues, tenants                                 int
	rate                                            float64
	queue                                           string
	hold                                            time.Duration
	drop, heedless                                  bool
	admins                                          []string
	profile                                         string
}

// benchPatience is how long nothing may be heard before open jobs count as
// lost: longer than a lease of the standard preset and a failover together.
const benchPatience = 3 * time.Minute

func (a *app) benchJobsCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "Measure submit to completion with handlers that do nothing",
		Long: `Measure submit to completion with handlers that do nothing.

With --rate the loop is open: job i is due at i/R from the start, and its times count
from then, however late earlier calls were answered; jobs that are due together go out
in one call. Without it each of the producers has one batch in flight, and times count
from the call. End to end ends when the cluster confirmed the completion.

A job that admission refused is sent again after the delay that the refusal names; with
--drop it is given up, so that the load does not slow down for a cluster that is asked
for too much. Until the delay that a refusal names has passed the client library refuses
such jobs itself, without a call; these are counted as refused and as held back.
--heedless has all of them sent, as a client would that reads no delays. Jobs take turns
among --queues and --tenants.

CPU time is what the operating system counts, user and system: of this process always,
of the servers where --admin names the admin ports of all of them.`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.IntVar(&f.jobs, "jobs", 10_000, "how many jobs")
	flags.Float64Var(&f.rate, "rate", 0, "jobs a second, open loop (default: as fast as it goes)")
	flags.IntVar(&f.producers, "producers", 16, "calls in flight at most")
	flags.IntVar(&f.batch, "batch", 100, "jobs in a call at most")
	flags.IntVar(&f.workers, "workers", 4, "workers, each with its own connection")
	flags.IntVar(&f.slots, "slots", 64, "slots of each worker, and as many leases waiting there")
	flags.IntVar(&f.payload, "payload", 0, "`bytes` of payload in each job")
	flags.StringVar(&f.queue, "queue", "bench", "`queue`; made with the standard preset where it is not there")
	flags.IntVar(&f.queues, "queues", 1, "so many queues: --queue, and that name with -1, -2 and so on behind it")
	flags.IntVar(&f.tenants, "tenants", 1, "so many tenants: the default one, and bench-1, bench-2 and so on")
	durationVar(flags, &f.hold, "hold", 0, "how long a handler keeps its job")
	flags.BoolVar(&f.drop, "drop", false, "give up what admission refuses")
	flags.BoolVar(&f.heedless, "heedless", false, "send what the cluster asked to come later with")
	flags.StringSliceVar(&f.admins, "admin", nil, "`host:port` of the servers' admin ports, parted by commas: their CPU time is counted")
	flags.StringVar(&f.profile, "cpuprofile", "", "`file` for a CPU profile of this process, while it measures")
	boundBench(flags)
	within(flags, 0, maxRate, "rate")
	within(flags, 1, maxBenchCrew, "workers")
	within(flags, 1, rota.MaxSlots, "slots")
	within(flags, 0, rota.MaxDuration, "hold")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return a.does(a.waiting(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.benchJobs(ctx, c, f)
		}))(cmd, args)
	}
	return cmd
}

// boundBench bounds the flags that bench jobs and bench fill have in common.
func boundBench(flags *pflag.FlagSet) {
	within(flags, 1, maxBenchJobs, "jobs")
	within(flags, 1, maxBenchCrew, "producers")
	within(flags, 1, rota.MaxBatchJobs, "batch")
	within(flags, 0, rota.MaxPayloadBytes, "payload")
	within(flags, 1, rota.MaxQueues, "queues")
	within(flags, 1, rota.MaxTenants, "tenants")
}

func (f *benchFlags) check() error {
	if f.queues > f.workers*rota.MaxQueuesPerWorker {
		return usagef("--queues %d is refused: a worker serves at most %d, and there are %d", f.queues,
			rota.MaxQueuesPerWorker, f.workers)
	}
	return rota.CheckID("queue", f.queue)
}

// batchOf keeps a call below the largest message.
func batchOf(batch, payload int) int {
	const perJob = 256 // ids, names and framing, generously
	return max(1, min(batch, rota.MaxMessageBytes/2/(payload+perJob)))
}

// benchQueues names so many queues.
func benchQueues(first string, n int) []rota.QueueName {
	names := []rota.QueueName{rota.QueueName(first)}
	for i := 1; i < n; i++ {
		names = append(names, rota.QueueName(fmt.Sprintf("%s-%d", first, i)))
	}
	return names
}

// benchSpecs gives each job its queue and tenant in turn, so that every pair of them
// comes where their numbers have no common divisor, and the same payload.
func benchSpecs(book *ledger, queues []rota.QueueName, tenants, bytes int) func(i int) rota.JobSpec {
	payload := make([]byte, bytes)
	for i := range payload {
		payload[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[i%36]
	}
	return func(i int) rota.JobSpec {
		s := rota.NewJobSpec("bench", payload)
		s.ID, s.Queue, s.Tenant = book.id(i), queues[i%len(queues)], rota.DefaultTenant
		if t := i % tenants; t > 0 {
			s.Tenant = rota.TenantID(fmt.Sprintf("bench-%d", t))
		}
		return s
	}
}

func (a *app) benchJobs(ctx context.Context, c *client.Client, f *benchFlags) error {
	queues := benchQueues(f.queue, f.queues)
	if err := ensureQueues(ctx, c, queues); err != nil {
		return err
	}
	run := newRun("bench")
	book := newLedger(run, f.jobs)
	crew, err := a.startCrew(ctx, crewPlan{
		run: run, queues: queues, workers: f.workers, slots: f.slots, prefetch: min(f.slots, rota.MaxPrefetch),
		handle: func(ctx context.Context, _ *client.Job) error { return pause(ctx, f.hold) },
	}, book)
	if err != nil {
		return err
	}
	defer crew.stop()
	if err := awaitWorkers(ctx, c, run, f.workers); err != nil {
		return err
	}
	b := &bench{a: a, c: c, book: book, patience: benchPatience + f.hold, meter: cpuMeter{a: a, admins: f.admins}}
	if f.heedless {
		if c, err = a.dialTo(a.addrs, client.WithoutRestraint()); err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
	}
	p := &producers{to: c, book: book, count: f.producers, batch: batchOf(f.batch, f.payload), drop: f.drop,
		spec: benchSpecs(book, queues, f.tenants, f.payload)}
	if f.rate > 0 {
		p.at = func(i int) time.Duration { return time.Duration(float64(i) / f.rate * float64(time.Second)) }
	}
	if b.before, err = b.meter.read(ctx); err != nil {
		return err
	}
	stop, err := profileCPU(f.profile)
	if err != nil {
		return err
	}
	book.begin = time.Now()
	show := a.watch("bench", int64(f.jobs), book.completed.Load)
	err = b.measure(ctx, p)
	show.stop()
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	crew.stop()
	return a.printBench(b.report())
}
