package rota

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ScheduleName names a schedule.
type ScheduleName string

// Overlap determines what a schedule does with a date while another run of it is live or waits (SPEC §17.5).
type Overlap uint8

// The ways.
const (
	// OverlapSkip skips the date.
	OverlapSkip Overlap = iota
	// OverlapQueueOne queues it, unless one waits.
	OverlapQueueOne
	// OverlapQueueAll queues it.
	OverlapQueueAll
	// OverlapCancel cancels live runs, and queues the run instead of waiting ones.
	OverlapCancel
	// OverlapAllow starts the run in addition to live runs.
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

// ScheduleState is the state of a schedule.
type ScheduleState uint8

// The states.
const (
	// ScheduleActive: its dates become runs when they are due.
	ScheduleActive ScheduleState = iota
	// SchedulePaused: it was paused by a call or by a failure.
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

// ScheduleTimes determine when a schedule is due: one of Cron, Every and Dates (SPEC §17.1).
type ScheduleTimes struct {
	Cron  string        `json:"cron,omitempty"`
	Every time.Duration `json:"every_ms,omitempty"`
	// Dates are in ascending order.
	Dates []Date `json:"dates_ms,omitempty"`
	// TZ is the time zone of the cron expression; empty means UTC.
	TZ string `json:"tz,omitempty"`
	// Start and End limit the dates: from Start, before End; 0 means no limit.
	Start Date `json:"start_ms,omitempty"`
	End   Date `json:"end_ms,omitempty"`
}

// Same reports whether all fields of both are equal, so that they are due on the same dates.
func (t *ScheduleTimes) Same(o *ScheduleTimes) bool {
	return t.Cron == o.Cron && t.Every == o.Every && t.TZ == o.TZ && t.Start == o.Start && t.End == o.End &&
		slices.Equal(t.Dates, o.Dates)
}

// ScheduleSpec is the definition of a schedule (SPEC §17.1).
type ScheduleSpec struct {
	Name ScheduleName `json:"name"`
	ScheduleTimes
	// Limit is the number of runs after which the schedule ends; 0 means no limit.
	Limit int64 `json:"limit,omitempty"`
	// Jitter spreads the runs: each starts at most this much later.
	Jitter  time.Duration `json:"jitter_ms,omitempty"`
	Overlap Overlap       `json:"overlap"`
	// CatchUp is the maximum delay with which a date still becomes a run, CatchUpMax the maximum number of such dates,
	// the newest ones.
	CatchUp    time.Duration `json:"catch_up_ms"`
	CatchUpMax int64         `json:"catch_up_max"`
	// PauseOnFailure pauses the schedule when a run of it ends DEAD or EXPIRED.
	PauseOnFailure bool `json:"pause_on_failure,omitempty"`
	// Job is the job submitted for each run; it has no id and no date of its own.
	Job JobSpec `json:"job"`
}

// NewScheduleSpec returns a schedule with the default catch-up: the newest late date of the last hour. The caller sets
// when it is due.
func NewScheduleSpec(name ScheduleName, job JobSpec) ScheduleSpec {
	return ScheduleSpec{Name: name, CatchUp: time.Hour, CatchUpMax: 1, Job: job}
}

// CheckShape rejects a schedule whose fields are out of range. Its cron expression and its zone are checked at the
// edge, which has time zones.
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
		return Refusef(KindInvalid, "job", "the job of schedule %s has the id %.80q: omit it, each run gets its own",
			s.Name, s.Job.ID)
	case s.Job.Unique != nil:
		return Refusef(KindInvalid, "unique",
			"the job of schedule %s has a unique key: omit it, overlap limits how many runs are live", s.Name)
	case !s.Job.NotBefore.IsZero():
		return Refusef(KindInvalid, "job",
			"the job of schedule %s has a not_before: omit it, each run has its own date", s.Name)
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
		return Refusef(KindInvalid, "end", "end_ms must be after start_ms (%d) and at most %d, got %d", t.Start,
			int64(MaxDate), t.End)
	}
	return checkDates(t.Dates)
}

// MaxDate limits the dates that users give; it is far beyond any sensible date.
const MaxDate Date = 1 << 46

// checkDates rejects dates that are out of range or not in ascending order.
func checkDates(dates []Date) error {
	last := Date(0)
	for i, d := range dates {
		if d <= last || d > MaxDate {
			return Refusef(KindInvalid, "dates",
				"dates_ms[%d] must be after %d and at most %d, got %d; dates must ascend", i, last, int64(MaxDate), d)
		}
		last = d
	}
	return nil
}

