package queue

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/server"
)

// Commands are the commands of queues.
type Commands struct{ *cli.App }

// Command returns `rota queue` and the commands below it.
func (a Commands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "queue", Short: "See and change queues"},
		a.List(), a.show(), a.set(),
		a.paused("pause", "Stop starting jobs of a queue; running jobs continue", "true"),
		a.paused("resume", "Start jobs of a paused queue again", "false"),
		a.delete())
}

func (a Commands) delete() *cobra.Command {
	var to string
	cmd := a.DeletesVersion("delete Q", "Delete a queue that no job, workflow, schedule or rule names",
		"queue delete images\n  rota queue delete images --drain-to pictures",
		func(ctx context.Context, c *client.Client, id string, only client.Condition) error {
			return c.DeleteQueue(ctx, rota.QueueName(id), only)
		})
	drain := a.Waiting(a.Deleting(func(ctx context.Context, c *client.Client, id string) error {
		return c.DrainQueue(ctx, rota.QueueName(id), rota.QueueName(to),
			func(left uint64) { a.Talk("%d live jobs are left", left) })
	}))
	work := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if to == "" {
			return work(cmd, args)
		}
		if cmd.Flags().Changed("if-match") {
			return cli.Usagef("--drain-to changes the queue in several steps: omit --if-match")
		}
		return a.Does(drain)(cmd, args)
	}
	cmd.Long = "Delete a queue that no job, workflow, schedule or rule names.\n\nWith --drain-to its pending jobs move to another queue first. " +
		"From then on the queue accepts no submissions; the command waits for running jobs. Run again, it continues where it stopped; " +
		"`rota queue set Q` keeps the queue after all."
	cmd.Flags().StringVar(&to, "drain-to", "", "move the pending jobs to this `queue` first")
	return cmd
}

// List returns `rota queue list`.
func (a Commands) List() *cobra.Command {
	return a.ListCommand(&cobra.Command{
		Use:   "list",
		Short: "List the queues",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			queues, err := client.Collect(c.Queues(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "queues", queues, func(q rota.Queue) string { return string(q.Name) },
				queueColumns())
		})),
	})
}

func queueColumns() []cli.Column[rota.Queue] {
	return []cli.Column[rota.Queue]{
		{Head: "NAME", Cell: func(q rota.Queue) any { return q.Name }},
		{Head: "PRESET", Cell: func(q rota.Queue) any { return q.Policy.Preset }},
		{Head: "RANKING", Wide: true, Cell: func(q rota.Queue) any { return q.Policy.Ranking }},
		{Head: "STRATEGY", Wide: true, Cell: func(q rota.Queue) any { return q.Policy.Strategy }},
		{Head: "PAUSED", Cell: func(q rota.Queue) any { return q.Policy.Paused }},
		{Head: "PENDING", Cell: func(q rota.Queue) any { return q.Pending }},
		{Head: "DELAYED", Wide: true, Cell: func(q rota.Queue) any { return q.Delayed }},
		{Head: "QUEUED", Wide: true, Cell: func(q rota.Queue) any { return q.Queued }},
		{Head: "ASSIGNED", Wide: true, Cell: func(q rota.Queue) any { return q.Assigned }},
		{Head: "RUNNING", Cell: func(q rota.Queue) any { return q.Running }},
		{Head: "COMPLETED", Cell: func(q rota.Queue) any { return q.CompletedTotal }},
		{Head: "DEAD", Cell: func(q rota.Queue) any { return q.DeadTotal }},
		{Head: "EXPIRED", Wide: true, Cell: func(q rota.Queue) any { return q.ExpiredTotal }},
		{Head: "CANCELLED", Wide: true, Cell: func(q rota.Queue) any { return q.CancelledTotal }},
		{Head: "STAGED", Wide: true, Cell: func(q rota.Queue) any { return q.Staged }},
		{Head: "WORKERS", Cell: func(q rota.Queue) any { return q.Workers }},
		{Head: "USAGE", Wide: true, Cell: func(q rota.Queue) any { return percent(q.UsagePermille) }},
		{Head: "BACKLOG USAGE", Wide: true, Cell: func(q rota.Queue) any { return percent(q.BacklogUsagePermille) }},
		{Head: "LEASE USAGE", Wide: true, Cell: func(q rota.Queue) any { return percent(q.LeaseUsagePermille) }},
		{Head: "PRESSURE", Cell: func(q rota.Queue) any { return q.Backpressure }},
		{Head: "LANES", Wide: true, Cell: func(q rota.Queue) any { return q.Lanes }},
		{Head: "THROTTLED", Wide: true, Cell: func(q rota.Queue) any { return q.Throttled }},
		{Head: "OLDEST WAIT", Cell: func(q rota.Queue) any { return cli.Span(millis.Of(q.OldestWait)) }},
	}
}

