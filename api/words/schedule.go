package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/millis"
)

// ScheduleSpecToWire converts a schedule specification.
func ScheduleSpecToWire(s *rota.ScheduleSpec) *rotav1.ScheduleSpec {
	catchUp := millis.Of(s.CatchUp)
	return &rotav1.ScheduleSpec{Name: string(s.Name), Cron: s.Cron, EveryMs: millis.Of(s.Every),
		DatesMs: DatesToWire(s.Dates), Tz: s.TZ,
		StartMs: int64(s.Start), EndMs: int64(s.End), Limit: s.Limit, JitterMs: millis.Of(s.Jitter),
		Overlap: s.Overlap.String(), CatchUpMs: &catchUp,
		CatchUpMax: &s.CatchUpMax, PauseOnFailure: s.PauseOnFailure, Job: JobSpecToWire(&s.Job)}
}

// ScheduleSpecFromWire is the inverse of ScheduleSpecToWire; omitted fields get their defaults.
func ScheduleSpecFromWire(w *rotav1.ScheduleSpec) (rota.ScheduleSpec, error) {
	overlap, err := OverlapFromWire(w.GetOverlap(), rota.OverlapSkip)
	s := rota.NewScheduleSpec(rota.ScheduleName(w.GetName()), JobSpecFromWire(w.GetJob()))
	s.Limit, s.Jitter, s.Overlap, s.PauseOnFailure = w.GetLimit(), millis.Duration(w.GetJitterMs()), overlap, w.GetPauseOnFailure()
	s.Cron, s.Every, s.TZ, s.Start, s.End = w.GetCron(), millis.Duration(w.GetEveryMs()), w.GetTz(), rota.Date(
		w.GetStartMs()), rota.Date(w.GetEndMs())
	if w != nil && w.CatchUpMs != nil {
		s.CatchUp = millis.Duration(w.GetCatchUpMs())
	}
	if w != nil && w.CatchUpMax != nil {
		s.CatchUpMax = w.GetCatchUpMax()
	}
	if n := len(w.GetDatesMs()); n > rota.MaxScheduleDates && err == nil {
		err = rota.TooMany("dates", n, rota.MaxScheduleDates)
	} else {
		s.Dates = DatesFromWire(w.GetDatesMs())
	}
	return s, err
}

// OverlapFromWire parses an overlap mode; an empty text means usual.
func OverlapFromWire(text string, usual rota.Overlap) (rota.Overlap, error) {
	if text == "" {
		return usual, nil
	}
	return overlaps.value(text)
}

// DatesToWire converts dates.
func DatesToWire(dates []rota.Date) (ms []int64) {
	for _, d := range dates {
		ms = append(ms, int64(d))
	}
	return ms
}

// DatesFromWire is the inverse of DatesToWire.
func DatesFromWire(ms []int64) (dates []rota.Date) {
	for _, d := range ms {
		dates = append(dates, rota.Date(d))
	}
	return dates
}

// ScheduleToWire converts a schedule's current state.
func ScheduleToWire(s *rota.Schedule) *rotav1.Schedule {
	w := &rotav1.Schedule{Spec: ScheduleSpecToWire(&s.ScheduleSpec), State: s.State.String(), Why: clean(s.Why),
		Version: s.Version, Etag: s.ETag, SetMs: int64(s.Set),
		ThroughMs: int64(s.Through), NextMs: int64(s.Next), Runs: s.Runs, Skipped: s.Skipped, Missed: s.Missed,
		Failed: s.Failed, By: string(s.By)}
	for _, id := range s.Live {
		w.Live = append(w.Live, string(id))
	}
	for _, id := range s.Waiting {
		w.Waiting = append(w.Waiting, string(id))
	}
	for _, d := range s.Decisions {
		w.Decisions = append(w.Decisions, &rotav1.ScheduleDecision{DateMs: int64(d.Date), What: d.What.String()})
	}
	return w
}

// ScheduleFromWire is the inverse of ScheduleToWire.
func ScheduleFromWire(w *rotav1.Schedule) (rota.Schedule, error) {
	spec, err := ScheduleSpecFromWire(w.GetSpec())
	if err != nil {
		return rota.Schedule{}, err
	}
	state, err := scheduleStates.value(w.GetState())
	s := rota.Schedule{ScheduleSpec: spec, State: state, Why: w.GetWhy(), Version: w.GetVersion(), ETag: w.GetEtag(),
		Set:     rota.Date(w.GetSetMs()),
		Through: rota.Date(w.GetThroughMs()), Next: rota.Date(w.GetNextMs()), Runs: w.GetRuns(),
		Skipped: w.GetSkipped(), Missed: w.GetMissed(), Failed: w.GetFailed(), By: rota.Principal(w.GetBy())}
	for _, id := range w.GetLive() {
		s.Live = append(s.Live, rota.JobID(id))
	}
	for _, id := range w.GetWaiting() {
		s.Waiting = append(s.Waiting, rota.JobID(id))
	}
	for _, d := range w.GetDecisions() {
		what, unknown := fates.value(d.GetWhat())
		if unknown != nil {
			return s, unknown
		}
		s.Decisions = append(s.Decisions, rota.ScheduleDecision{Date: rota.Date(d.GetDateMs()), What: what})
	}
	return s, err
}

// SchedulesFromWire converts a list of schedules.
func SchedulesFromWire(w []*rotav1.Schedule) ([]rota.Schedule, error) {
	return tryEach(w, ScheduleFromWire)
}
