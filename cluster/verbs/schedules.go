package verbs

import (
	"cmp"
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/zones"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/cron"
	"github.com/rotasched/rota/internal/peer"
)

// ScheduleVerbs are the operations on schedules, for users (SPEC §17).
type ScheduleVerbs struct {
	n     *Host
	zones *zones.Zones
}

// NewSchedules returns the verbs on schedules, budgets and time zones.
func NewSchedules(h *Host, z *zones.Zones) ScheduleVerbs { return ScheduleVerbs{n: h, zones: z} }

func unknownSchedule(name rota.ScheduleName) error {
	return rota.Refusef(rota.KindNotFound, "schedule", "schedule %q is not known", name)
}

// Schedules lists the schedules that the caller may read.
func (sv *ScheduleVerbs) Schedules(ctx context.Context, opt peer.ReadOptions) ([]rota.Schedule, rota.ReadAt, error) {
	list, at, err := replica.ReadAs(ctx, sv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) ([]rota.Schedule,
		error) {
		var some []rota.Schedule
		for _, x := range fsm.SchedulesOf(s) {
			if rd.Schedule(&x) {
				some = append(some, x)
			}
		}
		return some, nil
	})
	for i := range list {
		sv.tellNext(&list[i])
	}
	return list, at, err
}

// Schedule reads one schedule.
func (sv *ScheduleVerbs) Schedule(ctx context.Context, name rota.ScheduleName,
	opt peer.ReadOptions) (rota.Schedule, rota.ReadAt, error) {
	s, at, err := replica.ReadAs(ctx, sv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) (rota.Schedule, error) {
		x, ok := fsm.ScheduleOf(s, name)
		if !ok || !rd.Schedule(&x) {
			return x, unknownSchedule(name)
		}
		return x, nil
	})
	sv.tellNext(&s)
	return s, at, err
}

// tellNext adds the next date to a schedule that has one.
func (sv *ScheduleVerbs) tellNext(s *rota.Schedule) {
	if s.State != rota.ScheduleActive {
		return
	}
	zones, err := sv.zones.Now()
	if err != nil {
		return // the node lists it among its problems
	}
	if table, err := zones.Of(&s.ScheduleTimes, s.Set); err == nil {
		if d, ok := table.Next(int64(s.Through)); ok {
			s.Next = rota.Date(d)
		}
	}
}

// changed applies an operation of the caller and returns the schedule as the operation left it.
func (sv *ScheduleVerbs) changed(ctx context.Context, name rota.ScheduleName, op *fsmpb.Op) (rota.Schedule, error) {
	_, index, err := sv.n.ProposeOne(ctx, op)
	if err != nil {
		return rota.Schedule{}, err
	}
	s, _, err := sv.Schedule(access.Itself(ctx), name, peer.ReadOptions{MinIndex: index})
	if err != nil {
		return s, err
	}
	rd, err := sv.n.Replica.Reader(ctx)
	if err == nil {
		rd.Schedule(&s) // a caller that may change it may see its state, but not its users' data
	}
	return s, err
}

// SetSchedule creates a schedule, or replaces its content. Checks that need the time zones are made here, since the
// state machine has none.
func (sv *ScheduleVerbs) SetSchedule(ctx context.Context, spec rota.ScheduleSpec) (rota.Schedule, error) {
	if err := spec.CheckShape(rota.MaxPayloadBytes); err != nil {
		return rota.Schedule{}, err
	}
	zones, err := sv.zones.Now()
	if err != nil {
		return rota.Schedule{}, err
	}
	if err := zones.Check(&spec.ScheduleTimes, rota.DateOf(sv.n.Wall())); err != nil {
		return rota.Schedule{}, err
	}
	return sv.changed(ctx, spec.Name, entry.ScheduleOp(&spec))
}

// PauseSchedule pauses a schedule, for a reason that is shown.
func (sv *ScheduleVerbs) PauseSchedule(ctx context.Context, name rota.ScheduleName,
	reason string) (rota.Schedule, error) {
	if reason == "" {
		reason = "somebody paused it"
	}
	return sv.changed(ctx, name,
		&fsmpb.Op{Op: &fsmpb.Op_PauseSchedule{PauseSchedule: &fsmpb.PauseSchedule{Name: string(name), Paused: true,
			Reason: reason}}})
}

// ResumeSchedule resumes a schedule from now on or, with catchUp, from where it stopped.
func (sv *ScheduleVerbs) ResumeSchedule(ctx context.Context, name rota.ScheduleName,
	catchUp bool) (rota.Schedule, error) {
	return sv.changed(ctx, name,
		&fsmpb.Op{Op: &fsmpb.Op_PauseSchedule{PauseSchedule: &fsmpb.PauseSchedule{Name: string(name),
			CatchUp: catchUp}}})
}

