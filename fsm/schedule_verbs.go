package fsm

import (
	"fmt"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
)

// apply is the switch over what is done with schedules.
func (sc *schedules) apply(op *fsmpb.Op) *fsmpb.Outcome {
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

// set creates a schedule, or replaces what one says; a repetition changes nothing.
func (sc *schedules) set(op *fsmpb.SetSchedule) *fsmpb.Outcome {
	spec, err := sc.read(op)
	if err != nil {
		return entry.Refused(err)
	}
	r := &scheduleRow{spec: spec, kept: sc.s.specs.keep(&spec.Job), by: sc.s.journal.owner(), version: 1, set: sc.s.head.date()}
	r.through, r.size = r.set, r.specSize()
	old := sc.rows.get(spec.Name)
	if old != nil && sameSchedule(old, r) {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := sc.s.journal.matches(scheduleText(old, spec.Name)); err != nil {
		return entry.Refused(err)
	}
	if err := sc.admit(old, r); err != nil {
		return entry.Refused(err)
	}
	if old != nil {
		r.follow(old)
		sc.s.timers.waiting.set(string(spec.Name), int64(old.retry), int64(r.retry))
		sc.bytes -= old.size
		sc.rows.drop(spec.Name)
	} else {
		sc.access.hold(r.by, access.OwnsSchedule, 1)
		if sc.s.head.rules >= adoptRules {
			sc.adopt(r)
		}
	}
	sc.bytes += r.size
	sc.rows.insert(spec.Name, r)
	sc.emit(r, rota.EventScheduleChanged, "", scheduleEvent{What: "SET"})
	return &fsmpb.Outcome{}
}

// adoptRules are the first rules under which a schedule of a name that was deleted counts the runs that live still.
const adoptRules = 2

// adopt counts the runs of an earlier schedule of the name that live: overlap goes by them. A run that was retried is
// no schedule's, as ever.
func (sc *schedules) adopt(r *scheduleRow) {
	before := string(r.spec.Name) + "@"
	sc.s.jobs.tree.Ascend(rota.JobID(before), func(id rota.JobID, j *jobRow) bool {
		date, own := strings.CutPrefix(string(id), before)
		if !own || len(r.live) >= limits.MaxScheduleRuns || sc.kept >= limits.MaxRuns {
			return false
		}
		if _, err := rota.ParseDate(date); (err == nil || strings.HasPrefix(date, "+")) && j.history().life == 0 {
			r.live = append(r.live, id)
			sc.kept++
		}
		return true
	})
}

// scheduleText returns the name of a schedule for refusals, and its version, "" for nil.
func scheduleText(r *scheduleRow, name rota.ScheduleName) (what, etag string) {
	if r != nil {
		etag = r.etag()
	}
	return fmt.Sprintf("schedule %q", name), etag
}

// read checks what an operation says of a schedule.
func (sc *schedules) read(op *fsmpb.SetSchedule) (*rota.ScheduleSpec, error) {
	if n := len(op.GetJob().GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return nil, rota.Refusef(rota.KindInvalid, "labels", "labels are %d: at most %d are taken", n, rota.MaxLabels)
	}
	if n := len(op.GetDatesMs()); n > rota.MaxScheduleDates {
		return nil, rota.Refusef(rota.KindInvalid, "dates", "dates are %d: at most %d are taken", n, rota.MaxScheduleDates)
	}
	s := entry.ScheduleWords(op)
	if op.GetOverlap() > uint32(rota.OverlapAllow) {
		return nil, rota.Refusef(rota.KindInvalid, "overlap", "overlap %d is unknown: 0 to %d are taken", op.GetOverlap(), uint32(rota.OverlapAllow))
	}
	payloadMax := int64(rota.MaxPayloadBytes)
	if q := sc.s.queues.get(s.Job.Queue); q != nil {
		payloadMax = q.policy.PayloadMaxBytes
	}
	err := s.CheckShape(payloadMax)
	return s, err
}

// sameSchedule reports whether a schedule was set so before.
func sameSchedule(old, r *scheduleRow) bool {
	var a, b encoder
	encodeSpec(&a, old.kept)
	encodeSpec(&b, r.kept)
	o, s := *old.spec, *r.spec
	return o.Same(&s.ScheduleTimes) && string(a.b) == string(b.b) && o.Limit == s.Limit && millis.Of(o.Jitter) == millis.Of(s.Jitter) &&
		o.Overlap == s.Overlap && millis.Of(o.CatchUp) == millis.Of(s.CatchUp) && o.CatchUpMax == s.CatchUpMax && o.PauseOnFailure == s.PauseOnFailure
}

// admit refuses a schedule that the cluster has no room for.
func (sc *schedules) admit(old, r *scheduleRow) error {
	q := sc.s.queues.get(r.kept.Queue)
	switch {
	case sc.s.head.cluster == "":
		return rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again")
	case q == nil:
		return noQueue(r.kept.Queue)
	case q.drainTo != "":
		return leaving(q)
	}
	more, bytes := r.size, sc.bytes+r.size
	if old != nil {
		more, bytes = max(0, more-old.size), bytes-old.size
	} else {
		if sc.rows.len() >= limits.MaxSchedules {
			return exhausted("schedule", "%d schedules are set: no more are taken, delete one with `rota schedule delete`", limits.MaxSchedules)
		}
		if err := sc.access.mayHold(r.by, access.OwnsSchedule); err != nil {
			return err
		}
	}
	if bytes > limits.MaxScheduleBytes {
		return exhausted("schedule", "schedules hold %d bytes, %d more are wanted: at most %d are taken", sc.bytes, more, limits.MaxScheduleBytes)
	}
	return sc.admission.admitBytes(q, r.kept.Tenant, more)
}

// named returns a schedule; the error says that there is none.
func (sc *schedules) named(name string) (*scheduleRow, error) {
	if r := sc.rows.get(rota.ScheduleName(name)); r != nil {
		return r, nil
	}
	return nil, rota.Refusef(rota.KindNotFound, "schedule", "schedule %.80q is not known", name)
}

// setPaused pauses or resumes a schedule. One that is resumed goes on from now on, unless it is to
// catch up.
func (sc *schedules) setPaused(op *fsmpb.PauseSchedule) *fsmpb.Outcome {
	r, err := sc.named(op.GetName())
	if err == nil && len(op.GetReason()) > limits.MaxReasonBytes {
		err = rota.Refusef(rota.KindInvalid, "reason", "reason has %d bytes: at most %d are taken", len(op.GetReason()), limits.MaxReasonBytes)
	}
	if err != nil {
		return entry.Refused(err)
	}
	if r.paused == op.GetPaused() {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := sc.s.journal.matches(scheduleText(r, r.spec.Name)); err != nil {
		return entry.Refused(err)
	}
	r = sc.rows.edit(r.spec.Name)
	if op.GetPaused() {
		sc.pause(r, tail(op.GetReason(), limits.MaxReasonBytes))
		return &fsmpb.Outcome{}
	}
	r.paused, r.why = false, ""
	r.version++
	if !op.GetCatchUp() {
		r.through = max(r.through, sc.s.head.date())
	}
	sc.emit(r, rota.EventScheduleChanged, "", scheduleEvent{What: "RESUMED"})
	sc.await(r)
	return &fsmpb.Outcome{}
}

// trigger runs a schedule's job now, paused or not, beside what lives.
func (sc *schedules) trigger(op *fsmpb.TriggerSchedule) *fsmpb.Outcome {
	r, err := sc.named(op.GetName())
	if err == nil && (len(op.GetId()) > rota.MaxScheduleName || !rota.ValidID(op.GetId())) {
		err = rota.Refusef(rota.KindInvalid, "id", "id %.80q is not 1 to %d of the characters of an id", op.GetId(), rota.MaxScheduleName)
	}
	if err != nil {
		return entry.Refused(err)
	}
	id := rota.RunID(r.spec.Name, 0, op.GetId())
	if j := sc.s.jobs.get(id); j != nil {
		return &fsmpb.Outcome{JobState: uint32(j.state), Existed: true}
	}
	if t := sc.ended.tombs.get(id); t != nil {
		return &fsmpb.Outcome{JobState: uint32(t.state), Existed: true}
	}
	if sc.full(r) {
		return entry.Refused(exhausted("schedule", "schedule %s has %d runs that live: no more are started", r.spec.Name, len(r.live)))
	}
	spec := r.kept.words()
	if err := sc.life.admitRun(&spec, sc.s.queues.get(spec.Queue)); err != nil {
		return entry.Refused(err)
	}
	r = sc.rows.edit(r.spec.Name)
	if err := sc.start(r, id, 0); err != nil {
		return entry.Refused(err)
	}
	return &fsmpb.Outcome{JobState: uint32(sc.s.jobs.get(id).state)}
}

// backfill takes dates that have passed. What is known does not run again; what cannot start now
// waits.
func (sc *schedules) backfill(op *fsmpb.BackfillSchedule) *fsmpb.Outcome {
	r, err := sc.named(op.GetName())
	if err != nil {
		return entry.Refused(err)
	}
	dates, err := readDates(op.GetDatesMs(), 0, sc.s.head.date())
	switch {
	case err != nil:
	case op.GetVersion() != r.version:
		err = rota.Refusef(rota.KindStale, "version", "schedule %s is of version %d, not %d: look at it again", r.spec.Name, r.version, op.GetVersion())
	case op.GetOverlap() > uint32(rota.OverlapAllow):
		err = rota.Refusef(rota.KindInvalid, "overlap", "overlap %d is unknown: 0 to %d are taken", op.GetOverlap(), uint32(rota.OverlapAllow))
	default:
		err = sc.sameZones(op.GetTzdata())
	}
	if err != nil {
		return entry.Refused(err)
	}
	r = sc.rows.edit(r.spec.Name)
	for _, d := range dates {
		if _, err := sc.take(r, d, rota.Overlap(op.GetOverlap())); err != nil {
			r.why = tail(err.Error(), limits.MaxReasonBytes)
			sc.wait(r, rota.RunID(r.spec.Name, d, ""), d)
		}
	}
	sc.await(r)
	return &fsmpb.Outcome{}
}

// readDates checks dates that lie after one moment, and up to another.
func readDates(ms []int64, from, until rota.Date) ([]rota.Date, error) {
	if len(ms) > rota.MaxScheduleDates {
		return nil, rota.Refusef(rota.KindInvalid, "dates", "dates are %d: at most %d are taken", len(ms), rota.MaxScheduleDates)
	}
	dates, last := make([]rota.Date, len(ms)), from
	for i, d := range ms {
		if dates[i] = rota.Date(d); dates[i] <= last || dates[i] > until {
			return nil, rota.Refusef(rota.KindInvalid, "dates", "dates_ms[%d]: got %d (%s), want a date after %s and no later than %s, in ms", i, dates[i], dates[i], last, until)
		}
		last = dates[i]
	}
	return dates, nil
}

// remove forgets a schedule; its runs stay.
func (sc *schedules) remove(op *fsmpb.DeleteSchedule) *fsmpb.Outcome {
	r := sc.rows.get(rota.ScheduleName(op.GetName()))
	if r == nil {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := sc.s.journal.matches(scheduleText(r, r.spec.Name)); err != nil {
		return entry.Refused(err)
	}
	r = sc.rows.edit(r.spec.Name)
	sc.setRetry(r, 0)
	sc.bytes -= r.size
	sc.kept -= int64(len(r.live) + len(r.waiting))
	sc.access.hold(r.by, access.OwnsSchedule, -1)
	sc.emit(r, rota.EventScheduleChanged, "", scheduleEvent{What: "DELETED"})
	sc.rows.drop(r.spec.Name)
	return &fsmpb.Outcome{}
}

// fire decides what is due after one moment and up to another (SPEC §17.4): the next one begins
// where it ends, so that whoever leads, no date is decided twice or passed over.
func (sc *schedules) fire(op *fsmpb.Fire) *fsmpb.Outcome {
	if o := sc.s.internal(); o != nil {
		return o
	}
	r, err := sc.named(op.GetName())
	if err != nil {
		return entry.Refused(err)
	}
	from, until := rota.Date(op.GetFromMs()), rota.Date(op.GetUntilMs())
	switch {
	case r.state() != rota.ScheduleActive || op.GetVersion() != r.version || from != r.through && !planted.firesTwice():
		return entry.Refused(rota.Refusef(rota.KindStale, "from", "schedule %s is %s in version %d, decided through %s: not in version %d through %s",
			r.spec.Name, r.state(), r.version, r.through, op.GetVersion(), from))
	case until <= from || until > sc.s.head.date():
		return entry.Refused(rota.Refusef(rota.KindInvalid, "until", "until is %s: a date after %s and by %s is wanted", until, from, sc.s.head.date()))
	case len(op.GetTzdata()) > rota.MaxIDBytes:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "tzdata", "tzdata has %d bytes: at most %d are taken", len(op.GetTzdata()), rota.MaxIDBytes))
	case op.GetMissed() > 1<<40:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "missed", "missed is %d: at most %d is taken", op.GetMissed(), uint64(1<<40)))
	}
	if err := sc.sameZones(op.GetTzdata()); err != nil {
		return entry.Refused(err)
	}
	dates, err := readDates(op.GetDatesMs(), from, until)
	if err != nil {
		return entry.Refused(err)
	}
	r = sc.rows.edit(r.spec.Name)
	taken := r.timely(dates, sc.s.head.date())
	sc.miss(r, dates[:len(dates)-len(taken)], op.GetMissed(), from)
	r.through = sc.takeAll(r, taken, until)
	sc.await(r)
	if r.state() == rota.ScheduleDone {
		sc.emit(r, rota.EventScheduleChanged, "", scheduleEvent{What: "DONE"})
	}
	return &fsmpb.Outcome{}
}

// miss notes the dates that came too late, and so many before them.
func (sc *schedules) miss(r *scheduleRow, dates []rota.Date, before uint64, last rota.Date) {
	n := before + uint64(len(dates))
	if n == 0 {
		return
	}
	if len(dates) > 0 {
		last = dates[len(dates)-1]
	}
	r.missed += n
	r.note(last, rota.FateMissed)
	sc.emit(r, rota.EventScheduleMissed, "", scheduleEvent{Count: n, Until: last.String()})
}

// takeAll takes dates in their order, and returns through which moment all are decided: before the
// first that could not start, which is tried again.
func (sc *schedules) takeAll(r *scheduleRow, dates []rota.Date, until rota.Date) rota.Date {
	for _, d := range dates {
		if r.spec.Limit > 0 && r.taken >= r.spec.Limit {
			break
		}
		taken, err := sc.take(r, d, r.spec.Overlap)
		if err != nil {
			r.why = tail(fmt.Sprintf("%s: %v", d, err), limits.MaxReasonBytes)
			return d - 1
		}
		if taken {
			r.taken++
		}
	}
	return until
}
