package queue

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/limits"
)

// ModeCommands are the commands of the cluster's mode.
type ModeCommands struct{ *cli.App }

// Command returns `rota mode` and the commands below it.
func (a ModeCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "mode", Short: "Show and change which jobs the cluster admits"},
		a.get(), a.set())
}

func (a ModeCommands) get() *cobra.Command {
	return a.Reads(&cobra.Command{
		Use:   "get",
		Short: "Show the mode, its reason and age; drained once DRAINING has completed everything",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			m, err := c.Mode(ctx, a.Fresh()...)
			if err != nil {
				return err
			}
			a.Seen()
			return a.print(m)
		})),
	})
}

func (a ModeCommands) set() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "set MODE --reason S",
		Short: "Change the cluster's mode: NORMAL, DEGRADED, READ_ONLY or DRAINING",
		Long: `Change the cluster's mode.

NORMAL     accepts and runs everything.
DEGRADED   refuses jobs of priority over 5, and holds queued ones.
READ_ONLY  accepts nothing and starts nothing; running jobs may finish.
DRAINING   accepts nothing, completes queued and running jobs, then reports drained.

A change by hand lasts until the next one by hand.`,
		Example: "  rota mode set DRAINING --reason 'move to the new rack'",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who look later; needed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var mode rota.ClusterMode
		if err := mode.UnmarshalText([]byte(strings.ToUpper(args[0]))); err != nil {
			return err
		}
		if strings.TrimSpace(reason) == "" {
			return cli.Usagef("--reason is missing: why the mode is changed")
		}
		if len(reason) > limits.MaxReasonBytes {
			return cli.Usagef("--reason too long: got %d bytes, maximum %d", len(reason), limits.MaxReasonBytes)
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			m, err := c.SetMode(ctx, mode, reason)
			if err != nil {
				return err
			}
			return a.print(m)
		}))(cmd, args)
	}
	return cmd
}

func (a ModeCommands) print(m rota.ModeStatus) error {
	return a.PrintOne(m, []string{m.Mode.String()}, func(bool) string {
		by := "an operator"
		switch {
		case m.Auto:
			by = "the leader"
		case m.Reason == "":
			by = ""
		}
		facts := []cli.Fact{{Name: "mode", Value: m.Mode}, {Name: "reason", Value: m.Reason},
			{Name: "set by", Value: by}, {Name: "since", Value: m.Since.Date}}
		if m.Mode == rota.ModeDegraded {
			facts = append(facts, cli.Fact{Name: "holds queued jobs", Value: m.Holds})
		}
		if m.Mode == rota.ModeDraining {
			facts = append(facts, cli.Fact{Name: "drained", Value: m.Drained})
		}
		return cli.RenderFacts(facts)
	})
}