func (a Commands) show() *cobra.Command {
	return a.Reads(&cobra.Command{
		Use:   "show Q",
		Short: "Show a queue's counters and its whole policy",
		Args:  cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			q, err := c.Queue(ctx, rota.QueueName(args[0]), a.Fresh()...)
			if err != nil {
				return err
			}
			a.Seen()
			return a.print(q)
		})),
	})
}

func (a Commands) set() *cobra.Command {
	var preset string
	var pairs []string
	var how cli.SetFlags
	cmd := &cobra.Command{
		Use:   "set Q [--preset P] [--set key=value]… [--dry-run] [--if-match ETAG]",
		Short: "Create a queue or change its policy",
		Long: "Create a queue or change its policy. A preset starts from its values; each --set changes one key." +
			"\n\nKeys, each with its default in standard and in the presets that " +
			"differ:\n\n" + keysHelp(),
		Args: cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			set, err := parseSettings(preset, pairs)
			if err != nil {
				return err
			}
			q, err := c.SetQueue(ctx, rota.QueueName(args[0]), preset, set, how.Options()...)
			if err != nil {
				return err
			}
			if how.Dry {
				return how.Would(a.App, q, string(q.Name), q.Changes)
			}
			return a.print(q)
		})),
	}
	cmd.Flags().StringVar(&preset, "preset", "", "start from this `preset`: "+strings.Join(rota.Presets, ", "))
	cmd.Flags().StringArrayVar(&pairs, "set", nil,
		"`key=value`, or expected.TYPE=TIME for the adaptive ranking; may be repeated")
	how.Register(cmd.Flags())
	return cmd
}

// parseSettings checks preset, keys and values before the cluster is asked: a
// typo costs no call.
func parseSettings(preset string, pairs []string) ([]rota.Setting, error) {
	policy := rota.StandardPolicy()
	if preset != "" {
		var err error
		if policy, err = rota.PresetPolicy(preset); err != nil {
			return nil, err
		}
	}
	set := make([]rota.Setting, 0, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, cli.Usagef("--set: got %q; use key=value", pair)
		}
		s := rota.Setting{Key: key, Value: value}.Canonical()
		if err := cmp.Or(s.CheckUnit(), policy.Try(s)); err != nil {
			return nil, err
		}
		set = append(set, s)
	}
	return set, nil
}

func (a Commands) paused(verb, short, paused string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " Q",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			name := rota.QueueName(args[0])
			// SetQueue creates what is not there; a pause shall not.
			if _, err := c.Queue(ctx, name); err != nil {
				return err
			}
			q, err := c.SetQueue(ctx, name, "", []rota.Setting{{Key: "paused", Value: paused}})
			if err != nil {
				return err
			}
			return a.print(q)
		})),
	}
}

func (a Commands) print(q rota.Queue) error {
	return a.PrintOne(q, []string{string(q.Name)}, func(wide bool) string {
		text := cli.RenderFacts([]cli.Fact{
			{Name: "queue", Value: q.Name}, {Name: "preset", Value: q.Policy.Preset},
			{Name: "paused", Value: q.Policy.Paused},
			{Name: "pending", Value: q.Pending}, {Name: "blocked", Value: q.Blocked},
			{Name: "delayed", Value: q.Delayed}, {Name: "queued", Value: q.Queued},
			{Name: "assigned", Value: q.Assigned}, {Name: "running", Value: q.Running},
			{Name: "submitted total", Value: q.SubmittedTotal}, {Name: "assigned total", Value: q.AssignedTotal},
			{Name: "completed total",
				Value: q.CompletedTotal},
			{Name: "dead total", Value: q.DeadTotal}, {Name: "expired total", Value: q.ExpiredTotal},
			{Name: "cancelled total", Value: q.CancelledTotal}, {Name: "staged", Value: q.Staged},
			{Name: "lanes", Value: q.Lanes}, {Name: "throttled lanes", Value: q.Throttled},
			{Name: "workers", Value: q.Workers}, {Name: "oldest wait", Value: cli.Span(millis.Of(q.OldestWait))},
			{Name: "usage", Value: percent(q.UsagePermille)},
			{Name: "backlog usage", Value: percent(q.BacklogUsagePermille)},
			{Name: "lease usage", Value: percent(q.LeaseUsagePermille)}, {Name: "bytes", Value: q.Bytes},
			{Name: "backpressure", Value: q.Backpressure},
			{Name: "queued by tier", Value: tiersText(q.Tiers)}, {Name: "etag", Value: q.ETag},
		})
		var facts []cli.Fact
		standard := rota.StandardPolicy()
		usual := standard.Settings()
		for i, s := range q.Policy.Settings() {
			if wide || s.Value != usual[i].Value {
				facts = append(facts, cli.Fact{Name: s.Key, Value: SettingText(s)})
			}
		}
		if len(facts) > 0 {
			text += "\n" + cli.RenderFacts(facts)
		}
		return text + queueLists(q, wide)
	})
}

