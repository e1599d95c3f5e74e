package job

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/limits"
)

func (a Commands) reject() *cobra.Command {
	var reason, lease string
	cmd := &cobra.Command{
		Use:   "reject ID --reason S [--lease L]",
		Short: "Report that the result of a COMPLETED job is invalid, as a verifier does",
		Long: `Report that the result of a COMPLETED job is invalid, within the queue's audit_window. With the
queue's health_steps on, its worker loses health and stake. A job submitted with
--retry-on-invalid-proof runs again.`,
		Example: "  rota job reject 01JC0000000000000000000000 --reason 'checksum differs'",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "fault of the result; required")
	cmd.Flags().StringVar(&lease, "lease", "", "`lease` that completed it, in hex (default: the recorded one)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		report := rota.ProofReport{Job: rota.JobID(args[0]), Reason: reason}
		if err := rota.CheckJobRef("job", report.Job); err != nil {
			return err
		}
		if err := report.Lease.UnmarshalText([]byte(lease)); err != nil {
			return cli.Usagef("--lease: got %q: %w", lease, err)
		}
		if strings.TrimSpace(reason) == "" {
			return cli.Usagef("--reason is missing: describe what is wrong with the proof")
		}
		if len(reason) > limits.MaxReasonBytes {
			return cli.Usagef("--reason too long: got %d bytes, maximum %d", len(reason), limits.MaxReasonBytes)
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			outcome, err := c.ReportProof(ctx, report)
			if err != nil {
				return err
			}
			return a.PrintOne(outcomeView{ID: outcome.ID, State: outcome.State}, []string{string(outcome.ID)},
				func(bool) string {
					return cli.RenderFacts([]cli.Fact{{Name: "job", Value: outcome.ID},
						{Name: "state", Value: outcome.State}})
				})
		}))(cmd, args)
	}
	return cmd
}
