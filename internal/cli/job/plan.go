package job

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// PlanCommands are the commands of plans.
type PlanCommands struct{ *cli.App }

// Command returns `rota plan` and the commands below it.
func (a PlanCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "plan",
		Short: "Apply one verb to all jobs that a filter selects"},
		a.start(), a.list(), a.show(), a.wait(), a.cancel())
}

func (a PlanCommands) start() *cobra.Command {
	var spec rota.PlanSpec
	var id, to string
	var priority int32
	var dry, wait bool
	cmd := &cobra.Command{
		Use:   "start VERB --filter TERMS [--dry-run]",
		Short: "Start one verb for all jobs, or workflows, that a filter selects",
		Long: `Start one verb for all jobs that a filter selects, and print the plan. It covers the jobs that
exist now, each once. move needs --to, reprioritise --priority.
cancel-workflows and retry-workflows select workflows by queue, tenant, state, id, label.K and
age; cancelling a workflow includes its pending nodes and gates. --dry-run prints the number of
jobs and the first 20.`,
		Example: `  rota plan start retry --filter 'state=DEAD error=5f0c9a1be2d47713' --dry-run
  rota plan start retry --filter 'state=DEAD error=5f0c9a1be2d47713' --wait
  rota plan start move --filter 'queue=mail label.team=film' --to film
  rota plan start retry-workflows --filter 'state=FAILED queue=etl'`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: cli.PlanVerbNames(),
	}
	flags := cmd.Flags()
	flags.StringVar(&spec.Filter, "filter", "", "`terms` that the jobs match, as in job list; id=* is all jobs")
	flags.StringVar(&to, "to", "", "the `queue` that jobs move to")
	flags.Int32Var(&priority, "priority", 0, "new priority of reprioritised jobs: 0 (critical) to 10 (background)")
	flags.Int64Var(&spec.Max, "max", 0, "end it after this number of `jobs`; 0 means no limit")
	flags.StringVar(&id, "id", "", "`id` of the plan: each counts once (default: a new one)")
	flags.BoolVar(&dry, "dry-run", false, "change nothing, show the jobs that it would process")
	flags.BoolVar(&wait, "wait", false, "wait until it is through; exit 6 if it was cancelled")
	cli.Within(flags, 0, rota.MaxPriority, "priority")
	cli.Within(flags, 0, math.MaxInt64, "max")
	if err := cmd.RegisterFlagCompletionFunc("to", a.Asks(cli.ListQueues)); err != nil {
		panic(err) // there is no such flag
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := spec.Verb.UnmarshalText([]byte(args[0])); err != nil {
			return err
		}
		spec.ID, spec.To = rota.PlanID(id), rota.QueueName(to)
		if cmd.Flags().Changed("priority") {
			spec.Priority = &priority
		}
		if dry && wait {
			return cli.Usagef("--dry-run starts nothing that --wait could wait for")
		}
		run := func(ctx context.Context, c *client.Client, _ []string) error {
			plans := client.PlansOf(c)
			if dry {
				would, err := plans.Preview(ctx, spec)
				if err != nil {
					return err
				}
				return a.printPreview(would)
			}
			p, err := plans.Start(ctx, spec)
			if err == nil && wait {
				return a.await(ctx, c, p.ID)
			}
			if err != nil {
				return cli.AsSubmitted(err)
			}
			return a.print(p)
		}
		if wait {
			return a.Does(a.Waiting(run))(cmd, args)
		}
		return a.Does(a.Calling(run))(cmd, args)
	}
	return cmd
}

func (a PlanCommands) printPreview(would rota.PlanPreview) error {
	names := make([]string, len(would.Jobs))
	for i, id := range would.Jobs {
		names[i] = string(id)
	}
	return a.PrintOne(would, names, func(bool) string {
		facts := []cli.Fact{{Name: "jobs", Value: would.Count}, {Name: "complete", Value: would.Complete}}
		for i, id := range would.Jobs {
			name := ""
			if i == 0 {
				name = "first"
			}
			facts = append(facts, cli.Fact{Name: name, Value: id})
		}
		return cli.RenderFacts(facts)
	})
}

func (a PlanCommands) list() *cobra.Command {
	return a.ListMade(&cobra.Command{
		Use:   "list",
		Short: "List the running plans, and the last ended ones",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			plans, err := client.Collect(client.PlansOf(c).List(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "plans", plans, func(p rota.Plan) string { return string(p.ID) }, planColumns())
		})),
	})
}

