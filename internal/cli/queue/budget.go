package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// BudgetCommands are the commands of budgets.
type BudgetCommands struct{ *cli.App }

// Command returns `rota budget` and the commands below it.
func (a BudgetCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "budget", Short: "Show and change how much jobs may spend in a period"},
		a.list(), a.show(), a.set(), a.grant(), a.reset(), a.deletes())
}

func (a BudgetCommands) list() *cobra.Command {
	var asking bool
	cmd := a.ListCommand(&cobra.Command{
		Use:   "list [--asking]",
		Short: "List the budgets",
		Long: "List the budgets, with the sums of their accounts. ASKING is the number of open questions: accounts of\n" +
			"a budget with `--then ask` that have nothing left or hold jobs back.",
		Example: "  rota budget list --asking",
		Args:    cobra.NoArgs,
	})
	cmd.Flags().BoolVar(&asking, "asking", false, "only budgets with an open question")
	cmd.RunE = a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
		read := c.Budgets().List
		if asking {
			read = c.Budgets().Asking
		}
		list, err := client.Collect(read(ctx, a.Fresh()...))
		if err != nil {
			return err
		}
		a.Seen()
		return cli.PrintAll(a.App, "budgets", list, func(b rota.BudgetState) string { return string(b.Name) },
			[]cli.Column[rota.BudgetState]{
				{Head: "NAME", Cell: func(b rota.BudgetState) any { return b.Name }},
				{Head: "OF", Cell: func(b rota.BudgetState) any { return jobsText(&b.Budget) }},
				{Head: "LIMIT", Cell: func(b rota.BudgetState) any { return limitText(&b.Budget) }},
				{Head: "SPENT", Cell: func(b rota.BudgetState) any { return b.Spent }},
				{Head: "RESERVED", Cell: func(b rota.BudgetState) any { return b.Reserved }},
				{Head: "THEN", Cell: func(b rota.BudgetState) any { return b.Then }},
				{Head: "HELD", Cell: func(b rota.BudgetState) any { return b.Held }},
				{Head: "ASKING", Cell: func(b rota.BudgetState) any { return b.Asking }},
				{Head: "UNTIL", Wide: true, Cell: func(b rota.BudgetState) any { return b.Until }},
				{Head: "ACCOUNTS", Wide: true, Cell: func(b rota.BudgetState) any { return b.Accounts }},
				{Head: "ETAG", Wide: true, Cell: func(b rota.BudgetState) any { return b.ETag }},
			})
	}))
	return cmd
}

// jobsText describes the jobs of a budget.
func jobsText(b *rota.Budget) string {
	var list []string
	for _, f := range [][2]string{{"tenant", string(b.Tenant)}, {"queue", string(b.Queue)}, {"key", b.Key}} {
		if f[1] != "" {
			list = append(list, f[0]+" "+f[1])
		}
	}
	if b.Each != rota.EachNone {
		list = append(list, "each "+b.Each.String())
	}
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, ", ")
}

func limitText(b *rota.Budget) string {
	text := fmt.Sprint(b.Limit, " ", b.Unit)
	if b.Every != rota.EveryNone {
		text += " a " + b.Every.String()
	}
	return text
}

func (a BudgetCommands) show() *cobra.Command {
	f := rota.BudgetAccountFilter{}
	var q cli.CostQuery
	cmd := a.ListCommand(&cobra.Command{
		Use:   "show NAME [--of X] [--held] [--asking] [--limit N] [--by FIELD,…]",
		Short: "Show the accounts of a budget in its present period, or its spending by type, key or day",
		Long: "Show the accounts of a budget in its present period: amounts spent, reserved and left, and\n" +
			"when nothing is left at the period's rate so far. With --by it sums the reports of jobs that\n" +
			"ended in the period, from the archive, without open jobs and estimates.",
		Example: "  rota budget show acme-month\n  rota budget show each-tenant --held\n" +
			"  rota budget show acme-month --by type,day",
		Args: cobra.ExactArgs(1),
	})
	flags := cmd.Flags()
	flags.StringVar(&f.Of, "of", "", "only the account of this `owner`: a tenant, key, workflow or job")
	flags.BoolVar(&f.Held, "held", false, "only accounts that hold jobs back")
	flags.BoolVar(&f.Asking, "asking", false, "only open questions")
	flags.IntVar(&f.Limit, "limit", 100, "maximum number to list")
	flags.StringSliceVar(&q.By, "by", nil,
		"`fields` to sum by: tenant, type, queue, key, state, day (of the budget's time zone) or label.KEY")
	flags.IntVar(&q.Most, "jobs", 100_000, "maximum number of ended jobs to sum with --by")
	cli.Within(flags, 1, cli.Unbounded, "limit", "jobs")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(q.By) > 0 && (f.Held || f.Asking) {
			return cli.Usagef("--by: got it with --held or --asking, which list accounts; use one of them")
		}
		if err := q.Check(); err != nil {
			return err
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			f.Budget = rota.BudgetName(args[0])
			budget, err := c.Budgets().Get(ctx, f.Budget, a.Fresh()...)
			if err != nil {
				return err
			}
			if len(q.By) > 0 {
				q.Budget, q.Of, q.From = &budget.Budget, f.Of, budget.Since
				return a.sums(ctx, c, &q)
			}
			list, err := client.Collect(c.Budgets().Accounts(ctx, f, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return a.accounts(&budget, list)
		}))(cmd, args)
	}
	return cmd
}

