package job

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// BatchCommands are the commands of batches.
type BatchCommands struct{ *cli.App }

// Command returns `rota batch` and the commands below it.
func (a BatchCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "batch", Short: "Run a job once many others have ended"}, a.open(), a.seal(),
		a.list(), a.show(), a.wait())
}

func (a BatchCommands) open() *cobra.Command {
	f, size := &TemplateFlags{}, int64(0)
	cmd := &cobra.Command{
		Use:   "open B (--type T [--queue Q] [--payload P] | --job JSON) [flags]",
		Short: "Open a batch; its callback runs once the batch is sealed and all its jobs have ended",
		Long: `Open a batch. Jobs join it with ` + "`job submit --batch B`" + `. It is sealed by its --size, by
` + "`batch seal`" + `, or 24 hours after its last job. Once sealed and without live jobs, it submits the
job B@done, with labels that count how the jobs ended.`,
		Example: `  rota batch open import-7 --type report
  rota job submit --type import --batch import-7 --payload part-1
  rota batch seal import-7`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Int64Var(&size, "size", 0, "`number` of jobs that seals it; 0 means only batch seal does")
	cli.Within(cmd.Flags(), 0, int64(rota.MaxBatchSize), "size")
	f.Register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, err := f.Read(a.App, cmd.Flags())
		if err != nil {
			return err
		}
		spec := rota.BatchSpec{ID: rota.BatchID(args[0]), Size: size, Callback: job}
		if err := spec.CheckShape(rota.MaxPayloadBytes); err != nil {
			return err
		}
		return a.changes(func(ctx context.Context, c *client.Client, _ rota.BatchID) (rota.Batch, error) {
			b, err := client.BatchesOf(c).Open(ctx, spec)
			return b, cli.AsSubmitted(err)
		})(cmd, args)
	}
	return cmd
}

// changes runs a command that changes a batch, and prints it.
func (a BatchCommands) changes(change func(context.Context, *client.Client, rota.BatchID) (rota.Batch,
	error)) func(*cobra.Command, []string) error {
	return a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
		id := rota.BatchID(args[0])
		if err := id.Check("batch"); err != nil {
			return err
		}
		b, err := change(ctx, c, id)
		if err != nil {
			return err
		}
		return a.print(b)
	}))
}

func (a BatchCommands) seal() *cobra.Command {
	return &cobra.Command{
		Use:     "seal B",
		Short:   "Close a batch to further jobs",
		Example: "  rota batch seal import-7",
		Args:    cobra.ExactArgs(1),
		RunE: a.changes(func(ctx context.Context, c *client.Client, id rota.BatchID) (rota.Batch, error) {
			return client.BatchesOf(c).Seal(ctx, id)
		}),
	}
}

func (a BatchCommands) list() *cobra.Command {
	return a.ListMade(&cobra.Command{
		Use:   "list",
		Short: "List the batches",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			batches, err := client.Collect(client.BatchesOf(c).List(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "batches", batches, func(b rota.Batch) string { return string(b.ID) },
				[]cli.Column[rota.Batch]{
					{Head: "BATCH", Cell: func(b rota.Batch) any { return b.ID }},
					{Head: "STATE", Cell: func(b rota.Batch) any { return b.State }},
					{Head: "TENANT", Wide: true, Cell: func(b rota.Batch) any { return b.Tenant }},
					{Head: "TOTAL", Cell: func(b rota.Batch) any { return b.Total }},
					{Head: "LIVE", Cell: func(b rota.Batch) any { return b.Live }},
					{Head: "COMPLETED", Cell: func(b rota.Batch) any { return b.Completed }},
					{Head: "DEAD", Cell: func(b rota.Batch) any { return b.Dead }},
					{Head: "EXPIRED", Wide: true, Cell: func(b rota.Batch) any { return b.Expired }},
					{Head: "CANCELLED", Wide: true, Cell: func(b rota.Batch) any { return b.Cancelled }},
					{Head: "CALLBACK", Cell: callbackText},
					{Head: "OPENED", Cell: func(b rota.Batch) any { return b.Opened.Date }},
				})
		})),
	})
}

