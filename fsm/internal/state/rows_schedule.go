package state

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/sched"
)

// ScheduleRow is one schedule (SPEC §17.3). Every date up to through is decided, none after it.
type ScheduleRow struct {
	RowMeta
	// Spec never changes. Its job is in kept; size is the size of both in bytes.
	Spec *rota.ScheduleSpec
	Kept *KeptSpec
	Size int64
	By   rota.Principal
	// Version grows by one with each change; set is when it was set; through is explained above.
	Version      uint64
	Set, Through rota.Date
	Paused       bool
	// Why is the reason why it is paused, or why a date could not run yet.
	Why string
	// Taken counts dates against the limit.
	Taken int64
	// Live are the runs that have not ended; waiting are those that wait for them, in order.
	Live, Waiting []rota.JobID
	// Free is the latest time at which workers of runs that were ended from outside may still be working.
	Free rota.Clock
	// Retry is when to try a refused waiting run again, 0 if none was refused.
	Retry                         rota.Clock
	Runs, Skipped, Missed, Failed uint64
	decisions                     []rota.ScheduleDecision
}

// Canonical appends the canonical form for digests and snapshots.
func (r *ScheduleRow) Canonical(e *Encoder) {
	s := r.Spec
	e.Str(string(s.Name))
	e.Str(s.Cron)
	e.Int(millis.Of(s.Every))
	encodeDates(e, s.Dates)
	e.Str(s.TZ)
	e.Int(int64(s.Start))
	e.Int(int64(s.End))
	e.Int(s.Limit)
	e.Int(millis.Of(s.Jitter))
	e.Uint(uint64(s.Overlap))
	e.Int(millis.Of(s.CatchUp))
	e.Int(s.CatchUpMax)
	e.Bool(s.PauseOnFailure)
	EncodeSpec(e, r.Kept)
	e.Str(string(r.By))
	e.Uint(r.Version)
	e.Int(int64(r.Set))
	e.Int(int64(r.Through))
	e.Bool(r.Paused)
	e.Str(r.Why)
	e.Int(r.Taken)
	encodeIDs(e, r.Live)
	encodeIDs(e, r.Waiting)
	e.Int(int64(r.Free))
	e.Int(int64(r.Retry))
	for _, n := range []uint64{r.Runs, r.Skipped, r.Missed, r.Failed} {
		e.Uint(n)
	}
	e.Uint(uint64(len(r.decisions)))
	for _, d := range r.decisions {
		e.Int(int64(d.Date))
		e.Uint(uint64(d.What))
	}
}

// ETag returns the version and the date it was set. The date differs from that of an earlier schedule of the same name.
// It is not a hash of the content, so that a caller cannot test guesses of a payload without the right to read it.
func (r *ScheduleRow) ETag() string { return fmt.Sprintf("%d-%d", r.Version, int64(r.Set)) }

// DecodeSchedule reads what Canonical wrote.
func DecodeSchedule(d *Decoder) *ScheduleRow {
	s := &rota.ScheduleSpec{Name: rota.ScheduleName(d.Str())}
	s.Cron, s.Every = d.Str(), millis.Duration(d.Int())
	s.Dates = decodeDates(d, rota.MaxScheduleDates)
	s.TZ, s.Start, s.End = d.Str(), rota.Date(d.Int()), rota.Date(d.Int())
	s.Limit, s.Jitter = d.Int(), millis.Duration(d.Int())
	s.Overlap = rota.Overlap(d.Enum(uint64(rota.OverlapAllow)))
	s.CatchUp, s.CatchUpMax, s.PauseOnFailure = millis.Duration(d.Int()), d.Int(), d.Bool()
	r := &ScheduleRow{Spec: s, Kept: decodeSpec(d)}
	s.Job = r.Kept.Words()
	r.By, r.Version = rota.Principal(d.Str()), d.Uint()
	r.Set, r.Through, r.Paused, r.Why = rota.Date(d.Int()), rota.Date(d.Int()), d.Bool(), d.Str()
	r.Taken = d.Int()
	r.Live, r.Waiting = decodeIDs(d, limits.MaxScheduleRuns), decodeIDs(d, limits.MaxScheduleRuns)
	r.Free, r.Retry = rota.Clock(d.Int()), rota.Clock(d.Int())
	for _, p := range []*uint64{&r.Runs, &r.Skipped, &r.Missed, &r.Failed} {
		*p = d.Uint()
	}
	for range d.Count(limits.MaxDecisions) {
		r.decisions = append(r.decisions, rota.ScheduleDecision{Date: rota.Date(d.Int()),
			What: rota.Fate(d.Enum(uint64(rota.FateMissed)))})
	}
	r.Size = r.SpecSize()
	return r
}

