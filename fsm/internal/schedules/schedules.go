package schedules

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// Schedules owns the table of schedules, and starts their runs (SPEC §17).
type Schedules struct {
	s     *state.State
	ports Ports
	Rows  state.Table[rota.ScheduleName, state.ScheduleRow, *state.ScheduleRow]
	// bytes is the size of all settings, kept the number of runs that live or wait; derived.
	bytes, kept int64
	// ready are the schedules with a waiting run that may start at the end of this entry.
	ready []rota.ScheduleName
}

// Ports is what the schedules use of other parts.
type Ports struct {
	// AdmitBytes refuses a number of bytes more if the state has no room for them, MayHold one more row of a principal.
	AdmitBytes func(q *state.QueueRow, tenant rota.TenantID, more int64) error
	MayHold    func(by rota.Principal, what access.Owned) error
	// Hold counts rows of a principal.
	Hold  func(by rota.Principal, what access.Owned, n int64)
	Tombs *state.Tombs
	// FreeAt is until when a worker may still be working on the job that is being ended.
	FreeAt *rota.Clock
	// AdmitRun checks a job that is not a submission, Insert adds it, and StartAfter gives it its first state.
	AdmitRun   func(*rota.JobSpec, *state.QueueRow) error
	Insert     func(*state.KeptSpec, *state.QueueRow) *state.JobRow
	StartAfter func(j *state.JobRow, free rota.Clock)
	// Expel ends a live job.
	Expel func(*state.JobRow, rota.JobState, rota.Reason)
}

// Init connects the schedules to the state and the parts that they use.
func (sc *Schedules) Init(s *state.State, ports Ports) {
	sc.s, sc.ports = s, ports
	sc.Rows.Init(state.TagSchedule, &s.Ledger)
}

// event is the payload of events about a schedule.
type event struct {
	Schedule rota.ScheduleName `json:"schedule"`
	What     string            `json:"what,omitempty"`
	Date     rota.Date         `json:"date_ms,omitempty"`
	At       string            `json:"date_at,omitempty"`
	// Count and Until belong to scheduleMissed: the number of dates, and the last of them.
	Count uint64 `json:"count,omitempty"`
	Until string `json:"until_at,omitempty"`
}

// emit adds an event about a schedule.
func (sc *Schedules) emit(r *state.ScheduleRow, kind rota.EventKind, id rota.JobID, p event) {
	p.Schedule = r.Spec.Name
	if p.Date != 0 {
		p.At = p.Date.String()
	}
	sc.s.Journal.Announce(&rota.Event{Kind: kind, Job: id, Queue: r.Kept.Queue, Tenant: r.Kept.Tenant,
		Payload: state.Payload(p)})
}

// skip records a date that becomes no run.
func (sc *Schedules) skip(r *state.ScheduleRow, date rota.Date, what rota.Fate) {
	r.Skipped++
	r.Note(date, what)
	sc.emit(r, rota.EventScheduleSkipped, "", event{What: what.String(), Date: date})
}

// take applies the overlap setting to a date (SPEC §17.5), and reports whether it becomes a run; r is editable. An
// error means that its run could not start, and nothing was changed.
func (sc *Schedules) take(r *state.ScheduleRow, date rota.Date, overlap rota.Overlap) (bool, error) {
	id := rota.RunID(r.Spec.Name, date, "")
	busy := len(r.Live)+len(r.Waiting) > 0
	fate := rota.FateNone
	switch {
	case sc.known(r, id):
		fate = rota.FateKnown
	case busy && overlap == rota.OverlapSkip, len(r.Waiting) > 0 && overlap == rota.OverlapQueueOne:
		fate = rota.FateSkipped
	case sc.full(r):
		fate = rota.FateFull
	}
	if fate != rota.FateNone {
		sc.skip(r, date, fate)
		return false, nil
	}
	if !busy || overlap == rota.OverlapAllow {
		if err := sc.start(r, id, date); err != nil {
			return false, err
		}
		r.Note(date, rota.FateRun)
		return true, nil
	}
	if overlap == rota.OverlapCancel {
		sc.clear(r)
	}
	sc.wait(r, id, date)
	return true, nil
}

// wait makes a date wait for the runs before it; r is editable.
func (sc *Schedules) wait(r *state.ScheduleRow, id rota.JobID, date rota.Date) {
	r.Waiting = append(r.Waiting, id)
	sc.kept++
	r.Note(date, rota.FateQueued)
}

