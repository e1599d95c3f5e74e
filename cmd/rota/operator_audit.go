package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
)

func (a operatorCommands) audit() *cobra.Command {
	var data, backup string
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "audit --data DIR | --backup F",
		Short: "Recompute every matching round and date of schedules that is kept and compare; exit 1 where one differs; needs no cluster",
		Long: `Replay what a stopped node's data directory, or a backup, keeps of the log, recompute every
round from the state at its height and every date of schedules, and compare them with what the
leader proposed then. It ends with the counts of what was proved, or with the first that differs:
a round, or a Fire of a wrong date, of a paused schedule, or of a date that had fired.
Nothing is written.`,
		Example: "  rota operator audit --data /var/lib/rota\n  rota operator audit --backup nightly.rota -o json",
		Args:    cobra.NoArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			if (data == "") == (backup == "") {
				return usagef("audit wants either --data DIR or --backup F")
			}
			log := slog.New(slog.NewTextHandler(a.stderr, nil))
			var report rota.AuditReport
			var err error
			if data != "" {
				report, err = audit.Data(ctx, data, log)
			} else {
				open, done, taken := f.take(ctx, backup)
				if taken != nil {
					return taken
				}
				defer done()
				report, err = audit.Backup(ctx, open, log)
			}
			if err != nil {
				return asFailure(err)
			}
			return a.printAudit(report)
		}),
	}
	cmd.Flags().StringVar(&data, "data", "", "data `directory` of a node that is stopped")
	cmd.Flags().StringVar(&backup, "backup", "", "`file` or s3://bucket/key of a backup")
	f.register(cmd.Flags())
	return cmd
}

func (a operatorCommands) printAudit(r rota.AuditReport) error {
	facts := []fact{{"entries", fmt.Sprintf("%d (index %d to %d)", r.Entries, r.From, r.To)}, {"operations", r.Operations},
		{"rounds", r.Rounds}, {"proved", r.Proved},
		{"fires", fmt.Sprintf("%d (%d proved, %d refused)", r.Fires, r.FiresProved, r.FiresRefused)}}
	if d := r.Difference; d != nil {
		facts = append(facts, fact{"first difference", fmt.Sprintf("index %d, queue %s, epoch %d, height %d", d.Index, d.Queue,
			d.Epoch, d.Height)}, fact{"logged", d.Logged}, fact{"proved", d.Proved})
	}
	if err := a.printOne(r, []string{fmt.Sprint(r.Proved)}, func(bool) string { return renderFacts(facts) }); err != nil {
		return err
	}
	if r.Difference != nil {
		return &codedError{exitFailed, errors.New("the log differs from what the state there makes of it")}
	}
	return nil
}
