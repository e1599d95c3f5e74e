package fsm

import (
	"fmt"

	"encoding/binary"

	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/sched"
)

// scheduleRow is one schedule (SPEC §17.3). Every moment up to through is decided, none after.
type scheduleRow struct {
	rowMeta
	// spec never changes; its job is in kept, and size counts the bytes of both.
	spec *rota.ScheduleSpec
	kept *keptSpec
	size int64
	by   rota.Principal
	// version grows by one with each change; set is when it was set, through as above.
	version      uint64
	set, through rota.Date
	paused       bool
	// why says why it is paused, or why a date could not be taken yet.
	why string
	// taken counts dates against the limit.
	taken int64
	// live are the runs that have not ended; waiting those that wait for them, in order.
	live, waiting []rota.JobID
	// free is until when workers of runs that were ended from outside may be at work still.
	free rota.Clock
	// retry is when a waiting run is tried again that was refused, 0 where none was.
	retry                         rota.Clock
	runs, skipped, missed, failed uint64
	decisions                     []rota.ScheduleDecision
}

func (r *scheduleRow) canonical(e *encoder) {
	s := r.spec
	e.str(string(s.Name))
	e.str(s.Cron)
	e.int(millis.Of(s.Every))
	encodeDates(e, s.Dates)
	e.str(s.TZ)
	e.int(int64(s.Start))
	e.int(int64(s.End))
	e.int(s.Limit)
	e.int(millis.Of(s.Jitter))
	e.uint(uint64(s.Overlap))
	e.int(millis.Of(s.CatchUp))
	e.int(s.CatchUpMax)
	e.bool(s.PauseOnFailure)
	encodeSpec(e, r.kept)
	e.str(string(r.by))
	e.uint(r.version)
	e.int(int64(r.set))
	e.int(int64(r.through))
	e.bool(r.paused)
	e.str(r.why)
	e.int(r.taken)
	encodeIDs(e, r.live)
	encodeIDs(e, r.waiting)
	e.int(int64(r.free))
	e.int(int64(r.retry))
	for _, n := range []uint64{r.runs, r.skipped, r.missed, r.failed} {
		e.uint(n)
	}
	e.uint(uint64(len(r.decisions)))
	for _, d := range r.decisions {
		e.int(int64(d.Date))
		e.uint(uint64(d.What))
	}
}

// etag is the version and the date it was set, which differs from that of an earlier schedule of the
// same name. It is no hash of the content, so nobody can test guesses of a payload that they may not read.
func (r *scheduleRow) etag() string { return fmt.Sprintf("%d-%d", r.version, int64(r.set)) }

func decodeSchedule(d *decoder) *scheduleRow {
	s := &rota.ScheduleSpec{Name: rota.ScheduleName(d.str())}
	s.Cron, s.Every = d.str(), millis.Duration(d.int())
	s.Dates = decodeDates(d, rota.MaxScheduleDates)
	s.TZ, s.Start, s.End = d.str(), rota.Date(d.int()), rota.Date(d.int())
	s.Limit, s.Jitter = d.int(), millis.Duration(d.int())
	s.Overlap = rota.Overlap(d.enum(uint64(rota.OverlapAllow)))
	s.CatchUp, s.CatchUpMax, s.PauseOnFailure = millis.Duration(d.int()), d.int(), d.bool()
	r := &scheduleRow{spec: s, kept: decodeSpec(d)}
	s.Job = r.kept.words()
	r.by, r.version = rota.Principal(d.str()), d.uint()
	r.set, r.through, r.paused, r.why = rota.Date(d.int()), rota.Date(d.int()), d.bool(), d.str()
	r.taken = d.int()
	r.live, r.waiting = decodeIDs(d, limits.MaxScheduleRuns), decodeIDs(d, limits.MaxScheduleRuns)
	r.free, r.retry = rota.Clock(d.int()), rota.Clock(d.int())
	for _, p := range []*uint64{&r.runs, &r.skipped, &r.missed, &r.failed} {
		*p = d.uint()
	}
	for range d.count(limits.MaxDecisions) {
		r.decisions = append(r.decisions, rota.ScheduleDecision{Date: rota.Date(d.int()), What: rota.Fate(d.enum(uint64(rota.FateMissed)))})
	}
	r.size = r.specSize()
	return r
}

