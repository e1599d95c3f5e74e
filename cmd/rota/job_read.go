package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

func (a jobCommands) show() *cobra.Command {
	return a.reads(&cobra.Command{
		Use:   "show ID",
		Short: "Show one job with its attempts, lease, progress and output",
		Args:  cobra.ExactArgs(1),
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, args []string) error {
			ids, err := jobIDs(args)
			if err != nil {
				return err
			}
			job, err := c.Job(ctx, ids[0], a.fresh()...)
			if err != nil {
				return err
			}
			a.seen()
			return a.print(job)
		})),
	})
}

func (a jobCommands) list() *cobra.Command {
	var queue, state, tenant, typ, cursor string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, live ones before terminal ones, by id",
		Args:  cobra.NoArgs,
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
			filter := rota.JobFilter{Queue: rota.QueueName(queue), Tenant: rota.TenantID(tenant),
				Type:   rota.JobType(typ),
				Cursor: cursor, Limit: limit}
			if err := parseState(&filter.State, state); err != nil {
				return err
			}
			var whole rota.JobPage
			err := page(ctx, a.app, c, queue, &whole.Jobs, &whole.NextCursor,
				func(opts ...client.ReadOption) iter.Seq2[rota.Job, error] { return c.Jobs(ctx, filter, opts...) })
			if err != nil {
				return err
			}
			l := listing[rota.Job]{whole: whole, items: whole.Jobs, name: jobName, columns: jobColumns()}
			return l.print(a.app)
		})),
	}
	flags := cmd.Flags()
	flags.StringVar(&queue, "queue", "", "only this `queue`'s")
	flags.StringVar(&state, "state", "", "only those in this `state`")
	flags.StringVar(&tenant, "tenant", "", "only this `tenant`'s")
	flags.StringVar(&typ, "type", "", "only those of this `type`")
	flags.IntVar(&limit, "limit", 100, "at most so many")
	within(flags, 1, unbounded, "limit")
	flags.StringVar(&cursor, "cursor", "", "continue after a list: its next_`cursor`")
	return a.listCommand(cmd)
}

// parseState takes a job state's name, in any case of letters; "" is none.
func parseState(state *rota.JobState, name string) error {
	if name == "" {
		return nil
	}
	err := state.UnmarshalText([]byte(strings.ToUpper(name)))
	if err == nil && *state == rota.JobNone {
		return usagef("job state %q selects nothing: leave --state out for all", name)
	}
	return err
}

func (a jobCommands) wait() *cobra.Command {
	return &cobra.Command{
		Use:   "wait ID…",
		Short: "Wait until jobs ended; exit 6 if one did otherwise than COMPLETED, 5 after --timeout",
		Args:  cobra.MinimumNArgs(1),
		RunE: a.does(a.waiting(func(ctx context.Context, c *client.Client, args []string) error {
			ids, err := jobIDs(args)
			if err != nil {
				return err
			}
			ended := []rota.Job{}
			for j, failed := range c.Wait(ctx, ids...) {
				if err = failed; err == nil {
					ended = append(ended, j)
				}
			}
			l := listing[rota.Job]{whole: rota.JobPage{Jobs: ended}, items: ended, name: jobName,
				columns: jobColumns()}
			if errors.Is(err, context.Canceled) && len(ended) == 0 {
				return err // a signal: there is nothing to print
			}
			if printErr := l.print(a.app); printErr != nil {
				return printErr
			}
			if err == nil {
				return endedWell(ended)
			}
			if ctx.Err() == context.DeadlineExceeded || rota.KindOf(err) == rota.KindTimeout {
				return rota.Refusef(rota.KindTimeout, "wait", "%d of %d jobs had not ended after %s",
					len(ids)-len(ended), len(ids), a.timeout)
			}
			return err
		})),
	}
}

// endedWell is nil when every job completed.
func endedWell(jobs []rota.Job) error {
	var otherwise []string
	for _, j := range jobs {
		if j.State != rota.JobCompleted {
			otherwise = append(otherwise, fmt.Sprintf("job %s ended %s%s", j.ID, j.State, because(j)))
		}
	}
	if len(otherwise) == 0 {
		return nil
	}
	const most = 5
	text := strings.Join(otherwise[:min(most, len(otherwise))], "; ")
	if len(otherwise) > most {
		text += fmt.Sprintf("; and %d more", len(otherwise)-most)
	}
	return &codedError{exitOtherwise, fmt.Errorf("%s", text)}
}

func because(j rota.Job) string {
	text := ""
	if j.Reason != rota.ReasonNone {
		text = " (" + j.Reason.String() + ")"
	}
	if j.Error != "" {
		text += ": " + head(clean(j.Error))
	}
	return text
}
