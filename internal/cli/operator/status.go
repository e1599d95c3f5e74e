package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// StatusCommands has the command `rota status`.
type StatusCommands struct{ *cli.App }

// Command returns `rota status`.
func (a StatusCommands) Command() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List problems that need an operator, worst first, each with its runbook",
		Long: `List problems that need an operator, worst first, each with its runbook. Failing jobs are those
that the asked node counted in the last 15 minutes.`,
		Example: "  rota status\n  rota status --check || echo 'look at the cluster'",
		Args:    cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			found, err := c.Attention(ctx)
			if err != nil {
				return err
			}
			names := make([]string, len(found.Concerns))
			for i, one := range found.Concerns {
				names[i] = one.Kind
			}
			if err := a.PrintOne(found, names, func(bool) string { return attentionText(found) }); err != nil {
				return err
			}
			if check && len(found.Concerns) > 0 {
				return rota.Refusef(rota.KindConflict, "status", "%s",
					cli.Counted(int64(len(found.Concerns)), "concern", ""))
			}
			return nil
		})),
	}
	cmd.Flags().BoolVar(&check, "check", false, "exit 1 where anything needs an operator")
	return cmd
}

// attentionText is the list for people: a line per concern, its runbook below.
func attentionText(a rota.Attention) string {
	if len(a.Concerns) == 0 {
		return fmt.Sprintf("✔ nothing needs you; checked by %s: %s\n", a.Node, strings.Join(a.Checked, ", "))
	}
	var text strings.Builder
	for i := range a.Concerns {
		c := &a.Concerns[i]
		mark, subject := "!", cli.Or(string(c.Node), string(c.Queue))
		if c.Critical {
			mark = "✖"
		}
		fmt.Fprintf(&text, "%s ", mark)
		if subject != "" {
			fmt.Fprintf(&text, "%s: ", subject)
		}
		text.WriteString(cli.Clean(c.Text))
		if c.Since != 0 && a.Date > c.Since {
			fmt.Fprintf(&text, " (%s)", cli.About(a.Date.Time().Sub(c.Since.Time()).Round(time.Second)))
		}
		fmt.Fprintf(&text, "\n  runbook: %s\n", c.Runbook)
	}
	return text.String()
}
