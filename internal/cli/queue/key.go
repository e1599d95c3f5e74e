package queue

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// KeyCommands are the commands of keys and their rules.
type KeyCommands struct{ *cli.App }

// Command returns `rota key` and the commands below it.
func (a KeyCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "key", Short: "Show and change the limits of a key's jobs"},
		a.list(), a.top(), a.show(), a.set(), a.skip(), a.deletes())
}

func (a KeyCommands) list() *cobra.Command {
	return a.ListCommand(&cobra.Command{
		Use:   "list",
		Short: "List the rules of keys",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			rules, err := client.Collect(c.Keys().Rules(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "rules", rules, cli.RuleText, []cli.Column[rota.KeyRule]{
				{Head: "KEY", Cell: func(r rota.KeyRule) any { return cli.RuleText(r) }},
				{Head: "QUEUE", Cell: func(r rota.KeyRule) any { return orAllText(string(r.Queue)) }},
				{Head: "SCOPE", Cell: func(r rota.KeyRule) any { return r.Scope }},
				{Head: "CONCURRENCY", Cell: func(r rota.KeyRule) any { return cli.OrNone(r.Concurrency) }},
				{Head: "RATE", Cell: func(r rota.KeyRule) any { return keyRateText(r) }},
				{Head: "SEQUENCE", Cell: func(r rota.KeyRule) any { return r.Sequence }},
				{Head: "GROUP", Cell: func(r rota.KeyRule) any { return r.Group }},
				{Head: "ETAG", Wide: true, Cell: func(r rota.KeyRule) any { return r.ETag }},
			})
		})),
	})
}

func orAllText(id string) string {
	if id == "" {
		return "all"
	}
	return id
}

func keyRateText(r rota.KeyRule) any {
	if r.Rate == 0 {
		return "none"
	}
	if r.Unit != "" {
		return fmt.Sprintf("%d %s in %s, %d at once", r.Rate, r.Unit, cli.Span(r.PeriodMs), cmp.Or(r.Burst, r.Rate))
	}
	return fmt.Sprintf("%d in %s, %d at once", r.Rate, cli.Span(r.PeriodMs), max(1, r.Burst))
}

func (a KeyCommands) show() *cobra.Command {
	var tenant string
	cmd := a.ListCommand(&cobra.Command{
		Use:     "show NAME:VALUE [--tenant T]",
		Short:   "Show the current counts of a key, under each of its rules",
		Long:    "Show the current counts of a key, under each of its rules; a key without live jobs counts nothing.",
		Example: "  rota key show account:7",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			states, err := c.Keys().State(ctx, rota.TenantID(tenant), args[0], a.Fresh()...)
			if err != nil {
				return err
			}
			a.Seen()
			return a.states(states)
		})),
	})
	cmd.Flags().StringVar(&tenant, "tenant", string(rota.DefaultTenant), "`tenant` whose key it is")
	return cmd
}

func (a KeyCommands) states(states []rota.KeyState) error {
	return cli.PrintAll(a.App, "keys", states, func(k rota.KeyState) string { return k.Key },
		[]cli.Column[rota.KeyState]{
			{Head: "KEY", Cell: func(k rota.KeyState) any { return k.Key }},
			{Head: "QUEUE", Cell: func(k rota.KeyState) any { return orAllText(string(k.Queue)) }},
			{Head: "TENANT", Cell: func(k rota.KeyState) any { return orAllText(string(k.Tenant)) }},
			{Head: "JOBS", Cell: func(k rota.KeyState) any { return k.Jobs }},
			{Head: "OPEN", Cell: func(k rota.KeyState) any { return k.Open }},
			{Head: "FULL", Cell: func(k rota.KeyState) any { return k.Full }},
			{Head: "NEXT", Wide: true, Cell: func(k rota.KeyState) any { return k.Next.Date }},
			{Head: "HEAD", Cell: func(k rota.KeyState) any { return k.Head }},
			{Head: "BLOCKED BY", Cell: func(k rota.KeyState) any { return k.Blocker }},
			{Head: "AT MOST", Wide: true, Cell: func(k rota.KeyState) any { return cli.OrNone(k.Concurrency) }},
			{Head: "DEBT", Wide: true, Cell: func(k rota.KeyState) any {
				if k.Unit == "" {
					return "none"
				}
				return fmt.Sprint(k.Debt, " ", k.Unit)
			}},
			{Head: "TOKENS", Wide: true, Cell: func(k rota.KeyState) any {
				if k.Rate == 0 || k.Unit != "" {
					return "none"
				}
				return k.Tokens
			}},
		})
}

