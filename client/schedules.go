package client

import (
	"context"
	"iter"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// Schedules groups the calls for schedules: jobs that run on dates (SPEC §17).
type Schedules struct{ c *Client }

// Schedules returns the calls for schedules.
func (c *Client) Schedules() Schedules { return Schedules{c} }

// List lists all schedules by name.
func (s Schedules) List(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Schedule, error] {
	return list(ctx, s.c, "list schedules", 0, "", opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.Schedule], err error) {
			request := &rotav1.ListSchedulesRequest{Read: words.ReadToWire(p.read), Limit: int32(p.limit),
				Cursor: p.cursor, By: p.by}
			answer, err := n.schedules.List(ctx, request)
			if err != nil {
				return got, err
			}
			got.items, err = words.SchedulesFromWire(answer.GetSchedules())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}

// Get reads one schedule.
func (s Schedules) Get(ctx context.Context, name rota.ScheduleName, opts ...ReadOption) (rota.Schedule, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetScheduleResponse, error) {
		return n.schedules.Get(ctx, &rotav1.GetScheduleRequest{Name: string(name), Read: how})
	}
	from := func(w *rotav1.GetScheduleResponse) (rota.Schedule, error) {
		return words.ScheduleFromWire(w.GetSchedule())
	}
	return read(ctx, s.c, "show schedule", opts, from, ask)
}

// Set creates or replaces a schedule. Setting an equal one changes nothing. [rota.NewScheduleSpec] has the defaults.
func (s Schedules) Set(ctx context.Context, spec rota.ScheduleSpec, only ...Condition) (rota.Schedule, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Schedule, error) {
		return n.schedules.Set(ctx, &rotav1.SetScheduleRequest{Spec: words.ScheduleSpecToWire(&spec),
			IfMatch: etagOf(only)})
	}
	return one(ctx, s.c, "set schedule", words.ScheduleFromWire, ask)
}

// Pause stops a schedule: it starts no runs until it is resumed. The reason is shown with the schedule.
func (s Schedules) Pause(ctx context.Context, name rota.ScheduleName, reason string,
	only ...Condition) (rota.Schedule, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Schedule, error) {
		return n.schedules.Pause(ctx, &rotav1.PauseScheduleRequest{Name: string(name), Reason: reason,
			IfMatch: etagOf(only)})
	}
	return one(ctx, s.c, "pause schedule", words.ScheduleFromWire, ask)
}

// Resume resumes a paused schedule. Without catchUp, dates during the pause are not run; with catchUp, they are.
func (s Schedules) Resume(ctx context.Context, name rota.ScheduleName, catchUp bool,
	only ...Condition) (rota.Schedule, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Schedule, error) {
		return n.schedules.Resume(ctx, &rotav1.ResumeScheduleRequest{Name: string(name), CatchUp: catchUp,
			IfMatch: etagOf(only)})
	}
	return one(ctx, s.c, "resume schedule", words.ScheduleFromWire, ask)
}

// Trigger runs a schedule's job now, regardless of its dates. The job's id is NAME@+ID: the schedule's name and id. A
// call with the same id does not run the job again. If id is empty, Trigger generates one before its first try.
func (s Schedules) Trigger(ctx context.Context, name rota.ScheduleName, id string) (rota.JobOutcome, error) {
	if id == "" {
		id = string(NewJobID())
	}
	ask := func(ctx context.Context, n *node) (*rotav1.JobOutcome, error) {
		return n.schedules.Trigger(ctx, &rotav1.TriggerScheduleRequest{Name: string(name), Id: id})
	}
	return one(ctx, s.c, "trigger schedule", words.JobOutcomeFromWire, ask)
}

// Backfill runs the schedule's dates between two moments in the past, and returns the number of these dates. Runs that
// are already known do not run again.
func (s Schedules) Backfill(ctx context.Context, name rota.ScheduleName, from, until rota.Date,
	overlap rota.Overlap) (int64, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.BackfillScheduleResponse, error) {
		return n.schedules.Backfill(ctx, &rotav1.BackfillScheduleRequest{Name: string(name), FromMs: int64(from),
			UntilMs: int64(until),
			Overlap: overlap.String()})
	}
	count := func(w *rotav1.BackfillScheduleResponse) (int64, error) { return w.GetDates(), nil }
	return one(ctx, s.c, "backfill schedule", count, ask)
}

// Delete deletes a schedule and keeps its runs. A missing schedule is not an error.
func (s Schedules) Delete(ctx context.Context, name rota.ScheduleName, only ...Condition) error {
	return s.c.call(ctx, "delete schedule", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.schedules.Delete(ctx, &rotav1.DeleteScheduleRequest{Name: string(name), IfMatch: etagOf(only)})
		return err
	})
}

// Next returns the next dates of a schedule, as many as most allows; 0 means 10. The node that answers calculates the
// dates.
func (s Schedules) Next(ctx context.Context, name rota.ScheduleName, most int,
	opts ...ReadOption) ([]rota.Date, error) {
	return s.DatesAfter(ctx, name, 0, most, opts...)
}

// DatesAfter returns the dates of a schedule after a date, which may be in the past, as many as most allows. The node
// that answers calculates the dates. Backfill runs the same dates.
func (s Schedules) DatesAfter(ctx context.Context, name rota.ScheduleName, after rota.Date, most int,
	opts ...ReadOption) ([]rota.Date, error) {
	d, err := s.Forecast(ctx, name, after, most, opts...)
	return d.Dates, err
}

// Forecast is like DatesAfter, and also returns the release of the time zone database used to calculate the dates.
func (s Schedules) Forecast(ctx context.Context, name rota.ScheduleName, after rota.Date, most int,
	opts ...ReadOption) (rota.ScheduleDates, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.NextDatesResponse, error) {
		return n.schedules.Next(ctx, &rotav1.NextDatesRequest{Name: string(name), Limit: int32(most), Read: how,
			AfterMs: int64(after)})
	}
	from := func(w *rotav1.NextDatesResponse) (rota.ScheduleDates, error) {
		return rota.ScheduleDates{Dates: words.DatesFromWire(w.GetDatesMs()), TZData: w.GetTzdata()}, nil
	}
	return read(ctx, s.c, "next dates", opts, from, ask)
}
