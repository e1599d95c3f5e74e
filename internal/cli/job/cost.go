package job

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// CostSum is what the ended jobs of a group have spent of one cost.
type CostSum struct {
	// Group has the values that the group was made by, in that order.
	Group []string  `json:"group,omitempty"`
	Name  string    `json:"name"`
	Spent rota.Cost `json:"spent"`
	Jobs  int64     `json:"jobs"`
}

// costGroups are the fields that costs can be grouped by; label.KEY is another.
var costGroups = []string{"tenant", "type", "queue", "state", "day"}

// Cost returns `rota cost`.
func (a Commands) Cost() *cobra.Command {
	var by []string
	var since time.Duration
	var where string
	cmd := a.ListCommand(&cobra.Command{
		Use:   "cost [--by FIELD,…] [--since D] [--filter TERMS]",
		Short: "Sum what ended jobs have spent",
		Long: "Sum what the attempts of ended jobs have reported, by cost, from the archive. It reads every job\n" +
			"that ended in the time.",
		Example: "  rota cost --by tenant,type --since 168h\n  rota cost --by day --filter 'label.team=film'",
		Args:    cobra.NoArgs,
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&by, "by", nil, "`fields` to group by: tenant, type, queue, state, day (UTC) or label.KEY")
	cli.DurationVar(flags, &since, "since", 24*time.Hour, "only jobs that ended within this time before now")
	cli.Within(flags, time.Millisecond, rota.MaxDuration, "since")
	flags.StringVar(&where, "filter", "", "only those that match all of these `terms` (rota job list --help)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, field := range by {
			if !slices.Contains(costGroups, field) && !(strings.HasPrefix(field, "label.") && len(field) > len("label.")) {
				return rota.NotOneOf("by", field, append(slices.Clone(costGroups), "label.KEY")...)
			}
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			sums, err := a.sumCosts(ctx, c, by, time.Now().Add(-since), where)
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "costs", sums, func(s CostSum) string { return s.Name }, costColumns(by))
		}))(cmd, args)
	}
	return cmd
}

func costColumns(by []string) (columns []cli.Column[CostSum]) {
	for i, field := range by {
		columns = append(columns, cli.Column[CostSum]{Head: strings.ToUpper(field),
			Cell: func(s CostSum) any { return s.Group[i] }})
	}
	return append(columns, cli.Column[CostSum]{Head: "COST", Cell: func(s CostSum) any { return s.Name }},
		cli.Column[CostSum]{Head: "SPENT", Cell: func(s CostSum) any { return s.Spent }},
		cli.Column[CostSum]{Head: "JOBS", Cell: func(s CostSum) any { return s.Jobs }})
}

// sumCosts reads ended jobs, the newest first, until one ended before a date.
func (a Commands) sumCosts(ctx context.Context, c *client.Client, by []string, from time.Time,
	where string) ([]CostSum, error) {
	filter := rota.JobFilter{Where: strings.TrimSpace("state=COMPLETED,DEAD,CANCELLED,EXPIRED " + where)}
	sums := map[string]*CostSum{}
	for j, err := range c.Jobs(ctx, filter, a.Fresh()...) {
		if err != nil {
			return nil, err
		}
		if j.Finished.Date < rota.DateOf(from) {
			break
		}
		group := make([]string, len(by))
		for i, field := range by {
			group[i] = groupOf(&j, field)
		}
		for name, amount := range j.Spent {
			key := strings.Join(append(group, name), "\x00")
			if sums[key] == nil {
				sums[key] = &CostSum{Group: group, Name: name}
			}
			sums[key].Spent += min(rota.Cost(amount), math.MaxInt64-sums[key].Spent)
			sums[key].Jobs++
		}
	}
	list := make([]CostSum, 0, len(sums))
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		list = append(list, *sums[key])
	}
	slices.SortStableFunc(list, func(x, y CostSum) int { return cmp.Compare(x.Name, y.Name) })
	return list, nil
}

func groupOf(j *rota.Job, field string) string {
	switch field {
	case "tenant":
		return string(j.Tenant)
	case "type":
		return string(j.Type)
	case "queue":
		return string(j.Queue)
	case "state":
		return j.State.String()
	case "day":
		return j.Finished.Date.Time().UTC().Format(time.DateOnly)
	}
	return j.Labels[strings.TrimPrefix(field, "label.")]
}
