package queue

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// TenantCommands are the commands of tenants.
type TenantCommands struct{ *cli.App }

// Command returns `rota tenant` and the commands below it.
func (a TenantCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "tenant", Short: "See and change tenants and their limits"},
		a.List(), a.show(), a.set(),
		a.DeletesVersion("delete T", "Delete the settings of a tenant that no live job, workflow or token uses",
			"tenant delete acme",
			func(ctx context.Context, c *client.Client, id string, only client.Condition) error {
				return c.DeleteTenant(ctx, rota.TenantID(id), only)
			}))
}

// List returns `rota tenant list`.
func (a TenantCommands) List() *cobra.Command {
	return a.ListCommand(&cobra.Command{
		Use:   "list",
		Short: "List the tenants with settings or open leases",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			tenants, err := client.Collect(c.Tenants(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "tenants", tenants, func(t rota.Tenant) string { return string(t.ID) },
				tenantColumns())
		})),
	})
}

func tenantColumns() []cli.Column[rota.Tenant] {
	return []cli.Column[rota.Tenant]{
		{Head: "ID", Cell: func(t rota.Tenant) any { return t.ID }},
		{Head: "TIER", Cell: func(t rota.Tenant) any { return t.Tier }},
		{Head: "WEIGHT", Cell: func(t rota.Tenant) any { return t.Weight }},
		{Head: "LEASES", Cell: func(t rota.Tenant) any { return t.Open }},
		{Head: "MAX", Cell: func(t rota.Tenant) any { return cli.OrNone(t.MaxConcurrent) }},
		{Head: "RPS", Cell: func(t rota.Tenant) any { return rateText(t.RateLimitRPS) }},
		{Head: "PENALTY", Wide: true, Cell: func(t rota.Tenant) any { return cli.Span(t.PenaltyMs) }},
		{Head: "THROTTLED", Cell: func(t rota.Tenant) any { return t.Throttled }},
		{Head: "RATE LEFT", Wide: true, Cell: func(t rota.Tenant) any {
			return cli.OfSome(t.RateLeft, max(0, t.RateLimitRPS))
		}}, {Head: "SET", Wide: true, Cell: func(t rota.Tenant) any { return t.Known }},
	}
}

func rateText(rps int64) any {
	if rps < 0 {
		return "the queue's"
	}
	return cli.OrNone(rps)
}

func (a TenantCommands) show() *cobra.Command {
	return a.Reads(&cobra.Command{
		Use:     "show T",
		Short:   "Show a tenant's limits and usage; a tenant without settings has the defaults",
		Example: "  rota tenant show acme",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			id := rota.TenantID(args[0])
			if err := rota.CheckID("tenant", id); err != nil {
				return err
			}
			t, err := c.Tenant(ctx, id, a.Fresh()...)
			if err != nil {
				return err
			}
			a.Seen()
			return a.print(t)
		})),
	})
}

// tenantFlags are the flags of `tenant set`, each with the key that it sets.
var tenantFlags = []struct{ flag, key, usage string }{
	{"tier", "tier", "service `tier`, a term of the market ranking: FREE, PRO, PREMIUM"},
	{"weight", "weight", "`weight` of its fair share, 1 or more"},
	{"max-concurrent", "max_concurrent", "maximum `number` of open leases over all queues; 0 means no limit"},
	{"rate-limit-rps", "rate_limit_rps",
		"maximum `number` of submissions a second over all queues; 0 means no limit, -1 uses each queue's limit"},
	{"bytes-max", "bytes_max", "`bytes` that its jobs and workflows may hold, such as 64MiB; 0 means no limit"},
	{"penalty", "penalty_ms",
		"minimum `duration` that its lanes wait at --max-concurrent; 0 waits only for a lease to end"},
}

func (a TenantCommands) set() *cobra.Command {
	var how cli.SetFlags
	cmd := &cobra.Command{
		Use:     "set T [--tier TIER] [--weight N] [--max-concurrent N] [--rate-limit-rps N] [--bytes-max N] [--penalty D] [--dry-run] [--if-match ETAG]",
		Short:   "Create a tenant or change its limits",
		Long:    "Create a tenant or change its limits; only the given ones change.",
		Example: "  rota tenant set acme --tier PREMIUM --weight 3 --max-concurrent 50",
		Args:    cobra.ExactArgs(1),
	}
	for _, f := range tenantFlags {
		cmd.Flags().String(f.flag, "", f.usage)
	}
	how.Register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id := rota.TenantID(args[0])
		if err := rota.CheckID("tenant", id); err != nil {
			return err
		}
		set, err := tenantSettings(cmd.Flags())
		if err != nil {
			return err
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			t, err := c.SetTenant(ctx, id, set, how.Options()...)
			if err != nil {
				return err
			}
			if how.Dry {
				return how.Would(a.App, t, string(t.ID), t.Changes)
			}
			return a.print(t)
		}))(cmd, args)
	}
	return cmd
}

// tenantSettings checks what is given before the cluster is asked.
func tenantSettings(flags *pflag.FlagSet) ([]rota.Setting, error) {
	var set []rota.Setting
	limits := rota.DefaultTenantLimits()
	for _, f := range tenantFlags {
		if !flags.Changed(f.flag) {
			continue
		}
		s := rota.Setting{Key: f.key, Value: flags.Lookup(f.flag).Value.String()}
		written := rota.Setting{Key: f.flag, Value: s.Value}
		if err := cmp.Or(written.CheckUnit(), limits.Set(s)); err != nil {
			return nil, err
		}
		set = append(set, s)
	}
	if len(set) == 0 {
		names := make([]string, len(tenantFlags))
		for i, f := range tenantFlags {
			names[i] = "--" + f.flag
		}
		return nil, cli.Usagef("nothing to set: use one of %s", strings.Join(names, ", "))
	}
	return set, nil
}

func (a TenantCommands) print(t rota.Tenant) error {
	return a.PrintOne(t, []string{string(t.ID)}, func(bool) string {
		return cli.RenderFacts([]cli.Fact{
			{Name: "tenant", Value: t.ID}, {Name: "tier", Value: t.Tier}, {Name: "weight", Value: t.Weight},
			{Name: "max concurrent", Value: cli.OrNone(t.MaxConcurrent)},
			{Name: "rate limit rps", Value: rateText(t.RateLimitRPS)}, {Name: "penalty", Value: cli.Span(t.PenaltyMs)},
			{Name: "bytes", Value: t.Bytes}, {Name: "bytes max", Value: t.BytesMax},
			{Name: "open leases", Value: t.Open},
			{Name: "throttled", Value: t.Throttled}, {Name: "set", Value: t.Known}, {Name: "etag", Value: t.ETag},
		})
	})
}
