package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/flowfile"
	"github.com/rotasched/rota/internal/loadgen"
)

// benchWorkflowFlags are the flags of `bench workflow`.
type benchWorkflowFlags struct {
	loadgen.FlowPlan
	format   string
	markdown bool
}

func (a BenchCommands) workflow() *cobra.Command {
	f := &benchWorkflowFlags{}
	cmd := &cobra.Command{
		Use:   "workflow F…",
		Short: "Measure how long workflows take, against the theoretical minimum",
		Long: `Run workflows one after another, each with each --strategy and its own workers, and compare the
makespan, submission to end by the cluster clock, with lower bounds: the critical path (the
longest chain of runtimes) and the area (all runtimes over all slots, or processors, whichever
is more). Ratio is the makespan over the greater bound. List is the makespan of a list schedule
without overhead: ready nodes first come, first served.

Only the graph, types, runtimes, cores and data keys of a file are used. Each strategy has its own
queue, bench-STRATEGY, of preset dag.`,
		Example: `  rota bench workflow montage.json --strategy affinity,least_loaded -o table
  rota bench workflow instances/*.json --workers 8 --slots 4 --markdown`,
		Args: cobra.MinimumNArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "", "`format` of the files, rota or wfcommons (default: by their content)")
	flags.Float64Var(&f.TimeScale, "time-scale", 0, "`factor` on all runtimes (default: the one for --bound)")
	cli.DurationVar(flags, &f.Bound, "bound", 10*time.Second, "scale runtimes so that no schedule is shorter")
	flags.IntVar(&f.Workers, "workers", 4, "workers, each with its own connection")
	flags.IntVar(&f.Slots, "slots", 8, "slots of each worker, and cores")
	cli.Within(flags, 0, cli.MaxTimeScale, "time-scale")
	cli.Within(flags, time.Millisecond, rota.MaxDuration, "bound")
	cli.Within(flags, 1, cli.MaxBenchWorkers, "workers")
	cli.Within(flags, 1, rota.MaxSlots, "slots")
	flags.StringSliceVar(&f.Strategies, "strategy", []string{rota.StrategyAffinity.String()},
		"matching `strategies`, separated by commas")
	flags.BoolVar(&f.markdown, "markdown", false, "print a Markdown table, one line a workflow")
	cli.Choices(cmd, "format", flowfile.FormatRota, flowfile.FormatWfCommons)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return a.Does(func(ctx context.Context, args []string) error {
			flows, err := a.flows(f, args)
			if err != nil {
				return err
			}
			return a.measuring(func(ctx context.Context, lab *loadgen.Lab) error {
				results, err := lab.Flows(ctx, &f.FlowPlan, flows)
				var ended *loadgen.EndedError
				if errors.As(err, &ended) {
					err = fmt.Errorf("%s, %s: %w", ended.Name, ended.Strategy, cli.WorkflowEndedWell(&ended.Workflow))
				}
				if err != nil {
					return err
				}
				return a.printFlows(f, results)
			})(ctx, nil)
		})(cmd, args)
	}
	return cmd
}

func (f *benchWorkflowFlags) check() error {
	if f.format != "" && f.format != flowfile.FormatRota && f.format != flowfile.FormatWfCommons {
		return cli.Unknown("format", "--format", f.format, []string{flowfile.FormatRota, flowfile.FormatWfCommons})
	}
	if len(f.Strategies) == 0 {
		return cli.Usagef("--strategy is empty: use affinity or least_loaded, for example")
	}
	return nil
}

// flows reads all files before anything runs.
func (a BenchCommands) flows(f *benchWorkflowFlags, paths []string) ([]*loadgen.Flow, error) {
	var flows []*loadgen.Flow
	for _, path := range paths {
		text, err := flowfile.Read(path, a.Stdin)
		if err != nil {
			return nil, cli.AsUsage(err)
		}
		spec, err := flowfile.Parse(text, path, f.format, flowfile.Options{Scale: 1, Resources: true})
		if err != nil {
			return nil, a.FileError(path, err)
		}
		flow, err := f.Flow(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), &spec)
		if err != nil {
			return nil, a.FileError(path, err)
		}
		flows = append(flows, flow)
	}
	return flows, nil
}

