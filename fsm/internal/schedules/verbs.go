package schedules

import (
	"fmt"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
)

// Apply is the switch over the operations on schedules.
func (sc *Schedules) Apply(op *fsmpb.Op) *fsmpb.Outcome {
	switch op := op.GetOp().(type) {
	case *fsmpb.Op_SetSchedule:
		return sc.set(op.SetSchedule)
	case *fsmpb.Op_PauseSchedule:
		return sc.setPaused(op.PauseSchedule)
	case *fsmpb.Op_TriggerSchedule:
		return sc.trigger(op.TriggerSchedule)
	case *fsmpb.Op_BackfillSchedule:
		return sc.backfill(op.BackfillSchedule)
	case *fsmpb.Op_DeleteSchedule:
		return sc.remove(op.DeleteSchedule)
	case *fsmpb.Op_SetTzdata:
		return sc.setTZData(op.SetTzdata)
	default:
		return sc.fire(op.(*fsmpb.Op_Fire).Fire)
	}
}

// set creates a schedule, or replaces its settings; a repetition changes nothing.
func (sc *Schedules) set(op *fsmpb.SetSchedule) *fsmpb.Outcome {
	spec, err := sc.read(op)
	if err != nil {
		return entry.Refused(err)
	}
	r := &state.ScheduleRow{Spec: spec, Kept: sc.s.Specs.Keep(&spec.Job), By: sc.s.Journal.Owner(), Version: 1,
		Set: sc.s.Header.Date()}
	r.Through, r.Size = r.Set, r.SpecSize()
	old := sc.Rows.Get(spec.Name)
	if old != nil && sameSettings(old, r) {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := sc.s.Journal.Matches(textOf(old, spec.Name)); err != nil {
		return entry.Refused(err)
	}
	if err := sc.admit(old, r); err != nil {
		return entry.Refused(err)
	}
	if old != nil {
		r.Follow(old)
		sc.s.Timers.Waiting.Refile(string(spec.Name), int64(old.Retry), int64(r.Retry))
		sc.bytes -= old.Size
		sc.Rows.Drop(spec.Name)
	} else {
		sc.ports.Hold(r.By, access.OwnsSchedule, 1)
		if sc.s.Header.Rules >= adoptRules {
			sc.adopt(r)
		}
	}
	sc.bytes += r.Size
	sc.Rows.Insert(spec.Name, r)
	sc.emit(r, rota.EventScheduleChanged, "", event{What: "SET"})
	return &fsmpb.Outcome{}
}

// adoptRules is the first rules version under which a schedule with the name of a deleted one counts the runs that are
// still live.
const adoptRules = 2

// adopt counts the live runs of an earlier schedule of the name: overlap takes them into account. A run that was
// retried belongs to no schedule, as always.
func (sc *Schedules) adopt(r *state.ScheduleRow) {
	before := string(r.Spec.Name) + "@"
	sc.s.JobTable.Tree.Ascend(rota.JobID(before), func(id rota.JobID, j *state.JobRow) bool {
		date, own := strings.CutPrefix(string(id), before)
		if !own || len(r.Live) >= limits.MaxScheduleRuns || sc.kept >= limits.MaxRuns {
			return false
		}
		if _, err := rota.ParseDate(date); (err == nil || strings.HasPrefix(date, "+")) && j.History().Life == 0 {
			r.Live = append(r.Live, id)
			sc.kept++
		}
		return true
	})
}

// textOf returns the name of a schedule for refusals, and its version, "" for nil.
func textOf(r *state.ScheduleRow, name rota.ScheduleName) (what, etag string) {
	if r != nil {
		etag = r.ETag()
	}
	return fmt.Sprintf("schedule %q", name), etag
}

// read checks the settings of a schedule in an operation.
func (sc *Schedules) read(op *fsmpb.SetSchedule) (*rota.ScheduleSpec, error) {
	if n := len(op.GetJob().GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return nil, rota.Refusef(rota.KindInvalid, "labels", "too many labels: got %d, maximum %d", n, rota.MaxLabels)
	}
	if n := len(op.GetDatesMs()); n > rota.MaxScheduleDates {
		return nil, rota.Refusef(rota.KindInvalid, "dates", "too many dates: got %d, maximum %d", n,
			rota.MaxScheduleDates)
	}
	s := entry.ScheduleWords(op)
	if op.GetOverlap() > uint32(rota.OverlapAllow) {
		return nil, rota.Refusef(rota.KindInvalid, "overlap", "unknown overlap %d: use 0 to %d", op.GetOverlap(),
			uint32(rota.OverlapAllow))
	}
	payloadMax := int64(rota.MaxPayloadBytes)
	if q := sc.s.QueueTable.Get(s.Job.Queue); q != nil {
		payloadMax = q.Policy.PayloadMaxBytes
	}
	err := s.CheckShape(payloadMax)
	return s, err
}

// sameSettings reports whether a schedule already has these settings.
func sameSettings(old, r *state.ScheduleRow) bool {
	var a, b state.Encoder
	state.EncodeSpec(&a, old.Kept)
	state.EncodeSpec(&b, r.Kept)
	o, s := *old.Spec, *r.Spec
	return o.Same(&s.ScheduleTimes) && string(a.B) == string(b.B) && o.Limit == s.Limit &&
		millis.Of(o.Jitter) == millis.Of(s.Jitter) &&
		o.Overlap == s.Overlap && millis.Of(o.CatchUp) == millis.Of(s.CatchUp) && o.CatchUpMax == s.CatchUpMax &&
		o.PauseOnFailure == s.PauseOnFailure
}

// admit refuses a schedule that the cluster has no room for.
func (sc *Schedules) admit(old, r *state.ScheduleRow) error {
	q := sc.s.QueueTable.Get(r.Kept.Queue)
	switch {
	case sc.s.Header.Cluster == "":
		return rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again")
	case q == nil:
		return refuse.NoQueue(r.Kept.Queue)
	case q.DrainTo != "":
		return refuse.Leaving(q)
	}
	more, bytes := r.Size, sc.bytes+r.Size
	if old != nil {
		more, bytes = max(0, more-old.Size), bytes-old.Size
	} else {
		if sc.Rows.Len() >= limits.MaxSchedules {
			return refuse.Exhausted("schedule",
				"%d schedules are set: no more are taken, delete one with `rota schedule delete`", limits.MaxSchedules)
		}
		if err := sc.ports.MayHold(r.By, access.OwnsSchedule); err != nil {
			return err
		}
	}
	if bytes > limits.MaxScheduleBytes {
		return refuse.Exhausted("schedule", "schedules hold %d bytes, %d more are wanted: at most %d are taken",
			sc.bytes,
			more, limits.MaxScheduleBytes)
	}
	return sc.ports.AdmitBytes(q, r.Kept.Tenant, more)
}

// named returns a schedule, or an error if there is none.
func (sc *Schedules) named(name string) (*state.ScheduleRow, error) {
	if r := sc.Rows.Get(rota.ScheduleName(name)); r != nil {
		return r, nil
	}
	return nil, rota.Refusef(rota.KindNotFound, "schedule", "schedule %.80q is not known", name)
}

// setPaused pauses or resumes a schedule. A resumed one continues from now on, unless it is to catch up.
func (sc *Schedules) setPaused(op *fsmpb.PauseSchedule) *fsmpb.Outcome {
	r, err := sc.named(op.GetName())
	if err == nil && len(op.GetReason()) > limits.MaxReasonBytes {
		err = rota.Refusef(rota.KindInvalid, "reason", "reason too long: got %d bytes, maximum %d", len(op.GetReason()),
			limits.MaxReasonBytes)
	}
	if err != nil {
		return entry.Refused(err)
	}
	if r.Paused == op.GetPaused() {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := sc.s.Journal.Matches(textOf(r, r.Spec.Name)); err != nil {
		return entry.Refused(err)
	}
	r = sc.Rows.Edit(r.Spec.Name)
	if op.GetPaused() {
		sc.pause(r, state.Tail(op.GetReason(), limits.MaxReasonBytes))
		return &fsmpb.Outcome{}
	}
	r.Paused, r.Why = false, ""
	r.Version++
	if !op.GetCatchUp() {
		r.Through = max(r.Through, sc.s.Header.Date())
	}
	sc.emit(r, rota.EventScheduleChanged, "", event{What: "RESUMED"})
	sc.await(r)
	return &fsmpb.Outcome{}
}

// trigger runs a schedule's job now, paused or not, next to live runs.
func (sc *Schedules) trigger(op *fsmpb.TriggerSchedule) *fsmpb.Outcome {
	r, err := sc.named(op.GetName())
	if err == nil && (len(op.GetId()) > rota.MaxScheduleName || !rota.ValidID(op.GetId())) {
		err = rota.Refusef(rota.KindInvalid, "id", "id %.80q is not 1 to %d of the characters of an id", op.GetId(),
			rota.MaxScheduleName)
	}
	if err != nil {
		return entry.Refused(err)
	}
	id := rota.RunID(r.Spec.Name, 0, op.GetId())
	if j := sc.s.JobTable.Get(id); j != nil {
		return &fsmpb.Outcome{JobState: uint32(j.State), Existed: true}
	}
	if t := sc.ports.Tombs.Get(id); t != nil {
		return &fsmpb.Outcome{JobState: uint32(t.State), Existed: true}
	}
	if sc.full(r) {
		return entry.Refused(refuse.Exhausted("schedule", "schedule %s has %d runs that live: no more are started",
			r.Spec.Name, len(r.Live)))
	}
	spec := r.Kept.Words()
	if err := sc.ports.AdmitRun(&spec, sc.s.QueueTable.Get(spec.Queue)); err != nil {
		return entry.Refused(err)
	}
	r = sc.Rows.Edit(r.Spec.Name)
	if err := sc.start(r, id, 0); err != nil {
		return entry.Refused(err)
	}
	return &fsmpb.Outcome{JobState: uint32(sc.s.JobTable.Get(id).State)}
}

// backfill runs dates that have passed. A known run does not run again; one that cannot start now waits.
func (sc *Schedules) backfill(op *fsmpb.BackfillSchedule) *fsmpb.Outcome {
	r, err := sc.named(op.GetName())
	if err != nil {
		return entry.Refused(err)
	}
	dates, err := readDates(op.GetDatesMs(), 0, sc.s.Header.Date())
	switch {
	case err != nil:
	case op.GetVersion() != r.Version:
		err = rota.Refusef(rota.KindStale, "version", "schedule %s is of version %d, not %d: look at it again",
			r.Spec.Name, r.Version, op.GetVersion())
	case op.GetOverlap() > uint32(rota.OverlapAllow):
		err = rota.Refusef(rota.KindInvalid, "overlap", "unknown overlap %d: use 0 to %d", op.GetOverlap(),
			uint32(rota.OverlapAllow))
	default:
		err = sc.SameZones(op.GetTzdata())
	}
	if err != nil {
		return entry.Refused(err)
	}
	r = sc.Rows.Edit(r.Spec.Name)
	for _, d := range dates {
		if _, err := sc.take(r, d, rota.Overlap(op.GetOverlap())); err != nil {
			r.Why = state.Tail(err.Error(), limits.MaxReasonBytes)
			sc.wait(r, rota.RunID(r.Spec.Name, d, ""), d)
		}
	}
	sc.await(r)
	return &fsmpb.Outcome{}
}

// readDates checks dates after one moment and up to another.
func readDates(ms []int64, from, until rota.Date) ([]rota.Date, error) {
	if len(ms) > rota.MaxScheduleDates {
		return nil, rota.Refusef(rota.KindInvalid, "dates", "too many dates: got %d, maximum %d", len(ms),
			rota.MaxScheduleDates)
	}
	dates, last := make([]rota.Date, len(ms)), from
	for i, d := range ms {
		if dates[i] = rota.Date(d); dates[i] <= last || dates[i] > until {
			return nil, rota.Refusef(rota.KindInvalid, "dates",
				"dates_ms[%d]: got %d (%s), want a date after %s and no later than %s, in ms", i, dates[i], dates[i],
				last, until)
		}
		last = dates[i]
	}
	return dates, nil
}

// remove deletes a schedule; its runs stay.
func (sc *Schedules) remove(op *fsmpb.DeleteSchedule) *fsmpb.Outcome {
	r := sc.Rows.Get(rota.ScheduleName(op.GetName()))
	if r == nil {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := sc.s.Journal.Matches(textOf(r, r.Spec.Name)); err != nil {
		return entry.Refused(err)
	}
	r = sc.Rows.Edit(r.Spec.Name)
	sc.setRetry(r, 0)
	sc.bytes -= r.Size
	sc.kept -= int64(len(r.Live) + len(r.Waiting))
	sc.ports.Hold(r.By, access.OwnsSchedule, -1)
	sc.emit(r, rota.EventScheduleChanged, "", event{What: "DELETED"})
	sc.Rows.Drop(r.Spec.Name)
	return &fsmpb.Outcome{}
}

// fire decides the dates after one moment and up to another (SPEC §17.4). The next one begins where it ends, so that no
// date is decided twice or skipped, whichever node leads.
func (sc *Schedules) fire(op *fsmpb.Fire) *fsmpb.Outcome {
	if o := sc.s.Internal(); o != nil {
		return o
	}
	r, err := sc.named(op.GetName())
	if err != nil {
		return entry.Refused(err)
	}
	from, until := rota.Date(op.GetFromMs()), rota.Date(op.GetUntilMs())
	switch {
	case r.State() != rota.ScheduleActive || op.GetVersion() != r.Version || from != r.Through && !planted.firesTwice():
		return entry.Refused(rota.Refusef(rota.KindStale, "from",
			"schedule %s is %s in version %d, decided through %s: not in version %d through %s",
			r.Spec.Name, r.State(), r.Version, r.Through, op.GetVersion(), from))
	case until <= from || until > sc.s.Header.Date():
		return entry.Refused(rota.Refusef(rota.KindInvalid, "until", "until: got %s, want a date after %s and by %s",
			until, from, sc.s.Header.Date()))
	case len(op.GetTzdata()) > rota.MaxIDBytes:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "tzdata", "tzdata too long: got %d bytes, maximum %d",
			len(op.GetTzdata()), rota.MaxIDBytes))
	case op.GetMissed() > 1<<40:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "missed", "missed: got %d, want at most %d", op.GetMissed(),
			uint64(1<<40)))
	}
	if err := sc.SameZones(op.GetTzdata()); err != nil {
		return entry.Refused(err)
	}
	dates, err := readDates(op.GetDatesMs(), from, until)
	if err != nil {
		return entry.Refused(err)
	}
	r = sc.Rows.Edit(r.Spec.Name)
	taken := r.Timely(dates, sc.s.Header.Date())
	sc.miss(r, dates[:len(dates)-len(taken)], op.GetMissed(), from)
	r.Through = sc.takeAll(r, taken, until)
	sc.await(r)
	if r.State() == rota.ScheduleDone {
		sc.emit(r, rota.EventScheduleChanged, "", event{What: "DONE"})
	}
	return &fsmpb.Outcome{}
}

// miss records the dates that came too late, and `before` earlier ones.
func (sc *Schedules) miss(r *state.ScheduleRow, dates []rota.Date, before uint64, last rota.Date) {
	n := before + uint64(len(dates))
	if n == 0 {
		return
	}
	if len(dates) > 0 {
		last = dates[len(dates)-1]
	}
	r.Missed += n
	r.Note(last, rota.FateMissed)
	sc.emit(r, rota.EventScheduleMissed, "", event{Count: n, Until: last.String()})
}

// takeAll processes dates in order, and returns the moment through which all are decided: before the first that could
// not start, which is tried again.
func (sc *Schedules) takeAll(r *state.ScheduleRow, dates []rota.Date, until rota.Date) rota.Date {
	for _, d := range dates {
		if r.Spec.Limit > 0 && r.Taken >= r.Spec.Limit {
			break
		}
		taken, err := sc.take(r, d, r.Spec.Overlap)
		if err != nil {
			r.Why = state.Tail(fmt.Sprintf("%s: %v", d, err), limits.MaxReasonBytes)
			return d - 1
		}
		if taken {
			r.Taken++
		}
	}
	return until
}