func (a KeyCommands) top() *cobra.Command {
	var f rota.KeyFilter
	var queue, tenant, held string
	cmd := a.ListCommand(&cobra.Command{
		Use:   "top [--held full|blocked] [--name N] [--queue Q] [--tenant T] [--limit N]",
		Short: "List the keys that rules count, the most used first",
		Long: "List the keys that rules count: those with the most leases open first, of equals those with the most live jobs. --held full are those at a\n" +
			"limit of their rule, --held blocked those whose sequence a job holds up, which `rota key skip` passes.",
		Example: "  rota key top --limit 20\n  rota key top --held blocked",
		Args:    cobra.NoArgs,
	})
	flags := cmd.Flags()
	flags.StringVar(&held, "held", "any", "only those in this `state`: any, full or blocked")
	flags.StringVar(&f.Name, "name", "", "only those with this `name` before the colon")
	flags.StringVar(&queue, "queue", "", "only those that a rule of this `queue` counts")
	flags.StringVar(&tenant, "tenant", "", "only this `tenant`'s")
	flags.IntVar(&f.Limit, "limit", 100, "maximum number to list")
	cli.Within(flags, 1, cli.Unbounded, "limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.Queue, f.Tenant = rota.QueueName(queue), rota.TenantID(tenant)
		var err error
		if f.Held, err = rota.ParseKeyHeld(held); err != nil {
			return err
		}
		if err := f.Check(); err != nil {
			return err
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			states, err := client.Collect(c.Keys().List(ctx, f, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return a.states(states)
		}))(cmd, args)
	}
	return cmd
}

func (a KeyCommands) set() *cobra.Command {
	var r rota.KeyRule
	var queue, scope, sequence string
	var per time.Duration
	cmd := &cobra.Command{
		Use:   "set NAME[:VALUE] [--queue Q] [--concurrency N] [--rate N --per D [--burst N] [--unit COST [--default-cost N]]] [--sequence block|skip] [--group] [--scope cluster]",
		Short: "Set the limits of a key's jobs",
		Long: "Set the limits of a key's jobs. This replaces the rule for the same queue, name and value. A rule with a value is\n" +
			"for that value alone. Existing jobs count at once; no lease is revoked.\n\n" +
			"With --sequence the jobs of a key run one after the other in the order of their submission. One that ends DEAD or EXPIRED is passed\n" +
			"(skip), or the others wait until it completes after all, is cancelled or deleted, or `rota key skip` passes it (block).",
		Example: "  rota key set account --concurrency 3\n  rota key set host --rate 10 --per 1s\n  rota key set order --sequence block",
		Args:    cobra.ExactArgs(1),
	}
	var how cli.SetFlags
	flags := cmd.Flags()
	how.RegisterMatch(flags)
	flags.StringVar(&queue, "queue", "", "`queue` whose jobs it is for (default: those of all queues together)")
	flags.StringVar(&scope, "scope", "tenant", "whose keys count as one: `tenant` for each tenant's own, or cluster")
	flags.Int64Var(&r.Concurrency, "concurrency", 0, "leases with a key that may be open at once, `N`; 0 is no limit")
	flags.Int64Var(&r.Rate, "rate", 0, "jobs of a key that may be assigned in --per, `N`; 0 is no limit")
	cli.DurationVar(flags, &per, "per", 0, "the period of --rate")
	flags.Int64Var(&r.Burst, "burst", 0, "how many of --rate at once, `N` (default 1)")
	flags.StringVar(&r.Unit, "unit", "",
		"`cost` that --rate and --burst count, instead of jobs: a job counts as its --cost of that name")
	flags.TextVar(&r.DefaultCost, "default-cost", rota.Cost(0),
		"`amount` that a job without an estimate counts as; 0 is 1")
	flags.StringVar(&sequence, "sequence", "none", "run the jobs of a key one after the other: `block` or skip")
	flags.BoolVar(&r.Group, "group", false,
		"serve the keys of a --queue in turn, unless the queue is adaptive or has fair_share on")
	cli.Within(flags, 0, rota.MaxKeyConcurrency, "concurrency")
	cli.Within(flags, 0, rota.MaxCost/rota.CostUnit, "rate")
	cli.Within(flags, 0, time.Duration(rota.MaxKeyPeriod)*time.Millisecond, "per")
	cli.Within(flags, 0, rota.MaxCost/rota.CostUnit, "burst")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.Name, r.Value, _ = strings.Cut(args[0], ":")
		r.Queue, r.PeriodMs = rota.QueueName(queue), per.Milliseconds()
		var err error
		if r.Scope, err = rota.ParseKeyScope(scope); err != nil {
			return err
		}
		if r.Sequence, err = rota.ParseKeySequence(sequence); err != nil {
			return err
		}
		if err := r.Check(); err != nil {
			return err
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			if err := c.Keys().SetRule(ctx, r, how.Only()); err != nil {
				return err
			}
			return a.print(r)
		}))(cmd, args)
	}
	return cmd
}

