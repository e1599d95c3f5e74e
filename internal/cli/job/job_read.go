package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

func (a Commands) show() *cobra.Command {
	return a.Reads(&cobra.Command{
		Use:   "show ID",
		Short: "Show one job with its attempts, lease, progress and output",
		Args:  cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			ids, err := IDs(args)
			if err != nil {
				return err
			}
			job, err := c.Job(ctx, ids[0], a.Fresh()...)
			if err != nil {
				return err
			}
			a.Seen()
			return a.PrintOne(job, []string{string(job.ID)},
				func(wide bool) string { return Table(job, wide) + a.startLine(ctx, c, &job) })
		})),
	})
}

// startLine says of a job that waits when it should start; nothing where that cannot be told at once.
func (a Commands) startLine(ctx context.Context, c *client.Client, j *rota.Job) string {
	switch j.State {
	case rota.JobQueued, rota.JobDelayed, rota.JobBlocked:
	default:
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	x, err := c.ETA(ctx, j.ID, a.Fresh()...)
	if err != nil || x.Expected == 0 {
		return ""
	}
	return fmt.Sprintf("it should start at %s, from %s to %s: rota job eta %s shows what that depends on\n",
		startText(&x), x.Earliest, x.Latest, j.ID)
}

// startPatience is how long job show waits for a forecast.
const startPatience = 3 * time.Second

// List returns `rota job list`.
func (a Commands) List() *cobra.Command {
	var queue, state, tenant, typ, where, group, cursor string
	var limit int
	var count bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List or count jobs, the newest first, live ones before terminal ones",
		Long: `List or count jobs. A job must match all terms of --filter. A comma separates alternative
values, a - before a term negates it, a * ends a prefix, and double quotes enclose spaces or
commas:

  queue= tenant= type= state= id= workflow= label.KEY=   what it is
  error~TEXT error=FINGERPRINT                           how it failed (job show)
  priority<=N priority>=N priority=N age>24h age<90s     and since when it is there

All pages show the jobs of the moment of the first page. A next_cursor is valid with the same
filter only. A page examines at most 100,000 jobs: a selective filter may return a short page
with a next_cursor.`,
		Example: `  rota job list --state DEAD --group fingerprint
  rota job list --filter 'type=mail label.team=film,tv -state=COMPLETED age>1h'
  rota job list --filter 'error~"connection reset"' --count`,
		Args: cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			filter := rota.JobFilter{Queue: rota.QueueName(queue), Tenant: rota.TenantID(tenant),
				Type: rota.JobType(typ), Where: where, GroupBy: group, Cursor: cursor, Limit: limit}
			if err := parseState(&filter.State, state); err != nil {
				return err
			}
			if count || group != "" {
				return a.countJobs(ctx, c, filter)
			}
			var whole rota.JobPage
			err := cli.Page(ctx, a.App, c, queue, &whole.Jobs, &whole.NextCursor,
				func(opts ...client.ReadOption) iter.Seq2[rota.Job, error] { return c.Jobs(ctx, filter, opts...) })
			if err != nil {
				return err
			}
			l := cli.Listing[rota.Job]{Whole: whole, Items: whole.Jobs, Name: Name, Columns: Columns()}
			return l.Print(a.App)
		})),
	}
	flags := cmd.Flags()
	flags.StringVar(&queue, "queue", "", "only this `queue`'s")
	flags.StringVar(&state, "state", "", "only those in this `state`")
	flags.StringVar(&tenant, "tenant", "", "only this `tenant`'s")
	flags.StringVar(&typ, "type", "", "only those of this `type`")
	flags.StringVar(&where, "filter", "", "only those that match all of these `terms` (rota job list --help)")
	flags.BoolVar(&count, "count", false, "print the number of jobs")
	flags.StringVar(&group, "group", "", "count similar jobs together, by `field`: fingerprint")
	flags.IntVar(&limit, "limit", 100, "maximum number to list")
	cli.Within(flags, 1, cli.Unbounded, "limit")
	flags.StringVar(&cursor, "cursor", "", "continue after a page: its next_`cursor`")
	return a.ListCommand(cmd)
}

