package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/foresight"
)

// simulation is what the flags of `rota simulate` say.
type simulation struct {
	policies                    []string
	starts, clean, estimate, by string
	workers, report             string
	procs                       int64
	jobs                        int
}

const (
	// maxSimulatedProcs bounds the processors of a simulated machine, which are millicores of one worker.
	maxSimulatedProcs = 1_000_000
	// maxSimulatedJobs bounds the jobs of a log that is simulated whole, and so the memory that this takes.
	maxSimulatedJobs = 2_000_000
)

// simulateCommand simulates a job log; it needs no cluster.
func simulateCommand(a *app) *cobra.Command {
	s := simulation{}
	cmd := &cobra.Command{
		Use:   "simulate TRACE",
		Short: "Simulate a job log under queue policies, without a cluster",
		Long: `Simulate a load under one policy or several: the code that decides in a cluster decides here, in virtual
time. TRACE is a job log in the Standard Workload Format; jobs one JSON object a line, as rota job submit --file takes
them, with submit_ms and run_ms; either may be gzip'd; with the ending .json, a WfCommons instance, which runs as a
workflow; or, with the ending .yaml, a load to draw. They run on one worker
with the processors that the load names, on one with --procs, or on those of --workers.

A policy is a name and settings of a queue (rota queue set --help). It begins bare: ranking=fifo, estimate=user, and no fair
share, turn of the oldest, hold, preemption or aging; preset=NAME begins with a preset instead. Slowdowns are
bounded: (wait + run) ÷ run, with runs of 10 s at least.`,
		Example: `  rota simulate lublin_256.swf.gz --clean rls \
      --policy fifo:ranking=fifo --policy held:ranking=fifo,hold_after=1h --starts 1981,2756:1024`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringArrayVar(&s.policies, "policy", []string{"fifo:ranking=fifo", "standard:preset=standard"}, "a `NAME:key=value,…` to simulate; may be repeated")
	f.Int64Var(&s.procs, "procs", 0, "processors of the machine (default: the load's)")
	f.StringVar(&s.workers, "workers", "", "a `FILE` of workers instead: {workers: [{id, count, slots, cpu_milli, memory_bytes, …}]}, YAML or JSON")
	f.IntVar(&s.jobs, "jobs", 0, "simulate only so many of the first jobs (default: all)")
	f.StringVar(&s.starts, "starts", "", "`A,B,…:LEN`: simulate windows of LEN jobs from these jobs on, each on an idle machine")
	f.StringVar(&s.clean, "clean", string(foresight.CleanSWF), "how gaps of the log are filled: swf, rls or predictsim")
	f.StringVar(&s.estimate, "estimate", "", "what policies that do not say otherwise know of run times: user (what was asked for), exact (what they were), last2, ema or quantile (learned)")
	f.StringVar(&s.by, "by", "policy", "what the table's lines are: policy, tenant or size (JSON has all three)")
	f.StringVar(&s.report, "report", "", "write a page with pictures to this `FILE`: HTML that needs no network")
	within(f, 0, maxSimulatedProcs, "procs")
	within(f, 0, maxSimulatedJobs, "jobs")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		plan, err := s.plan()
		if err != nil {
			return err
		}
		return a.does(func(ctx context.Context, args []string) error { return s.run(ctx, a, plan, args[0]) })(cmd, args)
	}
	cmd.MarkFlagsMutuallyExclusive("procs", "workers")
	return cmd
}

