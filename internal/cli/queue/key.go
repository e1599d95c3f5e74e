package queue

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// KeyCommands are the commands of keys and their rules.
type KeyCommands struct{ *cli.App }

// Command returns `rota key` and the commands below it.
func (a KeyCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "key", Short: "Show and change the limits of a key's jobs"},
		a.list(), a.top(), a.show(), a.set(), a.pause(), a.resume(), a.skip(), a.deletes())
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
				{Head: "BREAKER", Cell: func(r rota.KeyRule) any { return breakerText(r.Breaker) }},
				{Head: "ON FULL", Wide: true, Cell: func(r rota.KeyRule) any { return onFull(r.RefuseFull) }},
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

func breakerText(b rota.KeyBreaker) string {
	if b.Trip == 0 {
		return "none"
	}
	return fmt.Sprintf("%d of %d", b.Trip, b.Window())
}

func onFull(refuses bool) string {
	if refuses {
		return "fail"
	}
	return "queue"
}

// stopText describes what stops a key: its pause or its breaker.
func stopText(k rota.KeyState) string {
	var list []string
	if p := k.Pause; p != nil {
		list = append(list, "paused"+until(p.Until))
	}
	if b := k.Breaker; b != nil && b.State != rota.BreakerClosed {
		list = append(list, b.State.String()+until(b.Until))
	}
	return strings.Join(list, ", ")
}

func until(m rota.Moment) string {
	if m.IsZero() {
		return ""
	}
	return " until " + m.Date.String()
}