// clear cancels a schedule's live runs, and drops its waiting ones.
func (sc *Schedules) clear(r *state.ScheduleRow) {
	for _, id := range r.Waiting {
		sc.skip(r, r.DateOf(id), rota.FateReplaced)
	}
	sc.kept -= int64(len(r.Waiting))
	r.Waiting = nil
	for _, id := range slices.Clone(r.Live) {
		sc.ports.Expel(sc.s.JobTable.Edit(id), rota.JobCancelled, rota.ReasonScheduleCancelled)
	}
}

// known reports whether a run's id belongs to a job, or waits.
func (sc *Schedules) known(r *state.ScheduleRow, id rota.JobID) bool {
	return sc.s.JobTable.Get(id) != nil || sc.ports.Tombs.Get(id) != nil || slices.Contains(r.Waiting, id)
}

// full reports whether the number of live and waiting runs is at its limit.
func (sc *Schedules) full(r *state.ScheduleRow) bool {
	return max(len(r.Live), len(r.Waiting)) >= limits.MaxScheduleRuns || sc.kept >= limits.MaxRuns
}

// start admits a run like a submission, except for rates (SPEC §4), and starts it; r is editable.
func (sc *Schedules) start(r *state.ScheduleRow, id rota.JobID, date rota.Date) error {
	spec := r.Kept.Words()
	spec.ID = id
	if date != 0 {
		spec.NotBefore = (date + r.Jitter(date)).Time()
	}
	q := sc.s.QueueTable.Get(spec.Queue)
	if err := sc.ports.AdmitRun(&spec, q); err != nil {
		return err
	}
	j := sc.ports.Insert(sc.s.Specs.Keep(&spec), q)
	r.Live, r.Runs = append(r.Live, id), r.Runs+1
	sc.kept++
	sc.emit(r, rota.EventScheduleFired, id, event{Date: date})
	if r.Why = ""; r.Free <= sc.s.Header.Clock {
		r.Free = 0
	}
	free := r.Free // kept: a run that never begins passes it on
	if date == 0 || r.Spec.Overlap == rota.OverlapAllow {
		free = 0 // it may run next to others
	}
	sc.ports.StartAfter(j, free)
	return nil
}

// JobEnded records the end of a job that may be a run; a run that waits for it starts at the end of the entry.
func (sc *Schedules) JobEnded(j *state.JobRow, st rota.JobState, why rota.Reason) {
	name, run := rota.SplitRunID(j.Spec.ID)
	if !run {
		return
	}
	r := sc.Rows.Get(name)
	if r == nil || !slices.Contains(r.Live, j.Spec.ID) {
		return
	}
	r = sc.Rows.Edit(name)
	at := slices.Index(r.Live, j.Spec.ID)
	r.Live = slices.Delete(r.Live, at, at+1)
	sc.kept--
	r.Free = max(r.Free, *sc.ports.FreeAt)
	replaced := why == rota.ReasonScheduleCancelled && j.FirstLease.IsZero() // replaced by a newer date before it began
	if st != rota.JobCompleted && (!replaced || sc.s.Header.Rules < state.OutlivingRules) {
		r.Failed++
	}
	if r.Spec.PauseOnFailure && (st == rota.JobDead || st == rota.JobExpired) && !r.Paused {
		sc.pause(r, "run "+string(j.Spec.ID)+" ended "+st.String())
	}
	sc.await(r)
}

// InTurn returns the schedule of which a job is a run that starts only after the earlier ones have ended, including
// their leases; ok is false for any other job. What a run waits for does not change when its schedule does.
func (sc *Schedules) InTurn(j *state.JobRow) (name rota.ScheduleName, ok bool) {
	name, run := rota.SplitRunID(j.Spec.ID)
	if !run || j.History().Life > 0 {
		return "", false
	}
	if _, err := rota.ParseDate(string(j.Spec.ID[len(name)+1:])); err != nil {
		return "", false // triggered: it may run next to others
	}
	r := sc.Rows.Get(name)
	return name, j.Ready != 0 || r != nil && r.Spec.Overlap != rota.OverlapAllow && slices.Contains(r.Live, j.Spec.ID)
}

// pause pauses a schedule; r is editable.
func (sc *Schedules) pause(r *state.ScheduleRow, why string) {
	r.Paused, r.Why = true, why
	r.Version++
	sc.setRetry(r, 0)
	sc.emit(r, rota.EventScheduleChanged, "", event{What: "PAUSED"})
}

// await schedules waiting runs for the end of the entry; r is editable.
func (sc *Schedules) await(r *state.ScheduleRow) {
	if len(r.Live) == 0 && len(r.Waiting) > 0 && !r.Paused {
		sc.ready = append(sc.ready, r.Spec.Name)
	}
}

