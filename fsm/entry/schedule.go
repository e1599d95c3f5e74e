package entry

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/millis"
)

// ScheduleOp returns the operation that sets a schedule.
func ScheduleOp(s *rota.ScheduleSpec) *fsmpb.Op {
	op := &fsmpb.SetSchedule{Name: string(s.Name), Cron: s.Cron, EveryMs: millis.Of(s.Every), Tz: s.TZ,
		StartMs: int64(s.Start), EndMs: int64(s.End),
		Limit: s.Limit, JitterMs: millis.Of(s.Jitter), Overlap: uint32(s.Overlap), CatchUpMs: millis.Of(s.CatchUp),
		CatchUpMax: s.CatchUpMax, PauseOnFailure: s.PauseOnFailure, Job: SpecOp(&s.Job), DatesMs: DatesOp(s.Dates)}
	return &fsmpb.Op{Op: &fsmpb.Op_SetSchedule{SetSchedule: op}}
}

// DatesOp returns dates as stored in operations, in ms.
func DatesOp(dates []rota.Date) (ms []int64) {
	for _, d := range dates {
		ms = append(ms, int64(d))
	}
	return ms
}

// ScheduleWords is the inverse of ScheduleOp.
func ScheduleWords(op *fsmpb.SetSchedule) *rota.ScheduleSpec {
	s := &rota.ScheduleSpec{Name: rota.ScheduleName(op.GetName()), Limit: op.GetLimit(),
		Jitter:     millis.Duration(op.GetJitterMs()),
		Overlap:    rota.Overlap(min(op.GetOverlap(), uint32(rota.OverlapAllow))),
		CatchUp:    millis.Duration(op.GetCatchUpMs()),
		CatchUpMax: op.GetCatchUpMax(), PauseOnFailure: op.GetPauseOnFailure(), Job: *SpecWords(op.GetJob())}
	s.Cron, s.Every, s.TZ, s.Start, s.End = op.GetCron(), millis.Duration(op.GetEveryMs()), op.GetTz(), rota.Date(
		op.GetStartMs()), rota.Date(op.GetEndMs())
	for _, d := range op.GetDatesMs() {
		s.Dates = append(s.Dates, rota.Date(d))
	}
	return s
}
