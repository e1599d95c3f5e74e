package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/loadgen"
)

func (a *app) benchFillCommand() *cobra.Command {
	f := &loadgen.Filling{}
	cmd := &cobra.Command{
		Use:   "fill",
		Short: "Fill queues that nobody works on, for measurements beside many pending jobs",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.IntVar(&f.Jobs, "jobs", 100_000, "how many jobs")
	flags.IntVar(&f.Producers, "producers", 8, "calls in flight at most")
	flags.IntVar(&f.Batch, "batch", rota.MaxBatchJobs, "jobs in a call at most")
	flags.IntVar(&f.Payload, "payload", 0, "`bytes` of payload in each job")
	flags.StringVar(&f.Queue, "queue", "waiting", "`queue`; made with the standard preset where it is not there")
	flags.IntVar(&f.Queues, "queues", 1, "so many queues: --queue, and that name with -1, -2 and so on behind it")
	flags.IntVar(&f.Tenants, "tenants", 1, "so many tenants: the default one, and bench-1, bench-2 and so on")
	boundBench(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := rota.CheckID("queue", f.Queue); err != nil {
			return err
		}
		return a.does(a.measuring(func(ctx context.Context, lab *loadgen.Lab) error {
			r, err := lab.Fill(ctx, f)
			if err != nil {
				return err
			}
			return a.printFill(r)
		}))(cmd, args)
	}
	return cmd
}

func (a *app) printFill(r *loadgen.FillReport) error {
	a.jsonUnlessSet()
	return a.printOne(r, nil, func(bool) string {
		return renderFacts([]fact{{"jobs", r.Jobs}, {"accepted", r.Accepted}, {"seconds", r.Seconds},
			{"jobs per second", r.JobsPerS}, {"submit ms, p50", r.SubmitP50Ms}, {"submit ms, p99", r.SubmitP99Ms},
			{"errors", r.Errors}})
	})
}
