package web

import (
	"context"
	"net/http"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

func (s *Site) schedules() {
	const all, one = "/v1/schedules", "/v1/schedules/{id}"
	add(s, route{method: http.MethodGet, path: all, call: rotav1.Schedules_List_FullMethodName, id: "listSchedules",
		says: "List the schedules"}, s.listSchedules)
	add(s, route{method: http.MethodGet, path: one, call: rotav1.Schedules_Get_FullMethodName, id: "getSchedule",
		says: "Read a schedule with its runs and last decisions"}, s.getSchedule)
	add(s, route{method: http.MethodPut, path: one, call: rotav1.Schedules_Set_FullMethodName, id: "setSchedule",
		says: "Create or replace a schedule"}, s.setSchedule)
	add(s, route{method: http.MethodDelete, path: one, call: rotav1.Schedules_Delete_FullMethodName,
		id: "deleteSchedule", says: "Delete a schedule; its runs continue"}, s.deleteSchedule)
	add(s, route{method: http.MethodGet, path: one + "/next", call: rotav1.Schedules_Next_FullMethodName,
		id: "nextDates", says: "List the next dates of a schedule"}, s.nextDates)
	add(s, route{method: http.MethodPost, path: one + "/pause", call: rotav1.Schedules_Pause_FullMethodName,
		id: "pauseSchedule", optional: true, says: "Pause a schedule: no further run of it starts"}, s.pauseSchedule)
	add(s, route{method: http.MethodPost, path: one + "/resume", call: rotav1.Schedules_Resume_FullMethodName,
		id: "resumeSchedule", optional: true, says: "Resume a paused schedule"}, s.resumeSchedule)
	add(s, route{method: http.MethodPost, path: one + "/trigger", call: rotav1.Schedules_Trigger_FullMethodName,
		id: "triggerSchedule", says: "Run a schedule's job now, once for each id"}, s.triggerSchedule)
	add(s, route{method: http.MethodPost, path: one + "/backfill", call: rotav1.Schedules_Backfill_FullMethodName,
		id: "backfillSchedule", says: "Run the past dates of a schedule between two moments"}, s.backfillSchedule)
}

// VersionSetting is a call that sets one object in one version.
type VersionSetting[T any] struct {
	Setting[T]
	Matching
}

func (s *Site) listSchedules(ctx context.Context, in *MadeList) (*Answer[rest.Schedules], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Schedules.List(ctx, &rotav1.ListSchedulesRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor, By: in.By})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetSchedules(), words.ScheduleFromWire)
	return answer(rest.Schedules{Schedules: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

func (s *Site) getSchedule(ctx context.Context, in *One) (*Versioned[rota.Schedule], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Schedules.Get(ctx, &rotav1.GetScheduleRequest{Name: in.ID, Read: read})
	if err != nil {
		return nil, err
	}
	v, err := words.ScheduleFromWire(got.GetSchedule())
	return versioned(v, v.ETag, got.GetAt()), err
}

func (s *Site) setSchedule(ctx context.Context,
	in *VersionSetting[rota.ScheduleSpec]) (*Versioned[rota.Schedule], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	spec := rota.NewScheduleSpec("", rota.NewJobSpec("", nil))
	if err := decode(in.Given.raw, &spec, ""); err != nil {
		return nil, err
	}
	if spec.Name != "" && string(spec.Name) != in.ID {
		return nil, rota.Refusef(rota.KindInvalid, "name",
			"name is %.80q, but the address has %.80q: omit name, or make them equal", string(spec.Name), in.ID)
	}
	spec.Name = rota.ScheduleName(in.ID)
	return scheduleAnswer(s.options.Calls.Schedules.Set(ctx,
		&rotav1.SetScheduleRequest{Spec: words.ScheduleSpecToWire(&spec), IfMatch: version}))
}

func scheduleAnswer(w *rotav1.Schedule, err error) (*Versioned[rota.Schedule], error) {
	if err != nil {
		return nil, err
	}
	v, err := words.ScheduleFromWire(w)
	return versioned(v, v.ETag, nil), err
}

func (s *Site) deleteSchedule(ctx context.Context, in *NamedVersion) (*Answer[rest.Deleted], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	_, err = s.options.Calls.Schedules.Delete(ctx, &rotav1.DeleteScheduleRequest{Name: in.ID, IfMatch: version})
	return answer(rest.Deleted{}, nil), err
}

// NextQuery holds the parameters of the next dates of a schedule.
type NextQuery struct {
	One
	Limit int32 `query:"limit" minimum:"1" maximum:"1000" default:"10" doc:"Maximum number of dates."`
	After int64 `query:"after_ms" minimum:"0" doc:"Lists dates after this one, also past ones; without it, the dates not decided yet."`
}

func (s *Site) nextDates(ctx context.Context, in *NextQuery) (*Answer[rest.Dates], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Schedules.Next(ctx, &rotav1.NextDatesRequest{Name: in.ID, Limit: in.Limit, Read: read,
		AfterMs: in.After})
	if err != nil {
		return nil, err
	}
	dates := words.DatesFromWire(got.GetDatesMs())
	if dates == nil {
		dates = []rota.Date{}
	}
	return answer(rest.Dates{Dates: dates, TZData: got.GetTzdata()}, got.GetAt()), nil
}

func (s *Site) pauseSchedule(ctx context.Context,
	in *VersionSetting[rest.SchedulePause]) (*Versioned[rota.Schedule], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	return scheduleAnswer(s.options.Calls.Schedules.Pause(ctx,
		&rotav1.PauseScheduleRequest{Name: in.ID, Reason: body.Reason, IfMatch: version}))
}

func (s *Site) resumeSchedule(ctx context.Context,
	in *VersionSetting[rest.ScheduleResumption]) (*Versioned[rota.Schedule], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	return scheduleAnswer(s.options.Calls.Schedules.Resume(ctx,
		&rotav1.ResumeScheduleRequest{Name: in.ID, CatchUp: body.CatchUp, IfMatch: version}))
}

func (s *Site) triggerSchedule(ctx context.Context, in *Setting[rest.ScheduleRun]) (*Answer[rest.JobOutcome], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	done, err := s.options.Calls.Schedules.Trigger(ctx, &rotav1.TriggerScheduleRequest{Name: in.ID, Id: body.ID})
	if err != nil {
		return nil, err
	}
	return outcomeOf(done)
}

func (s *Site) backfillSchedule(ctx context.Context, in *Setting[rest.Backfill]) (*Answer[rest.Backfilled], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	from, err := oneDate("from", body.FromMs, body.FromAt)
	if err != nil {
		return nil, err
	}
	until, err := oneDate("until", body.UntilMs, body.UntilAt)
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Schedules.Backfill(ctx, &rotav1.BackfillScheduleRequest{Name: in.ID, FromMs: from,
		UntilMs: until, Overlap: body.Overlap})
	if err != nil {
		return nil, err
	}
	schedule, err := words.ScheduleFromWire(got.GetSchedule())
	return answer(rest.Backfilled{Dates: got.GetDates(), Schedule: schedule}, nil), err
}

// oneDate reads a date that is given in one of two ways.
func oneDate(name string, ms int64, at string) (int64, error) {
	if at == "" {
		return ms, nil
	}
	date, err := rota.ParseDate(at)
	if err != nil {
		return 0, rota.Refusef(rota.KindInvalid, name+"_at",
			"%s_at: got %q; use RFC 3339, such as 2031-01-31T03:00:00Z", name, head(at))
	}
	if ms != 0 && ms != int64(date) {
		return 0, rota.Refusef(rota.KindInvalid, name+"_at", "%s_at and %s_ms differ: set only one of them", name, name)
	}
	return int64(date), nil
}
