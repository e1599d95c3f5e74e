package queue

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// ScheduleCommands are the commands of schedules.
type ScheduleCommands struct{ *cli.App }

// Command returns `rota schedule` and the commands below it.
func (a ScheduleCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "schedule",
		Short: "Run jobs on dates: by cron expressions, periods, or given dates"},
		a.set(), a.list(), a.show(), a.next(), a.pause(), a.resume(), a.trigger(), a.backfill(),
		a.DeletesVersion("delete S", "Delete a schedule; its runs stay", "schedule delete nightly",
			func(ctx context.Context, c *client.Client, name string, only client.Condition) error {
				return c.Schedules().Delete(ctx, rota.ScheduleName(name), only)
			}))
}

func (a ScheduleCommands) list() *cobra.Command {
	return a.ListMade(&cobra.Command{
		Use:   "list",
		Short: "List the schedules",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			schedules, err := client.Collect(c.Schedules().List(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return cli.PrintAll(a.App, "schedules", schedules, func(s rota.Schedule) string { return string(s.Name) },
				scheduleColumns())
		})),
	})
}

func scheduleColumns() []cli.Column[rota.Schedule] {
	return []cli.Column[rota.Schedule]{
		{Head: "NAME", Cell: func(s rota.Schedule) any { return s.Name }},
		{Head: "STATE", Cell: func(s rota.Schedule) any { return s.State }},
		{Head: "DUE", Cell: func(s rota.Schedule) any { return dueText(&s.ScheduleTimes) }},
		{Head: "NEXT", Cell: func(s rota.Schedule) any { return s.Next }},
		{Head: "QUEUE", Cell: func(s rota.Schedule) any { return s.Job.Queue }},
		{Head: "TYPE", Cell: func(s rota.Schedule) any { return s.Job.Type }},
		{Head: "LIVE", Cell: func(s rota.Schedule) any { return len(s.Live) }},
		{Head: "WAITING", Wide: true, Cell: func(s rota.Schedule) any { return len(s.Waiting) }},
		{Head: "RUNS", Wide: true, Cell: func(s rota.Schedule) any { return s.Runs }},
		{Head: "SKIPPED", Wide: true, Cell: func(s rota.Schedule) any { return s.Skipped }},
		{Head: "MISSED", Wide: true, Cell: func(s rota.Schedule) any { return s.Missed }},
		{Head: "FAILED", Wide: true, Cell: func(s rota.Schedule) any { return s.Failed }},
	}
}

// dueText says shortly when a schedule is due.
func dueText(t *rota.ScheduleTimes) string {
	switch {
	case t.Cron != "" && t.TZ != "":
		return t.Cron + " " + t.TZ
	case t.Cron != "":
		return t.Cron
	case t.Every != 0:
		return "every " + t.Every.String()
	case len(t.Dates) == 1:
		return t.Dates[0].String()
	}
	return "on given dates"
}

// scheduleNamed checks the name that a command is given.
func scheduleNamed(args []string) (rota.ScheduleName, error) {
	name := rota.ScheduleName(args[0])
	return name, name.Check("schedule")
}

func (a ScheduleCommands) show() *cobra.Command {
	return a.Reads(&cobra.Command{
		Use:     "show S",
		Short:   "Show a schedule, its live and waiting runs, and the outcome of its last dates",
		Example: "  rota schedule show nightly",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			name, err := scheduleNamed(args)
			if err != nil {
				return err
			}
			s, err := c.Schedules().Get(ctx, name, a.Fresh()...)
			if err != nil {
				return err
			}
			a.Seen()
			return a.print(s)
		})),
	})
}

func (a ScheduleCommands) next() *cobra.Command {
	most := 10
	var after rota.Date
	cmd := a.Reads(&cobra.Command{
		Use:     "next S",
		Short:   "Show the next dates of a schedule and its time zone data, or those after a date",
		Example: "  rota schedule next nightly --count 3\n  rota schedule next nightly --after 2031-01-01",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			name, err := scheduleNamed(args)
			if err != nil {
				return err
			}
			d, err := c.Schedules().Forecast(ctx, name, after, most, a.Fresh()...)
			if err != nil {
				return err
			}
			a.Seen()
			if d.Dates == nil {
				d.Dates = []rota.Date{}
			}
			l := cli.Listing[rota.Date]{Whole: d, Items: d.Dates, Name: rota.Date.String,
				Columns: []cli.Column[rota.Date]{
					{Head: "DATE", Cell: func(d rota.Date) any { return d }}, {Head: "TZDATA",
						Cell: func(rota.Date) any { return d.TZData }}}}
			return l.Print(a.App)
		})),
	})
	cmd.Flags().IntVar(&most, "count", most, "`number` of dates, 1 to 1000")
	cmd.Flags().Var((*cli.DateValue)(&after), "after",
		"those after this date; without it those that are not decided yet")
	cli.Within(cmd.Flags(), 1, 1_000, "count")
	return cmd
}