func planColumns() []cli.Column[rota.Plan] {
	return []cli.Column[rota.Plan]{
		{Head: "ID", Cell: func(p rota.Plan) any { return p.ID }},
		{Head: "VERB", Cell: func(p rota.Plan) any { return p.Verb }},
		{Head: "FILTER", Most: 40, Cell: func(p rota.Plan) any { return p.Filter }},
		{Head: "STATE", Cell: func(p rota.Plan) any { return p.State }},
		{Head: "DONE", Cell: func(p rota.Plan) any { return p.Done }},
		{Head: "REFUSED", Cell: func(p rota.Plan) any { return p.Refused }},
		{Head: "PASSED", Cell: func(p rota.Plan) any { return p.Passed }},
		{Head: "STARTED", Wide: true, Cell: func(p rota.Plan) any { return p.Started.Date }},
		{Head: "BY", Wide: true, Cell: func(p rota.Plan) any { return p.By }},
	}
}

// planNamed checks the id that a command is given.
func planNamed(args []string) (rota.PlanID, error) {
	id := rota.PlanID(args[0])
	return id, rota.CheckID("plan", id)
}

func (a PlanCommands) show() *cobra.Command {
	return a.Reads(&cobra.Command{
		Use:     "show PLAN",
		Short:   "Show a plan, its progress, and the first refusals",
		Example: "  rota plan show mend-mails",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := planNamed(args)
			if err != nil {
				return err
			}
			p, err := client.PlansOf(c).Get(ctx, id, a.Fresh()...)
			if err != nil {
				return err
			}
			a.Seen()
			return a.print(p)
		})),
	})
}

func (a PlanCommands) wait() *cobra.Command {
	return &cobra.Command{
		Use:     "wait PLAN",
		Short:   "Wait until a plan has ended; exit 6 if it was cancelled, 5 after --timeout",
		Example: "  rota plan wait mend-mails --timeout 10m",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Waiting(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := planNamed(args)
			if err != nil {
				return err
			}
			return a.await(ctx, c, id)
		})),
	}
}

// await prints a plan once it runs no more.
func (a PlanCommands) await(ctx context.Context, c *client.Client, id rota.PlanID) error {
	p, err := client.PlansOf(c).Wait(ctx, id)
	if err != nil {
		return err
	}
	if err := a.print(p); err != nil || p.State == rota.PlanDone {
		return err
	}
	return &cli.CodedError{Code: cli.ExitOtherwise, Err: fmt.Errorf("plan %s was cancelled: %s", p.ID, p.Why)}
}

func (a PlanCommands) cancel() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "cancel PLAN",
		Short:   "Stop a plan; the changes it made remain",
		Example: "  rota plan cancel mend-mails --reason 'the wrong filter'",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := planNamed(args)
			if err != nil {
				return err
			}
			p, err := client.PlansOf(c).Cancel(ctx, id, reason)
			if err != nil {
				return err
			}
			return a.print(p)
		})),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`reason` to show")
	return cmd
}

// print shows a plan.
func (a PlanCommands) print(p rota.Plan) error {
	return a.PrintOne(p, []string{string(p.ID)}, func(bool) string {
		facts := []cli.Fact{{Name: "plan", Value: p.ID}, {Name: "verb", Value: p.Verb},
			{Name: "filter", Value: p.Filter}}
		if p.To != "" {
			facts = append(facts, cli.Fact{Name: "to", Value: p.To})
		}
		if p.Priority != nil {
			facts = append(facts, cli.Fact{Name: "priority", Value: *p.Priority})
		}
		if p.Max > 0 {
			facts = append(facts, cli.Fact{Name: "max", Value: p.Max})
		}
		facts = append(facts, cli.Fact{Name: "state", Value: p.State}, cli.Fact{Name: "why", Value: p.Why},
			cli.Fact{Name: "done", Value: p.Done}, cli.Fact{Name: "refused", Value: p.Refused},
			cli.Fact{Name: "passed", Value: p.Passed},
			cli.Fact{Name: "started", Value: p.Started.Date}, cli.Fact{Name: "by", Value: p.By})
		for _, r := range p.Refusals {
			facts = append(facts, cli.Fact{Name: string(r.Job), Value: r.Text})
		}
		return cli.RenderFacts(facts)
	})
}
