package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// scheduleCommands are the commands of schedules.
type scheduleCommands struct{ *app }

func (a scheduleCommands) command() *cobra.Command {
	return a.group(&cobra.Command{Use: "schedule", Short: "Run jobs on dates: by cron expressions, periods, or given dates"},
		a.set(), a.list(), a.show(), a.next(), a.pause(), a.resume(), a.trigger(), a.backfill(),
		a.deletesVersion("delete S", "Forget a schedule; its runs stay", "schedule delete nightly",
			func(ctx context.Context, c *client.Client, name string, only client.Condition) error {
				return c.Schedules().Delete(ctx, rota.ScheduleName(name), only)
			}))
}

func (a scheduleCommands) list() *cobra.Command {
	return a.listMade(&cobra.Command{
		Use:   "list",
		Short: "List the schedules",
		Args:  cobra.NoArgs,
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
			schedules, err := client.Collect(c.Schedules().List(ctx, a.fresh()...))
			if err != nil {
				return err
			}
			a.seen()
			return printAll(a.app, "schedules", schedules, func(s rota.Schedule) string { return string(s.Name) }, scheduleColumns())
		})),
	})
}

func scheduleColumns() []column[rota.Schedule] {
	return []column[rota.Schedule]{
		{"NAME", false, 0, func(s rota.Schedule) any { return s.Name }},
		{"STATE", false, 0, func(s rota.Schedule) any { return s.State }},
		{"DUE", false, 0, func(s rota.Schedule) any { return dueText(&s.ScheduleTimes) }},
		{"NEXT", false, 0, func(s rota.Schedule) any { return s.Next }},
		{"QUEUE", false, 0, func(s rota.Schedule) any { return s.Job.Queue }},
		{"TYPE", false, 0, func(s rota.Schedule) any { return s.Job.Type }},
		{"LIVE", false, 0, func(s rota.Schedule) any { return len(s.Live) }},
		{"WAITING", true, 0, func(s rota.Schedule) any { return len(s.Waiting) }},
		{"RUNS", true, 0, func(s rota.Schedule) any { return s.Runs }},
		{"SKIPPED", true, 0, func(s rota.Schedule) any { return s.Skipped }},
		{"MISSED", true, 0, func(s rota.Schedule) any { return s.Missed }},
		{"FAILED", true, 0, func(s rota.Schedule) any { return s.Failed }},
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

func (a scheduleCommands) show() *cobra.Command {
	return a.reads(&cobra.Command{
		Use:     "show S",
		Short:   "Show a schedule, what lives and waits of it, and what became of its last dates",
		Example: "  rota schedule show nightly",
		Args:    cobra.ExactArgs(1),
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, args []string) error {
			name, err := scheduleNamed(args)
			if err != nil {
				return err
			}
			s, err := c.Schedules().Get(ctx, name, a.fresh()...)
			if err != nil {
				return err
			}
			a.seen()
			return a.print(s)
		})),
	})
}

func (a scheduleCommands) next() *cobra.Command {
	most := 10
	var after rota.Date
	cmd := a.reads(&cobra.Command{
		Use:     "next S",
		Short:   "Show the next dates of a schedule, and by which time zone data, or those after a date that has passed",
		Example: "  rota schedule next nightly --count 3\n  rota schedule next nightly --after 2031-01-01",
		Args:    cobra.ExactArgs(1),
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, args []string) error {
			name, err := scheduleNamed(args)
			if err != nil {
				return err
			}
			d, err := c.Schedules().Forecast(ctx, name, after, most, a.fresh()...)
			if err != nil {
				return err
			}
			a.seen()
			if d.Dates == nil {
				d.Dates = []rota.Date{}
			}
			l := listing[rota.Date]{whole: d, items: d.Dates, name: rota.Date.String, columns: []column[rota.Date]{
				{"DATE", false, 0, func(d rota.Date) any { return d }}, {"TZDATA", false, 0, func(rota.Date) any { return d.TZData }}}}
			return l.print(a.app)
		})),
	})
	cmd.Flags().IntVar(&most, "count", most, "how `many` dates, 1 to 1000")
	cmd.Flags().Var((*dateValue)(&after), "after", "those after this date; without it those that are not decided yet")
	within(cmd.Flags(), 1, 1_000, "count")
	return cmd
}

