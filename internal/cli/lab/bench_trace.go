package lab

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/flowfile"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/loadgen"
)

func (a BenchCommands) trace() *cobra.Command {
	plan, most := loadgen.TracePlan{}, 0
	cmd := &cobra.Command{
		Use:   "trace F.swf[.gz]",
		Short: "Replay a job log in the Standard Workload Format",
		Long: `Replay a job log in the Standard Workload Format, with submit times and run times divided by
--speedup. Fields of a job:

  tenant       u<user>, or default
  priority     the queue number, at most 10; 5 if unknown
  cpu_milli    1000 times the processors: allocated, else requested, else 1
  simulate_ms  the run time

The workers share the machine's processors (MaxProcs, else MaxNodes of the header, else the
largest job's); each has at least the largest job's.

Waits count from when a job was due to the start of its handler, by size: serial 1 processor,
small 2 to 8, medium 9 to 64, large more.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Float64Var(&plan.Speedup, "speedup", 1000, "speed relative to the log")
	cmd.Flags().IntVar(&most, "jobs", 0, "number of first jobs to replay (default: all)")
	cmd.Flags().IntVar(&plan.Workers, "workers", 4, "workers that share the machine's processors")
	cli.Within(cmd.Flags(), cli.LeastSpeedup, cli.MaxSpeedup, "speedup")
	cli.Within(cmd.Flags(), 0, cli.MaxBenchJobs, "jobs")
	cli.Within(cmd.Flags(), 1, cli.MaxBenchWorkers, "workers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		log, err := readTrace(args[0], most)
		if err != nil {
			return err
		}
		return a.Does(a.measuring(func(ctx context.Context, lab *loadgen.Lab) error {
			r, err := lab.Trace(ctx, plan, log)
			if err != nil {
				return err
			}
			return a.print(r)
		}))(cmd, args)
	}
	return cmd
}

// readTrace reads a job log.
func readTrace(path string, most int) (*flowfile.SWFLog, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, cli.Usagef("read trace: %w", err)
	}
	defer file.Close()
	log, err := flowfile.ReadSWF(file, most)
	if err != nil {
		return nil, cli.Failf("read trace %s: %w", path, err)
	}
	return log, nil
}

func waitColumns() []cli.Column[loadgen.ClassWait] {
	return []cli.Column[loadgen.ClassWait]{
		{Head: "CLASS", Cell: func(w loadgen.ClassWait) any { return w.Class }},
		{Head: "JOBS", Cell: func(w loadgen.ClassWait) any { return w.Jobs }},
		{Head: "WAIT P50 MS", Cell: func(w loadgen.ClassWait) any { return w.WaitP50Ms }},
		{Head: "WAIT P99 MS", Cell: func(w loadgen.ClassWait) any { return w.WaitP99Ms }},
	}
}

func (a BenchCommands) fill() *cobra.Command {
	f := &loadgen.Filling{Jobs: 100_000, Producers: 8, Batch: limits.MaxBatchJobs, Queue: "waiting"}
	cmd := &cobra.Command{
		Use:   "fill",
		Short: "Fill queues that no worker serves, for measurements with many pending jobs",
		Long: `Fill queues that no worker serves, for measurements with many pending jobs. It ends once admission
has refused for 20 s, mostly because of queue_cap or state_bytes_max.`,
		Args: cobra.NoArgs,
	}
	fillingFlags(cmd.Flags(), f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := rota.CheckID("queue", f.Queue); err != nil {
			return err
		}
		return a.Does(a.measuring(func(ctx context.Context, lab *loadgen.Lab) error {
			r, err := lab.Fill(ctx, f)
			if err != nil {
				return err
			}
			return a.printFill(r)
		}))(cmd, args)
	}
	return cmd
}

func (a BenchCommands) printFill(r *loadgen.FillReport) error {
	return a.PrintOne(r, nil, func(bool) string {
		return cli.RenderFacts([]cli.Fact{{Name: "jobs", Value: r.Jobs}, {Name: "accepted", Value: r.Accepted},
			{Name: "seconds", Value: r.Seconds},
			{Name: "jobs per second", Value: r.JobsPerS}, {Name: "submit ms, p50", Value: r.SubmitP50Ms},
			{Name: "submit ms, p99", Value: r.SubmitP99Ms}, {Name: "errors", Value: r.Errors}})
	})
}