// specSize counts the bytes of what was set.
func (r *scheduleRow) specSize() int64 {
	return r.kept.bytes() + int64(len(r.spec.Name)+len(r.spec.Cron)+len(r.spec.TZ)+8*len(r.spec.Dates))
}

func (r *scheduleRow) owner() (rota.QueueName, rota.TenantID) { return r.kept.Queue, r.kept.Tenant }
func (r *scheduleRow) besides() int64                         { return 0 }

// detach makes a copy's lists its own.
func (r *scheduleRow) detach() {
	r.live, r.waiting = append([]rota.JobID(nil), r.live...), append([]rota.JobID(nil), r.waiting...)
	r.decisions = append([]rota.ScheduleDecision(nil), r.decisions...)
}

func encodeDates(e *encoder, dates []rota.Date) {
	e.uint(uint64(len(dates)))
	last := rota.Date(0)
	for _, d := range dates {
		e.int(int64(d - last))
		last = d
	}
}

func decodeDates(d *decoder, most uint64) (dates []rota.Date) {
	last := rota.Date(0)
	for range d.count(most) {
		last += rota.Date(d.int())
		dates = append(dates, last)
	}
	return dates
}

func encodeIDs(e *encoder, ids []rota.JobID) {
	e.uint(uint64(len(ids)))
	for _, id := range ids {
		e.str(string(id))
	}
}

func decodeIDs(d *decoder, most uint64) (ids []rota.JobID) {
	for range d.count(most) {
		ids = append(ids, rota.JobID(d.str()))
	}
	return ids
}

// TreeKey is the name.
func (r *scheduleRow) TreeKey() rota.ScheduleName { return r.spec.Name }

// hookRow is one webhook (SPEC §13.14). Each event up to its cursor is decided, none after.
type hookRow struct {
	rowMeta
	spec rota.WebhookSpec
	// sees are the rights by which it selects events.
	sees []rota.Grant
	by   rota.Principal
	// version grows by one with each change of what it says or of its state; set is when it was set
	// last, rotated when its secret changed.
	version      uint64
	set, rotated rota.Date
	disabled     bool
	// why says why it is disabled, or why its cursor waits.
	why string
	// began is the event of its creation: a delivery of an event before it is of an earlier hook.
	began, cursor rota.EventID
	// pending, delivered and failed count its deliveries.
	pending, delivered, failed int64
	// gaps counts stretches of events that it never saw, the last of which lay between two events.
	gaps              uint64
	gapFrom, gapUntil rota.EventID
}

func (r *hookRow) canonical(e *encoder) {
	e.str(string(r.spec.Name))
	e.str(r.spec.URL)
	e.uint(uint64(len(r.spec.Kinds)))
	for _, k := range r.spec.Kinds {
		e.uint(uint64(k))
	}
	e.str(r.spec.Filter)
	e.uint(r.spec.Generation)
	e.uint(uint64(len(r.sees)))
	for _, g := range r.sees {
		e.uint(uint64(g.Right))
		e.str(g.Tenant)
		e.str(g.Queue)
	}
	e.str(string(r.by))
	e.uint(r.version)
	e.int(int64(r.set))
	e.int(int64(r.rotated))
	e.bool(r.disabled)
	e.str(r.why)
	encodeEventID(e, r.began)
	encodeEventID(e, r.cursor)
	for _, n := range []int64{r.pending, r.delivered, r.failed} {
		e.int(n)
	}
	e.uint(r.gaps)
	encodeEventID(e, r.gapFrom)
	encodeEventID(e, r.gapUntil)
}

func decodeHook(d *decoder) *hookRow {
	r := &hookRow{spec: rota.WebhookSpec{Name: rota.WebhookName(d.str()), URL: d.str()}}
	for range d.count(uint64(rota.EventLast)) {
		r.spec.Kinds = append(r.spec.Kinds, rota.EventKind(d.enum(uint64(rota.EventLast))))
	}
	r.spec.Filter, r.spec.Generation = d.str(), d.uint()
	for range d.count(limits.MaxWebhookSees) {
		r.sees = append(r.sees, rota.Grant{Right: rota.Right(d.enum(uint64(rota.RightDebug))), Tenant: d.str(), Queue: d.str()})
	}
	r.by, r.version, r.set, r.rotated = rota.Principal(d.str()), d.uint(), rota.Date(d.int()), rota.Date(d.int())
	r.disabled, r.why = d.bool(), d.str()
	r.began, r.cursor = decodeEventID(d), decodeEventID(d)
	for _, n := range []*int64{&r.pending, &r.delivered, &r.failed} {
		*n = d.int()
	}
	r.gaps, r.gapFrom, r.gapUntil = d.uint(), decodeEventID(d), decodeEventID(d)
	return r
}

