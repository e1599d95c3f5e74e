package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/flowfile"
)

// flowBenchFlags are the flags of `bench workflow`.
type flowBenchFlags struct {
	format         string
	timeScale      float64
	bound          time.Duration
	workers, slots int
	strategies     []string
	markdown       bool
}

func (a *app) benchWorkflowCommand() *cobra.Command {
	f := &flowBenchFlags{}
	cmd := &cobra.Command{
		Use:   "workflow F…",
		Short: "Measure how long workflows take, against what no scheduler could beat",
		Long: `Run workflows one after another, each with each --strategy and with workers of its own,
and compare the makespan, submission to end by the cluster clock, with lower bounds: the
critical path (the longest chain of runtimes) and the area (all runtimes over all slots, or
processors, whichever is more). Ratio is the makespan over the greater of the two. List is
what a list schedule of the same slots takes that costs nothing: ready nodes first come,
first served.

Of a file the graph is taken, the types, runtimes, cores and data keys; nothing else that
nodes ask for. A worker has a core for each slot. All runtimes are scaled so that the
greater bound is --bound, or by --time-scale. Each strategy has a queue of its own, preset
dag, bench-STRATEGY. The result is JSON unless -o or --markdown says otherwise.`,
		Example: `  rota bench workflow montage.json --strategy affinity,least_loaded -o table
  rota bench workflow instances/*.json --workers 8 --slots 4 --markdown`,
		Args: cobra.MinimumNArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "", "`format` of the files, rota or wfcommons (default: by their content)")
	flags.Float64Var(&f.timeScale, "time-scale", 0, "`factor` on all runtimes (default: what --bound takes)")
	durationVar(flags, &f.bound, "bound", 10*time.Second, "scale runtimes so that no schedule is shorter")
	flags.IntVar(&f.workers, "workers", 4, "workers, each with its own connection")
	flags.IntVar(&f.slots, "slots", 8, "slots of each worker, and cores")
	within(flags, 0, maxTimeScale, "time-scale")
	within(flags, time.Millisecond, rota.MaxDuration, "bound")
	within(flags, 1, maxBenchCrew, "workers")
	within(flags, 1, rota.MaxSlots, "slots")
	flags.StringSliceVar(&f.strategies, "strategy", []string{rota.Affinity.String()}, "matching `strategies`, parted by commas")
	flags.BoolVar(&f.markdown, "markdown", false, "print a table in Markdown, a line a workflow")
	choices(cmd, "format", flowfile.FormatRota, flowfile.FormatWfCommons)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return a.does(func(ctx context.Context, args []string) error {
			flows, err := a.benchedFlows(f, args)
			if err != nil {
				return err
			}
			return a.waiting(func(ctx context.Context, c *client.Client, _ []string) error {
				return a.benchWorkflows(ctx, c, f, flows)
			})(ctx, nil)
		})(cmd, args)
	}
	return cmd
}

func (f *flowBenchFlags) check() error {
	if f.format != "" && f.format != flowfile.FormatRota && f.format != flowfile.FormatWfCommons {
		return rota.Unknown("format", "--format", f.format, []string{flowfile.FormatRota, flowfile.FormatWfCommons})
	}
	if len(f.strategies) == 0 {
		return usagef("--strategy is empty: affinity or least_loaded, for example, is wanted")
	}
	return nil
}

// benchedFlow is a workflow as it is measured: scaled, and without what the bench's
// workers do not offer.
type benchedFlow struct {
	name  string
	spec  rota.WorkflowSpec
	scale float64
	graph *rota.Graph
	// criticalMs and areaMs are the bounds, listMs a schedule that costs nothing.
	criticalMs, areaMs, listMs int64
}

// benchedFlows reads all files before anything runs.
func (a *app) benchedFlows(f *flowBenchFlags, paths []string) ([]*benchedFlow, error) {
	var flows []*benchedFlow
	for _, path := range paths {
		text, err := flowfile.Read(path, a.stdin)
		if err != nil {
			return nil, asUsage(err)
		}
		spec, err := flowfile.Parse(text, path, f.format, flowfile.Options{Scale: 1, Resources: true})
		if err != nil {
			return nil, a.fileError(path, err)
		}
		flow, err := f.flow(path, &spec)
		if err != nil {
			return nil, a.fileError(path, err)
		}
		flows = append(flows, flow)
	}
	return flows, nil
}