// SpecSize returns the size in bytes of the schedule as it was set.
func (r *ScheduleRow) SpecSize() int64 {
	return r.Kept.Bytes() + int64(len(r.Spec.Name)+len(r.Spec.Cron)+len(r.Spec.TZ)+8*len(r.Spec.Dates))
}

func (r *ScheduleRow) owner() (rota.QueueName, rota.TenantID) { return r.Kept.Queue, r.Kept.Tenant }

// Besides returns the size of the data that the row stores as a hash.
func (r *ScheduleRow) Besides() int64 { return 0 }

// Detach gives a copy its own lists.
func (r *ScheduleRow) Detach() {
	r.Live, r.Waiting = append([]rota.JobID(nil), r.Live...), append([]rota.JobID(nil), r.Waiting...)
	r.decisions = append([]rota.ScheduleDecision(nil), r.decisions...)
}

func encodeDates(e *Encoder, dates []rota.Date) {
	e.Uint(uint64(len(dates)))
	last := rota.Date(0)
	for _, d := range dates {
		e.Int(int64(d - last))
		last = d
	}
}

func decodeDates(d *Decoder, most uint64) (dates []rota.Date) {
	last := rota.Date(0)
	for range d.Count(most) {
		last += rota.Date(d.Int())
		dates = append(dates, last)
	}
	return dates
}

func encodeIDs(e *Encoder, ids []rota.JobID) {
	e.Uint(uint64(len(ids)))
	for _, id := range ids {
		e.Str(string(id))
	}
}

func decodeIDs(d *Decoder, most uint64) (ids []rota.JobID) {
	for range d.Count(most) {
		ids = append(ids, rota.JobID(d.Str()))
	}
	return ids
}

// TreeKey returns the name.
func (r *ScheduleRow) TreeKey() rota.ScheduleName { return r.Spec.Name }

// HookRow is one webhook (SPEC §13.14). Each event up to its cursor is decided, none after it.
type HookRow struct {
	RowMeta
	Spec rota.WebhookSpec
	// Sees are the rights by which it selects events.
	Sees []rota.Grant
	By   rota.Principal
	// Version grows by one with each change of its settings or state. set is when it was last set, rotated when its
	// secret changed.
	Version      uint64
	Set, Rotated rota.Date
	Disabled     bool
	// Why is the reason why it is disabled, or why its cursor waits.
	Why string
	// Began is the event of its creation: a delivery of an earlier event belongs to an earlier webhook.
	Began, Cursor rota.EventID
	// Pending, delivered and failed count its deliveries.
	Pending, Delivered, Failed int64
	// Gaps counts ranges of events that it missed; the last was between two events.
	Gaps              uint64
	GapFrom, GapUntil rota.EventID
}

// Canonical appends the canonical form for digests and snapshots.
func (r *HookRow) Canonical(e *Encoder) {
	e.Str(string(r.Spec.Name))
	e.Str(r.Spec.URL)
	e.Uint(uint64(len(r.Spec.Kinds)))
	for _, k := range r.Spec.Kinds {
		e.Uint(uint64(k))
	}
	e.Str(r.Spec.Filter)
	e.Uint(r.Spec.Generation)
	e.Uint(uint64(len(r.Sees)))
	for _, g := range r.Sees {
		e.Uint(uint64(g.Right))
		e.Str(g.Tenant)
		e.Str(g.Queue)
	}
	e.Str(string(r.By))
	e.Uint(r.Version)
	e.Int(int64(r.Set))
	e.Int(int64(r.Rotated))
	e.Bool(r.Disabled)
	e.Str(r.Why)
	encodeEventID(e, r.Began)
	encodeEventID(e, r.Cursor)
	for _, n := range []int64{r.Pending, r.Delivered, r.Failed} {
		e.Int(n)
	}
	e.Uint(r.Gaps)
	encodeEventID(e, r.GapFrom)
	encodeEventID(e, r.GapUntil)
}