// TreeKey is the name.
func (r *hookRow) TreeKey() rota.WebhookName { return r.spec.Name }

func encodeEventID(e *encoder, id rota.EventID) {
	e.uint(id.Incarnation)
	e.uint(uint64(id.Index))
	e.uint(uint64(id.Seq))
}

func decodeEventID(d *decoder) rota.EventID {
	return rota.EventID{Incarnation: d.uint(), Index: rota.Index(d.uint()), Seq: uint32(d.enum(1<<32 - 1))}
}

// dateOf reads the date of a run from its id.
func (r *scheduleRow) dateOf(id rota.JobID) rota.Date {
	date, err := rota.ParseDate(string(id[len(r.spec.Name)+1:]))
	if err != nil {
		return 0 // triggered
	}
	return date
}

// follow takes over what stays of a schedule as it is set anew. Only where its times change, or it
// was over, are its dates counted from now on.
func (r *scheduleRow) follow(old *scheduleRow) {
	over := old.state() == rota.ScheduleDone
	kept := *old
	kept.rowMeta = rowMeta{}
	kept.detach()
	kept.spec, kept.kept, kept.size = r.spec, r.kept, r.size
	kept.version = old.version + 1
	if over || !old.spec.Same(&r.spec.ScheduleTimes) {
		kept.set, kept.through, kept.taken = r.set, r.through, 0
	}
	*r = kept
}

// jitter is how much later than its date a run begins (SPEC §17.5).
func (r *scheduleRow) jitter(date rota.Date) rota.Date {
	if r.spec.Jitter == 0 {
		return 0
	}
	h := sched.H([]byte("rota|jitter"), []byte(r.spec.Name), binary.BigEndian.AppendUint64(nil, uint64(date)))
	return rota.Date(binary.BigEndian.Uint64(h[:8]) % uint64(millis.Of(r.spec.Jitter)+1))
}

// note keeps what became of a date; r is editable.
func (r *scheduleRow) note(date rota.Date, what rota.Fate) {
	if len(r.decisions) == limits.MaxDecisions {
		r.decisions = slices.Delete(r.decisions, 0, 1)
	}
	r.decisions = append(r.decisions, rota.ScheduleDecision{Date: date, What: what})
}

func (r *scheduleRow) state() rota.ScheduleState {
	switch s := r.spec; {
	case s.Limit > 0 && r.taken >= s.Limit, s.End > 0 && r.through >= s.End-1,
		len(s.Dates) > 0 && r.through >= s.Dates[len(s.Dates)-1]:
		return rota.ScheduleDone
	case r.paused:
		return rota.SchedulePaused
	}
	return rota.ScheduleActive
}

// timely returns the dates that are not missed, the newest: those that are not late, and of the
// late ones so many as catching up allows.
func (r *scheduleRow) timely(dates []rota.Date, now rota.Date) []rota.Date {
	left := r.spec.CatchUpMax
	for i, d := range slices.Backward(dates) {
		late := now - d
		if late <= limits.ScheduleLate {
			continue
		}
		if left--; left < 0 || late > rota.Date(millis.Of(r.spec.CatchUp)) {
			return dates[i+1:]
		}
	}
	return dates
}

func (r *scheduleRow) words() rota.Schedule {
	return rota.Schedule{ScheduleSpec: *r.spec, State: r.state(), Why: r.why, Version: r.version, ETag: r.etag(), Set: r.set, Through: r.through,
		Live: slices.Clone(r.live), Waiting: slices.Clone(r.waiting), Runs: r.runs, Skipped: r.skipped, Missed: r.missed, Failed: r.failed,
		Decisions: slices.Clone(r.decisions), By: r.by}
}
