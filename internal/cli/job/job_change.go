package job

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// outcomeView is one job's outcome of a cancel, a retry or a deletion.
type outcomeView struct {
	ID    rota.JobID    `json:"id"`
	State rota.JobState `json:"state"`
	Kind  string        `json:"kind,omitempty"`
	Error string        `json:"error,omitempty"`
}

func (a Commands) cancel() *cobra.Command {
	return a.change("cancel", "Cancel jobs that have not ended", (*client.Client).Cancel)
}

func (a Commands) retry() *cobra.Command {
	life := rota.AnyLife
	cmd := a.change("retry", "Queue DEAD, EXPIRED or CANCELLED jobs again",
		func(c *client.Client, ctx context.Context, ids ...rota.JobID) ([]rota.JobOutcome, error) {
			if life == rota.AnyLife {
				return c.Retry(ctx, ids...)
			}
			if len(ids) != 1 {
				return nil, cli.Usagef("--life is of one job: %d are named", len(ids))
			}
			return c.RetryLives(ctx, rota.JobRetry{ID: ids[0], Life: life})
		})
	cmd.Flags().Int32Var(&life, "life", life,
		"retry only this `life`, as job show prints it; -1 is the current one")
	cli.Within(cmd.Flags(), int64(rota.AnyLife), math.MaxInt32, "life")
	return cmd
}

func (a Commands) interrupt() *cobra.Command {
	counted := false
	cmd := a.change("interrupt", "End the current attempt of jobs, and try them again",
		func(c *client.Client, ctx context.Context, ids ...rota.JobID) ([]rota.JobOutcome, error) {
			return c.Interrupt(ctx, counted, ids...)
		})
	cmd.Long = `End the current attempt of jobs, and try them again, nodes of running workflows too. The worker
stops and confirms, and the job is QUEUED again. A worker that does not answer holds it until
the lease's deadline, or 40 s of silence. No attempt is used up. With --counted one is: the job
backs off, or is DEAD with its last one.`
	cmd.Example = "  rota job interrupt photo-4711\n  rota job interrupt nightly/render --counted"
	cmd.Flags().BoolVar(&counted, "counted", false, "count the attempt as used up")
	return cmd
}

func (a Commands) runNow() *cobra.Command {
	cmd := a.change("run-now", "Queue DELAYED jobs before their time", (*client.Client).RunNow)
	cmd.Long = `Queue DELAYED jobs before their time, with the attempts that they had. A job that waits because the
worker of its cancelled lease may still run it is refused.`
	cmd.Example = "  rota job run-now photo-4711"
	return cmd
}

func (a Commands) delete() *cobra.Command {
	cmd := a.change("delete", "Delete ended jobs, which frees their ids", (*client.Client).DeleteJobs)
	cmd.Long = `Delete ended jobs, which frees their ids. A job that has not ended is refused, and so is a node of
a workflow that is kept. Their bytes stay in the archives until --archive-retention, their
events as long as events are kept.`
	cmd.Example = "  rota job delete photo-4711"
	return cmd
}

// change is a command that changes jobs; change has the form of the client's own methods.
func (a Commands) change(verb, short string,
	change func(*client.Client, context.Context, ...rota.JobID) ([]rota.JobOutcome, error),
) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " ID…",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			ids, err := IDs(args)
			if err != nil {
				return err
			}
			outcomes, err := change(c, ctx, ids...)
			if err != nil {
				return err
			}
			return a.PrintOutcomes(verb, outcomes)
		})),
	}
}

// PrintOutcomes prints what became of each job. -o name prints what was done alone, for
// the next command; the refusals go to stderr then.
func (a Commands) PrintOutcomes(verb string, outcomes []rota.JobOutcome) error {
	views := make([]outcomeView, len(outcomes))
	items := views
	if a.Output == "name" {
		items = nil
	}
	var refused []rota.Kind
	var first error
	for i, o := range outcomes {
		views[i] = outcomeView{ID: o.ID, State: o.State}
		if o.Err == nil {
			if a.Output == "name" {
				items = append(items, views[i])
			}
			continue
		}
		views[i].Kind, views[i].Error = rota.KindOf(o.Err).String(), o.Err.Error()
		refused = append(refused, rota.KindOf(o.Err))
		if first == nil {
			first = o.Err
		}
		if a.Output == "name" && len(outcomes) > 1 { // of one the error's line tells all
			a.Talk("rota: %s of %s was rejected: %s", verb, o.ID, cli.Clean(o.Err.Error()))
		}
	}
	l := cli.Listing[outcomeView]{
		Whole: map[string]any{"jobs": views}, Items: items,
		Name: func(v outcomeView) string { return string(v.ID) },
		Columns: []cli.Column[outcomeView]{
			{Head: "ID", Cell: func(v outcomeView) any { return v.ID }},
			{Head: "STATE", Cell: func(v outcomeView) any {
				if v.State == rota.JobNone {
					return ""
				}
				return v.State
			}},
			{Head: "REFUSED", Most: 60, Cell: func(v outcomeView) any { return v.Error }},
		},
	}
	if err := l.Print(a.App); err != nil {
		return err
	}
	switch len(refused) {
	case 0:
		return nil
	case 1:
		return &cli.CodedError{Code: cli.WorstCode(cli.KindCode, refused), Err: first}
	default:
		return &cli.CodedError{Code: cli.WorstCode(cli.KindCode, refused),
			Err: fmt.Errorf("%s: %d of %d jobs refused, the first: %w", verb, len(refused), len(outcomes), first)}
	}
}