// Check rejects an invalid name of a schedule; the error names the field.
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

// Schedule is the current state of a schedule.
type Schedule struct {
	ScheduleSpec
	State ScheduleState `json:"state"`
	// Why explains the pause, or why a date could not be handled yet.
	Why string `json:"why,omitempty"`
	// Version grows by one with each change.
	Version uint64 `json:"version"`
	// ETag identifies this version; no earlier schedule of the name had it. Pass it to client.IfMatch, or in the header
	// If-Match, to change that version only.
	ETag string `json:"etag,omitempty"`
	// Set is when it was set; Through is the date up to which every date is decided.
	Set     Date `json:"set_ms"`
	Through Date `json:"through_ms"`
	// Next is its next date, as calculated by the node that answers.
	Next Date `json:"next_ms,omitempty"`
	// Live are the live runs, Waiting the dates that wait for them.
	Live    []JobID `json:"live,omitempty"`
	Waiting []JobID `json:"waiting,omitempty"`
	// Runs, Skipped and Missed count dates. Failed counts the runs that did not end COMPLETED.
	Runs    uint64 `json:"runs"`
	Skipped uint64 `json:"skipped"`
	Missed  uint64 `json:"missed"`
	Failed  uint64 `json:"failed"`
	// Decisions are the latest decisions, the newest last.
	Decisions []ScheduleDecision `json:"decisions,omitempty"`
	By        Principal          `json:"by,omitempty"`
}

// ScheduleDecision is the decision about a date.
type ScheduleDecision struct {
	Date Date `json:"date_ms"`
	What Fate `json:"what"`
}

// Fate is the outcome of a schedule's date.
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

// MaxTZDataBytes limits the packed time zones of one release, which are one operation of a log entry: those of 2026f
// have 49 KB, or 130 KB if a release lists every year.
const MaxTZDataBytes = 256 << 10

// TZData is a release of the IANA time zone database that was installed on the cluster.
type TZData struct {
	// Release is a name such as 2026f.
	Release string `json:"release"`
	// Released is the date of the release.
	Released Date `json:"released_ms"`
	// SHA256 is the hash of the packed zones, 32 bytes.
	SHA256 Hex `json:"sha256"`
	// Bytes is the size of the packed zones.
	Bytes int64 `json:"bytes"`
	// Index is the log entry from which the release determines dates; Installed is the date of that entry.
	Index     Index     `json:"index"`
	Installed Date      `json:"installed_ms"`
	By        Principal `json:"by"`
}

// Name returns what identifies the zones in the log: the release and the first 8 bytes of the hash, such as
// 2026f-0a10eec6e13ef16b.
func (t *TZData) Name() string {
	return fmt.Sprintf("%s-%x", t.Release, []byte(t.SHA256[:min(len(t.SHA256), 8)]))
}

// validTZRelease reports whether a text is the name of a release: a year from 1990 to 2999 and one to three small
// letters, such as 2026f.
func validTZRelease(s string) bool {
	if len(s) < 5 || len(s) > 7 || s < "1990" || s >= "3000" {
		return false
	}
	for i, c := range []byte(s) {
		if i < 4 && (c < '0' || c > '9') || i >= 4 && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// ScheduleDates are dates of a schedule, with an identifier of the time zones used to calculate them: a release such as
// 2026f, followed by a part of its hash if it was installed on the cluster.
type ScheduleDates struct {
	Dates  []Date `json:"dates"`
	TZData string `json:"tzdata"`
}

// TZInstall is a release of the time zone database to install.
type TZInstall struct {
	// Release is a name such as 2026f; Released is its date, not later than today.
	Release  string `json:"release"`
	Released Date   `json:"released_ms"`
	// Data holds the packed zones, as produced by `rota tzdata install`: 1 to 262,144 bytes.
	Data Blob `json:"data"`
	// Older allows a release that is older than the one in force.
	Older bool `json:"older,omitempty"`
}

// CheckShape makes the checks that do not need to open the data.
func (t *TZInstall) CheckShape() error {
	switch {
	case !validTZRelease(t.Release):
		return Refusef(KindInvalid, "release", "release: got %.20q, want a year and a letter such as 2026f", t.Release)
	case t.Released <= 0 || t.Released > DateOf(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)):
		return Refusef(KindInvalid, "released", "released: got %s, want the date of the release", t.Released)
	case len(t.Data) == 0 || len(t.Data) > MaxTZDataBytes:
		return Refusef(KindInvalid, "tzdata", "tzdata: got %d bytes, want 1 to %d", len(t.Data), MaxTZDataBytes)
	}
	return nil
}
