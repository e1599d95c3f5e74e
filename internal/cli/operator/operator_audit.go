package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/internal/cli"
)

func (a Commands) audit() *cobra.Command {
	var data, backup string
	var f cli.BackupFlags
	cmd := &cobra.Command{
		Use:   "audit --data DIR | --backup F",
		Short: "Recompute all kept rounds and schedule dates; exit 1 if one differs; needs no cluster",
		Long: `Recompute every round and every date of schedules in the log that a stopped node's data directory
or a backup keeps, and compare them with the leader's proposals. It prints the counts of
proved rounds and dates, or the first difference and exits with 1. Nothing is written.`,
		Example: "  rota operator audit --data /var/lib/rota\n  rota operator audit --backup nightly.rota -o json",
		Args:    cobra.NoArgs,
		RunE: a.Does(func(ctx context.Context, _ []string) error {
			if (data == "") == (backup == "") {
				return cli.Usagef("audit wants either --data DIR or --backup F")
			}
			log := slog.New(slog.NewTextHandler(a.Stderr, nil))
			var report rota.AuditReport
			var err error
			if data != "" {
				report, err = audit.Data(ctx, data, log)
			} else {
				open, done, taken := f.Take(ctx, backup)
				if taken != nil {
					return taken
				}
				defer done()
				report, err = audit.Backup(ctx, open, log)
			}
			if err != nil {
				return cli.AsFailure(err)
			}
			return a.printAudit(report)
		}),
	}
	cmd.Flags().StringVar(&data, "data", "", "data `directory` of a node that is stopped")
	cmd.Flags().StringVar(&backup, "backup", "", "`file` or s3://bucket/key of a backup")
	f.Register(cmd.Flags())
	return cmd
}

func (a Commands) printAudit(r rota.AuditReport) error {
	facts := []cli.Fact{{Name: "entries", Value: fmt.Sprintf("%d (index %d to %d)", r.Entries, r.From, r.To)},
		{Name: "operations", Value: r.Operations}, {Name: "rounds", Value: r.Rounds}, {Name: "proved", Value: r.Proved},
		{Name: "fires", Value: fmt.Sprintf("%d (%d proved, %d refused)", r.Fires, r.FiresProved, r.FiresRefused)}}
	if d := r.Difference; d != nil {
		facts = append(facts, cli.Fact{Name: "first difference",
			Value: fmt.Sprintf("index %d, queue %s, epoch %d, height %d", d.Index, d.Queue,
				d.Epoch, d.Height)}, cli.Fact{Name: "logged", Value: d.Logged},
			cli.Fact{Name: "proved", Value: d.Proved})
	}
	if err := a.PrintOne(r, []string{fmt.Sprint(r.Proved)},
		func(bool) string { return cli.RenderFacts(facts) }); err != nil {
		return err
	}
	if r.Difference != nil {
		return &cli.CodedError{Code: cli.ExitFailed, Err: errors.New("the log does not lead to the recorded state")}
	}
	return nil
}
