package queue

import (
	"bytes"
	"context"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/relay"
	"github.com/rotasched/rota/internal/secret"
)

// maxDsn bounds the bytes of a file with a DSN.
const maxDsn = 4096

func (a RelayCommands) postgres() *cobra.Command {
	var dsn string
	var migration, notify bool
	cmd := &cobra.Command{
		Use:   "postgres (--dsn-file F | --print-migration [--notify])",
		Short: "Submit the jobs of an outbox in a PostgreSQL database",
		Long: `Submit the jobs in the table rota_outbox: its id in job_id, and in spec a job in the JSON of
` + "`rota job show -o json`" + ` and HTTP. Rows of accepted jobs are deleted; permanently refused ones stay,
with error. Any number of relays may run.`,
		Example: `  rota relay postgres --print-migration | psql "$DSN"
  rota relay postgres --dsn-file dsn`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&dsn, "dsn-file", "", "`file` with the database's DSN, readable by its owner alone")
	cmd.Flags().BoolVar(&migration, "print-migration", false, "print the SQL that makes the table, and end")
	cmd.Flags().BoolVar(&notify, "notify", false,
		"with --print-migration, a trigger too that wakes the relay at once; it serialises commits")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case migration && dsn != "" || notify && !migration:
			return cli.Usagef("--print-migration goes without --dsn-file, and --notify with --print-migration")
		case migration:
			text := relay.Migration
			if notify {
				text += relay.Notification
			}
			_, err := io.WriteString(a.Stdout, text)
			return err
		case dsn == "":
			return cli.Usagef("--dsn-file is missing: a file with the DSN of the database")
		}
		text, err := secret.ReadFile(dsn, maxDsn)
		if err != nil {
			return err
		}
		return a.Does(a.Waiting(func(ctx context.Context, c *client.Client, _ []string) error {
			o := relay.Outbox{Client: c, DSN: string(bytes.TrimSpace(text)),
				Log: slog.New(slog.NewTextHandler(a.Stderr, nil))}
			return o.Run(ctx)
		}))(cmd, args)
	}
	return cmd
}
