package job

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// alterFlags are the flags of `job change` as given.
type alterFlags struct {
	priority int32
	fee      int64
	labels   []string
	ttl      time.Duration
	startBy  time.Duration
	payload  string
}

func (a Commands) alter() *cobra.Command {
	f := &alterFlags{}
	cmd := &cobra.Command{
		Use:   "change ID [--priority N] [--fee N] [--label K=V]… [--ttl D] [--start-by D] [--payload S|@FILE|-]",
		Short: "Change a pending job; only the given flags change it",
		Long: `Change a pending job and print it. It keeps its place by age, as if it had been submitted with
its new priority and fee. Leased jobs, ended jobs and nodes of workflows are refused.`,
		Example: `  rota job change photo-4711 --priority 0
  rota job change photo-4711 --label customer=acme --label trial= --ttl 2h`,
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.Int32Var(&f.priority, "priority", 0, "0 (critical) to 10 (background)")
	flags.Int64Var(&f.fee, "fee", 0, "fee in millionths of a unit")
	flags.StringArrayVar(&f.labels, "label", nil,
		"`key=value` to set; an empty value removes the label; may be repeated")
	cli.DurationVar(flags, &f.ttl, "ttl", 0,
		"expire the job this long after its submission or last retry; 0 uses the queue's value")
	cli.Within(flags, 0, rota.MaxPriority, "priority")
	cli.Within(flags, 0, int64(rota.MaxFee), "fee")
	cli.DurationVar(flags, &f.startBy, "start-by", 0,
		"expire the job unless it starts within this time of its submission or last retry; 0 means no limit")
	cli.Within(flags, 0, rota.MaxDuration, "ttl", "start-by")
	flags.StringVar(&f.payload, "payload", "", "payload: the `text` itself, @FILE, or - for stdin")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := IDs(args)
		if err != nil {
			return err
		}
		change, err := f.change(ids[0], cmd, a.Stdin)
		if err != nil {
			return err
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			outcome, err := c.ChangeJob(ctx, change)
			if err != nil {
				return err
			}
			job, err := c.Job(ctx, change.ID, client.AtLeast(outcome.Index))
			if err != nil {
				return err
			}
			return a.Print(job)
		}))(cmd, args)
	}
	return cmd
}

// alterable are the flags of what can be changed.
var alterable = []string{"priority", "fee", "label", "ttl", "start-by", "payload"}

// change is what the flags that were given say.
func (f *alterFlags) change(id rota.JobID, cmd *cobra.Command, stdin io.Reader) (rota.JobChange, error) {
	c, given := rota.JobChange{ID: id}, cmd.Flags().Changed
	if given("priority") {
		c.Priority = &f.priority
	}
	if given("fee") {
		c.Fee = &f.fee
	}
	if given("ttl") {
		c.TTL = &f.ttl
	}
	if given("start-by") {
		c.StartBy = &f.startBy
	}
	if given("payload") {
		payload, err := cli.ReadPayload(f.payload, stdin)
		if err != nil {
			return c, err
		}
		c.Payload = (*rota.Blob)(&payload)
	}
	for _, pair := range f.labels {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return c, cli.Usagef("--label: got %q; use key=value", pair)
		}
		if c.Labels == nil {
			c.Labels = make(map[string]string)
		}
		c.Labels[key] = value
	}
	if !slices.ContainsFunc(alterable, given) {
		return c, cli.Usagef("nothing to change: set --%s or --payload",
			strings.Join(alterable[:len(alterable)-1], ", --"))
	}
	err := c.CheckShape(rota.MaxPayloadBytes)
	return c, err
}
