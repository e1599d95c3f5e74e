package lab

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
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/foresight"
)

// simulation is what the flags of `rota simulate` say.
type simulation struct {
	policies                    []string
	starts, clean, estimate, by string
	workers, limits, report     string
	procs                       int64
	jobs                        int
}

const (
	// maxSimulatedProcs bounds the processors of a simulated machine, which are millicores of one worker.
	maxSimulatedProcs = 1_000_000
	// maxSimulatedJobs bounds the jobs of a log that is simulated whole, and so the memory that this takes.
	maxSimulatedJobs = 2_000_000
)

// SimulateCommand simulates a job log; it needs no cluster.
func SimulateCommand(a *cli.App) *cobra.Command {
	s := simulation{}
	cmd := &cobra.Command{
		Use:   "simulate TRACE",
		Short: "Simulate a job log under queue policies, without a cluster",
		Long: `Simulate a job log under queue policies, in virtual time. TRACE is one of:

  a job log in the Standard Workload Format, or gzip'd
  jobs as of rota job submit --file, with submit_ms and run_ms, or gzip'd
  .json: a WfCommons instance, run as a workflow
  .yaml: a load to draw

Jobs run on one worker with the processors of the load or of --procs, or on those of --workers.

A policy is a name and settings of a queue (rota queue set --help). It starts with ranking=fifo
and estimate=user, without fair share, turn of the oldest, hold, preemption or aging;
preset=NAME starts with a preset instead. Slowdowns are bounded: (wait + run) ÷ run, with runs
of at least 10 s.`,
		Example: `  rota simulate lublin_256.swf.gz --clean rls \
      --policy fifo:ranking=fifo --policy held:ranking=fifo,hold_after=1h --starts 1981,2756:1024`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringArrayVar(&s.policies, "policy", []string{"fifo:ranking=fifo", "standard:preset=standard"},
		"a `NAME:key=value,…` to simulate; may be repeated")
	f.Int64Var(&s.procs, "procs", 0, "processors of the machine (default: the load's)")
	f.StringVar(&s.workers, "workers", "",
		"a `FILE` of workers instead: {workers: [{id, count, slots, cpu_milli, memory_bytes, …}]}, YAML or JSON")
	f.StringVar(&s.limits, "limits", "",
		"a `FILE` of limits for the jobs' keys and costs: {keys: [{name, rate, unit, …}], budgets: [{name, unit, limit, …}]}, YAML or JSON")
	f.IntVar(&s.jobs, "jobs", 0, "number of first jobs to simulate (default: all)")
	f.StringVar(&s.starts, "starts", "",
		"`A,B,…:LEN`: simulate windows of LEN jobs from these jobs on, each on an idle machine")
	f.StringVar(&s.clean, "clean", string(foresight.CleanSWF), "how gaps of the log are filled: swf, rls or predictsim")
	f.StringVar(&s.estimate, "estimate", "",
		"run times that policies know by default: user (as requested), exact (as they were), last2, ema or quantile (learned)")
	f.StringVar(&s.by, "by", "policy", "rows of the table: policy, tenant or size (JSON has all three)")
	f.StringVar(&s.report, "report", "", "write a page with pictures to this `FILE`: HTML that needs no network")
	cli.Within(f, 0, maxSimulatedProcs, "procs")
	cli.Within(f, 0, maxSimulatedJobs, "jobs")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		plan, err := s.plan()
		if err != nil {
			return err
		}
		return a.Does(func(ctx context.Context, args []string) error { return s.run(ctx, a, plan, args[0]) })(cmd, args)
	}
	cmd.MarkFlagsMutuallyExclusive("procs", "workers")
	return cmd
}