func (a ScheduleCommands) pause() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "pause S",
		Short:   "Start no run of a schedule until it is resumed",
		Example: "  rota schedule pause nightly --reason 'the disk is full'",
		Args:    cobra.ExactArgs(1),
		RunE: a.changes(func(ctx context.Context, c *client.Client, name rota.ScheduleName) (rota.Schedule, error) {
			return c.Schedules().Pause(ctx, name, reason)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`reason` to show")
	return cmd
}

func (a ScheduleCommands) resume() *cobra.Command {
	var catchUp bool
	cmd := &cobra.Command{
		Use:     "resume S",
		Short:   "Resume a paused schedule from now on",
		Example: "  rota schedule resume nightly --catch-up",
		Args:    cobra.ExactArgs(1),
		RunE: a.changes(func(ctx context.Context, c *client.Client, name rota.ScheduleName) (rota.Schedule, error) {
			return c.Schedules().Resume(ctx, name, catchUp)
		}),
	}
	cmd.Flags().BoolVar(&catchUp, "catch-up", false, "run the dates that were due meanwhile, as far as catch-up allows")
	return cmd
}

// changes runs a command that changes a schedule, and prints it.
func (a ScheduleCommands) changes(change func(context.Context, *client.Client, rota.ScheduleName) (rota.Schedule,
	error)) func(*cobra.Command, []string) error {
	return a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
		name, err := scheduleNamed(args)
		if err != nil {
			return err
		}
		s, err := change(ctx, c, name)
		if err != nil {
			return err
		}
		return a.print(s)
	}))
}

func (a ScheduleCommands) trigger() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:     "trigger S",
		Short:   "Run a schedule's job now, as S@+ID",
		Example: "  rota schedule trigger nightly",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			name, err := scheduleNamed(args)
			if err != nil {
				return err
			}
			o, err := c.Schedules().Trigger(ctx, name, id)
			if err != nil {
				return err
			}
			done := rota.Submitted{ID: o.ID, State: o.State, Index: o.Index}
			return a.PrintOne(done, []string{string(o.ID)}, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "job", Value: o.ID}, {Name: "state", Value: o.State}})
			})
		})),
	}
	cmd.Flags().StringVar(&id, "id", "",
		"`id` of the run, after S@+: each counts once (default: a new one)")
	return cmd
}

func (a ScheduleCommands) backfill() *cobra.Command {
	var overlap string
	cmd := &cobra.Command{
		Use:     "backfill S FROM TO",
		Short:   "Run the dates of a schedule between two past dates that have no run",
		Example: "  rota schedule backfill nightly 2026-10-01 2026-10-31",
		Args:    cobra.ExactArgs(3),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			name, err := scheduleNamed(args)
			if err != nil {
				return err
			}
			var way rota.Overlap
			if err := way.UnmarshalText([]byte(overlap)); err != nil {
				return err
			}
			var dates [2]rota.Date
			for i := range dates {
				if err := (*cli.DateValue)(&dates[i]).Set(args[1+i]); err != nil {
					return cli.Usagef("%q is not a date: %w", args[1+i], err)
				}
			}
			n, err := c.Schedules().Backfill(ctx, name, dates[0], dates[1], way)
			if err != nil {
				return err
			}
			return a.PrintOne(map[string]int64{"dates": n}, nil,
				func(bool) string { return cli.RenderFacts([]cli.Fact{{Name: "dates", Value: n}}) })
		})),
	}
	cmd.Flags().StringVar(&overlap, "overlap", "queue_all",
		"overlap `policy` of the runs: skip, queue_one, queue_all, cancel, allow")
	return cmd
}

// print shows a schedule.
func (a ScheduleCommands) print(s rota.Schedule) error {
	return a.PrintOne(s, []string{string(s.Name)}, func(bool) string {
		facts := []cli.Fact{{Name: "schedule", Value: s.Name}, {Name: "state", Value: s.State},
			{Name: "due", Value: dueText(&s.ScheduleTimes)}}
		if s.Next != 0 {
			facts = append(facts, cli.Fact{Name: "next", Value: s.Next})
		}
		if s.Why != "" {
			facts = append(facts, cli.Fact{Name: "why", Value: s.Why})
		}
		facts = append(facts, cli.Fact{Name: "overlap", Value: s.Overlap}, cli.Fact{Name: "queue", Value: s.Job.Queue},
			cli.Fact{Name: "type", Value: s.Job.Type}, cli.Fact{Name: "tenant", Value: s.Job.Tenant},
			cli.Fact{Name: "live", Value: idsText(s.Live)}, cli.Fact{Name: "waiting", Value: idsText(s.Waiting)},
			cli.Fact{Name: "runs", Value: s.Runs}, cli.Fact{Name: "skipped", Value: s.Skipped},
			cli.Fact{Name: "missed", Value: s.Missed},
			cli.Fact{Name: "failed", Value: s.Failed}, cli.Fact{Name: "version", Value: s.Version},
			cli.Fact{Name: "etag", Value: s.ETag})
		for _, d := range s.Decisions {
			facts = append(facts, cli.Fact{Name: d.Date.String(), Value: d.What})
		}
		return cli.RenderFacts(facts)
	})
}

// idsText lists a few ids.
func idsText(ids []rota.JobID) string {
	if len(ids) == 0 {
		return "none"
	}
	shown := make([]string, 0, 5)
	for i, id := range ids {
		if i == 5 {
			shown = append(shown, "…")
			break
		}
		shown = append(shown, string(id))
	}
	return strings.Join(shown, " ")
}