// flow keeps of a workflow what the bench measures, and scales it.
func (f *flowBenchFlags) flow(path string, spec *rota.WorkflowSpec) (*benchedFlow, error) {
	b := &benchedFlow{name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), scale: f.timeScale,
		spec: rota.WorkflowSpec{ID: "bench", Edges: spec.Edges}}
	for i := range spec.Nodes {
		from := &spec.Nodes[i]
		n := rota.NodeSpec{ID: from.ID, Parents: from.Parents, JobSpec: rota.NewJobSpec(from.Type, nil)}
		n.SimulateMs, n.CPUMilli, n.DataKeys = from.SimulateMs, from.CPUMilli, from.DataKeys
		if has := int64(f.slots) * 1000; n.CPUMilli > has {
			return nil, usagef("%s: node %q asks for %d millicores and a worker has %d: --slots raises that", path, n.ID, n.CPUMilli, has)
		}
		b.spec.Nodes = append(b.spec.Nodes, n)
	}
	var err error
	if b.graph, err = b.spec.Arrange(); err != nil {
		return nil, err
	}
	f.bounds(b)
	if b.scale == 0 {
		b.scale = float64(f.bound.Milliseconds()) / float64(max(b.criticalMs, b.areaMs, 1))
	}
	for i := range b.spec.Nodes {
		ms := math.Round(float64(b.spec.Nodes[i].SimulateMs) * b.scale)
		if ms > float64(rota.MaxDuration.Milliseconds()) {
			return nil, usagef("%s: node %q would take %.0f ms: --time-scale lowers that", path, b.spec.Nodes[i].ID, ms)
		}
		b.spec.Nodes[i].SimulateMs = int64(ms)
	}
	f.bounds(b)
	return b, nil
}

// bounds works out what no schedule beats, and what a simple one takes.
func (f *flowBenchFlags) bounds(b *benchedFlow) {
	slots := int64(f.workers) * int64(f.slots)
	ends := make([]int64, len(b.graph.Order))
	b.criticalMs = 0
	var sum, cpu float64
	for k, place := range b.graph.Order {
		n := &b.spec.Nodes[place]
		for _, p := range b.graph.Parents[k] {
			ends[k] = max(ends[k], ends[p])
		}
		ends[k] += n.SimulateMs
		b.criticalMs = max(b.criticalMs, ends[k])
		sum += float64(n.SimulateMs)
		cpu += float64(n.SimulateMs) * float64(n.CPUMilli) / 1000
	}
	b.areaMs = int64(math.Ceil(max(sum, cpu) / float64(slots)))
	b.listMs = b.list(int(slots))
}

// list is the makespan of a list schedule without any cost: a node starts in the
// order of readiness, ties by number, as soon as a slot is free. Processors are not
// looked at: there is one for each slot.
func (b *benchedFlow) list(slots int) int64 {
	waiting, children := make([]int, len(b.graph.Order)), make([][]int, len(b.graph.Order))
	var ready, running []int
	for k, parents := range b.graph.Parents {
		waiting[k] = len(parents)
		for _, p := range parents {
			children[p] = append(children[p], k)
		}
		if waiting[k] == 0 {
			ready = append(ready, k)
		}
	}
	ends, now := make([]int64, len(b.graph.Order)), int64(0)
	for len(ready)+len(running) > 0 {
		for len(ready) > 0 && len(running) < slots {
			k := ready[0]
			ready = ready[1:]
			ends[k] = now + b.spec.Nodes[b.graph.Order[k]].SimulateMs
			at, _ := slices.BinarySearchFunc(running, k, func(other, k int) int {
				return cmp.Or(cmp.Compare(ends[other], ends[k]), cmp.Compare(other, k))
			})
			running = slices.Insert(running, at, k)
		}
		first := running[0]
		running, now = running[1:], ends[first]
		for _, child := range children[first] {
			if waiting[child]--; waiting[child] == 0 {
				ready = append(ready, child)
			}
		}
	}
	return now
}

// flowResult is one workflow run with one strategy.
type flowResult struct {
	Workflow       string  `json:"workflow"`
	Strategy       string  `json:"strategy"`
	Nodes          int     `json:"nodes"`
	Edges          int     `json:"edges"`
	TimeScale      float64 `json:"time_scale"`
	Workers        int     `json:"workers"`
	Slots          int     `json:"slots"`
	MakespanMs     int64   `json:"makespan_ms"`
	CriticalPathMs int64   `json:"critical_path_ms"`
	AreaMs         int64   `json:"area_ms"`
	ListMs         int64   `json:"list_ms"`
	// Ratio is the makespan over the greater bound.
	Ratio float64 `json:"ratio"`
	// LeaseMs is what a lease took beyond its node's runtime, on average.
	LeaseMs float64 `json:"lease_overhead_ms"`
	// Assignments by the rule that chose the worker.
	Assignments int            `json:"assignments"`
	Reasoning   map[string]int `json:"reasoning"`
}