func (a BenchCommands) printFlows(f *benchWorkflowFlags, results []loadgen.FlowResult) error {
	if f.markdown {
		_, err := io.WriteString(a.Stdout, FlowMarkdown(f.Strategies, results))
		return err
	}
	l := cli.Listing[loadgen.FlowResult]{Whole: map[string]any{"runs": results}, Items: results, Columns: flowColumns(),
		Name: func(r loadgen.FlowResult) string { return r.Workflow }}
	return l.Print(a.App)
}

func seconds(ms int64) string { return fmt.Sprintf("%.2f", float64(ms)/1000) }

func flowColumns() []cli.Column[loadgen.FlowResult] {
	return []cli.Column[loadgen.FlowResult]{
		{Head: "WORKFLOW", Most: 44, Cell: func(r loadgen.FlowResult) any { return r.Workflow }},
		{Head: "STRATEGY", Cell: func(r loadgen.FlowResult) any { return r.Strategy }},
		{Head: "NODES", Cell: func(r loadgen.FlowResult) any { return r.Nodes }},
		{Head: "EDGES", Wide: true, Cell: func(r loadgen.FlowResult) any { return r.Edges }},
		{Head: "TIME SCALE", Wide: true, Cell: func(r loadgen.FlowResult) any {
			return fmt.Sprintf("%.3g", r.TimeScale)
		}},
		{Head: "MAKESPAN S", Cell: func(r loadgen.FlowResult) any { return seconds(r.MakespanMs) }},
		{Head: "CRITICAL S", Cell: func(r loadgen.FlowResult) any { return seconds(r.CriticalPathMs) }},
		{Head: "AREA S", Cell: func(r loadgen.FlowResult) any { return seconds(r.AreaMs) }},
		{Head: "LIST S", Cell: func(r loadgen.FlowResult) any { return seconds(r.ListMs) }},
		{Head: "RATIO", Cell: func(r loadgen.FlowResult) any { return r.Ratio }},
		{Head: "LEASE +MS", Wide: true, Cell: func(r loadgen.FlowResult) any { return r.LeaseMs }},
		{Head: "ASSIGNMENTS", Wide: true, Cell: func(r loadgen.FlowResult) any { return r.Assignments }},
		{Head: "BY DATA %", Cell: func(r loadgen.FlowResult) any { return r.Share(rota.ReasoningByDataLocality) }},
		{Head: "BY TYPE %", Wide: true,
			Cell: func(r loadgen.FlowResult) any { return r.Share(rota.ReasoningByPreviouslyExecuted) }},
		{Head: "BY LOAD %", Wide: true,
			Cell: func(r loadgen.FlowResult) any { return r.Share(rota.ReasoningByLeastLoaded) }},
		{Head: "ONLY ONE %", Wide: true,
			Cell: func(r loadgen.FlowResult) any { return r.Share(rota.ReasoningOnlyWorkerAvailable) }},
		{Head: "OLDEST %", Wide: true,
			Cell: func(r loadgen.FlowResult) any { return r.Share(rota.ReasoningByTurnOfTheOldest) }},
	}
}

// FlowMarkdown is a table with a line for each workflow and columns for each strategy.
func FlowMarkdown(strategies []string, results []loadgen.FlowResult) string {
	var out strings.Builder
	out.WriteString("| workflow | nodes | edges | critical path s | area s | list s |")
	for _, s := range strategies {
		fmt.Fprintf(&out, " `%s` s | ÷ bound | by data, only one %% |", s)
	}
	out.WriteString("\n|---" + strings.Repeat("|---:", 5+3*len(strategies)) + "|\n")
	for i := range results {
		r := &results[i]
		if i%len(strategies) == 0 {
			fmt.Fprintf(&out, "| %s | %d | %d | %s | %s | %s |", r.Workflow, r.Nodes, r.Edges,
				seconds(r.CriticalPathMs), seconds(r.AreaMs), seconds(r.ListMs))
		}
		fmt.Fprintf(&out, " %s | %.2f | %.0f, %.0f |", seconds(r.MakespanMs), r.Ratio,
			r.Share(rota.ReasoningByDataLocality),
			r.Share(rota.ReasoningOnlyWorkerAvailable))
		if i%len(strategies) == len(strategies)-1 {
			out.WriteString("\n")
		}
	}
	return out.String()
}
