package queue

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/relay"
)

// RelayCommands are the commands that carry between a cluster and what lies outside of it.
type RelayCommands struct{ *cli.App }

// Command returns `rota relay` and the commands below it.
func (a RelayCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "relay", Short: "Relay events to webhooks, and jobs from a database"},
		a.webhooks(), a.postgres())
}

func (a RelayCommands) webhooks() *cobra.Command {
	r := &relay.Webhooks{}
	var key, id string
	cmd := &cobra.Command{
		Use:   "webhooks --key-file F [flags]",
		Short: "Post the deliveries of webhooks to their receivers",
		Long: `Post the deliveries of webhooks, as a worker of the queue rota-webhooks. Each is signed as
Standard Webhooks specifies, with secrets derived from the key file: run all relays of a cluster
with the same file.`,
		Example: `  openssl rand -hex 32 > relay.key && chmod 600 relay.key
  rota relay webhooks --key-file relay.key`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&key, "key-file", "",
		"the `file` that secrets are derived from: at least 32 bytes, readable by its owner alone")
	cmd.Flags().StringVar(&id, "id", "", "the worker's `id` (default: a new one)")
	cmd.Flags().Int32Var(&r.Slots, "slots", 16, "maximum `number` of deliveries posted at a time")
	cli.Within(cmd.Flags(), 1, 1_000, "slots")
	cmd.Flags().BoolVar(&r.AllowPrivate, "allow-private", false,
		"post to loopback, link-local and private addresses too")
	cmd.Flags().BoolVar(&r.AllowHTTP, "allow-http", false, "post to http:// URLs too")
	_ = cmd.MarkFlagRequired("key-file")
	cmd.RunE = a.Does(a.Waiting(func(ctx context.Context, c *client.Client, _ []string) (err error) {
		if r.Key, err = relay.ReadKey(key); err != nil {
			return err
		}
		r.Client, r.ID, r.Log = c, rota.WorkerID(id), slog.New(slog.NewTextHandler(a.Stderr, nil))
		return r.Run(ctx, client.WithDrainTimeout(20*time.Second))
	}))
	return cmd
}