// sums prints the spending of a budget by group.
func (a BudgetCommands) sums(ctx context.Context, c *client.Client, q *cli.CostQuery) error {
	sums, err := a.SumCosts(ctx, c, q)
	if err != nil {
		return err
	}
	a.Seen()
	return cli.PrintAll(a.App, "costs", sums, func(s cli.CostSum) string { return s.Name }, q.Columns())
}

func (a BudgetCommands) accounts(of *rota.BudgetState, list []rota.BudgetAccount) error {
	return cli.PrintAll(a.App, "accounts", list, func(b rota.BudgetAccount) string { return b.Of },
		[]cli.Column[rota.BudgetAccount]{
			{Head: "OF", Cell: func(b rota.BudgetAccount) any { return orAllText(b.Of) }},
			{Head: "LIMIT", Cell: func(b rota.BudgetAccount) any { return fmt.Sprint(b.Limit, " ", of.Unit) }},
			{Head: "SPENT", Cell: func(b rota.BudgetAccount) any { return b.Spent }},
			{Head: "RESERVED", Cell: func(b rota.BudgetAccount) any { return b.Reserved }},
			{Head: "LEFT", Cell: func(b rota.BudgetAccount) any { return b.Left }},
			{Head: "HELD", Cell: func(b rota.BudgetAccount) any { return b.Held }},
			{Head: "STATE", Cell: func(b rota.BudgetAccount) any { return accountState(b) }},
			{Head: "EMPTY", Cell: func(b rota.BudgetAccount) any { return b.Empty }},
			{Head: "UNTIL", Cell: func(rota.BudgetAccount) any { return of.Until }},
			{Head: "GRANTED", Wide: true, Cell: func(b rota.BudgetAccount) any { return b.Granted }},
			{Head: "LAST CHANGE", Wide: true, Cell: func(b rota.BudgetAccount) any {
				if len(b.Changes) == 0 {
					return "none"
				}
				c := b.Changes[len(b.Changes)-1]
				return strings.TrimSpace(fmt.Sprint(changeText(c), " ", c.By, " ", c.Reason))
			}},
		})
}

func changeText(c rota.BudgetChange) string {
	if c.Amount == 0 {
		return "reset"
	}
	return fmt.Sprint("+", c.Amount)
}

func accountState(b rota.BudgetAccount) string {
	switch {
	case b.Asks:
		return "asks"
	case b.Full:
		return "spent"
	case b.Warned:
		return "warned"
	}
	return "ok"
}

func (a BudgetCommands) set() *cobra.Command {
	var b rota.Budget
	var tenant, queue, each, every, then string
	var warn rota.Cost
	cmd := &cobra.Command{
		Use:   "set NAME --limit N --unit COST [--tenant T] [--queue Q] [--key NAME[:VALUE]] [--each tenant|key|workflow|job] [--every hour|day|week|month [--tz ZONE]] [--default-cost N] [--warn 0.8] [--then hold|refuse|ask|warn] [--stop]",
		Short: "Set how much of a cost jobs may spend in a period",
		Long: "Set how much of a cost jobs may spend in a period. This replaces the\n" +
			"budget of the same name; open attempts count at once.\n\n" +
			"At the limit jobs wait (hold), new ones are refused too (refuse), a question is opened that\n" +
			"`rota budget grant` answers (ask), or only an event is emitted (warn).",
		Example: "  rota budget set acme-month --tenant acme --limit 500 --unit usd --every month --tz Europe/Berlin --warn 0.8\n" +
			"  rota budget set per-run --each workflow --limit 20 --unit usd --stop",
		Args: cobra.ExactArgs(1),
	}
	var how cli.SetFlags
	flags := cmd.Flags()
	how.RegisterMatch(flags)
	flags.StringVar(&tenant, "tenant", "", "`tenant` whose jobs it is for (default: all)")
	flags.StringVar(&queue, "queue", "", "`queue` whose jobs it is for (default: all)")
	flags.StringVar(&b.Key, "key", "", "`key` whose jobs it is for, or the name of keys (default: all)")
	flags.StringVar(&each, "each", "none", "`owner` type with accounts of their own, each with the whole limit: tenant, key, workflow or job")
	flags.StringVar(&b.Unit, "unit", "", "`cost` that it limits")
	flags.TextVar(&b.Limit, "limit", rota.Cost(0), "`amount` of it that a period may spend")
	flags.TextVar(&b.DefaultCost, "default-cost", rota.Cost(0), "`amount` that a job without an estimate counts as")
	flags.StringVar(&every, "every", "none", "begin again every `hour`, day, week or month of the calendar")
	flags.StringVar(&b.TZ, "tz", "", "time `zone` of the periods (default UTC)")
	flags.TextVar(&warn, "warn", rota.Cost(0), "`part` of the limit that emits an event, such as 0.8")
	flags.StringVar(&then, "then", "hold", "what happens at the limit: `hold`, refuse, ask or warn")
	flags.BoolVar(&b.Stop, "stop", false, "interrupt attempts whose reports pass the limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b.Name, b.Tenant, b.Queue = rota.BudgetName(args[0]), rota.TenantID(tenant), rota.QueueName(queue)
		if !flags.Changed("limit") {
			return cli.Usagef("--limit: got none, want the amount that a period may spend")
		}
		if b.Unit == "" {
			return cli.Usagef("--unit is missing: the cost to limit, such as usd")
		}
		if warn > rota.CostUnit || warn%1000 != 0 {
			return cli.Usagef("--warn: got %s, want 0 to 1 with at most three digits after the point", warn)
		}
		b.WarnPermille = int64(warn / 1000)
		var err error
		if b.Each, err = rota.ParseBudgetEach(each); err != nil {
			return err
		}
		if b.Every, err = rota.ParseBudgetPeriod(every); err != nil {
			return err
		}
		if b.Then, err = rota.ParseBudgetThen(then); err != nil {
			return err
		}
		if err := b.Check(); err != nil {
			return err
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			state, err := c.Budgets().Set(ctx, b, how.Only())
			if err != nil {
				return err
			}
			return a.PrintOne(state, []string{args[0]}, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "budget", Value: state.Name},
					{Name: "of", Value: jobsText(&state.Budget)}, {Name: "limit", Value: limitText(&state.Budget)},
					{Name: "then", Value: state.Then}, {Name: "spent", Value: state.Spent},
					{Name: "reserved", Value: state.Reserved}, {Name: "etag", Value: state.ETag}})
			})
		}))(cmd, args)
	}
	return cmd
}

