package rota

import (
	"slices"
	"strings"
	"time"
)

// ScheduleName names a schedule.
type ScheduleName string

// Overlap is what a schedule does with a date while a run of it lives or waits (SPEC §17.5).
type Overlap uint8

// The ways.
const (
	// OverlapSkip skips the date.
	OverlapSkip Overlap = iota
	// OverlapQueueOne queues it, unless one waits.
	OverlapQueueOne
	// OverlapQueueAll queues it.
	OverlapQueueAll
	// OverlapCancel cancels what lives, and queues it instead of what waits.
	OverlapCancel
	// OverlapAllow starts it beside what lives.
	OverlapAllow
)

var overlapNames = []string{"skip", "queue_one", "queue_all", "cancel", "allow"}

// String names the way.
func (o Overlap) String() string { return nameOf(overlapNames, int(o)) }

// MarshalText implements encoding.TextMarshaler.
func (o Overlap) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Overlap) UnmarshalText(text []byte) error {
	v, err := valueOf(overlapNames, "overlap", text)
	*o = Overlap(v)
	return err
}

// ScheduleState is how a schedule stands.
type ScheduleState uint8

// The states.
const (
	// ScheduleActive: its dates are taken as they come.
	ScheduleActive ScheduleState = iota
	// SchedulePaused: somebody, or a failure, paused it.
	SchedulePaused
	// ScheduleDone: its limit or its end is reached.
	ScheduleDone
)

var scheduleStateNames = []string{"ACTIVE", "PAUSED", "DONE"}

