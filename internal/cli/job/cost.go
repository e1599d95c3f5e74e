package job

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// Cost returns `rota cost`.
func (a Commands) Cost() *cobra.Command {
	var q cli.CostQuery
	var since time.Duration
	cmd := a.ListCommand(&cobra.Command{
		Use:   "cost [--by FIELD,…] [--since D] [--filter TERMS]",
		Short: "Sum what ended jobs have spent",
		Long: "Sum what the attempts of ended jobs have reported, by cost, from the archive. It reads every job\n" +
			"that ended in the time.",
		Example: "  rota cost --by tenant,type --since 7d\n  rota cost --by day --filter 'label.team=film'",
		Args:    cobra.NoArgs,
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&q.By, "by", nil,
		"`fields` to group by: tenant, type, queue, key (all keys of the job), state, day (UTC) or label.KEY")
	cli.DurationVar(flags, &since, "since", 24*time.Hour, "only jobs that ended within this time before now")
	cli.Within(flags, time.Millisecond, rota.MaxDuration, "since")
	flags.StringVar(&q.Where, "filter", "", "only those that match all of these `terms` (rota job list --help)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := q.Check(); err != nil {
			return err
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			q.From = rota.DateOf(time.Now().Add(-since))
			sums, err := a.SumCosts(ctx, c, &q)
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "costs", sums, func(s cli.CostSum) string { return s.Name }, q.Columns())
		}))(cmd, args)
	}
	return cmd
}