// share is the part of assignments that a rule decided, in percent.
func (r *flowResult) share(rule rota.ReasoningRule) float64 {
	return roundTo(100*float64(r.Reasoning[rule.String()])/float64(max(r.Assignments, 1)), 1)
}

func (a *app) benchWorkflows(ctx context.Context, c *client.Client, f *flowBenchFlags, flows []*benchedFlow) error {
	for _, s := range f.strategies {
		if _, err := c.SetQueue(ctx, flowQueue(s), "dag", []rota.Setting{{Key: "strategy", Value: s}}); err != nil {
			return err
		}
	}
	reader := &reasons{c: c}
	var results []flowResult
	for _, flow := range flows {
		for _, s := range f.strategies {
			r, err := a.benchWorkflow(ctx, reader, f, flow, s)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", flow.name, s, err)
			}
			a.talk("%s, %s: %d nodes in %d ms, %.2f times the bound", r.Workflow, s, r.Nodes, r.MakespanMs, r.Ratio)
			results = append(results, *r)
		}
	}
	if f.markdown {
		_, err := io.WriteString(a.stdout, flowMarkdown(f.strategies, results))
		return err
	}
	if !a.outputSet {
		a.output = "json"
	}
	l := listing[flowResult]{whole: map[string]any{"runs": results}, items: results, columns: flowColumns(),
		name: func(r flowResult) string { return r.Workflow }}
	return l.print(a)
}

func flowQueue(strategy string) rota.QueueName { return rota.QueueName("bench-" + strategy) }

// benchWorkflow runs one workflow with workers that know nothing yet.
func (a *app) benchWorkflow(ctx context.Context, reader *reasons, f *flowBenchFlags, flow *benchedFlow,
	strategy string) (*flowResult, error) {
	run := newRun("flow")
	crew, err := a.startCrew(ctx, crewPlan{run: run, queues: []rota.QueueName{flowQueue(strategy)}, workers: f.workers,
		slots:    f.slots,
		cpuMilli: int64(f.slots) * 1000,
		handle:   func(ctx context.Context, j *client.Job) error { return simulate(ctx, j) }}, newLedger(run, 0))
	if err != nil {
		return nil, err
	}
	defer crew.stop()
	if err := awaitWorkers(ctx, reader.c, run, f.workers); err != nil {
		return nil, err
	}
	spec := flow.spec
	spec.ID, spec.Queue, spec.Nodes = rota.WorkflowID(run), flowQueue(strategy), slices.Clone(flow.spec.Nodes)
	for i := range spec.Nodes {
		spec.Nodes[i].Queue = spec.Queue
	}
	if _, err := reader.c.SubmitWorkflow(ctx, spec); err != nil {
		return nil, err
	}
	if _, err := reader.c.WaitWorkflow(ctx, spec.ID); err != nil {
		return nil, err
	}
	w, _, err := reader.c.Workflow(ctx, spec.ID, true, rota.ReadOptions{})
	if err != nil {
		return nil, err
	}
	if err := workflowEndedWell(&w); err != nil {
		return nil, err
	}
	r := &flowResult{Workflow: flow.name, Strategy: strategy, Nodes: len(spec.Nodes), Edges: flow.graph.Edges,
		TimeScale: flow.scale, Workers: f.workers, Slots: f.slots, MakespanMs: int64(w.Finished.Clock - w.Submitted.Clock),
		CriticalPathMs: flow.criticalMs, AreaMs: flow.areaMs, ListMs: flow.listMs}
	r.Ratio = roundTo(float64(r.MakespanMs)/float64(max(r.CriticalPathMs, r.AreaMs, 1)), 1000)
	over := int64(0)
	for i := range w.Nodes {
		over += int64(w.Nodes[i].Finished.Clock - w.Nodes[i].Assigned.Clock)
	}
	for i := range spec.Nodes {
		over -= spec.Nodes[i].SimulateMs
	}
	r.LeaseMs = roundTo(float64(over)/float64(len(spec.Nodes)), 10)
	r.Reasoning, r.Assignments, err = reader.of(ctx, string(spec.ID))
	return r, err
}

