package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// batchCommands are the commands of batches.
type batchCommands struct{ *app }

func (a batchCommands) command() *cobra.Command {
	return a.group(&cobra.Command{Use: "batch", Short: "Run a job once many others have ended"}, a.open(), a.seal(), a.list(), a.show(), a.wait())
}

func (a batchCommands) open() *cobra.Command {
	f, size := &templateFlags{}, int64(0)
	cmd := &cobra.Command{
		Use:   "open B (--type T [--queue Q] [--payload P] | --job JSON) [flags]",
		Short: "Open a batch; its callback runs once the batch is sealed and all its jobs have ended",
		Long: `Open a batch. Jobs join it with ` + "`job submit --batch B`" + `. It is sealed by its --size, by
` + "`batch seal`" + `, or 24 hours after its last job. Sealed, and none of its jobs alive, it
submits the job B@done, with labels that count how the jobs ended.`,
		Example: `  rota batch open import-7 --type report
  rota job submit --type import --batch import-7 --payload part-1
  rota batch seal import-7`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Int64Var(&size, "size", 0, "seal it once it has so `many` jobs; 0 leaves that to `batch seal`")
	within(cmd.Flags(), 0, int64(rota.MaxBatchSize), "size")
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, err := f.read(a.app, cmd.Flags())
		if err != nil {
			return err
		}
		spec := rota.BatchSpec{ID: rota.BatchID(args[0]), Size: size, Callback: job}
		if err := spec.CheckShape(rota.MaxPayloadBytes); err != nil {
			return err
		}
		return a.changes(func(ctx context.Context, c *client.Client, _ rota.BatchID) (rota.Batch, error) {
			b, err := client.BatchesOf(c).Open(ctx, spec)
			return b, asSubmitted(err)
		})(cmd, args)
	}
	return cmd
}

// changes runs a command that changes a batch, and prints it.
func (a batchCommands) changes(change func(context.Context, *client.Client, rota.BatchID) (rota.Batch, error)) func(*cobra.Command, []string) error {
	return a.does(a.calling(func(ctx context.Context, c *client.Client, args []string) error {
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

func (a batchCommands) seal() *cobra.Command {
	return &cobra.Command{
		Use:     "seal B",
		Short:   "Have a batch take no more jobs",
		Example: "  rota batch seal import-7",
		Args:    cobra.ExactArgs(1),
		RunE: a.changes(func(ctx context.Context, c *client.Client, id rota.BatchID) (rota.Batch, error) {
			return client.BatchesOf(c).Seal(ctx, id)
		}),
	}
}

func (a batchCommands) list() *cobra.Command {
	return a.listMade(&cobra.Command{
		Use:   "list",
		Short: "List the batches",
		Args:  cobra.NoArgs,
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
			batches, err := client.Collect(client.BatchesOf(c).List(ctx, a.fresh()...))
			if err != nil {
				return err
			}
			a.seen()
			return printAll(a.app, "batches", batches, func(b rota.Batch) string { return string(b.ID) }, []column[rota.Batch]{
				{"BATCH", false, 0, func(b rota.Batch) any { return b.ID }},
				{"STATE", false, 0, func(b rota.Batch) any { return b.State }},
				{"TENANT", true, 0, func(b rota.Batch) any { return b.Tenant }},
				{"TOTAL", false, 0, func(b rota.Batch) any { return b.Total }},
				{"LIVE", false, 0, func(b rota.Batch) any { return b.Live }},
				{"COMPLETED", false, 0, func(b rota.Batch) any { return b.Completed }},
				{"DEAD", false, 0, func(b rota.Batch) any { return b.Dead }},
				{"EXPIRED", true, 0, func(b rota.Batch) any { return b.Expired }},
				{"CANCELLED", true, 0, func(b rota.Batch) any { return b.Cancelled }},
				{"CALLBACK", false, 0, callbackText},
				{"OPENED", false, 0, func(b rota.Batch) any { return b.Opened.Date }},
			})
		})),
	})
}

// callbackText is what is submitted in the end: a type, and the queue that it goes to.
func callbackText(b rota.Batch) any { return fmt.Sprintf("%s in %s", b.Type, b.Queue) }

func (a batchCommands) show() *cobra.Command {
	return a.reads(&cobra.Command{
		Use:     "show B",
		Short:   "Show a batch, and how its jobs ended",
		Example: "  rota batch show import-7",
		Args:    cobra.ExactArgs(1),
		RunE: a.changes(func(ctx context.Context, c *client.Client, id rota.BatchID) (rota.Batch, error) {
			b, err := client.BatchesOf(c).Get(ctx, id, a.fresh()...)
			if err == nil {
				a.seen()
			}
			return b, err
		}),
	})
}

func (a batchCommands) wait() *cobra.Command {
	return &cobra.Command{
		Use:   "wait B",
		Short: "Wait until a batch has ended; exit 6 if a job of it did otherwise than COMPLETED, 5 after --timeout",
		Example: `  rota batch wait import-7 --timeout 2h
  rota batch wait import-7 && rota job wait import-7@done`,
		Args: cobra.ExactArgs(1),
		RunE: a.does(a.waiting(func(ctx context.Context, c *client.Client, args []string) error {
			id := rota.BatchID(args[0])
			if err := id.Check("batch"); err != nil {
				return err
			}
			b, err := client.BatchesOf(c).Wait(ctx, id)
			if ctx.Err() == context.DeadlineExceeded || rota.KindOf(err) == rota.KindTimeout {
				return rota.Refusef(rota.KindTimeout, "wait", "batch %s has not ended after %s", id, a.timeout)
			}
			if err != nil {
				return err
			}
			if err := a.print(b); err != nil {
				return err
			}
			if b.Completed != b.Total {
				return &codedError{exitOtherwise, fmt.Errorf("batch %s ended: of %d jobs %d completed", id, b.Total, b.Completed)}
			}
			return nil
		})),
	}
}

// print shows a batch.
func (a batchCommands) print(b rota.Batch) error {
	return a.printOne(b, []string{string(b.ID)}, func(bool) string {
		facts := []fact{{"batch", b.ID}, {"state", b.State}, {"tenant", b.Tenant}, {"callback queue", b.Queue}, {"callback type", b.Type}, {"total", b.Total}}
		if b.Size != 0 {
			facts = append(facts, fact{"size", b.Size})
		}
		facts = append(facts, fact{"live", b.Live}, fact{"completed", b.Completed}, fact{"dead", b.Dead}, fact{"expired", b.Expired},
			fact{"cancelled", b.Cancelled}, fact{"opened", b.Opened.Date})
		switch b.State {
		case rota.BatchOpen:
			facts = append(facts, fact{"sealed at last", b.SealsAt})
		case rota.BatchSealed:
			facts = append(facts, fact{"sealed", b.Sealed.Date})
		case rota.BatchFinished:
			facts = append(facts, fact{"finished", b.Finished.Date}, fact{"callback", b.Callback})
		}
		if b.Why != "" {
			facts = append(facts, fact{"why", b.Why})
		}
		return renderFacts(facts)
	})
}
