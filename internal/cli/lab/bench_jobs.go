package lab

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/loadgen"
)

// BenchJobsFlags are the flags of `bench jobs`.
type BenchJobsFlags struct{ loadgen.JobsPlan }

func (a BenchCommands) jobs() *cobra.Command {
	f := &BenchJobsFlags{loadgen.JobsPlan{Filling: loadgen.Filling{Jobs: 10_000, Producers: 16, Batch: 100,
		Queue: "bench"}}}
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "Measure submit to completion with handlers that do nothing",
		Long: `Measure submit to completion with handlers that do nothing.

With --rate the loop is open: job i is due at i/R from the start, its times count from then, and
jobs due together share a call. Without it each producer has one batch in flight, and times
count from the call. End to end ends when the cluster has confirmed the completion.

A refused job is sent again after the delay that the refusal names. Until then the client library
holds back such jobs without a call; they count as refused and as held back. Jobs take turns
among --queues and --tenants.

CPU time is user and system time of this process and of the servers.`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.Float64Var(&f.Rate, "rate", 0, "jobs a second, open loop (default: as fast as possible)")
	flags.IntVar(&f.Workers, "workers", 4, "workers, each with its own connection")
	flags.IntVar(&f.Slots, "slots", 64, "slots of each worker, and leases that wait there in addition")
	cli.DurationVar(flags, &f.Hold, "hold", 0, "how long a handler keeps its job")
	flags.BoolVar(&f.Drop, "drop", false, "drop jobs that admission rejects")
	flags.BoolVar(&f.Heedless, "heedless", false, "send jobs at once, even if the cluster asked to delay them")
	flags.StringSliceVar(&f.Admins, "admin", nil,
		"`host:port` of the servers' admin ports, separated by commas: their CPU time is counted")
	flags.StringVar(&f.Profile, "cpuprofile", "", "`file` for a CPU profile of this process, while it measures")
	fillingFlags(flags, &f.Filling)
	cli.Within(flags, 0, cli.MaxRate, "rate")
	cli.Within(flags, 1, cli.MaxBenchWorkers, "workers")
	cli.Within(flags, 1, rota.MaxSlots, "slots")
	cli.Within(flags, 0, rota.MaxDuration, "hold")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.Check(); err != nil {
			return err
		}
		return a.Does(a.measuring(func(ctx context.Context, lab *loadgen.Lab) error {
			r, err := lab.Jobs(ctx, &f.JobsPlan)
			if err != nil {
				return err
			}
			return a.print(r)
		}))(cmd, args)
	}
	return cmd
}

// fillingFlags are those that bench jobs and bench fill have in common; what f holds is
// their default.
func fillingFlags(flags *pflag.FlagSet, f *loadgen.Filling) {
	flags.IntVar(&f.Jobs, "jobs", f.Jobs, "number of jobs")
	flags.IntVar(&f.Producers, "producers", f.Producers, "maximum calls in flight")
	flags.IntVar(&f.Batch, "batch", f.Batch, "maximum jobs in a call")
	flags.IntVar(&f.Payload, "payload", 0, "`bytes` of payload in each job")
	flags.StringVar(&f.Queue, "queue", f.Queue, "`queue`; made with the standard preset where it is not there")
	flags.IntVar(&f.Queues, "queues", 1, "number of queues: --queue, and its name with -1, -2, …")
	flags.IntVar(&f.Tenants, "tenants", 1, "number of tenants: default, bench-1, bench-2, …")
	flags.IntVar(&f.Keys, "keys", 0,
		"give each job a unique key, and one of this number of keys with counted leases (default: none)")
	flags.BoolVar(&f.Costs, "costs", false,
		"give each job a cost, a weighted key and a budget, none of which delays it")
	cli.Within(flags, 1, cli.MaxBenchJobs, "jobs")
	cli.Within(flags, 1, cli.MaxBenchWorkers, "producers")
	cli.Within(flags, 1, limits.MaxBatchJobs, "batch")
	cli.Within(flags, 0, rota.MaxPayloadBytes, "payload")
	cli.Within(flags, 1, limits.MaxQueues, "queues")
	cli.Within(flags, 1, limits.MaxTenants, "tenants")
	cli.Within(flags, 0, limits.MaxKeyCounts, "keys")
}

// Check refuses numbers that do not fit together.
func (f *BenchJobsFlags) Check() error {
	if f.Queues > f.Workers*rota.MaxQueuesPerWorker {
		return cli.Usagef("--queues: got %d, but a worker serves at most %d, and there are %d", f.Queues,
			rota.MaxQueuesPerWorker, f.Workers)
	}
	return rota.CheckID("queue", f.Queue)
}