// Settle starts the runs that waited for one that ended in this entry; a refused run is tried again by a sweep a second
// later.
func (sc *Schedules) Settle() {
	if len(sc.ready) == 0 {
		return
	}
	slices.SortFunc(sc.ready, cmp.Compare)
	for _, name := range slices.Compact(sc.ready) {
		r := sc.Rows.Get(name)
		if r == nil || r.Paused || len(r.Live) > 0 || len(r.Waiting) == 0 {
			continue
		}
		sc.next(sc.Rows.Edit(name))
	}
	sc.ready = sc.ready[:0]
}

// next starts the first waiting run that can start; r is editable.
func (sc *Schedules) next(r *state.ScheduleRow) {
	sc.setRetry(r, 0)
	for len(r.Waiting) > 0 {
		id := r.Waiting[0]
		date := r.DateOf(id)
		r.Waiting = slices.Delete(r.Waiting, 0, 1)
		sc.kept--
		if sc.known(r, id) {
			sc.skip(r, date, rota.FateKnown)
			continue
		}
		err := sc.start(r, id, date)
		if err == nil {
			return
		}
		r.Waiting = slices.Insert(r.Waiting, 0, id)
		sc.kept++
		r.Why = state.Tail(err.Error(), limits.MaxReasonBytes)
		sc.setRetry(r, sc.s.Header.Clock+limits.ScheduleRetry)
		return
	}
}

// setRetry changes when waiting runs are tried again; r is editable.
func (sc *Schedules) setRetry(r *state.ScheduleRow, at rota.Clock) {
	sc.s.Timers.Waiting.Refile(string(r.Spec.Name), int64(r.Retry), int64(at))
	r.Retry = at
}

// FireWaiting tries waiting runs again.
func (sc *Schedules) FireWaiting(name string) {
	r := sc.Rows.Edit(rota.ScheduleName(name))
	sc.setRetry(r, 0)
	sc.await(r)
}

// PauseAll pauses every schedule of a state that becomes another cluster's.
func (sc *Schedules) PauseAll() {
	var names []rota.ScheduleName
	sc.Rows.Scan(func(name rota.ScheduleName, _ *state.ScheduleRow) bool {
		names = append(names, name)
		return true
	})
	for _, name := range names {
		if r := sc.Rows.Edit(name); !r.Paused {
			sc.pause(r, "the cluster was restored")
		}
	}
	sc.ready = nil
}

// Naming returns a schedule whose job goes to a queue.
func (sc *Schedules) Naming(queue rota.QueueName) (name rota.ScheduleName, found bool) {
	sc.Rows.Scan(func(n rota.ScheduleName, r *state.ScheduleRow) bool {
		if found = r.Kept.Queue == queue; found {
			name = n
		}
		return !found
	})
	return name, found
}

// Derive counts the contents of the rows.
func (sc *Schedules) Derive() {
	sc.bytes, sc.kept = 0, 0
	sc.Rows.Scan(func(name rota.ScheduleName, r *state.ScheduleRow) bool {
		sc.bytes += r.Size
		sc.kept += int64(len(r.Live) + len(r.Waiting))
		sc.s.Timers.Waiting.Refile(string(name), 0, int64(r.Retry))
		return true
	})
}

// Check checks the schedules and the data derived from them.
func (sc *Schedules) Check(fault func(format string, args ...any)) {
	var bytes, kept int64
	sc.Rows.Scan(func(name rota.ScheduleName, r *state.ScheduleRow) bool {
		bytes, kept = bytes+r.Size, kept+int64(len(r.Live)+len(r.Waiting))
		if name != r.Spec.Name || r.Size != r.SpecSize() || r.Version == 0 || r.Set > sc.s.Header.Date() ||
			r.Through > sc.s.Header.Date() {
			fault("I4: schedule %s of version %d was set on %d and is decided through %d, on %d", name, r.Version,
				r.Set, r.Through, sc.s.Header.Date())
		}
		for _, id := range r.Live {
			if of, run := rota.SplitRunID(id); sc.s.JobTable.Get(id) == nil || of != name || !run {
				fault("I4: run %s of schedule %s does not live", id, name)
			}
		}
		if stuck := len(r.Waiting) > 0 && len(r.Live) == 0 && !r.Paused; stuck != (r.Retry != 0) {
			fault("I4: schedule %s has %d runs waiting for %d, and tries again at %d", name, len(r.Waiting),
				len(r.Live), r.Retry)
		}
		return true
	})
	if s := sc; s.bytes != bytes || s.kept != kept || len(s.ready) > 0 {
		fault("I4: schedules hold %d bytes and %d runs, %d and %d are counted, %d are ready", bytes, kept, s.bytes,
			s.kept, len(s.ready))
	}
}