func (a KeyCommands) print(r rota.KeyRule) error {
	return a.PrintOne(r, []string{cli.RuleText(r)}, func(bool) string {
		return cli.RenderFacts([]cli.Fact{{Name: "key", Value: cli.RuleText(r)},
			{Name: "queue", Value: orAllText(string(r.Queue))}, {Name: "scope", Value: r.Scope},
			{Name: "concurrency", Value: cli.OrNone(r.Concurrency)}, {Name: "rate", Value: keyRateText(r)},
			{Name: "sequence", Value: r.Sequence}, {Name: "group", Value: r.Group}})
	})
}

func (a KeyCommands) skip() *cobra.Command {
	var queue, tenant, scope, job string
	cmd := &cobra.Command{
		Use:     "skip NAME:VALUE --job ID [--queue Q] [--tenant T | --scope cluster]",
		Short:   "Let the sequence of a key go on behind the job that blocks it",
		Long:    "Let the sequence of a key go on behind the job that blocks it, which `rota key show` names, with the queue, the tenant and the scope of its rule.",
		Example: "  rota key skip order:1007 --job o-1007-3",
		Args:    cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&job, "job", "", "`job` that blocks it")
	flags.StringVar(&queue, "queue", "", "`queue` that the rule is of (default: the rule of all queues)")
	flags.StringVar(&tenant, "tenant", string(rota.DefaultTenant), "`tenant` whose key it is")
	flags.StringVar(&scope, "scope", "tenant", "the rule's scope: `tenant` or cluster")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if job == "" {
			return cli.Usagef("--job: got none, want the job that blocks the key; rota key show names it")
		}
		blocked := rota.KeyState{Queue: rota.QueueName(queue), Tenant: rota.TenantID(tenant), Key: args[0],
			Blocker: rota.JobID(job)}
		of, err := rota.ParseKeyScope(scope)
		if err != nil {
			return err
		}
		if of == rota.KeyOfCluster {
			blocked.Tenant = ""
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			if err := c.Keys().Skip(ctx, blocked); err != nil {
				return err
			}
			return a.PrintOne(map[string]any{"key": args[0], "passed": job}, []string{job}, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "key", Value: args[0]}, {Name: "passed", Value: job}})
			})
		}))(cmd, args)
	}
	return cmd
}

func (a KeyCommands) deletes() *cobra.Command {
	var queue string
	cmd := a.DeletesVersion("delete NAME[:VALUE] [--queue Q]", "Delete the limits of a key's jobs",
		"key delete account",
		func(ctx context.Context, c *client.Client, key string, only client.Condition) error {
			name, value, _ := strings.Cut(key, ":")
			return c.Keys().DeleteRule(ctx, rota.QueueName(queue), name, value, only)
		})
	cmd.Flags().StringVar(&queue, "queue", "", "`queue` that the rule is of (default: the rule of all queues)")
	return cmd
}
