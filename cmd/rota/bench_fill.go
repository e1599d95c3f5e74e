package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// fillFlags are the flags of `bench fill`.
type fillFlags struct {
	jobs, producers, batch, payload, queues, tenants int
	queue                                            string
}

// fillReport is what filling took.
type fillReport struct {
	Jobs        int     `json:"jobs"`
	Accepted    int64   `json:"accepted"`
	Seconds     float64 `json:"seconds"`
	JobsPerS    float64 `json:"jobs_per_s"`
	SubmitP50Ms float64 `json:"submit_p50_ms"`
	SubmitP99Ms float64 `json:"submit_p99_ms"`
	Errors      int64   `json:"errors"`
}

func (a *app) benchFillCommand() *cobra.Command {
	f := &fillFlags{}
	cmd := &cobra.Command{
		Use:   "fill",
		Short: "Fill queues that nobody works on, for measurements beside many pending jobs",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.IntVar(&f.jobs, "jobs", 100_000, "how many jobs")
	flags.IntVar(&f.producers, "producers", 8, "calls in flight at most")
	flags.IntVar(&f.batch, "batch", rota.MaxBatchJobs, "jobs in a call at most")
	flags.IntVar(&f.payload, "payload", 0, "`bytes` of payload in each job")
	flags.StringVar(&f.queue, "queue", "waiting", "`queue`; made with the standard preset where it is not there")
	flags.IntVar(&f.queues, "queues", 1, "so many queues: --queue, and that name with -1, -2 and so on behind it")
	flags.IntVar(&f.tenants, "tenants", 1, "so many tenants: the default one, and bench-1, bench-2 and so on")
	boundBench(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := rota.CheckID("queue", f.queue); err != nil {
			return err
		}
		return a.does(a.waiting(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.benchFill(ctx, c, f)
		}))(cmd, args)
	}
	return cmd
}

func (a *app) benchFill(ctx context.Context, c *client.Client, f *fillFlags) error {
	queues := benchQueues(f.queue, f.queues)
	if err := ensureQueues(ctx, c, queues); err != nil {
		return err
	}
	book := newLedger(newRun("fill"), f.jobs)
	p := &producers{to: c, book: book, count: f.producers, batch: batchOf(f.batch, f.payload),
		spec: benchSpecs(book, queues, f.tenants, f.payload)}
	book.begin = time.Now()
	show := a.watch("fill", int64(f.jobs), book.accepted.Load)
	err := p.run(ctx)
	show.stop()
	if err != nil {
		return err
	}
	took, submit := time.Since(book.begin).Seconds(), book.spans(planned, answered, nil)
	if !a.outputSet {
		a.output = "json"
	}
	r := &fillReport{Jobs: f.jobs, Accepted: book.accepted.Load(), Seconds: roundTo(took, 1000),
		JobsPerS:    roundTo(float64(book.accepted.Load())/took, 10),
		SubmitP50Ms: quantile(submit, 0.50), SubmitP99Ms: quantile(submit, 0.99), Errors: book.errors.Load()}
	return a.printOne(r, nil, func(bool) string {
		return renderFacts([]fact{{"jobs", r.Jobs}, {"accepted", r.Accepted}, {"seconds", r.Seconds},
			{"jobs per second", r.JobsPerS}, {"submit ms, p50", r.SubmitP50Ms}, {"submit ms, p99", r.SubmitP99Ms},
			{"errors", r.Errors}})
	})
}