func (s *simulation) run(ctx context.Context, a *app, plan *foresight.Plan, path string) error {
	err := s.load(ctx, a, plan, path)
	if errors.Is(err, context.Canceled) {
		if err := s.print(a, []foresight.Result{}, true); err != nil {
			return err
		}
		return simulationCut(ctx, a, plan, nil)
	}
	if err != nil {
		return err
	}
	page, err := s.page(plan, path)
	if err != nil {
		return err
	}
	var over atomic.Int64
	plan.Progress = func(jobs int) { over.Store(int64(jobs)) }
	shown := a.watch("jobs", int64(plan.Lives()), over.Load)
	results, err := foresight.Run(ctx, plan)
	if err == nil {
		over.Store(int64(plan.Lives()))
	}
	shown.stop()
	partial := err != nil && errors.Is(err, context.Canceled)
	if err != nil && !partial {
		if s.report != "" { // it was made here
			_ = os.Remove(s.report)
		}
		return fmt.Errorf("simulate: %w", err)
	}
	if err := s.print(a, results, partial); err != nil {
		return err
	}
	if err := page(results, partial); err != nil || !partial {
		return err
	}
	return simulationCut(ctx, a, plan, results)
}

// simulationCut says how far a simulation came that was interrupted.
func simulationCut(ctx context.Context, a *app, plan *foresight.Plan, results []foresight.Result) error {
	a.talk("simulate: interrupted: %d of %d policies were finished", finished(results), len(plan.Policies))
	return outOfTime(ctx, ctx.Err())
}

// finished counts the policies that were not interrupted.
func finished(results []foresight.Result) (n int) {
	for i := range results {
		if !results[i].Partial {
			n++
		}
	}
	return n
}