// String names the state in capitals.
func (s ScheduleState) String() string { return nameOf(scheduleStateNames, int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s ScheduleState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *ScheduleState) UnmarshalText(text []byte) error {
	v, err := valueOf(scheduleStateNames, "state", text)
	*s = ScheduleState(v)
	return err
}

// ScheduleTimes say when a schedule is due: one of Cron, Every and Dates (SPEC §17.1).
type ScheduleTimes struct {
	Cron  string        `json:"cron,omitempty"`
	Every time.Duration `json:"every_ms,omitempty"`
	// Dates ascend.
	Dates []Date `json:"dates_ms,omitempty"`
	// TZ is the zone of the cron expression, UTC where it is empty.
	TZ string `json:"tz,omitempty"`
	// Start and End bound the dates: from the one, before the other; 0 is no bound.
	Start Date `json:"start_ms,omitempty"`
	End   Date `json:"end_ms,omitempty"`
}

// Same reports whether both are due on the same dates, as far as they say so alike.
func (t *ScheduleTimes) Same(o *ScheduleTimes) bool {
	return t.Cron == o.Cron && t.Every == o.Every && t.TZ == o.TZ && t.Start == o.Start && t.End == o.End && slices.Equal(t.Dates, o.Dates)
}

// ScheduleSpec is a schedule as it is set (SPEC §17.1).
type ScheduleSpec struct {
	Name ScheduleName `json:"name"`
	ScheduleTimes
	// Limit ends the schedule after so many runs; 0 is none.
	Limit int64 `json:"limit,omitempty"`
	// Jitter spreads the runs: each starts that much later at most.
	Jitter  time.Duration `json:"jitter_ms,omitempty"`
	Overlap Overlap       `json:"overlap"`
	// CatchUp is how late a date may be taken, and CatchUpMax how many late ones are, the newest.
	CatchUp    time.Duration `json:"catch_up_ms"`
	CatchUpMax int64         `json:"catch_up_max"`
	// PauseOnFailure pauses the schedule when a run of it ends DEAD or EXPIRED.
	PauseOnFailure bool `json:"pause_on_failure,omitempty"`
	// Job is what each run is; it has no id and no date of its own.
	Job JobSpec `json:"job"`
}

// NewScheduleSpec returns a schedule with the usual catching up: the newest date that is late, of
// the last hour. When it is due is for the caller to say.
func NewScheduleSpec(name ScheduleName, job JobSpec) ScheduleSpec {
	return ScheduleSpec{Name: name, CatchUp: time.Hour, CatchUpMax: 1, Job: job}
}

// CheckShape refuses a schedule whose fields are out of range. Whether its cron expression and
// its zone mean anything is checked at the edge, which has time zones.
func (s *ScheduleSpec) CheckShape(payloadMax int64) error {
	if err := s.Name.Check("name"); err != nil {
		return err
	}
	if err := s.ScheduleTimes.check(); err != nil {
		return err
	}
	for _, n := range []struct {
		field           string
		value, min, max int64
	}{
		{"limit", s.Limit, 0, MaxUnits},
		{"jitter_ms", s.Jitter.Milliseconds(), 0, maxMs},
		{"overlap", int64(s.Overlap), 0, int64(OverlapAllow)},
		{"catch_up_ms", s.CatchUp.Milliseconds(), LeastCatchUp.Milliseconds(), maxMs},
		{"catch_up_max", s.CatchUpMax, 0, MaxCatchUp},
	} {
		if n.value < n.min || n.value > n.max {
			return OutOfRange(n.field, n.value, n.min, n.max)
		}
	}
	switch {
	case s.Job.ID != "":
		return Refusef(KindInvalid, "job", "the job of schedule %s has the id %.80q: omit it, each run gets its own", s.Name, s.Job.ID)
	case s.Job.Unique != nil:
		return Refusef(KindInvalid, "unique", "the job of schedule %s has a unique key: omit it, overlap limits how many runs are live", s.Name)
	case !s.Job.NotBefore.IsZero():
		return Refusef(KindInvalid, "job", "the job of schedule %s has a not_before: omit it, each run has its own date", s.Name)
	}
	return s.Job.CheckTemplate(payloadMax)
}

func (t *ScheduleTimes) check() error {
	ways := 0
	for _, has := range []bool{t.Cron != "", t.Every != 0, len(t.Dates) > 0} {
		if has {
			ways++
		}
	}
	switch {
	case ways != 1:
		return Refusef(KindInvalid, "cron", "set exactly one of cron, every_ms and dates, got %d", ways)
	case len(t.Cron) > MaxCronBytes:
		return TooLong("cron", len(t.Cron), MaxCronBytes)
	case len(t.TZ) > MaxIDBytes:
		return TooLong("tz", len(t.TZ), MaxIDBytes)
	case t.Every != 0 && (t.Every < LeastEvery || t.Every > MaxDuration || t.Every%time.Millisecond != 0):
		return OutOfRange("every_ms", t.Every.Milliseconds(), LeastEvery.Milliseconds(), maxMs)
	case len(t.Dates) > MaxScheduleDates:
		return TooMany("dates", len(t.Dates), MaxScheduleDates)
	case t.Start < 0 || t.Start > MaxDate:
		return Refusef(KindInvalid, "start", "start_ms must be between 0 and %d, got %d", int64(MaxDate), t.Start)
	case t.End < 0 || t.End > MaxDate || t.End != 0 && t.End <= t.Start:
		return Refusef(KindInvalid, "end", "end_ms must be after start_ms (%d) and at most %d, got %d", t.Start, int64(MaxDate), t.End)
	}
	return checkDates(t.Dates)
}

// MaxDate bounds the dates that users give, far beyond any that is meant.
const MaxDate Date = 1 << 46

// checkDates refuses dates that do not ascend, or are none.
func checkDates(dates []Date) error {
	last := Date(0)
	for i, d := range dates {
		if d <= last || d > MaxDate {
			return Refusef(KindInvalid, "dates", "dates_ms[%d] must be after %d and at most %d, got %d; dates must ascend", i, last, int64(MaxDate), d)
		}
		last = d
	}
	return nil
}

// Check refuses what is no name of a schedule, naming the field.
func (n ScheduleName) Check(field string) error {
	if len(n) > MaxScheduleName {
		return TooLong(field, len(n), MaxScheduleName)
	}
	return CheckID(field, n)
}

// RunID returns the id of a schedule's run: name@date, or name@+ID of one that was triggered.
func RunID(name ScheduleName, date Date, trigger string) JobID {
	if trigger != "" {
		return JobID(string(name) + "@+" + trigger)
	}
	at := date.Time().Format("2006-01-02T15:04:05.999Z07:00")
	return JobID(string(name) + "@" + at)
}

// SplitRunID returns the schedule that a job is a run of; ok is false for other jobs. The names of
// workflows' nodes may have any character, this one's mark too.
func SplitRunID(id JobID) (name ScheduleName, ok bool) {
	before, _, ok := strings.Cut(string(id), "@")
	if strings.Contains(before, "/") {
		return "", false
	}
	return ScheduleName(before), ok
}

// Schedule is a schedule as it stands.
type Schedule struct {
	ScheduleSpec
	State ScheduleState `json:"state"`
	// Why says why it is paused, or why a date could not be taken yet.
	Why string `json:"why,omitempty"`
	// Version grows by one with each change.
	Version uint64 `json:"version"`
	// ETag identifies this version; no earlier schedule of the same name had the same one. Pass it
	// to client.IfMatch, or in the header If-Match, to change that version only.
	ETag string `json:"etag,omitempty"`
	// Set is when it was set, Through the date up to which each moment is decided.
	Set     Date `json:"set_ms"`
	Through Date `json:"through_ms"`
	// Next is its next date, as the asked node reckons.
	Next Date `json:"next_ms,omitempty"`
	// Live are the runs that live, Waiting the dates that wait for them.
	Live    []JobID `json:"live,omitempty"`
	Waiting []JobID `json:"waiting,omitempty"`
	// Runs, Skipped, Missed and Failed count dates: those that became runs, those that were skipped
	// or missed, and the runs that ended otherwise than COMPLETED.
	Runs    uint64 `json:"runs"`
	Skipped uint64 `json:"skipped"`
	Missed  uint64 `json:"missed"`
	Failed  uint64 `json:"failed"`
	// Decisions are the last ones, the newest last.
	Decisions []ScheduleDecision `json:"decisions,omitempty"`
	By        Principal          `json:"by,omitempty"`
}

// ScheduleDecision is what became of a date.
type ScheduleDecision struct {
	Date Date `json:"date_ms"`
	What Fate `json:"what"`
}

// Fate is what became of a schedule's date.
type Fate uint8

// The fates.
const (
	FateNone Fate = iota
	// FateRun: a run began.
	FateRun
	// FateQueued: it waits for an earlier run.
	FateQueued
	// FateSkipped: overlap skipped it.
	FateSkipped
	// FateReplaced: a newer date took its place.
	FateReplaced
	// FateFull: too many live or wait.
	FateFull
	// FateKnown: its run was known already.
	FateKnown
	// FateMissed: it came too late.
	FateMissed
)

var fateNames = []string{"NONE", "RUN", "QUEUED", "SKIPPED", "REPLACED", "FULL", "KNOWN", "MISSED"}

// String names the fate in capitals.
func (f Fate) String() string { return nameOf(fateNames, int(f)) }

// MarshalText implements encoding.TextMarshaler.
func (f Fate) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Fate) UnmarshalText(text []byte) error {
	v, err := valueOf(fateNames, "fate", text)
	*f = Fate(v)
	return err
}