func (a scheduleCommands) pause() *cobra.Command {
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
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, as it is shown")
	return cmd
}

func (a scheduleCommands) resume() *cobra.Command {
	var catchUp bool
	cmd := &cobra.Command{
		Use:     "resume S",
		Short:   "Have a paused schedule go on from now on",
		Example: "  rota schedule resume nightly --catch-up",
		Args:    cobra.ExactArgs(1),
		RunE: a.changes(func(ctx context.Context, c *client.Client, name rota.ScheduleName) (rota.Schedule, error) {
			return c.Schedules().Resume(ctx, name, catchUp)
		}),
	}
	cmd.Flags().BoolVar(&catchUp, "catch-up", false, "take what was due meanwhile, as far as its catching up allows")
	return cmd
}

// changes runs a command that changes a schedule, and prints it.
func (a scheduleCommands) changes(change func(context.Context, *client.Client, rota.ScheduleName) (rota.Schedule, error)) func(*cobra.Command, []string) error {
	return a.does(a.calling(func(ctx context.Context, c *client.Client, args []string) error {
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

func (a scheduleCommands) trigger() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:     "trigger S",
		Short:   "Run a schedule's job now, as S@+ID",
		Example: "  rota schedule trigger nightly",
		Args:    cobra.ExactArgs(1),
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, args []string) error {
			name, err := scheduleNamed(args)
			if err != nil {
				return err
			}
			o, err := c.Schedules().Trigger(ctx, name, id)
			if err != nil {
				return err
			}
			done := rota.Submitted{ID: o.ID, State: o.State, Index: o.Index}
			return a.printOne(done, []string{string(o.ID)}, func(bool) string { return renderFacts([]fact{{"job", o.ID}, {"state", o.State}}) })
		})),
	}
	cmd.Flags().StringVar(&id, "id", "", "the run's `id` after S@+; the same again is the same run (default: a new one)")
	return cmd
}

func (a scheduleCommands) backfill() *cobra.Command {
	var overlap string
	cmd := &cobra.Command{
		Use:     "backfill S FROM TO",
		Short:   "Run the dates of a schedule that have passed, from one date to another; those that are known do not run again",
		Example: "  rota schedule backfill nightly 2026-10-01 2026-10-31",
		Args:    cobra.ExactArgs(3),
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, args []string) error {
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
				if err := (*dateValue)(&dates[i]).Set(args[1+i]); err != nil {
					return usagef("%q is not a date: %w", args[1+i], err)
				}
			}
			n, err := c.Schedules().Backfill(ctx, name, dates[0], dates[1], way)
			if err != nil {
				return err
			}
			return a.printOne(map[string]int64{"dates": n}, nil, func(bool) string { return renderFacts([]fact{{"dates", n}}) })
		})),
	}
	cmd.Flags().StringVar(&overlap, "overlap", "queue_all", "`how` they stand to each other: skip, queue_one, queue_all, cancel, allow")
	return cmd
}

// print shows a schedule.
func (a scheduleCommands) print(s rota.Schedule) error {
	return a.printOne(s, []string{string(s.Name)}, func(bool) string {
		facts := []fact{{"schedule", s.Name}, {"state", s.State}, {"due", dueText(&s.ScheduleTimes)}}
		if s.Next != 0 {
			facts = append(facts, fact{"next", s.Next})
		}
		if s.Why != "" {
			facts = append(facts, fact{"why", s.Why})
		}
		facts = append(facts, fact{"overlap", s.Overlap}, fact{"queue", s.Job.Queue}, fact{"type", s.Job.Type}, fact{"tenant", s.Job.Tenant},
			fact{"live", idsText(s.Live)}, fact{"waiting", idsText(s.Waiting)}, fact{"runs", s.Runs}, fact{"skipped", s.Skipped}, fact{"missed", s.Missed},
			fact{"failed", s.Failed}, fact{"version", s.Version}, fact{"etag", s.ETag})
		for _, d := range s.Decisions {
			facts = append(facts, fact{d.Date.String(), d.What})
		}
		return renderFacts(facts)
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