// callbackText is what is submitted in the end: a type, and the queue that it goes to.
func callbackText(b rota.Batch) any { return fmt.Sprintf("%s in %s", b.Type, b.Queue) }

func (a BatchCommands) show() *cobra.Command {
	return a.Reads(&cobra.Command{
		Use:     "show B",
		Short:   "Show a batch, and how its jobs ended",
		Example: "  rota batch show import-7",
		Args:    cobra.ExactArgs(1),
		RunE: a.changes(func(ctx context.Context, c *client.Client, id rota.BatchID) (rota.Batch, error) {
			b, err := client.BatchesOf(c).Get(ctx, id, a.Fresh()...)
			if err == nil {
				a.Seen()
			}
			return b, err
		}),
	})
}

func (a BatchCommands) wait() *cobra.Command {
	return &cobra.Command{
		Use:   "wait B",
		Short: "Wait until a batch has ended; exit 6 if a job did not end COMPLETED, 5 after --timeout",
		Example: `  rota batch wait import-7 --timeout 2h
  rota batch wait import-7 && rota job wait import-7@done`,
		Args: cobra.ExactArgs(1),
		RunE: a.Does(a.Waiting(func(ctx context.Context, c *client.Client, args []string) error {
			id := rota.BatchID(args[0])
			if err := id.Check("batch"); err != nil {
				return err
			}
			b, err := client.BatchesOf(c).Wait(ctx, id)
			if ctx.Err() == context.DeadlineExceeded || rota.KindOf(err) == rota.KindTimeout {
				return rota.Refusef(rota.KindTimeout, "wait", "batch %s has not ended after %s", id, a.Timeout)
			}
			if err != nil {
				return err
			}
			if err := a.print(b); err != nil {
				return err
			}
			if b.Completed != b.Total {
				return &cli.CodedError{Code: cli.ExitOtherwise,
					Err: fmt.Errorf("batch %s ended: of %d jobs %d completed", id, b.Total, b.Completed)}
			}
			return nil
		})),
	}
}

// print shows a batch.
func (a BatchCommands) print(b rota.Batch) error {
	return a.PrintOne(b, []string{string(b.ID)}, func(bool) string {
		facts := []cli.Fact{{Name: "batch", Value: b.ID}, {Name: "state", Value: b.State},
			{Name: "tenant", Value: b.Tenant}, {Name: "callback queue", Value: b.Queue},
			{Name: "callback type", Value: b.Type}, {Name: "total", Value: b.Total}}
		if b.Size != 0 {
			facts = append(facts, cli.Fact{Name: "size", Value: b.Size})
		}
		facts = append(facts, cli.Fact{Name: "live", Value: b.Live}, cli.Fact{Name: "completed", Value: b.Completed},
			cli.Fact{Name: "dead", Value: b.Dead}, cli.Fact{Name: "expired", Value: b.Expired},
			cli.Fact{Name: "cancelled", Value: b.Cancelled}, cli.Fact{Name: "opened", Value: b.Opened.Date})
		switch b.State {
		case rota.BatchOpen:
			facts = append(facts, cli.Fact{Name: "sealed at last", Value: b.SealsAt})
		case rota.BatchSealed:
			facts = append(facts, cli.Fact{Name: "sealed", Value: b.Sealed.Date})
		case rota.BatchFinished:
			facts = append(facts, cli.Fact{Name: "finished", Value: b.Finished.Date},
				cli.Fact{Name: "callback", Value: b.Callback})
		}
		if b.Why != "" {
			facts = append(facts, cli.Fact{Name: "why", Value: b.Why})
		}
		return cli.RenderFacts(facts)
	})
}
