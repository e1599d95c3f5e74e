package workflow

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// Commands are the commands of workflows.
type Commands struct{ *cli.App }

// Command returns `rota workflow` and the commands below it.
func (a Commands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "workflow", Short: "Submit and manage workflows of jobs",
		Long: `A workflow is a graph of jobs. A node's job has the id WORKFLOW/NODE, for rota job show, why and
cancel, and rota events tail --job.`},
		a.submit(), a.show(), a.List(), a.graph(),
		a.wait(), a.cancel(), a.retry(), a.signal())
}

// workflowID checks an id given as an argument.
func workflowID(arg string) (rota.WorkflowID, error) {
	id := rota.WorkflowID(arg)
	return id, rota.CheckID("workflow", id)
}

// List returns `rota workflow list`.
func (a Commands) List() *cobra.Command {
	var state, queue, tenant, cursor string
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List workflows, by id",
		Example: "  rota workflow list --state running\n  rota workflow list --tenant acme -o json",
		Args:    cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			filter := rota.WorkflowFilter{Queue: rota.QueueName(queue), Tenant: rota.TenantID(tenant), Cursor: cursor,
				Limit: limit}
			if state != "" {
				err := filter.State.UnmarshalText([]byte(strings.ToUpper(state)))
				if err != nil {
					return err
				}
				if filter.State == rota.WorkflowNone || filter.State == rota.WorkflowOpen {
					return cli.Usagef("workflow state %q selects nothing: omit --state for all", state)
				}
			}
			var whole rota.WorkflowPage
			err := cli.Page(ctx, a.App, c, queue, &whole.Workflows, &whole.NextCursor,
				func(opts ...client.ReadOption) iter.Seq2[rota.Workflow, error] {
					return c.Workflows(ctx, filter, opts...)
				})
			if err != nil {
				return err
			}
			l := cli.Listing[rota.Workflow]{Whole: whole, Items: whole.Workflows, Columns: Columns(),
				Name: func(w rota.Workflow) string { return string(w.ID) }}
			return l.Print(a.App)
		})),
	}
	flags := cmd.Flags()
	flags.StringVar(&state, "state", "", "only those in this `state`")
	flags.StringVar(&queue, "queue", "", "only those of this `queue`")
	flags.StringVar(&tenant, "tenant", "", "only this `tenant`'s")
	flags.IntVar(&limit, "limit", 100, "maximum number to list")
	cli.Within(flags, 1, cli.Unbounded, "limit")
	flags.StringVar(&cursor, "cursor", "", "continue after a page: its next_`cursor`")
	cli.Choices(cmd, "state", "RUNNING", "COMPLETED", "FAILED", "CANCELLED")
	return a.ListCommand(cmd)
}

// Columns are the columns of a list of workflows.
func Columns() []cli.Column[rota.Workflow] {
	return []cli.Column[rota.Workflow]{
		{Head: "ID", Cell: func(w rota.Workflow) any { return w.ID }},
		{Head: "STATE", Cell: func(w rota.Workflow) any { return w.State }},
		{Head: "DONE", Cell: func(w rota.Workflow) any { return fmt.Sprintf("%d%%", w.Progress) }},
		{Head: "NODES", Cell: func(w rota.Workflow) any { return w.NodeCount }},
		{Head: "EDGES", Wide: true, Cell: func(w rota.Workflow) any { return w.EdgeCount }},
		{Head: "COMPLETED", Cell: func(w rota.Workflow) any { return w.Counts.Completed }},
		{Head: "RUNNING", Cell: func(w rota.Workflow) any { return w.Counts.Running + w.Counts.Assigned }},
		{Head: "FAILED", Cell: func(w rota.Workflow) any { return w.Counts.Dead + w.Counts.Expired }},
		{Head: "RUNS", Wide: true, Cell: func(w rota.Workflow) any { return w.Runs }},
		{Head: "QUEUE", Most: 12, Cell: func(w rota.Workflow) any { return w.Queue }},
		{Head: "TENANT", Wide: true, Cell: func(w rota.Workflow) any { return w.Tenant }},
		{Head: "SUBMITTED", Cell: func(w rota.Workflow) any { return w.Submitted.Date }},
		{Head: "FINISHED", Wide: true, Cell: func(w rota.Workflow) any { return w.Finished.Date }},
		{Head: "TOOK", Wide: true, Cell: func(w rota.Workflow) any { return cli.Between(w.Submitted, w.Finished) }},
		{Head: "FAILED NODE", Wide: true, Cell: func(w rota.Workflow) any { return w.FailedNode }},
	}
}

func (a Commands) cancel() *cobra.Command {
	return &cobra.Command{
		Use:     "cancel ID",
		Short:   "Cancel all unfinished nodes of a workflow, running ones too",
		Example: "  rota workflow cancel nightly-7",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := workflowID(args[0])
			if err != nil {
				return err
			}
			w, err := c.CancelWorkflow(ctx, id)
			if err != nil {
				return err
			}
			return a.Print(ctx, c, w)
		})),
	}
}