// reasons reads from the events by which rules workers were chosen. Each run goes on
// where the one before it ended.
type reasons struct {
	c     *client.Client
	after rota.EventID
}

// errToldAll ends a reading of events.
var errToldAll = errors.New("all was told")

func (r *reasons) of(ctx context.Context, run string) (rules map[string]int, assignments int, err error) {
	rules = map[string]int{}
	filter := rota.EventFilter{After: r.after, Kinds: []rota.EventKind{rota.JobAssigned, rota.WorkflowFinished}, Follow: true}
	err = r.c.Events(ctx, filter, func(events []rota.ServedEvent) error {
		for i := range events {
			e := &events[i]
			r.after = e.ID
			if e.Run != run {
				continue
			}
			if e.Kind == rota.WorkflowFinished {
				return errToldAll
			}
			var decision struct {
				Reasoning rota.Reasoning `json:"reasoning"`
			}
			if err := json.Unmarshal([]byte(e.Payload), &decision); err != nil {
				return fmt.Errorf("payload of event %s: %w", e.ID, err)
			}
			rules[decision.Reasoning.Rule.String()]++
			assignments++
		}
		return nil
	})
	if errors.Is(err, errToldAll) {
		err = nil
	}
	return rules, assignments, err
}

func seconds(ms int64) string { return fmt.Sprintf("%.2f", float64(ms)/1000) }

func flowColumns() []column[flowResult] {
	return []column[flowResult]{
		{"WORKFLOW", false, 44, func(r flowResult) any { return r.Workflow }},
		{"STRATEGY", false, 0, func(r flowResult) any { return r.Strategy }},
		{"NODES", false, 0, func(r flowResult) any { return r.Nodes }},
		{"EDGES", true, 0, func(r flowResult) any { return r.Edges }},
		{"TIME SCALE", true, 0, func(r flowResult) any { return fmt.Sprintf("%.3g", r.TimeScale) }},
		{"MAKESPAN S", false, 0, func(r flowResult) any { return seconds(r.MakespanMs) }},
		{"CRITICAL S", false, 0, func(r flowResult) any { return seconds(r.CriticalPathMs) }},
		{"AREA S", false, 0, func(r flowResult) any { return seconds(r.AreaMs) }},
		{"LIST S", false, 0, func(r flowResult) any { return seconds(r.ListMs) }},
		{"RATIO", false, 0, func(r flowResult) any { return r.Ratio }},
		{"LEASE +MS", true, 0, func(r flowResult) any { return r.LeaseMs }},
		{"ASSIGNMENTS", true, 0, func(r flowResult) any { return r.Assignments }},
		{"BY DATA %", false, 0, func(r flowResult) any { return r.share(rota.ByDataLocality) }},
		{"BY TYPE %", true, 0, func(r flowResult) any { return r.share(rota.ByPreviouslyExecuted) }},
		{"BY LOAD %", true, 0, func(r flowResult) any { return r.share(rota.ByLeastLoaded) }},
		{"ONLY ONE %", true, 0, func(r flowResult) any { return r.share(rota.OnlyWorkerAvailable) }},
		{"OLDEST %", true, 0, func(r flowResult) any { return r.share(rota.ByTurnOfTheOldest) }},
	}
}

// flowMarkdown is a table with a line for each workflow and columns for each strategy.
func flowMarkdown(strategies []string, results []flowResult) string {
	var out strings.Builder
	out.WriteString("| workflow | nodes | edges | critical path s | area s | list s |")
	for _, s := range strategies {
		fmt.Fprintf(&out, " `%s` s | ÷ bound | by data, only one %% |", s)
	}
	out.WriteString("\n|---" + strings.Repeat("|---:", 5+3*len(strategies)) + "|\n")
	for i := range results {
		r := &results[i]
		if i%len(strategies) == 0 {
			fmt.Fprintf(&out, "| %s | %d | %d | %s | %s | %s |", r.Workflow, r.Nodes, r.Edges, seconds(r.CriticalPathMs),
				seconds(r.AreaMs), seconds(r.ListMs))
		}
		fmt.Fprintf(&out, " %s | %.2f | %.0f, %.0f |", seconds(r.MakespanMs), r.Ratio, r.share(rota.ByDataLocality),
			r.share(rota.OnlyWorkerAvailable))
		if i%len(strategies) == len(strategies)-1 {
			out.WriteString("\n")
		}
	}
	return out.String()
}