func (a BudgetCommands) grant() *cobra.Command {
	var of string
	var change rota.BudgetChange
	cmd := &cobra.Command{
		Use:     "grant NAME AMOUNT [--of X] [--reason TEXT]",
		Short:   "Add to the limit of a budget for its present period",
		Long:    "Add to the limit of a budget for its present period, which also answers its question.",
		Example: "  rota budget grant acme-month 100 --reason launch",
		Args:    cobra.ExactArgs(2),
	}
	flags := cmd.Flags()
	flags.StringVar(&of, "of", "", "`owner` of the account, if the budget has several: a tenant, key, workflow or job")
	flags.StringVar(&change.Reason, "reason", "", "`reason` to show")
	flags.StringVar(&change.ID, "id", "", "`id` of the grant: each counts once (default: a new one)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := change.Amount.UnmarshalText([]byte(args[1])); err != nil {
			return err
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			account, err := c.Budgets().Grant(ctx, rota.BudgetName(args[0]), of, change)
			if err != nil {
				return err
			}
			return a.PrintOne(account, []string{args[0]}, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "budget", Value: args[0]}, {Name: "of", Value: orAllText(account.Of)},
					{Name: "limit", Value: account.Limit}, {Name: "granted", Value: account.Granted},
					{Name: "left", Value: account.Left}})
			})
		}))(cmd, args)
	}
	return cmd
}

func (a BudgetCommands) reset() *cobra.Command {
	var of string
	var all bool
	var change rota.BudgetChange
	cmd := &cobra.Command{
		Use:     "reset NAME [--of X | --all] [--reason TEXT]",
		Short:   "Forget the spent and granted amounts of a budget in its present period",
		Long:    "Forget the spent and granted amounts of a budget in its present period. Reservations of open attempts stay.",
		Example: "  rota budget reset acme-month --reason 'refunded by the provider'",
		Args:    cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&of, "of", "", "`owner` of the account, if the budget has several: a tenant, key, workflow or job")
	flags.BoolVar(&all, "all", false, "all accounts of the budget")
	flags.StringVar(&change.Reason, "reason", "", "`reason` to show")
	flags.StringVar(&change.ID, "id", "", "`id` of the reset: each counts once (default: a new one)")
	cmd.RunE = a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
		if err := c.Budgets().Reset(ctx, rota.BudgetName(args[0]), of, all, change); err != nil {
			return err
		}
		return a.PrintOne(map[string]any{"budget": args[0], "state": "reset"}, []string{args[0]}, func(bool) string {
			return cli.RenderFacts([]cli.Fact{{Name: "budget", Value: args[0]}, {Name: "state", Value: "reset"}})
		})
	}))
	return cmd
}

func (a BudgetCommands) deletes() *cobra.Command {
	return a.DeletesVersion("delete NAME", "Delete a budget, and its accounts", "budget delete acme-month",
		func(ctx context.Context, c *client.Client, name string, only client.Condition) error {
			return c.Budgets().Delete(ctx, rota.BudgetName(name), only)
		})
}