// TriggerSchedule runs a schedule's job now.
func (sv *ScheduleVerbs) TriggerSchedule(ctx context.Context, name rota.ScheduleName,
	id string) (rota.JobOutcome, error) {
	o, index, err := sv.n.ProposeOne(ctx,
		&fsmpb.Op{Op: &fsmpb.Op_TriggerSchedule{TriggerSchedule: &fsmpb.TriggerSchedule{Name: string(name), Id: id}}})
	if err != nil {
		return rota.JobOutcome{}, err
	}
	return rota.JobOutcome{ID: rota.RunID(name, 0, id), State: rota.JobState(o.GetJobState()), Index: index}, nil
}

// BackfillSchedule runs the past dates from one moment, included, up to another, excluded.
func (sv *ScheduleVerbs) BackfillSchedule(ctx context.Context, name rota.ScheduleName, from, until rota.Date,
	overlap rota.Overlap) (int, rota.Schedule, error) {
	var in zones.InForce
	s, _, err := replica.ReadAs(ctx, sv.n.Replica, peer.ReadOptions{},
		func(s *fsm.View, rd *access.Reader) (rota.Schedule, error) {
			in = zones.Of(s)
			x, ok := fsm.ScheduleOf(s, name)
			if !ok || !rd.Has(rota.RightSubmit, x.Job.Tenant, x.Job.Queue) && !rd.Schedule(&x) {
				return x, unknownSchedule(name)
			}
			return x, nil
		})
	if err != nil {
		return 0, rota.Schedule{}, err
	}
	zones, err := sv.zones.Open(in)
	if err != nil {
		return 0, s, err
	}
	table, err := zones.Of(&s.ScheduleTimes, s.Set)
	if err != nil {
		return 0, s, err
	}
	for _, end := range []struct {
		name string
		date rota.Date
	}{{"from", from}, {"until", until}} {
		if end.date <= 0 || end.date > rota.MaxDate {
			return 0, s, rota.Refusef(rota.KindInvalid, end.name, "%s_ms: got %d, want 1 to %d", end.name, end.date,
				int64(rota.MaxDate))
		}
	}
	if until < from || until-from > maxBackfill {
		return 0, s, rota.Refusef(rota.KindInvalid, "until",
			"until_ms: got %d (%s), want %d (%s, which is from_ms) to %d (%s, ten years later)",
			until, until, from, from, from+maxBackfill, from+maxBackfill)
	}
	dates, before := cron.Between(table, int64(from)-1, int64(until), rota.MaxScheduleDates)
	if before > 0 {
		return 0, s, rota.Refusef(rota.KindInvalid, "from",
			"too many dates: got %d from %s to %s, maximum %d at a time", before+int64(len(dates)), from, until,
			rota.MaxScheduleDates)
	}
	s, err = sv.changed(ctx, name,
		&fsmpb.Op{Op: &fsmpb.Op_BackfillSchedule{BackfillSchedule: &fsmpb.BackfillSchedule{Name: string(name),
			Version: s.Version, DatesMs: dates, Overlap: uint32(overlap), Tzdata: in.Installed()}}})
	return len(dates), s, err
}

// maxBackfill bounds the period of one backfill, in milliseconds.
const maxBackfill rota.Date = 3660 * 24 * 3600 * 1000

// DeleteSchedule deletes a schedule; deleting a missing one is not an error.
func (sv *ScheduleVerbs) DeleteSchedule(ctx context.Context, name rota.ScheduleName) error {
	_, _, err := sv.n.ProposeOne(ctx,
		&fsmpb.Op{Op: &fsmpb.Op_DeleteSchedule{DeleteSchedule: &fsmpb.DeleteSchedule{Name: string(name)}}})
	return err
}

// NextDates calculates up to most dates of a schedule that follow the date after. If after is 0, it begins with the
// first undecided date. It also returns the name of the time zones used.
func (sv *ScheduleVerbs) NextDates(ctx context.Context, name rota.ScheduleName, after rota.Date, most int,
	opt peer.ReadOptions) ([]rota.Date, string, rota.ReadAt, error) {
	s, at, err := sv.Schedule(ctx, name, opt)
	if err != nil {
		return nil, "", at, err
	}
	zones, err := sv.zones.Now()
	if err != nil {
		return nil, "", at, err
	}
	table, err := zones.Of(&s.ScheduleTimes, s.Set)
	if err != nil {
		return nil, "", at, err
	}
	var dates []rota.Date
	for d := int64(cmp.Or(after, s.Through)); len(dates) < most; {
		next, ok := table.Next(d)
		if !ok {
			break
		}
		dates, d = append(dates, rota.Date(next)), next
	}
	return dates, zones.Name(), at, nil
}

// DatesOf calculates up to most dates that follow the date after, for a schedule that is not stored yet, with the time
// zones in force.
func (sv *ScheduleVerbs) DatesOf(times *rota.ScheduleTimes, after rota.Date, most int) ([]rota.Date, error) {
	zones, err := sv.zones.Now()
	if err != nil {
		return nil, err
	}
	if err := zones.Check(times, after); err != nil {
		return nil, err
	}
	table, err := zones.Of(times, after)
	if err != nil {
		return nil, err
	}
	dates := []rota.Date{}
	for d := int64(after); len(dates) < most; {
		next, ok := table.Next(d)
		if !ok {
			break
		}
		dates, d = append(dates, rota.Date(next)), next
	}
	return dates, nil
}
