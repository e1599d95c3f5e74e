package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

func (a *app) benchCommand() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "bench",
		Short: "Measure a running cluster",
		Long: `Measure a running cluster. Submitters and workers run in this process; what was lost or
done twice is counted from what they were told, and the cluster is asked about every
job that is unaccounted for. The result is JSON unless -o says otherwise.`,
	}, a.benchJobsCommand(), a.benchFillCommand(), a.benchTraceCommand(), a.benchWorkflowCommand())
}

// benchReport is the result of a measurement.
type benchReport struct {
	Jobs        int     `json:"jobs"`
	Seconds     float64 `json:"seconds"`
	JobsPerS    float64 `json:"jobs_per_s"`
	E2EP50Ms    float64 `json:"e2e_p50_ms"`
	E2EP99Ms    float64 `json:"e2e_p99_ms"`
	SubmitP50Ms float64 `json:"submit_p50_ms"`
	SubmitP99Ms float64 `json:"submit_p99_ms"`
	Lost        int64   `json:"lost"`
	Duplicated  int64   `json:"duplicated"`
	Errors      int64   `json:"errors"`

	// Refused is how often admission refused a job, RefusedHintless how often without
	// a delay after which to try again, RefusedHeld how often the client library did
	// so by itself until a delay had passed. Reruns are handlers beyond a job's first.
	Refused         int64 `json:"refused"`
	RefusedHeld     int64 `json:"refused_held"`
	RefusedHintless int64 `json:"refused_hintless"`
	Reruns          int64 `json:"reruns"`
	// Overlaps are the part of Duplicated that ran at two workers at once.
	Overlaps  int64 `json:"overlaps"`
	Accepted  int64 `json:"accepted"`
	Completed int64 `json:"completed"`
	// CompletedUnseen of Completed were confirmed by asking the cluster only:
	// the worker lost the answer.
	CompletedUnseen int64   `json:"completed_unseen"`
	SubmitSeconds   float64 `json:"submit_seconds"`
	E2EP999Ms       float64 `json:"e2e_p999_ms"`
	E2EMaxMs        float64 `json:"e2e_max_ms"`
	// ProcessCPUUs is the CPU of this process (submitters, workers) for a job.
	ProcessCPUUs float64 `json:"process_cpu_us_per_job"`
	// ServersCPUUs is that of the servers, CPUUs of both together; nil where --admin
	// did not name the servers.
	ServersCPUUs *float64 `json:"servers_cpu_us_per_job,omitempty"`
	CPUUs        *float64 `json:"cpu_us_per_job,omitempty"`

	Waits []classWait `json:"waits,omitempty"`
}

// bench is one measurement being made.
type bench struct {
	a    *app
	c    *client.Client
	book *ledger
	// patience ends the wait for jobs of which nothing was heard for so long.
	patience time.Duration

	submitted time.Duration
	meter     cpuMeter
	// before was read before the schedule began: asking servers takes a while.
	before cpuReading
	cpu    cpuReading
	unseen int64
	lost   int64
}

// newRun names one measurement: ids of two runs never meet.
func newRun(kind string) string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return kind + "-" + hex.EncodeToString(b[:])
}

// ensureQueue makes the queue with the standard preset where it is not there.
func ensureQueue(ctx context.Context, c *client.Client, name rota.QueueName) error {
	_, _, err := c.Queue(ctx, name, rota.ReadOptions{})
	if rota.KindOf(err) == rota.NotFound {
		_, err = c.SetQueue(ctx, name, "standard", nil)
	}
	return err
}

// ensureQueues makes all queues that are not there, several at a time.
func ensureQueues(ctx context.Context, c *client.Client, names []rota.QueueName) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askAtOnce)
	for _, name := range names {
		group.Go(func() error { return ensureQueue(ctx, c, name) })
	}
	return group.Wait()
}

// measure submits all jobs and waits until the cluster is through with them.
func (b *bench) measure(ctx context.Context, p *producers) error {
	before := b.before
	if before == (cpuReading{}) {
		before.here = processCPU()
	}
	if err := p.run(ctx); err != nil {
		return err
	}
	b.submitted = time.Since(b.book.begin)
	if err := b.drain(ctx); err != nil {
		return err
	}
	after, err := b.meter.read(ctx)
	b.cpu = cpuReading{after.here - before.here, after.servers - before.servers}
	return err
}

const (
	// drainTick is how often the account is looked at while the rest runs.
	drainTick = 20 * time.Millisecond
	// askAfter without progress the cluster is asked about what is open.
	askAfter  = 5 * time.Second
	askMost   = 1_000
	askAtOnce = 16
)