// plan reads the flags.
func (s *simulation) plan() (*foresight.Plan, error) {
	plan := &foresight.Plan{Exact: s.estimate == "exact"}
	var usual []rota.Setting
	switch s.estimate {
	case "", "exact":
	case "user", "last2", "ema", "quantile":
		usual = []rota.Setting{{Key: "estimate", Value: s.estimate}}
	default:
		return nil, usagef("--estimate %q is refused: user, exact, last2, ema or quantile is wanted", s.estimate)
	}
	if !slices.Contains(foresight.Cleanings, s.clean) {
		return nil, usagef("--clean %q is refused: swf, rls or predictsim is wanted", s.clean)
	}
	if !slices.Contains([]string{"policy", "tenant", "size"}, s.by) {
		return nil, usagef("--by %q is refused: policy, tenant or size is wanted", s.by)
	}
	names := make(map[string]bool)
	for _, text := range s.policies {
		p, err := foresight.ParsePolicy(text, usual...)
		if err != nil {
			return nil, usagef("--policy: %w", err)
		}
		if names[p.Name] {
			return nil, usagef("--policy: two are named %s: give each its own name", p.Name)
		}
		names[p.Name] = true
		plan.Policies = append(plan.Policies, p)
	}
	if s.starts == "" {
		return plan, nil
	}
	list, length, ok := strings.Cut(s.starts, ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 1 {
		return nil, usagef("--starts %q is refused: A,B,…:LEN is wanted", s.starts)
	}
	plan.Length = n
	for word := range strings.SplitSeq(list, ",") {
		at, err := strconv.Atoi(word)
		if err != nil || at < 0 {
			return nil, usagef("--starts %q is refused: A,B,…:LEN is wanted", s.starts)
		}
		plan.Starts = append(plan.Starts, at)
	}
	return plan, nil
}

// simulated is the JSON of a simulation.
type simulated struct {
	Policies []foresight.Result `json:"policies"`
	Partial  bool               `json:"partial,omitempty"`
}

func (s *simulation) print(a *app, results []foresight.Result, partial bool) error {
	if s.by != "policy" && (a.output == "table" || a.output == "wide") {
		return s.printGroups(a, results)
	}
	columns := simulationColumns()
	if len(results) > 0 && results[0].CriticalPathS > 0 {
		columns = append(columns, column[foresight.Result]{"CRITICAL PATH S", false, 0, func(r foresight.Result) any { return decimal(r.CriticalPathS, 0) }})
	}
	l := listing[foresight.Result]{whole: simulated{results, partial}, items: results,
		name: func(r foresight.Result) string { return r.Name }, columns: columns}
	return l.print(a)
}

// simulatedGroup is the jobs of a tenant or of a size under a policy.
type simulatedGroup struct {
	policy string
	foresight.Group
}

func (s *simulation) printGroups(a *app, results []foresight.Result) error {
	groups := []simulatedGroup{}
	for i := range results {
		of := results[i].Tenants
		if s.by == "size" {
			of = results[i].Sizes
		}
		for _, g := range of {
			groups = append(groups, simulatedGroup{results[i].Name, g})
		}
	}
	l := listing[simulatedGroup]{items: groups, columns: []column[simulatedGroup]{
		{"POLICY", false, 0, func(g simulatedGroup) any { return g.policy }},
		{strings.ToUpper(s.by), false, 0, func(g simulatedGroup) any { return g.Name }},
		{"JOBS", false, 0, func(g simulatedGroup) any { return g.Jobs }},
		{"CPU HOURS", false, 0, func(g simulatedGroup) any { return decimal(g.CPUHours, 1) }},
		{"SLOWDOWN", false, 0, func(g simulatedGroup) any { return decimal(g.BoundedSlowdown, 2) }},
		{"WAIT MEAN S", false, 0, func(g simulatedGroup) any { return decimal(g.WaitMeanS, 1) }},
		{"WAIT P95 S", false, 0, func(g simulatedGroup) any { return decimal(g.WaitP95S, 0) }},
		{"WAIT MAX S", false, 0, func(g simulatedGroup) any { return decimal(g.WaitMaxS, 0) }},
	}}
	return l.print(a)
}

func decimal(x float64, decimals int) string { return strconv.FormatFloat(x, 'f', decimals, 64) }

func simulationColumns() []column[foresight.Result] {
	return []column[foresight.Result]{
		{"POLICY", false, 0, func(r foresight.Result) any {
			if r.Partial {
				return r.Name + " (partial)"
			}
			return r.Name
		}},
		{"JOBS", false, 0, func(r foresight.Result) any { return r.Jobs }},
		{"SLOWDOWN", false, 0, func(r foresight.Result) any { return decimal(r.BoundedSlowdown, 2) }},
		{"SLOWDOWN P95", true, 0, func(r foresight.Result) any { return decimal(r.SlowdownP95, 2) }},
		{"WAIT MEAN S", false, 0, func(r foresight.Result) any { return decimal(r.WaitMeanS, 1) }},
		{"WAIT P50 S", true, 0, func(r foresight.Result) any { return decimal(r.WaitMedianS, 0) }},
		{"WAIT P95 S", false, 0, func(r foresight.Result) any { return decimal(r.WaitP95S, 0) }},
		{"WAIT P99 S", true, 0, func(r foresight.Result) any { return decimal(r.WaitP99S, 0) }},
		{"WAIT MAX S", false, 0, func(r foresight.Result) any { return decimal(r.WaitMaxS, 0) }},
		{"BOUND S", false, 0, func(r foresight.Result) any {
			if r.Unbounded != "" {
				return "none"
			}
			return decimal(r.WaitBoundS, 0)
		}},
		{"OF BOUND", true, 0, func(r foresight.Result) any {
			if r.Unbounded != "" {
				return r.Unbounded
			}
			return decimal(100*r.WaitOfBound, 1) + " %"
		}},
		{"EXPIRED", true, 0, func(r foresight.Result) any { return r.Expired }},
		{"PREEMPTED", true, 0, func(r foresight.Result) any { return r.Preempted }},
		{"JAIN", true, 0, func(r foresight.Result) any { return decimal(r.Fairness, 3) }},
		{"UTILISATION", false, 0, func(r foresight.Result) any { return decimal(r.Utilisation, 4) }},
		{"MAKESPAN S", false, 0, func(r foresight.Result) any { return decimal(r.MakespanS, 0) }},
		{"JOBS A DAY", true, 0, func(r foresight.Result) any { return decimal(r.ThroughputPerDay, 1) }},
	}
}
