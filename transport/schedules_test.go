package transport

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

// fakeSchedule is the schedule that a core without a cluster returns.
func fakeSchedule(name rota.ScheduleName) rota.Schedule {
	s := rota.Schedule{State: rota.SchedulePaused, Version: 3, Live: []rota.JobID{"s@+x"},
		Waiting:   []rota.JobID{"s@2030-01-02T03:04:05Z"},
		Decisions: []rota.ScheduleDecision{{Date: 5, What: rota.FateSkipped}}}
	s.Name, s.Cron, s.CatchUp, s.Job = name, "@hourly", time.Hour, rota.NewJobSpec("t", nil)
	return s
}

func (c *fakeCore) Schedules(_ context.Context, opt peer.ReadOptions) ([]rota.Schedule, rota.ReadAt, error) {
	return []rota.Schedule{fakeSchedule("s")}, fakeAt(opt), c.err
}

func (c *fakeCore) Schedule(_ context.Context, name rota.ScheduleName,
	opt peer.ReadOptions) (rota.Schedule, rota.ReadAt, error) {
	return fakeSchedule(name), fakeAt(opt), c.err
}

func (c *fakeCore) SetSchedule(_ context.Context, spec rota.ScheduleSpec) (rota.Schedule, error) {
	return rota.Schedule{ScheduleSpec: spec}, c.err
}

func (c *fakeCore) PauseSchedule(_ context.Context, name rota.ScheduleName, reason string) (rota.Schedule, error) {
	s := fakeSchedule(name)
	s.Why = reason
	return s, c.err
}

func (c *fakeCore) ResumeSchedule(_ context.Context, name rota.ScheduleName, _ bool) (rota.Schedule, error) {
	return fakeSchedule(name), c.err
}

func (c *fakeCore) TriggerSchedule(_ context.Context, name rota.ScheduleName, id string) (rota.JobOutcome, error) {
	return rota.JobOutcome{ID: rota.RunID(name, 0, id), State: rota.JobQueued}, c.err
}

func (c *fakeCore) BackfillSchedule(_ context.Context, name rota.ScheduleName, from, until rota.Date,
	overlap rota.Overlap) (int, rota.Schedule, error) {
	s := fakeSchedule(name)
	s.Overlap = overlap
	return int(until - from), s, c.err
}

func (c *fakeCore) DeleteSchedule(context.Context, rota.ScheduleName) error { return c.err }

func (c *fakeCore) NextDates(_ context.Context, _ rota.ScheduleName, after rota.Date, most int,
	opt peer.ReadOptions) ([]rota.Date, string, rota.ReadAt, error) {
	return slices.Repeat([]rota.Date{after + 7}, most), "2025c", fakeAt(opt), c.err
}

// schedulesUnary returns each unary call of the service Schedules, once well-formed and once not.
func schedulesUnary(b *bundle) map[string]unaryRow {
	type call = func(context.Context) (proto.Message, error)
	schedules := rotav1.NewSchedulesClient(b.conn)
	set := func(change func(*rotav1.ScheduleSpec)) call {
		return func(ctx context.Context) (proto.Message, error) {
			spec := &rotav1.ScheduleSpec{Name: "s", Cron: "@hourly", Job: &rotav1.JobSpec{Type: "t"}}
			change(spec)
			return schedules.Set(ctx, &rotav1.SetScheduleRequest{Spec: spec})
		}
	}
	as := func(*rotav1.ScheduleSpec) {}
	list := func(limit int32) call {
		return func(ctx context.Context) (proto.Message, error) {
			return schedules.List(ctx, &rotav1.ListSchedulesRequest{Limit: limit})
		}
	}
	get := func(name string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return schedules.Get(ctx, &rotav1.GetScheduleRequest{Name: name})
		}
	}
	pause := func(name string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return schedules.Pause(ctx, &rotav1.PauseScheduleRequest{Name: name, Reason: "r"})
		}
	}
	resume := func(name string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return schedules.Resume(ctx, &rotav1.ResumeScheduleRequest{Name: name})
		}
	}
	trigger := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return schedules.Trigger(ctx, &rotav1.TriggerScheduleRequest{Name: "s", Id: id})
		}
	}
	backfill := func(overlap string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return schedules.Backfill(ctx, &rotav1.BackfillScheduleRequest{Name: "s", FromMs: 1, UntilMs: 5,
				Overlap: overlap})
		}
	}
	drop := func(name string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return schedules.Delete(ctx, &rotav1.DeleteScheduleRequest{Name: name})
		}
	}
	next := func(limit int32, after int64) call {
		return func(ctx context.Context) (proto.Message, error) {
			return schedules.Next(ctx, &rotav1.NextDatesRequest{Name: "s", Limit: limit, AfterMs: after})
		}
	}
	return map[string]unaryRow{
		"schedules set": {set(as), set(func(s *rotav1.ScheduleSpec) { s.EveryMs = 5_000 }), `catch_up_ms:3600000`},
		"schedules set overlap": {set(func(s *rotav1.ScheduleSpec) { s.Overlap = "queue_one" }),
			set(func(s *rotav1.ScheduleSpec) { s.Overlap = "both" }), `overlap:"queue_one"`},
		"schedules set dates": {set(as), set(func(s *rotav1.ScheduleSpec) {
			s.Cron, s.DatesMs = "", make([]int64, rota.MaxScheduleDates+1)
		}),
			`queue:"default"`},
		"schedules set job":  {set(as), set(func(s *rotav1.ScheduleSpec) { s.Job = nil }), `tenant:"default"`},
		"schedules list":     {list(0), list(-1), `state:"PAUSED"`},
		"schedules get":      {get("s"), get(strings.Repeat("s", 33)), `what:"SKIPPED"`},
		"schedules pause":    {pause("s"), pause(""), `why:"r"`},
		"schedules resume":   {resume("s"), resume("s@"), `version:3`},
		"schedules trigger":  {trigger("x"), trigger("no id"), `"s@+x"`},
		"schedules backfill": {backfill(""), backfill("both"), `overlap:"queue_all"`},
		"schedules delete":   {drop("s"), drop(""), ``},
		"schedules next":     {next(0, 0), next(1_001, 0), `tzdata:"2025c"`},
		"schedules after":    {next(1, 5), next(1, -5), `dates_ms:12`},
	}
}

// TestSchedules_defaults checks the defaults for omitted fields of a request.
func TestSchedules_defaults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	answer, err := rotav1.NewSchedulesClient(b.conn).Next(bounded(t), &rotav1.NextDatesRequest{Name: "s"})
	if err != nil || len(answer.GetDatesMs()) != nextUsual {
		t.Error(answer, err)
	}
}
