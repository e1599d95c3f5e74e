package workflow

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/flowfile"
)

// Flags are the flags of `workflow submit` as given.
type Flags struct {
	ID, format, Queue, Tenant, OnFailure string
	TimeScale                            float64
	resources, wait                      bool
}

func (a Commands) submit() *cobra.Command {
	f := &Flags{}
	cmd := &cobra.Command{
		Use:   "submit FILE|-",
		Short: "Submit a workflow from a file: all of it, or nothing",
		Long: `Submit a workflow from a file or stdin: all of it, or nothing. The file is YAML or JSON in
rota's format, or a WfCommons instance (WfFormat 1.5).

rota's format has id, queue, tenant, on_failure, labels, defaults, nodes and edges. A node has an
id, parents, and the fields of a job. defaults holds for every node that does not override it.
An edge {from, to} adds to the nodes' parents. A node that does not complete ends the workflow
(on_failure fail_fast) or only its descendants (continue).

Each task of a WfCommons instance is a node: its type is the program's name, simulate_ms the
recorded runtime × --time-scale, data_keys the input files that no task makes.

Flags beat the file. Submitting the same workflow again changes nothing; another one under a
known id is refused (exit 4).`,
		Example: `  rota workflow submit nightly.yaml
  rota workflow submit montage.json --time-scale 0.01 --queue lab --wait
  generate | rota workflow submit - --id nightly-7 -o json

  # nightly.yaml
  queue: etl
  defaults: {max_runtime_ms: 600000}
  nodes:
    - {id: fetch, type: fetch, payload: "2026-01-31"}
    - {id: clean, type: clean, parents: [fetch]}
    - {id: count, type: count, parents: [fetch]}
    - {id: report, type: mail, parents: [clean, count], priority: 1}`,
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.ID, "id", "", "the workflow's `id`, the idempotency key (default: the file's, else a new one)")
	flags.StringVar(&f.format, "format", "", "`format` of the file, rota or wfcommons (default: by its content)")
	flags.StringVar(&f.Queue, "queue", "", "`queue` of the nodes that name none")
	flags.StringVar(&f.Tenant, "tenant", "", "`tenant` that submits")
	flags.StringVar(&f.OnFailure, "on-failure", "",
		"`policy` when a node does not complete: fail_fast or continue")
	flags.Float64Var(&f.TimeScale, "time-scale", 1, "`factor` on the runtimes of a WfCommons instance")
	cli.Within(flags, 0, cli.MaxTimeScale, "time-scale")
	flags.BoolVar(&f.resources, "resources", false,
		"use cores and memory (rounded up to eighths of a power of two) that a WfCommons instance recorded")
	flags.BoolVar(&f.wait, "wait", false, "wait until the workflow has ended; exit 6 if not COMPLETED")
	cli.Choices(cmd, "format", flowfile.FormatRota, flowfile.FormatWfCommons)
	cli.Choices(cmd, "on-failure", rota.FailureFailFast.String(), rota.FailureContinue.String())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := ""
		for _, name := range []string{"time-scale", "resources"} {
			if cmd.Flags().Changed(name) {
				given = "--" + name
			}
		}
		policy, err := f.check()
		if err != nil {
			return err
		}
		return a.Does(func(ctx context.Context, args []string) error {
			spec, err := a.Spec(f, policy, args[0], given)
			if err != nil {
				return err
			}
			return a.submitSpec(ctx, spec, f.wait)
		})(cmd, args)
	}
	return cmd
}

// check refuses flags that mean nothing, and gives --on-failure.
func (f *Flags) check() (policy rota.FailurePolicy, err error) {
	if f.format != "" && f.format != flowfile.FormatRota && f.format != flowfile.FormatWfCommons {
		return policy, cli.Unknown("format", "--format", f.format,
			[]string{flowfile.FormatRota, flowfile.FormatWfCommons})
	}
	if f.OnFailure != "" {
		if err := policy.UnmarshalText([]byte(f.OnFailure)); err != nil {
			return policy, cli.Usagef("--on-failure: %w", err)
		}
	}
	return policy, nil
}

// Spec makes the workflow of a file and the flags; nobody is called yet.
func (a Commands) Spec(f *Flags, policy rota.FailurePolicy, path, given string) (rota.WorkflowSpec, error) {
	var none rota.WorkflowSpec
	text, err := flowfile.Read(path, a.Stdin)
	if err != nil {
		return none, cli.AsUsage(err)
	}
	format := cli.Or(f.format, flowfile.FormatOf(text))
	if given != "" && format == flowfile.FormatRota {
		return none, cli.Usagef("%s goes with a file in the format wfcommons: "+
			"in rota's own format, set simulate_ms, cpu_milli and memory_bytes in each node", given)
	}
	spec, err := flowfile.Parse(text, path, format, flowfile.Options{Scale: f.TimeScale, Resources: f.resources})
	if err != nil {
		return none, a.FileError(path, err)
	}
	if f.OnFailure != "" {
		spec.OnFailure = policy
	}
	spec.ID = cli.Or(rota.WorkflowID(f.ID), spec.ID)
	spec.Queue = cli.Or(cli.Or(rota.QueueName(f.Queue), spec.Queue), rota.DefaultQueue)
	spec.Tenant = cli.Or(cli.Or(rota.TenantID(f.Tenant), spec.Tenant), rota.DefaultTenant)
	if spec.ID == "" {
		// Minted here and not by the library, so that what is said of a lost answer names it.
		spec.ID = rota.WorkflowID(client.NewJobID())
	}
	if _, err := spec.Arrange(); err != nil {
		return none, a.FileError(path, err)
	}
	return spec, nil
}

// nodeTime is added to --timeout's default for each node that is sent.
const nodeTime = time.Millisecond

func (a Commands) submitSpec(ctx context.Context, spec rota.WorkflowSpec, wait bool) error {
	if !a.TimeoutSet {
		a.Timeout += time.Duration(len(spec.Nodes)) * nodeTime
	}
	err := a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
		done, err := c.SubmitWorkflow(ctx, spec)
		if err != nil {
			if k := rota.KindOf(err); k == rota.KindTimeout || k == rota.KindUnavailable || ctx.Err() != nil {
				a.Talk("whether it was submitted is not known: submit it again with --id %s", spec.ID)
			}
			return cli.AsSubmitted(err)
		}
		if done.Existed {
			a.Talk("workflow %s was there before: nothing was changed", done.ID)
		}
		if wait {
			return nil
		}
		return a.PrintOne(done, []string{string(done.ID)}, func(bool) string {
			return cli.RenderFacts([]cli.Fact{{Name: "workflow", Value: done.ID}, {Name: "state", Value: done.State},
				{Name: "nodes", Value: done.Nodes}, {Name: "edges", Value: done.Edges}})
		})
	})(ctx, nil)
	if err != nil || !wait {
		return err
	}
	return a.await(ctx, spec.ID, "workflow "+string(spec.ID)+" was submitted and has not ended")
}
