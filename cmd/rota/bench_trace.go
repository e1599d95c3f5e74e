package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/flowfile"
)

// traceQueue is the queue that traces are replayed in.
const traceQueue rota.QueueName = "trace"

// traceFlags are the flags of `bench trace`.
type traceFlags struct {
	speedup       float64
	jobs, workers int
}

func (a *app) benchTraceCommand() *cobra.Command {
	f := &traceFlags{}
	cmd := &cobra.Command{
		Use:   "trace F.swf[.gz]",
		Short: "Replay a job log in the Standard Workload Format",
		Long: `Replay a job log in the Standard Workload Format, submit times and run times divided by
--speedup. A job's user u becomes the tenant u<user> (default where unknown), its queue
number the priority (cut at 10; 5 where unknown), its processors (allocated, else
requested, else 1) times 1000 its cpu_milli, its run time its simulate_ms. The machine's
processors (MaxProcs, else MaxNodes of the header, else the largest job's) are parted
among the workers, at least the largest job's each.

Waits run from the moment a job was due to be submitted to the start of its handler, by
class of size: serial 1 processor, small 2 to 8, medium 9 to 64, large more.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Float64Var(&f.speedup, "speedup", 1000, "how much faster than it was")
	cmd.Flags().IntVar(&f.jobs, "jobs", 0, "replay only so many of the first jobs (default: all)")
	cmd.Flags().IntVar(&f.workers, "workers", 4, "workers that share the machine's processors")
	within(cmd.Flags(), leastSpeedup, maxSpeedup, "speedup")
	within(cmd.Flags(), 0, maxBenchJobs, "jobs")
	within(cmd.Flags(), 1, maxBenchCrew, "workers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		log, err := readTrace(args[0], f.jobs)
		if err != nil {
			return err
		}
		return a.does(a.waiting(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.benchTrace(ctx, c, f, log)
		}))(cmd, args)
	}
	return cmd
}

// readTrace reads a job log.
func readTrace(path string, most int) (*flowfile.SWFLog, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, usagef("read trace: %w", err)
	}
	defer file.Close()
	log, err := flowfile.ReadSWF(file, most)
	if err != nil {
		return nil, failf("read trace %s: %w", path, err)
	}
	return log, nil
}

// replay is a log turned into jobs.
type replay struct {
	log     *flowfile.SWFLog
	speedup float64
}

// at is when job i is due, from the start: the first at once.
func (r *replay) at(i int) time.Duration {
	return r.scaled(r.log.Jobs[i].Submit - r.log.Jobs[0].Submit)
}

func (r *replay) scaled(seconds int64) time.Duration {
	return time.Duration(float64(max(seconds, 0)) / r.speedup * float64(time.Second))
}

// spec is job i as it is submitted.
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
	s.SimulateMs = r.scaled(j.Run).Milliseconds()
	return s
}

// share gives one worker's processors of the machine.
func (r *replay) share(workers int) int64 {
	return max(r.log.Machine()/int64(workers), r.log.Largest())
}

// longest is the longest run time of the replay.
func (r *replay) longest() time.Duration {
	most := int64(0)
	for i := range r.log.Jobs {
		most = max(most, r.log.Jobs[i].Run)
	}
	return r.scaled(most)
}

// sizeClasses part jobs by processors, up to and including most.
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

// classWait tells how long the jobs of a class waited.
type classWait struct {
	Class     string  `json:"class"`
	Jobs      int     `json:"jobs"`
	WaitP50Ms float64 `json:"wait_p50_ms"`
	WaitP99Ms float64 `json:"wait_p99_ms"`
}

func waitColumns() []column[classWait] {
	return []column[classWait]{
		{"CLASS", false, 0, func(w classWait) any { return w.Class }},
		{"JOBS", false, 0, func(w classWait) any { return w.Jobs }},
		{"WAIT P50 MS", false, 0, func(w classWait) any { return w.WaitP50Ms }},
		{"WAIT P99 MS", false, 0, func(w classWait) any { return w.WaitP99Ms }},
	}
}

// waits reads the waits per class off the account; classes without jobs are
// left out.
func (r *replay) waits(book *ledger) []classWait {
	var waits []classWait
	for _, c := range sizeClasses {
		spans := book.spans(planned, started, func(i int) bool {
			return sizeClass(r.log.Jobs[i].Processors()) == c.name
		})
		if len(spans) > 0 {
			waits = append(waits, classWait{c.name, len(spans), quantile(spans, 0.50), quantile(spans, 0.99)})
		}
	}
	return waits
}

func (a *app) benchTrace(ctx context.Context, c *client.Client, f *traceFlags, log *flowfile.SWFLog) error {
	if err := ensureQueue(ctx, c, traceQueue); err != nil {
		return err
	}
	r := &replay{log: log, speedup: f.speedup}
	run := newRun("trace")
	book := newLedger(run, len(log.Jobs))
	share := r.share(f.workers)
	a.talk("%d jobs, machine of %d processors, %d workers of %d, about %s", len(log.Jobs), log.Machine(),
		f.workers,
		share, r.at(len(log.Jobs)-1).Round(time.Second))
	crew, err := a.startCrew(ctx, crewPlan{
		run: run, queues: []rota.QueueName{traceQueue}, workers: f.workers, slots: int(min(share,
			rota.MaxSlots)), cpuMilli: share * 1000,
		handle: func(ctx context.Context, j *client.Job) error { return simulate(ctx, j) },
	}, book)
	if err != nil {
		return err
	}
	defer crew.stop()
	if err := awaitWorkers(ctx, c, run, f.workers); err != nil {
		return err
	}
	b := &bench{a: a, c: c, book: book, patience: benchPatience + r.longest()}
	p := &producers{to: c, book: book, count: 16, batch: 100, at: r.at,
		spec: func(i int) rota.JobSpec { return r.spec(i, book.id(i)) }}
	book.begin = time.Now()
	show := a.watch("trace", int64(len(log.Jobs)), book.completed.Load)
	err = b.measure(ctx, p)
	show.stop()
	if err != nil {
		return err
	}
	crew.stop()
	report := b.report()
	report.Waits = r.waits(book)
	return a.printBench(report)
}