// SettingText is a key's value as --set takes it, and in brackets what that is for
// people.
func SettingText(s rota.Setting) string {
	n, err := strconv.ParseInt(s.Value, 10, 64)
	meaning := ""
	switch {
	case err != nil:
	case n == 0 && zeroMeans[s.Key] != "":
		meaning = zeroMeans[s.Key]
	case n == -1 && s.Key == "renewals_max":
		meaning = "no limit"
	case strings.HasSuffix(s.Key, "_ms") && n >= 1000:
		meaning = cli.Span(n)
	case strings.HasSuffix(s.Key, "_permille"):
		meaning = percent(n)
	}
	if meaning == "" {
		return s.Value
	}
	return s.Value + " (" + meaning + ")"
}

// zeroMeans is what 0 means of the keys of which it is not just a number.
var zeroMeans = func() map[string]string {
	means := map[string]string{}
	for _, d := range rota.PolicyDocs() {
		means[d.Key] = d.Zero
	}
	return means
}()

// queueLists are a queue's failure domains and what is known of its types.
func queueLists(q rota.Queue, wide bool) (text string) {
	if len(q.Domains) > 0 {
		text += "\n" + cli.RenderList([]cli.Column[rota.Domain]{
			{Head: "DOMAIN", Cell: func(d rota.Domain) any { return d.Name }},
			{Head: "ISOLATED", Cell: func(d rota.Domain) any { return d.Isolated }},
			{Head: "OUTCOMES", Cell: func(d rota.Domain) any { return d.Outcomes }},
			{Head: "FAILURES", Cell: func(d rota.Domain) any { return d.Failures }},
		}, q.Domains, wide)
	}
	if len(q.Types) > 0 {
		text += "\n" + cli.RenderList([]cli.Column[rota.TypeStats]{
			{Head: "TYPE", Cell: func(t rota.TypeStats) any { return t.Type }},
			{Head: "SUCCESS", Cell: func(t rota.TypeStats) any { return t.Success }},
			{Head: "FAIL", Cell: func(t rota.TypeStats) any { return t.Fail }},
			{Head: "AVERAGE", Cell: func(t rota.TypeStats) any { return cli.Span(t.EMA.Milliseconds()) }},
			{Head: "EXPECTED", Cell: func(t rota.TypeStats) any { return cli.Span(millis.Of(t.Expected)) }},
			{Head: "WEIGHT", Cell: func(t rota.TypeStats) any { return fmt.Sprintf("%.3f", t.Weight) }},
		}, q.Types, wide)
	}
	return text
}

func percent(permille int64) string { return fmt.Sprintf("%d.%d %%", permille/10, permille%10) }

// tiersText shows the tiers by their names, those without jobs left out.
func tiersText(tiers []int64) string {
	var texts []string
	for i, n := range tiers {
		if n > 0 {
			texts = append(texts, fmt.Sprintf("%s %d", server.TierName(i, len(tiers)), n))
		}
	}
	return strings.Join(texts, ", ")
}

// keysHelp tells of every key of a policy: its values, what 0 means, its defaults,
// and what it does.
func keysHelp() string {
	var b strings.Builder
	for _, d := range rota.PolicyDocs() {
		name := d.Key
		if d.Alias != "" {
			name = d.Alias + ", " + d.Key
		}
		values := d.Values
		if d.Zero != "" {
			values += "; 0: " + d.Zero
		}
		fmt.Fprintf(&b, "  %s (%s)\n      default %s\n      %s\n", name, values, defaultsText(d), d.Meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}

// defaultsText is the default of standard, then those of the presets that differ.
func defaultsText(d rota.PolicyDoc) string {
	text := d.Defaults[0]
	for i, preset := range rota.Presets {
		if d.Defaults[i] != d.Defaults[0] {
			text += ", " + preset + " " + d.Defaults[i]
		}
	}
	return text
}
