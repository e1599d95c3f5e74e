package transport

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// schedulesService serves Schedules (SPEC §17).
type schedulesService struct {
	rotav1.UnimplementedSchedulesServer
	core ScheduleCore
}

// maxNext bounds the dates of one answer; nextUsual is their default number.
const (
	maxNext   = 1_000
	nextUsual = 10
)

// named checks the name in a call.
func named(name string) (rota.ScheduleName, error) {
	return rota.ScheduleName(name), rota.ScheduleName(name).Check("name")
}

// List reads the schedules by name, whole or in pages.
func (s *schedulesService) List(ctx context.Context,
	req *rotav1.ListSchedulesRequest) (*rotav1.ListSchedulesResponse, error) {
	made := madeBy(req.GetBy(), func(x *rota.Schedule) rota.Principal { return x.By }, s.core.Schedules)
	rows, at, next, err := wholeList(ctx, req, made, func(x *rota.Schedule) string { return string(x.Name) },
		words.ScheduleToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListSchedulesResponse{Schedules: rows, At: at, NextCursor: next}, nil
}

// Get reads one schedule.
func (s *schedulesService) Get(ctx context.Context,
	req *rotav1.GetScheduleRequest) (*rotav1.GetScheduleResponse, error) {
	name, err := named(req.GetName())
	if err != nil {
		return nil, err
	}
	x, at, err := s.core.Schedule(ctx, name, words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.GetScheduleResponse{Schedule: words.ScheduleToWire(&x), At: words.ReadAtToWire(at)}, nil
}

// Set creates a schedule, or replaces its specification.
func (s *schedulesService) Set(ctx context.Context, req *rotav1.SetScheduleRequest) (*rotav1.Schedule, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	spec, err := words.ScheduleSpecFromWire(req.GetSpec())
	if err != nil {
		return nil, err
	}
	if spec.Job.Queue == "" {
		spec.Job.Queue = rota.DefaultQueue
	}
	if spec.Job.Tenant == "" {
		spec.Job.Tenant = rota.DefaultTenant
	}
	if err := spec.CheckShape(rota.MaxPayloadBytes); err != nil {
		return nil, err
	}
	return reply(words.ScheduleToWire)(s.core.SetSchedule(ctx, spec))
}

// Pause pauses a schedule.
func (s *schedulesService) Pause(ctx context.Context, req *rotav1.PauseScheduleRequest) (*rotav1.Schedule, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	name, err := named(req.GetName())
	if err != nil {
		return nil, err
	}
	return reply(words.ScheduleToWire)(s.core.PauseSchedule(ctx, name, req.GetReason()))
}

// Resume resumes a schedule.
func (s *schedulesService) Resume(ctx context.Context, req *rotav1.ResumeScheduleRequest) (*rotav1.Schedule, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	name, err := named(req.GetName())
	if err != nil {
		return nil, err
	}
	return reply(words.ScheduleToWire)(s.core.ResumeSchedule(ctx, name, req.GetCatchUp()))
}

// Trigger runs a schedule's job now.
func (s *schedulesService) Trigger(ctx context.Context,
	req *rotav1.TriggerScheduleRequest) (*rotav1.JobOutcome, error) {
	name, err := named(req.GetName())
	if err == nil {
		err = rota.CheckID("id", req.GetId())
	}
	if err != nil {
		return nil, err
	}
	return reply(words.JobOutcomeToWire)(s.core.TriggerSchedule(ctx, name, req.GetId()))
}

// Backfill runs dates that have passed.
func (s *schedulesService) Backfill(ctx context.Context,
	req *rotav1.BackfillScheduleRequest) (*rotav1.BackfillScheduleResponse, error) {
	name, err := named(req.GetName())
	if err != nil {
		return nil, err
	}
	overlap, err := words.OverlapFromWire(req.GetOverlap(), rota.OverlapQueueAll)
	if err != nil {
		return nil, err
	}
	n, x, err := s.core.BackfillSchedule(ctx, name, rota.Date(req.GetFromMs()), rota.Date(req.GetUntilMs()), overlap)
	if err != nil {
		return nil, err
	}
	return &rotav1.BackfillScheduleResponse{Dates: int64(n), Schedule: words.ScheduleToWire(&x)}, nil
}

// Delete deletes a schedule.
func (s *schedulesService) Delete(ctx context.Context,
	req *rotav1.DeleteScheduleRequest) (*rotav1.DeleteScheduleResponse, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	name, err := named(req.GetName())
	if err != nil {
		return nil, err
	}
	return &rotav1.DeleteScheduleResponse{}, s.core.DeleteSchedule(ctx, name)
}

// Next returns the next dates of a schedule.
func (s *schedulesService) Next(ctx context.Context, req *rotav1.NextDatesRequest) (*rotav1.NextDatesResponse, error) {
	name, err := named(req.GetName())
	if err != nil {
		return nil, err
	}
	most := int(req.GetLimit())
	switch {
	case most == 0:
		most = nextUsual
	case most < 0 || most > maxNext:
		return nil, rota.Refusef(rota.KindInvalid, "limit", "limit must be between 1 and %d, got %d", maxNext, most)
	case req.GetAfterMs() < 0:
		return nil, rota.Refusef(rota.KindInvalid, "after_ms", "after_ms: got %d, want a date in milliseconds, or 0",
			req.GetAfterMs())
	}
	dates, tzdata, at, err := s.core.NextDates(ctx, name, rota.Date(req.GetAfterMs()), most,
		words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.NextDatesResponse{DatesMs: words.DatesToWire(dates), Tzdata: tzdata, At: words.ReadAtToWire(at)}, nil
}