func (a Commands) retry() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "retry ID [--from NODE]",
		Short: "Run the incomplete nodes of a FAILED or CANCELLED workflow again",
		Long: `Run the incomplete nodes of a FAILED or CANCELLED workflow again. With --from, only that node, its
descendants, and the nodes that those wait for run again.`,
		Example: "  rota workflow retry nightly-7\n  rota workflow retry nightly-7 --from transform",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := workflowID(args[0])
			if err != nil {
				return err
			}
			if from != "" {
				if err := rota.CheckNodeID("--from", from); err != nil {
					return err
				}
			}
			w, err := c.RetryWorkflow(ctx, id, from)
			if err != nil {
				return err
			}
			return a.Print(ctx, c, w)
		})),
	}
	cmd.Flags().StringVar(&from, "from", "", "begin at this `node` (default: all that did not complete)")
	return cmd
}

func (a Commands) signal() *cobra.Command {
	var id, payload string
	var refuse bool
	cmd := &cobra.Command{
		Use:   "signal ID NODE [--payload TEXT] [--refuse]",
		Short: "Let a gate of a workflow complete, or refuse it",
		Long: `Signal a gate: a node without a job that waits for a signal. The payload is its output, which
its children read as a parent's. --refuse ends the gate DEAD, with the payload as reason. The
first signal counts, even before the gate's parents have COMPLETED. The same --id again changes
nothing; any other is refused (exit 4).`,
		Example: `  rota workflow signal release-7 approve
  rota workflow signal release-7 approve --payload @ticket.json --id approval-4711
  rota workflow signal release-7 approve --refuse --payload "not on a Friday"`,
		Args: cobra.ExactArgs(2),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			bytes, err := cli.ReadPayload(payload, a.Stdin)
			if err != nil {
				return err
			}
			// Minted here, so that the same command can be said again where no answer came.
			s := rota.Signal{Workflow: rota.WorkflowID(args[0]), Node: args[1],
				ID: cli.Or(id, string(client.NewJobID())), Payload: bytes, Refuse: refuse}
			if err := s.CheckShape(); err != nil {
				return err
			}
			done, err := c.SignalWorkflow(ctx, s)
			if err != nil {
				if k := rota.KindOf(err); k == rota.KindTimeout || k == rota.KindUnavailable || ctx.Err() != nil {
					a.Talk("whether it was signalled is not known: signal it again with --id %s", s.ID)
				}
				return cli.AsSubmitted(err)
			}
			if done.Existed {
				a.Talk("gate %s of workflow %s had this signal before: nothing was changed", done.Node, done.Workflow)
			}
			return a.PrintOne(done, []string{done.ID}, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "workflow", Value: done.Workflow},
					{Name: "gate", Value: done.Node}, {Name: "signal", Value: done.ID}})
			})
		})),
	}
	flags := cmd.Flags()
	flags.StringVar(&payload, "payload", "", "payload: the `text` itself, @FILE, or - for stdin; at most 64 KiB")
	flags.BoolVar(&refuse, "refuse", false, "end the gate DEAD (GATE_REFUSED) instead")
	flags.StringVar(&id, "id", "", "the signal's `id`, the idempotency key (default: a new one)")
	return cmd
}

func (a Commands) wait() *cobra.Command {
	return &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until a workflow has ended; exit 6 if not COMPLETED, 5 after --timeout",
		Example: `  rota workflow wait nightly-7 --timeout 2h
  rota workflow wait nightly-7 -o json | jq .state`,
		Args: cobra.ExactArgs(1),
		RunE: a.Does(func(ctx context.Context, args []string) error {
			id, err := workflowID(args[0])
			if err != nil {
				return err
			}
			return a.await(ctx, id, fmt.Sprintf("workflow %s has not ended", id))
		}),
	}
}

// await waits for a workflow's end and prints it; late begins what is said
// when --timeout is over before.
func (a Commands) await(ctx context.Context, id rota.WorkflowID, late string) error {
	return a.Waiting(func(ctx context.Context, c *client.Client, _ []string) error {
		stop := a.progress(ctx, c, id)
		w, err := c.WaitWorkflow(ctx, id)
		stop(endedNodes(w.Counts))
		if ctx.Err() == context.DeadlineExceeded || rota.KindOf(err) == rota.KindTimeout {
			return rota.Refusef(rota.KindTimeout, "wait", "%s after %s", late, a.Timeout)
		}
		if err != nil {
			return err
		}
		if err := a.Print(ctx, c, w); err != nil {
			return err
		}
		return cli.WorkflowEndedWell(&w)
	})(ctx, nil)
}

// watchEvery is how often a bar of progress is brought up to date.
const watchEvery = time.Second

// progress shows a workflow's progress on a terminal until its result is called
// with how many nodes have ended then.
func (a Commands) progress(ctx context.Context, c *client.Client, id rota.WorkflowID) (stop func(ended int64)) {
	if !cli.Terminal(a.Stderr) {
		return func(int64) {}
	}
	w, err := c.Workflow(ctx, id, client.Stale())
	if err != nil || w.State.Terminal() {
		return func(int64) {} // the wait itself tells
	}
	var done atomic.Int64
	done.Store(endedNodes(w.Counts))
	bar := a.Watch("nodes ended", w.NodeCount, done.Load)
	ctx, cancel := context.WithCancel(ctx)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for cli.Pause(ctx, watchEvery) == nil {
			if w, err := c.Workflow(ctx, id, client.Stale()); err == nil {
				done.Store(endedNodes(w.Counts))
			}
		}
	}()
	return func(ended int64) {
		cancel()
		<-finished
		done.Store(max(ended, done.Load()))
		bar.Stop()
	}
}

// endedNodes counts nodes that have nothing more to do.
func endedNodes(n rota.NodeCounts) int64 {
	return n.Completed + n.Dead + n.Expired + n.Cancelled + n.Skipped
}