func (s *simulation) run(ctx context.Context, a *cli.App, plan *foresight.Plan, path string) error {
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
	shown := a.Watch("jobs", int64(plan.Lives()), over.Load)
	results, err := foresight.Run(ctx, plan)
	if err == nil {
		over.Store(int64(plan.Lives()))
	}
	shown.Stop()
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
func simulationCut(ctx context.Context, a *cli.App, plan *foresight.Plan, results []foresight.Result) error {
	a.Talk("simulate: interrupted: %d of %d policies were finished", finished(results), len(plan.Policies))
	return cli.OutOfTime(ctx, ctx.Err())
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
		return nil, cli.Usagef("--estimate must be one of user, exact, last2, ema, quantile, got %q", s.estimate)
	}
	if !slices.Contains(foresight.Cleanings, s.clean) {
		return nil, cli.Usagef("--clean must be one of swf, rls, predictsim, got %q", s.clean)
	}
	if !slices.Contains([]string{"policy", "tenant", "size"}, s.by) {
		return nil, cli.Usagef("--by must be one of policy, tenant, size, got %q", s.by)
	}
	names := make(map[string]bool)
	for _, text := range s.policies {
		p, err := foresight.ParsePolicy(text, usual...)
		if err != nil {
			return nil, cli.Usagef("--policy: %w", err)
		}
		if names[p.Name] {
			return nil, cli.Usagef("--policy: two are named %s: give each its own name", p.Name)
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
		return nil, cli.Usagef("--starts: got %q; use A,B,…:LEN", s.starts)
	}
	plan.Length = n
	for word := range strings.SplitSeq(list, ",") {
		at, err := strconv.Atoi(word)
		if err != nil || at < 0 {
			return nil, cli.Usagef("--starts: got %q; use A,B,…:LEN", s.starts)
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

func (s *simulation) print(a *cli.App, results []foresight.Result, partial bool) error {
	if s.by != "policy" && (a.Output == "table" || a.Output == "wide") {
		return s.printGroups(a, results)
	}
	columns := simulationColumns()
	if len(results) > 0 && results[0].CriticalPathS > 0 {
		columns = append(columns, cli.Column[foresight.Result]{Head: "CRITICAL PATH S",
			Cell: func(r foresight.Result) any { return decimal(r.CriticalPathS, 0) }})
	}
	l := cli.Listing[foresight.Result]{Whole: simulated{results, partial}, Items: results,
		Name: func(r foresight.Result) string { return r.Name }, Columns: columns}
	return l.Print(a)
}

// simulatedGroup is the jobs of a tenant or of a size under a policy.
type simulatedGroup struct {
	policy string
	foresight.Group
}

func (s *simulation) printGroups(a *cli.App, results []foresight.Result) error {
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
	l := cli.Listing[simulatedGroup]{Items: groups, Columns: []cli.Column[simulatedGroup]{
		{Head: "POLICY", Cell: func(g simulatedGroup) any { return g.policy }},
		{Head: strings.ToUpper(s.by), Cell: func(g simulatedGroup) any { return g.Name }},
		{Head: "JOBS", Cell: func(g simulatedGroup) any { return g.Jobs }},
		{Head: "CPU HOURS", Cell: func(g simulatedGroup) any { return decimal(g.CPUHours, 1) }},
		{Head: "SLOWDOWN", Cell: func(g simulatedGroup) any { return decimal(g.BoundedSlowdown, 2) }},
		{Head: "WAIT MEAN S", Cell: func(g simulatedGroup) any { return decimal(g.WaitMeanS, 1) }},
		{Head: "WAIT P95 S", Cell: func(g simulatedGroup) any { return decimal(g.WaitP95S, 0) }},
		{Head: "WAIT MAX S", Cell: func(g simulatedGroup) any { return decimal(g.WaitMaxS, 0) }},
	}}
	return l.Print(a)
}

func decimal(x float64, decimals int) string { return strconv.FormatFloat(x, 'f', decimals, 64) }

func simulationColumns() []cli.Column[foresight.Result] {
	return []cli.Column[foresight.Result]{
		{Head: "POLICY", Cell: func(r foresight.Result) any {
			if r.Partial {
				return r.Name + " (partial)"
			}
			return r.Name
		}},
		{Head: "JOBS", Cell: func(r foresight.Result) any { return r.Jobs }},
		{Head: "SLOWDOWN", Cell: func(r foresight.Result) any { return decimal(r.BoundedSlowdown, 2) }},
		{Head: "SLOWDOWN P95", Wide: true, Cell: func(r foresight.Result) any { return decimal(r.SlowdownP95, 2) }},
		{Head: "WAIT MEAN S", Cell: func(r foresight.Result) any { return decimal(r.WaitMeanS, 1) }},
		{Head: "WAIT P50 S", Wide: true, Cell: func(r foresight.Result) any { return decimal(r.WaitMedianS, 0) }},
		{Head: "WAIT P95 S", Cell: func(r foresight.Result) any { return decimal(r.WaitP95S, 0) }},
		{Head: "WAIT P99 S", Wide: true, Cell: func(r foresight.Result) any { return decimal(r.WaitP99S, 0) }},
		{Head: "WAIT MAX S", Cell: func(r foresight.Result) any { return decimal(r.WaitMaxS, 0) }},
		{Head: "BOUND S", Cell: func(r foresight.Result) any {
			if r.Unbounded != "" {
				return "none"
			}
			return decimal(r.WaitBoundS, 0)
		}},
		{Head: "OF BOUND", Wide: true, Cell: func(r foresight.Result) any {
			if r.Unbounded != "" {
				return r.Unbounded
			}
			return decimal(100*r.WaitOfBound, 1) + " %"
		}},
		{Head: "REFUSED", Wide: true, Cell: func(r foresight.Result) any { return r.Refused }},
		{Head: "EXPIRED", Wide: true, Cell: func(r foresight.Result) any { return r.Expired }},
		{Head: "PREEMPTED", Wide: true, Cell: func(r foresight.Result) any { return r.Preempted }},
		{Head: "JAIN", Wide: true, Cell: func(r foresight.Result) any { return decimal(r.Fairness, 3) }},
		{Head: "UTILISATION", Cell: func(r foresight.Result) any { return decimal(r.Utilisation, 4) }},
		{Head: "MAKESPAN S", Cell: func(r foresight.Result) any { return decimal(r.MakespanS, 0) }},
		{Head: "JOBS A DAY", Wide: true, Cell: func(r foresight.Result) any { return decimal(r.ThroughputPerDay, 1) }},
	}
}
