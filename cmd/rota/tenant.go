package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// tenantCommands are the commands of tenants.
type tenantCommands struct{ *app }

func (a tenantCommands) command() *cobra.Command {
	return a.group(&cobra.Command{Use: "tenant", Short: "See and change tenants and their limits"},
		a.list(), a.show(), a.set(),
		a.deletesVersion("delete T", "Forget what was set of a tenant that no live job, workflow or token names", "tenant delete acme",
			func(ctx context.Context, c *client.Client, id string, only client.Condition) error {
				return c.DeleteTenant(ctx, rota.TenantID(id), only)
			}))
}

func (a tenantCommands) list() *cobra.Command {
	return a.listCommand(&cobra.Command{
		Use:   "list",
		Short: "List the tenants that somebody set or that have leases open",
		Args:  cobra.NoArgs,
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
			tenants, err := client.Collect(c.Tenants(ctx, a.fresh()...))
			if err != nil {
				return err
			}
			a.seen()
			return printAll(a.app, "tenants", tenants, func(t rota.Tenant) string { return string(t.ID) }, tenantColumns())
		})),
	})
}

func tenantColumns() []column[rota.Tenant] {
	return []column[rota.Tenant]{
		{"ID", false, 0, func(t rota.Tenant) any { return t.ID }},
		{"TIER", false, 0, func(t rota.Tenant) any { return t.Tier }},
		{"WEIGHT", false, 0, func(t rota.Tenant) any { return t.Weight }},
		{"OPEN", false, 0, func(t rota.Tenant) any { return t.Open }},
		{"MAX", false, 0, func(t rota.Tenant) any { return orNone(t.MaxConcurrent) }},
		{"RPS", false, 0, func(t rota.Tenant) any { return rateText(t.RateLimitRPS) }},
		{"PENALTY", true, 0, func(t rota.Tenant) any { return span(t.PenaltyMs) }},
		{"THROTTLED", false, 0, func(t rota.Tenant) any { return t.Throttled }},
		{"RATE LEFT", true, 0, func(t rota.Tenant) any { return ofSome(t.RateLeft, max(0, t.RateLimitRPS)) }},
		{"SET", true, 0, func(t rota.Tenant) any { return t.Known }},
	}
}

// orNone shows a limit of which 0 is none.
func orNone(limit int64) any {
	if limit == 0 {
		return "none"
	}
	return limit
}

func rateText(rps int64) any {
	if rps < 0 {
		return "the queue's"
	}
	return orNone(rps)
}

func (a tenantCommands) show() *cobra.Command {
	return a.reads(&cobra.Command{
		Use:     "show T",
		Short:   "Show a tenant's limits and what it has open; one that nobody set has the defaults",
		Example: "  rota tenant show acme",
		Args:    cobra.ExactArgs(1),
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, args []string) error {
			id := rota.TenantID(args[0])
			if err := rota.CheckID("tenant", id); err != nil {
				return err
			}
			t, err := c.Tenant(ctx, id, a.fresh()...)
			if err != nil {
				return err
			}
			a.seen()
			return a.print(t)
		})),
	})
}

// tenantFlags are the flags of `tenant set`, each with the key that it sets.
var tenantFlags = []struct{ flag, key, usage string }{
	{"tier", "tier", "service `tier`, a term of the market ranking: FREE, PRO, PREMIUM"},
	{"weight", "weight", "`weight` of its fair share, 1 or more"},
	{"max-concurrent", "max_concurrent", "leases that it may have open over all queues, `N`; 0 is no limit"},
	{"rate-limit-rps", "rate_limit_rps", "submissions a second over all queues, `N`; 0 is no limit, -1 leaves it to each queue"},
	{"bytes-max", "bytes_max", "`bytes` that its jobs and workflows may hold, such as 64MiB; 0 is no limit"},
	{"penalty", "penalty_ms", "`duration` that its lanes wait at least once it reached --max-concurrent; 0 waits for a lease that ends only"},
}

func (a tenantCommands) set() *cobra.Command {
	var how setFlags
	cmd := &cobra.Command{
		Use:   "set T [--tier TIER] [--weight N] [--max-concurrent N] [--rate-limit-rps N] [--bytes-max N] [--penalty D] [--dry-run] [--if-match ETAG]",
		Short: "Create a tenant or change its limits",
		Long: "Create a tenant or change its limits; what is not named stays as it is.\n\n" +
			"At --max-concurrent the tenant's jobs wait, and other tenants' run in their place.",
		Example: "  rota tenant set acme --tier PREMIUM --weight 3 --max-concurrent 50",
		Args:    cobra.ExactArgs(1),
	}
	for _, f := range tenantFlags {
		cmd.Flags().String(f.flag, "", f.usage)
	}
	how.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id := rota.TenantID(args[0])
		if err := rota.CheckID("tenant", id); err != nil {
			return err
		}
		set, err := tenantSettings(cmd.Flags())
		if err != nil {
			return err
		}
		return a.does(a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
			t, err := c.SetTenant(ctx, id, set, how.options()...)
			if err != nil {
				return err
			}
			if how.dry {
				return how.would(a.app, t, string(t.ID), t.Changes)
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
		return nil, usagef("nothing to set: one of %s is wanted", strings.Join(names, ", "))
	}
	return set, nil
}

func (a tenantCommands) print(t rota.Tenant) error {
	return a.printOne(t, []string{string(t.ID)}, func(bool) string {
		return renderFacts([]fact{
			{"tenant", t.ID}, {"tier", t.Tier}, {"weight", t.Weight}, {"max concurrent", orNone(t.MaxConcurrent)},
			{"rate limit rps", rateText(t.RateLimitRPS)}, {"penalty", span(t.PenaltyMs)}, {"bytes", t.Bytes}, {"bytes max", t.BytesMax}, {"open leases", t.Open},
			{"throttled", t.Throttled}, {"set", t.Known}, {"etag", t.ETag},
		})
	})
}