// stopReason describes who paused a key and why, or the failures that opened it.
func stopReason(k rota.KeyState) string {
	var list []string
	if p := k.Pause; p != nil {
		for _, text := range []string{string(p.By), string(p.Worker), p.Reason} {
			if text != "" {
				list = append(list, text)
			}
		}
	}
	if b := k.Breaker; b != nil {
		for _, f := range b.Latest {
			list = append(list, f.Reason.String()+" of job "+string(f.Job))
		}
	}
	return strings.Join(list, ", ")
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
			{Head: "LEASES", Cell: func(k rota.KeyState) any { return k.Open }},
			{Head: "FULL", Cell: func(k rota.KeyState) any { return k.Full }},
			{Head: "STOPPED", Cell: func(k rota.KeyState) any { return stopText(k) }},
			{Head: "WHY", Wide: true, Cell: func(k rota.KeyState) any { return stopReason(k) }},
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
	var queue, tenant, held, by string
	cmd := a.ListCommand(&cobra.Command{
		Use:   "top [--by use|spent] [--held full|blocked|paused|open] [--name N] [--queue Q] [--tenant T] [--limit N]",
		Short: "List the keys that rules count, most used first",
		Long: "List the keys that rules count: those with the most open leases first, then those with the most\n" +
			"live jobs. spent lists those first that have the largest unrepaid part of their burst.\n\n" +
			"--held selects keys:\n\n" +
			"  full     at a limit of their rule, or stopped\n" +
			"  blocked  whose sequence a job blocks, which `rota key skip` passes\n" +
			"  paused   stopped by a pause, which `rota key resume` ends\n" +
			"  open     stopped by a breaker, which `rota key resume` ends",
		Example: "  rota key top --limit 20\n  rota key top --held blocked",
		Args:    cobra.NoArgs,
	})
	flags := cmd.Flags()
	flags.StringVar(&by, "by", "use", "the `order`: use or spent")
	flags.StringVar(&held, "held", "any", "only those in this `state`: any, full, blocked, paused or open")
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
		if f.By, err = rota.ParseKeyOrder(by); err != nil {
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
	var per, open time.Duration
	var reasons []string
	onFullIs := "queue"
	cmd := &cobra.Command{
		Use:   "set NAME[:VALUE] [--queue Q] [--concurrency N] [--rate N --per D [--burst N] [--unit COST [--default-cost N]]] [--sequence block|skip] [--group] [--trip N [--of N] [--open D] [--probes N] [--trip-on REASONS]] [--on-full fail] [--scope cluster]",
		Short: "Set the limits of a key's jobs",
		Long: "Set the limits of a key's jobs. This replaces the rule for the same queue, name and value. A\n" +
			"rule with a value is for that value only. Existing jobs count at once; no lease is revoked.\n\n" +
			"With --sequence the jobs of a key run one after the other in the order of their submission. A\n" +
			"DEAD or EXPIRED job is passed (skip), or blocks the others until it completes after all, is\n" +
			"cancelled or deleted, or `rota key skip` passes it (block).\n\n" +
			"With --trip a key opens after failures: no job starts for --open, then one probe, whose success\n" +
			"closes it. `rota key resume` closes it too.",
		Example: "  rota key set account --concurrency 3\n  rota key set host --rate 10 --per 1s\n  rota key set order --sequence block\n  rota key set host --trip 5 --of 10 --open 30s",
		Args:    cobra.ExactArgs(1),
	}
	var how cli.SetFlags
	flags := cmd.Flags()
	how.RegisterMatch(flags)
	flags.StringVar(&queue, "queue", "", "`queue` whose jobs it is for (default: those of all queues together)")
	flags.StringVar(&scope, "scope", "tenant", "whose keys count as one: `tenant` for each tenant's own, or cluster")
	flags.Int64Var(&r.Concurrency, "concurrency", 0, "maximum `number` of open leases with a key; 0 means no limit")
	flags.Int64Var(&r.Rate, "rate", 0, "maximum `number` of jobs of a key assigned in --per; 0 means no limit")
	cli.DurationVar(flags, &per, "per", 0, "the period of --rate")
	flags.Int64Var(&r.Burst, "burst", 0, "maximum `number` of --rate at once (default 1, with --unit that of --rate)")
	flags.StringVar(&r.Unit, "unit", "",
		"`cost` that --rate and --burst count, instead of jobs: a job counts as its --cost of that name")
	flags.TextVar(&r.DefaultCost, "default-cost", rota.Cost(0),
		"`amount` that a job without an estimate counts as; 0 is 1")
	flags.StringVar(&sequence, "sequence", "none", "run the jobs of a key one after the other: `block` or skip")
	flags.BoolVar(&r.Group, "group", false,
		"serve the keys of a --queue in turn, unless the queue is adaptive or has fair_share on")
	flags.Int64Var(&r.Breaker.Trip, "trip", 0, "`number` of failures that open a key; 0 means no breaker")
	flags.Int64Var(&r.Breaker.Of, "of", 0, "count the failures among the last `N` attempts (default: that of --trip)")
	cli.DurationVar(flags, &open, "open", 0, "how long an open key starts no jobs (default 30s), doubled after each failed probe")
	flags.Int64Var(&r.Breaker.Probes, "probes", 0, "`number` of jobs that may then start, and of successes that close the key (default 1)")
	flags.StringSliceVar(&reasons, "trip-on", nil, "`reasons` of failures (default PROVIDER_FAIL,TIMED_OUT,LEASE_EXPIRED)")
	flags.StringVar(&onFullIs, "on-full", "queue", "what happens to a new job that could not start now: `queue` it, or fail its submission")
	cli.Within(flags, 0, rota.MaxKeyOutcomes, "trip")
	cli.Within(flags, 0, rota.MaxKeyOutcomes, "of")
	cli.Within(flags, 0, time.Duration(rota.MaxKeyOpen)*time.Millisecond, "open")
	cli.Within(flags, 0, rota.MaxKeyProbes, "probes")
	cli.Within(flags, 0, rota.MaxKeyConcurrency, "concurrency")
	cli.Within(flags, 0, rota.MaxCost/rota.CostUnit, "rate")
	cli.Within(flags, 0, time.Duration(rota.MaxKeyPeriod)*time.Millisecond, "per")
	cli.Within(flags, 0, rota.MaxCost/rota.CostUnit, "burst")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.Name, r.Value, _ = strings.Cut(args[0], ":")
		r.Queue, r.PeriodMs = rota.QueueName(queue), per.Milliseconds()
		switch {
		case r.Rate > 0 && r.PeriodMs == 0:
			return cli.Usagef("--per is missing: the period of --rate, such as 1s")
		case r.Group && queue == "":
			return cli.Usagef("--queue is missing: the queue whose keys --group serves in turn")
		}
		var err error
		if r.Scope, err = rota.ParseKeyScope(scope); err != nil {
			return err
		}
		if r.Sequence, err = rota.ParseKeySequence(sequence); err != nil {
			return err
		}
		if onFullIs != onFull(onFullIs == "fail") {
			return rota.NotOneOf("on-full", onFullIs, "queue", "fail")
		}
		r.RefuseFull, r.Breaker.OpenMs = onFullIs == "fail", open.Milliseconds()
		if r.Breaker.Reasons, err = rota.ParseReasons(reasons); err != nil {
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
			{Name: "sequence", Value: r.Sequence}, {Name: "group", Value: r.Group},
			{Name: "breaker", Value: breakerText(r.Breaker)}, {Name: "on full", Value: onFull(r.RefuseFull)}})
	})
}