// DecodeHook reads what Canonical wrote.
func DecodeHook(d *Decoder) *HookRow {
	r := &HookRow{Spec: rota.WebhookSpec{Name: rota.WebhookName(d.Str()), URL: d.Str()}}
	for range d.Count(uint64(rota.EventLast)) {
		r.Spec.Kinds = append(r.Spec.Kinds, rota.EventKind(d.Enum(uint64(rota.EventLast))))
	}
	r.Spec.Filter, r.Spec.Generation = d.Str(), d.Uint()
	for range d.Count(limits.MaxWebhookSees) {
		r.Sees = append(r.Sees, rota.Grant{Right: rota.Right(d.Enum(uint64(rota.RightLast))), Tenant: d.Str(),
			Queue: d.Str()})
	}
	r.By, r.Version, r.Set, r.Rotated = rota.Principal(d.Str()), d.Uint(), rota.Date(d.Int()), rota.Date(d.Int())
	r.Disabled, r.Why = d.Bool(), d.Str()
	r.Began, r.Cursor = decodeEventID(d), decodeEventID(d)
	for _, n := range []*int64{&r.Pending, &r.Delivered, &r.Failed} {
		*n = d.Int()
	}
	r.Gaps, r.GapFrom, r.GapUntil = d.Uint(), decodeEventID(d), decodeEventID(d)
	return r
}

// TreeKey returns the name.
func (r *HookRow) TreeKey() rota.WebhookName { return r.Spec.Name }

func encodeEventID(e *Encoder, id rota.EventID) {
	e.Uint(id.Incarnation)
	e.Uint(uint64(id.Index))
	e.Uint(uint64(id.Seq))
}

func decodeEventID(d *Decoder) rota.EventID {
	return rota.EventID{Incarnation: d.Uint(), Index: rota.Index(d.Uint()), Seq: uint32(d.Enum(1<<32 - 1))}
}

// DateOf returns the date of a run from its id.
func (r *ScheduleRow) DateOf(id rota.JobID) rota.Date {
	date, err := rota.ParseDate(string(id[len(r.Spec.Name)+1:]))
	if err != nil {
		return 0 // triggered
	}
	return date
}

// Follow takes over the old row's progress when a schedule is set again. Its dates are counted from now on only if its
// times change, or if it was over.
func (r *ScheduleRow) Follow(old *ScheduleRow) {
	over := old.State() == rota.ScheduleDone
	kept := *old
	kept.RowMeta = RowMeta{}
	kept.Detach()
	kept.Spec, kept.Kept, kept.Size = r.Spec, r.Kept, r.Size
	kept.Version = old.Version + 1
	if over || !old.Spec.Same(&r.Spec.ScheduleTimes) {
		kept.Set, kept.Through, kept.Taken = r.Set, r.Through, 0
	}
	*r = kept
}

// Jitter returns how much later than its date a run begins (SPEC §17.5).
func (r *ScheduleRow) Jitter(date rota.Date) rota.Date {
	if r.Spec.Jitter == 0 {
		return 0
	}
	h := sched.H([]byte("rota|jitter"), []byte(r.Spec.Name), binary.BigEndian.AppendUint64(nil, uint64(date)))
	return rota.Date(binary.BigEndian.Uint64(h[:8]) % uint64(millis.Of(r.Spec.Jitter)+1))
}

// Note records the fate of a date; r is editable.
func (r *ScheduleRow) Note(date rota.Date, what rota.Fate) {
	if len(r.decisions) == limits.MaxDecisions {
		r.decisions = slices.Delete(r.decisions, 0, 1)
	}
	r.decisions = append(r.decisions, rota.ScheduleDecision{Date: date, What: what})
}

// State derives the state of the schedule.
func (r *ScheduleRow) State() rota.ScheduleState {
	switch s := r.Spec; {
	case s.Limit > 0 && r.Taken >= s.Limit, s.End > 0 && r.Through >= s.End-1,
		len(s.Dates) > 0 && r.Through >= s.Dates[len(s.Dates)-1]:
		return rota.ScheduleDone
	case r.Paused:
		return rota.SchedulePaused
	}
	return rota.ScheduleActive
}

// Timely returns the newest dates that are not missed: those that are not late, and as many late ones as catching up
// allows.
func (r *ScheduleRow) Timely(dates []rota.Date, now rota.Date) []rota.Date {
	left := r.Spec.CatchUpMax
	for i, d := range slices.Backward(dates) {
		late := now - d
		if late <= limits.ScheduleLate {
			continue
		}
		if left--; left < 0 || late > rota.Date(millis.Of(r.Spec.CatchUp)) {
			return dates[i+1:]
		}
	}
	return dates
}

// Words returns the row in its public form.
func (r *ScheduleRow) Words() rota.Schedule {
	return rota.Schedule{ScheduleSpec: *r.Spec, State: r.State(), Why: r.Why, Version: r.Version, ETag: r.ETag(),
		Set: r.Set, Through: r.Through,
		Live: slices.Clone(r.Live), Waiting: slices.Clone(r.Waiting), Runs: r.Runs, Skipped: r.Skipped,
		Missed: r.Missed, Failed: r.Failed, Decisions: slices.Clone(r.decisions), By: r.By}
}
