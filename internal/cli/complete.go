package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// completionTime bounds what a press of the tab key waits for a cluster; maxCompletion is
// how many ids one gets.
const (
	completionTime = time.Second
	maxCompletion  = 200
)

// lister asks a cluster for the names that a shell may complete.
type lister func(ctx context.Context, c *client.Client) ([]string, error)

// AddCompletions lets shells complete arguments and flags, by the command's path and by
// the flag's name. Names of a cluster are asked of it; one that does not answer at once
// completes nothing.
func (a *App) AddCompletions(root *cobra.Command) {
	jobs, flows := a.Asks(listJobs), a.Asks(listWorkflows)
	queues, workers, tenants := a.Asks(ListQueues), a.Asks(listWorkers), a.Asks(listTenants)
	schedules, rules, batches := a.Asks(listSchedules), a.Asks(listKeyRules), a.Asks(listBatches)
	args := map[string]cobra.CompletionFunc{
		"mode set": fixed(rota.ClusterModeNames()...), "plan start": fixed(PlanVerbNames()...),
	}
	for of, names := range map[string]cobra.CompletionFunc{
		"job show why logs wait cancel retry reject": jobs, "workflow show graph wait cancel retry": flows,
		"tenant show set delete": tenants,
		"plan show wait cancel":  a.Asks(listPlans), "batch show seal wait": batches,
		"key set delete": rules, "schedule show set next pause resume trigger backfill delete": schedules,
		"queue show set pause resume delete": queues, "worker show drain suspend resume retire delete": workers,
	} {
		words := strings.Fields(of)
		for _, verb := range words[1:] {
			args[words[0]+" "+verb] = names
		}
	}
	keys := rota.PolicyKeys()
	for i := range keys {
		keys[i] += "="
	}
	flags := map[string]cobra.CompletionFunc{
		"queue": queues, "queues": queues, "drain-to": queues, "worker": workers, "tenant": tenants, "job": jobs,
		"batch":  batches,
		"output": fixed(formats...), "preset": fixed(rota.Presets...), "kind": fixed(rota.EventKindNames()...),
		"state": fixed(rota.JobStateNames()...), "group": fixed("fingerprint"),
		"tier":  fixed(rota.ServiceTierNames()...),
		"scope": fixed("tenant", "cluster"), "sequence": fixed("none", "block", "skip"),
		"overlap":            fixed("skip", "queue_one", "queue_all", "cancel", "allow"),
		"unique-by":          fixed(rota.UniqueByQueue, rota.UniqueByType, rota.UniqueByArgs),
		"unique-scope":       fixed("pending", "running", "completed"),
		"unique-on-conflict": fixed(rota.UniqueRefuse, rota.UniqueExisting, rota.UniqueReplace, rota.UniqueExtend),
		"set": cobra.FixedCompletions(keys,
			cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace),
	}
	var walk func(cmd *cobra.Command, path string)
	walk = func(cmd *cobra.Command, path string) {
		if f := args[path]; f != nil {
			cmd.ValidArgsFunction = f
		}
		complete := func(flag *pflag.Flag) {
			if _, there := cmd.GetFlagCompletionFunc(flag.Name); there || flags[flag.Name] == nil {
				return
			}
			// It fails for a flag that is not there.
			if err := cmd.RegisterFlagCompletionFunc(flag.Name, flags[flag.Name]); err != nil {
				panic(err)
			}
		}
		cmd.LocalFlags().VisitAll(complete)
		for _, child := range cmd.Commands() {
			walk(child, strings.TrimSpace(path+" "+child.Name()))
		}
	}
	walk(root, "")
}

// fixed completes names that are always the same, in any case of letters.
func fixed(names ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
}

// Asks completes what a cluster lists, and nothing where it cannot be asked.
func (a *App) Asks(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp
		if err := a.Settle(cmd); err != nil {
			return nil, directive
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		c, err := a.Dial()
		if err != nil {
			return nil, directive
		}
		defer c.Close()
		names, err := list(ctx, c)
		if err != nil {
			return nil, directive
		}
		names = slices.DeleteFunc(names, func(n string) bool {
			return !strings.HasPrefix(n, begun) || slices.Contains(given, n)
		})
		return names[:min(len(names), maxCompletion)], directive
	}
}

// namesOf are the names of what a list holds.
func namesOf[T any](items []T, name func(*T) string) []string {
	names := make([]string, len(items))
	for i := range items {
		names[i] = name(&items[i])
	}
	return names
}

func listJobs(ctx context.Context, c *client.Client) ([]string, error) {
	jobs, err := client.Collect(c.Jobs(ctx, rota.JobFilter{Limit: maxCompletion}, client.Stale()))
	return namesOf(jobs, func(j *rota.Job) string { return string(j.ID) }), err
}

func listWorkflows(ctx context.Context, c *client.Client) ([]string, error) {
	flows, err := client.Collect(c.Workflows(ctx, rota.WorkflowFilter{Limit: maxCompletion}, client.Stale()))
	return namesOf(flows, func(w *rota.Workflow) string { return string(w.ID) }), err
}

// ListQueues returns the names of all queues, for completion.
func ListQueues(ctx context.Context, c *client.Client) ([]string, error) {
	queues, err := client.Collect(c.Queues(ctx, client.Stale()))
	return namesOf(queues, func(q *rota.Queue) string { return string(q.Name) }), err
}

func listWorkers(ctx context.Context, c *client.Client) ([]string, error) {
	workers, err := client.Collect(c.Workers(ctx, client.Stale()))
	return namesOf(workers, func(w *rota.Worker) string { return string(w.ID) }), err
}

func listTenants(ctx context.Context, c *client.Client) ([]string, error) {
	tenants, err := client.Collect(c.Tenants(ctx, client.Stale()))
	return namesOf(tenants, func(t *rota.Tenant) string { return string(t.ID) }), err
}

func listPlans(ctx context.Context, c *client.Client) ([]string, error) {
	plans, err := client.Collect(client.PlansOf(c).List(ctx, client.Stale()))
	return namesOf(plans, func(p *rota.Plan) string { return string(p.ID) }), err
}

func listSchedules(ctx context.Context, c *client.Client) ([]string, error) {
	schedules, err := client.Collect(c.Schedules().List(ctx, client.Stale()))
	return namesOf(schedules, func(s *rota.Schedule) string { return string(s.Name) }), err
}

func listKeyRules(ctx context.Context, c *client.Client) ([]string, error) {
	rules, err := client.Collect(c.Keys().Rules(ctx, client.Stale()))
	names := namesOf(rules, func(r *rota.KeyRule) string { return RuleText(*r) })
	slices.Sort(names)
	return slices.Compact(names), err // of several queues
}

func listBatches(ctx context.Context, c *client.Client) ([]string, error) {
	batches, err := client.Collect(client.BatchesOf(c).List(ctx, client.Stale()))
	return namesOf(batches, func(b *rota.Batch) string { return string(b.ID) }), err
}

// PlanVerbNames returns the verbs that a plan can repeat.
func PlanVerbNames() (names []string) {
	for v := rota.PlanCancel; v <= rota.PlanVerbLast; v++ {
		names = append(names, v.String())
	}
	return names
}