// countJobs prints how many jobs a filter selects, by group where it says so.
func (a Commands) countJobs(ctx context.Context, c *client.Client, filter rota.JobFilter) error {
	counted, err := c.CountJobs(ctx, filter, a.Fresh()...)
	if err != nil {
		return err
	}
	a.Seen()
	slices.SortStableFunc(counted.Groups, func(x, y rota.JobGroup) int { return cmp.Compare(y.Count, x.Count) })
	if !counted.Complete {
		defer a.Talk("there are more: continue with --cursor %q", counted.NextCursor)
	}
	if filter.GroupBy == "" {
		n := strconv.FormatInt(counted.Count, 10)
		return a.PrintOne(counted, []string{n}, func(bool) string {
			return cli.RenderFacts([]cli.Fact{{Name: "jobs", Value: n},
				{Name: "complete", Value: strconv.FormatBool(counted.Complete)},
				{Name: "next cursor", Value: counted.NextCursor}})
		})
	}
	l := cli.Listing[rota.JobGroup]{Whole: counted, Items: counted.Groups,
		Name: func(g rota.JobGroup) string { return fmt.Sprintf("%x", []byte(g.Fingerprint)) },
		Columns: []cli.Column[rota.JobGroup]{
			{Head: "COUNT", Cell: func(g rota.JobGroup) any { return g.Count }},
			{Head: "FINGERPRINT", Cell: func(g rota.JobGroup) any { return fmt.Sprintf("%x", []byte(g.Fingerprint)) }},
			{Head: "TYPE", Most: 14, Cell: func(g rota.JobGroup) any { return g.Type }},
			{Head: "REASON", Cell: func(g rota.JobGroup) any { return cli.ReasonText(g.Reason) }},
			{Head: "FOR EXAMPLE", Cell: func(g rota.JobGroup) any { return g.Job }},
			{Head: "ERROR", Most: 40, Cell: func(g rota.JobGroup) any { return g.Error }},
		}}
	return l.Print(a.App)
}

// parseState takes a job state's name, in any case of letters; "" is none.
func parseState(state *rota.JobState, name string) error {
	if name == "" {
		return nil
	}
	err := state.UnmarshalText([]byte(strings.ToUpper(name)))
	if err == nil && *state == rota.JobNone {
		return cli.Usagef("job state %q selects nothing: omit --state for all", name)
	}
	return err
}

func (a Commands) wait() *cobra.Command {
	return &cobra.Command{
		Use:   "wait ID…",
		Short: "Wait until jobs have ended; exit 6 if one did not end COMPLETED, 5 after --timeout",
		Args:  cobra.MinimumNArgs(1),
		RunE: a.Does(a.Waiting(func(ctx context.Context, c *client.Client, args []string) error {
			ids, err := IDs(args)
			if err != nil {
				return err
			}
			ended := []rota.Job{}
			for j, failed := range c.Wait(ctx, ids...) {
				if err = failed; err == nil {
					ended = append(ended, j)
				}
			}
			l := cli.Listing[rota.Job]{Whole: rota.JobPage{Jobs: ended}, Items: ended, Name: Name,
				Columns: Columns()}
			if errors.Is(err, context.Canceled) && len(ended) == 0 {
				return err // a signal: there is nothing to print
			}
			if printErr := l.Print(a.App); printErr != nil {
				return printErr
			}
			if err == nil {
				return EndedWell(ended)
			}
			if ctx.Err() == context.DeadlineExceeded || rota.KindOf(err) == rota.KindTimeout {
				return rota.Refusef(rota.KindTimeout, "wait", "%d of %d jobs had not ended after %s",
					len(ids)-len(ended), len(ids), a.Timeout)
			}
			return err
		})),
	}
}

// EndedWell is nil when every job completed.
func EndedWell(jobs []rota.Job) error {
	var otherwise []string
	for _, j := range jobs {
		if j.State != rota.JobCompleted {
			otherwise = append(otherwise, fmt.Sprintf("job %s ended %s%s", j.ID, j.State, because(j)))
		}
	}
	if len(otherwise) == 0 {
		return nil
	}
	const most = 5
	text := strings.Join(otherwise[:min(most, len(otherwise))], "; ")
	if len(otherwise) > most {
		text += fmt.Sprintf("; and %d more", len(otherwise)-most)
	}
	return &cli.CodedError{Code: cli.ExitOtherwise, Err: fmt.Errorf("%s", text)}
}

func because(j rota.Job) string {
	text := ""
	if j.Reason != rota.ReasonNone {
		text = " (" + j.Reason.String() + ")"
	}
	if j.Error != "" {
		text += ": " + cli.Head(cli.Clean(j.Error))
	}
	return text
}
