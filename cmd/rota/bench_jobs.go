package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// benchFlags are the flags of `bench jobs`.
type benchFlags struct {
	jobs, producers, batch, workers, slots, payload int
	rate                                            float64
	queue                                           string
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
from the call. End to end ends when the cluster confirmed the completion.`,
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

func (f *benchFlags) check() error {
	if err := atLeastOne("jobs", f.jobs, "producers", f.producers, "batch", f.batch, "workers", f.workers,
		"slots", f.slots); err != nil {
		return err
	}
	if f.batch > rota.MaxBatchJobs {
		return usagef("--batch %d is refused: at most %d", f.batch, rota.MaxBatchJobs)
	}
	if f.slots > rota.MaxSlots {
		return usagef("--slots %d is refused: at most %d", f.slots, rota.MaxSlots)
	}
	if f.payload < 0 || f.payload > rota.MaxPayloadBytes {
		return usagef("--payload %d is refused: 0 to %d", f.payload, rota.MaxPayloadBytes)
	}
	if f.rate < 0 {
		return usagef("--rate %g is refused: 0 or more", f.rate)
	}
	return rota.CheckID("queue", f.queue)
}

// batchOf keeps a call below the largest message.
func (f *benchFlags) batchOf() int {
	const perJob = 256 // ids, names and framing, generously
	return max(1, min(f.batch, rota.MaxMessageBytes/2/(f.payload+perJob)))
}

func (a *app) benchJobs(ctx context.Context, c *client.Client, f *benchFlags) error {
	queue := rota.QueueName(f.queue)
	if err := ensureQueue(ctx, c, queue); err != nil {
		return err
	}
	run := newRun("bench")
	book := newLedger(run, f.jobs)
	crew, err := a.startCrew(ctx, crewPlan{
		run: run, queue: queue, workers: f.workers, slots: f.slots, prefetch: min(f.slots, rota.MaxPrefetch),
		handle: func(context.Context, *client.Job) error { return nil },
	}, book)
	if err != nil {
		return err
	}
	defer crew.stop()
	if err := awaitWorkers(ctx, c, run, f.workers); err != nil {
		return err
	}
	payload := make([]byte, f.payload)
	for i := range payload {
		payload[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[i%36]
	}
	b := &bench{a: a, c: c, book: book, patience: benchPatience}
	p := &producers{to: c, book: book, count: f.producers, batch: f.batchOf(),
		spec: func(i int) rota.JobSpec {
			s := rota.NewJobSpec("bench", payload)
			s.ID, s.Queue, s.Tenant = book.id(i), queue, rota.DefaultTenant
			return s
		}}
	if f.rate > 0 {
		p.at = func(i int) time.Duration { return time.Duration(float64(i) / f.rate * float64(time.Second)) }
	}
	book.begin = time.Now()
	show := a.watch("bench", int64(f.jobs), book.completed.Load)
	err = b.measure(ctx, p)
	show.stop()
	if err != nil {
		return err
	}
	crew.stop()
	return a.printBench(b.report())
}