// drain waits until every accepted job is accounted for. When nothing was heard
// for a while the cluster is asked; after b.patience the rest is lost.
func (b *bench) drain(ctx context.Context) error {
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	seen, heard, asked := b.book.completed.Load(), time.Now(), time.Now()
	for b.book.completed.Load() < b.book.accepted.Load()-b.lost {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if n := b.book.completed.Load(); n != seen {
			seen, heard = n, time.Now()
			continue
		}
		if time.Since(heard) > askAfter && time.Since(asked) > askAfter {
			if err := b.ask(ctx); err != nil {
				b.a.talk("asking for open jobs: %v", err)
				b.book.errors.Add(1)
			}
			asked = time.Now()
		}
		if time.Since(heard) > b.patience {
			b.lost += int64(len(b.book.open(0))) - b.lost
			b.a.talk("gave up after %s without any completion: %d jobs are open", b.patience, b.lost)
			return nil
		}
	}
	return nil
}

// ask asks the cluster about jobs that are open in the account.
func (b *bench) ask(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(askAtOnce)
	open := b.book.open(askMost)
	gone := make([]bool, len(open))
	unseen := make([]bool, len(open))
	for k, i := range open {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
			defer cancel()
			job, _, err := b.c.Job(ctx, b.book.id(i), rota.ReadOptions{})
			switch {
			case rota.KindOf(err) == rota.NotFound:
				gone[k] = true
				return nil
			case err != nil:
				return err
			}
			gone[k] = job.State.Terminal() && job.State != rota.Completed
			unseen[k] = job.State == rota.Completed
			return nil
		})
	}
	err := group.Wait()
	b.lost = 0
	for k, i := range open {
		if gone[k] {
			b.lost++
		}
		if unseen[k] && b.book.settle(i) {
			b.unseen++
		}
	}
	return err
}

// report reads the result off the account.
func (b *bench) report() *benchReport {
	book := b.book
	e2e := book.spans(planned, finished, nil)
	submit := book.spans(planned, answered, nil)
	seconds := book.last().Seconds()
	done := book.completed.Load()
	perJob := func(cpu time.Duration) float64 { return roundTo(float64(cpu.Microseconds())/float64(max(done, 1)), 10) }
	r := &benchReport{
		Jobs: len(book.jobs), Seconds: roundTo(seconds, 1000), JobsPerS: roundTo(float64(done)/seconds, 10),
		E2EP50Ms: quantile(e2e, 0.50), E2EP99Ms: quantile(e2e, 0.99),
		E2EP999Ms: quantile(e2e, 0.999), E2EMaxMs: quantile(e2e, 1),
		SubmitP50Ms: quantile(submit, 0.50), SubmitP99Ms: quantile(submit, 0.99),
		Lost: book.accepted.Load() - done, Duplicated: book.duplicated(), Overlaps: book.overlaps.Load(),
		Refused: book.refused.Load(), RefusedHeld: book.held.Load(), RefusedHintless: book.hintless.Load(), Reruns: book.reruns.Load(),
		Errors: book.errors.Load(), Accepted: book.accepted.Load(), Completed: done, CompletedUnseen: b.unseen,
		SubmitSeconds: roundTo(b.submitted.Seconds(), 1000),
		ProcessCPUUs:  perJob(b.cpu.here),
	}
	if len(b.meter.admins) > 0 {
		servers, both := perJob(b.cpu.servers), perJob(b.cpu.here+b.cpu.servers)
		r.ServersCPUUs, r.CPUUs = &servers, &both
	}
	return r
}

// printBench prints the result: JSON unless -o was given. It fails where a job
// was lost or done twice.
func (a *app) printBench(r *benchReport) error {
	if !a.outputSet {
		a.output = "json"
	}
	err := a.printOne(r, nil, func(wide bool) string {
		facts := []fact{
			{"jobs", r.Jobs}, {"seconds", r.Seconds}, {"jobs per second", r.JobsPerS},
			{"end to end ms, p50", r.E2EP50Ms}, {"end to end ms, p99", r.E2EP99Ms},
			{"submit ms, p50", r.SubmitP50Ms}, {"submit ms, p99", r.SubmitP99Ms},
			{"lost", r.Lost}, {"duplicated", r.Duplicated}, {"errors", r.Errors},
			{"refused", r.Refused}, {"refused by the client until a delay had passed", r.RefusedHeld},
			{"refused without a delay", r.RefusedHintless}, {"handlers beyond a job's first", r.Reruns},
			{"CPU us per job, here", r.ProcessCPUUs},
		}
		if r.ServersCPUUs != nil {
			facts = append(facts, fact{"CPU us per job, servers", *r.ServersCPUUs}, fact{"CPU us per job, both", *r.CPUUs})
		}
		text := renderFacts(facts)
		if len(r.Waits) > 0 {
			text += "\n" + renderList(waitColumns(), r.Waits, wide)
		}
		return text
	})
	if err != nil {
		return err
	}
	if r.Lost > 0 || r.Duplicated > 0 {
		return failf("%d jobs were lost and %d done twice, %d of these at two workers at once; %d handlers ran beyond a job's first",
			r.Lost, r.Duplicated, r.Overlaps, r.Reruns)
	}
	return nil
}
