package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/loadgen"
)

func (a benchCommands) fill() *cobra.Command {
	f := &loadgen.Filling{Jobs: 100_000, Producers: 8, Batch: limits.MaxBatchJobs, Queue: "waiting"}
	cmd := &cobra.Command{
		Use:   "fill",
		Short: "Fill queues that nobody works on, for measurements beside many pending jobs",
		Args:  cobra.NoArgs,
	}
	fillingFlags(cmd.Flags(), f)
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

func (a benchCommands) printFill(r *loadgen.FillReport) error {
	a.jsonUnlessSet()
	return a.printOne(r, nil, func(bool) string {
		return renderFacts([]fact{{"jobs", r.Jobs}, {"accepted", r.Accepted}, {"seconds", r.Seconds},
			{"jobs per second", r.JobsPerS}, {"submit ms, p50", r.SubmitP50Ms}, {"submit ms, p99", r.SubmitP99Ms},
			{"errors", r.Errors}})
	})
}
