package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// scheduleEvery is how often the run's schedules are due.
const scheduleEvery = time.Second

// makeSchedules sets one whose runs overlap, and one whose runs take longer than the interval of its dates, so that
// some are skipped.
func (w *trial) makeSchedules(ctx context.Context, c *client.Client) error {
	for _, s := range []struct {
		name    rota.ScheduleName
		overlap rota.Overlap
		ms      int
	}{{"tick", rota.OverlapAllow, 20}, {"tock", rota.OverlapSkip, 1_300}} {
		payload := jobPlan{Ms: s.ms, Fail: 50}.payload()
		job := rota.NewJobSpec(rota.JobType("dated-"+s.name), payload)
		job.Queue, job.Tenant = "quick", "t-free"
		spec := rota.NewScheduleSpec(s.name, job)
		spec.Every, spec.Overlap, spec.CatchUpMax = scheduleEvery, s.overlap, rota.MaxCatchUp
		at := w.Rec.Now()
		if _, err := c.Schedules().Set(ctx, spec); err != nil {
			return fmt.Errorf("set schedule %s: %w", s.name, err)
		}
		w.Rec.With(func(h *check.History) {
			h.Schedules = append(h.Schedules, check.ScheduleFacts{Name: string(s.name),
				EveryMs: scheduleEvery.Milliseconds(), SetAt: at,
				InTurn: s.overlap != rota.OverlapAllow})
		})
	}
	return nil
}

// pauseSchedules stops further dates: the existing runs are all.
func (w *trial) pauseSchedules(ctx context.Context, c *client.Client) error {
	var facts []check.ScheduleFacts
	w.Rec.With(func(h *check.History) { facts = append(facts, h.Schedules...) })
	for i := range facts {
		f := &facts[i]
		s, err := c.Schedules().Pause(ctx, rota.ScheduleName(f.Name), "the faults are over")
		if err != nil {
			return fmt.Errorf("pause schedule %s: %w", f.Name, err)
		}
		f.Known, f.Runs, f.Skipped, f.Missed = true, s.Runs, s.Skipped, s.Missed
	}
	w.Rec.With(func(h *check.History) { h.Schedules = facts })
	return nil
}