// countFlags say where the rule of a key counts it.
type countFlags struct{ queue, tenant, scope string }

func (f *countFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.queue, "queue", "", "`queue` that the rule is of (default: the rule of all queues)")
	flags.StringVar(&f.tenant, "tenant", string(rota.DefaultTenant), "`tenant` whose key it is")
	flags.StringVar(&f.scope, "scope", "tenant", "the rule's scope: `tenant` or cluster")
}

func (f *countFlags) of() (rota.QueueName, rota.TenantID, error) {
	scope, err := rota.ParseKeyScope(f.scope)
	if scope == rota.KeyOfCluster {
		return rota.QueueName(f.queue), "", err
	}
	return rota.QueueName(f.queue), rota.TenantID(f.tenant), err
}

func (a KeyCommands) pause() *cobra.Command {
	var where countFlags
	var at cli.NextValue
	var reason string
	var span time.Duration
	cmd := &cobra.Command{
		Use:   "pause NAME:VALUE [--for D | --until DATE] [--reason TEXT] [--queue Q] [--tenant T | --scope cluster]",
		Short: "Stop starting jobs of a key",
		Long: "Stop starting jobs of a key, for a time or until `rota key resume`. Running jobs continue, and\n" +
			"sequences and turns keep their order. The later of two pauses applies. The key needs a rule; a\n" +
			"rule with a value needs no limit (`rota key set NAME:VALUE`).",
		Example: "  rota key pause model:opus --for 5m --reason 429\n  rota key pause model:opus --until 14:05",
		Args:    cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	where.register(flags)
	cli.DurationVar(flags, &span, "for", 0, "how long")
	flags.Var(&at, "until", "the `date` when it ends, or a time of day such as 14:05, the next one in local time")
	flags.StringVar(&reason, "reason", "", "`reason` to show")
	cli.Within(flags, 0, time.Duration(rota.MaxKeyPause)*time.Millisecond, "for")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		queue, tenant, err := where.of()
		if err != nil {
			return err
		}
		var end time.Time
		switch {
		case at != 0 && span > 0:
			return cli.Usagef("--until: got %s with --for %s; use one of them", &at, span)
		case at != 0:
			end = time.UnixMilli(int64(at))
		case span > 0:
			end = time.Now().Add(span)
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			if err := c.Keys().Pause(ctx, queue, tenant, args[0], end, reason); err != nil {
				return err
			}
			return a.stopped(args[0], "paused")
		}))(cmd, args)
	}
	return cmd
}

func (a KeyCommands) resume() *cobra.Command {
	var where countFlags
	cmd := &cobra.Command{
		Use:     "resume NAME:VALUE [--queue Q] [--tenant T | --scope cluster]",
		Short:   "End the pause of a key, and close its breaker",
		Example: "  rota key resume model:opus",
		Args:    cobra.ExactArgs(1),
	}
	where.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		queue, tenant, err := where.of()
		if err != nil {
			return err
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			if err := c.Keys().Resume(ctx, queue, tenant, args[0]); err != nil {
				return err
			}
			return a.stopped(args[0], "resumed")
		}))(cmd, args)
	}
	return cmd
}

// stopped prints what was done to a key.
func (a KeyCommands) stopped(key, state string) error {
	return a.PrintOne(map[string]any{"key": key, "state": state}, []string{key}, func(bool) string {
		return cli.RenderFacts([]cli.Fact{{Name: "key", Value: key}, {Name: "state", Value: state}})
	})
}

func (a KeyCommands) skip() *cobra.Command {
	var where countFlags
	var job string
	cmd := &cobra.Command{
		Use:   "skip NAME:VALUE --job ID [--queue Q] [--tenant T | --scope cluster]",
		Short: "Continue the sequence of a key after the job that blocks it",
		Long: "Continue the sequence of a key after the job that blocks it. `rota key show` shows that job, and\n" +
			"the queue, tenant and scope of its rule.",
		Example: "  rota key skip order:1007 --job o-1007-3",
		Args:    cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	where.register(flags)
	flags.StringVar(&job, "job", "", "`job` that blocks it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if job == "" {
			return cli.Usagef("--job: got none, want the job that blocks the key; rota key show names it")
		}
		queue, tenant, err := where.of()
		if err != nil {
			return err
		}
		blocked := rota.KeyState{Queue: queue, Tenant: tenant, Key: args[0], Blocker: rota.JobID(job)}
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
