package fsm

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// schedules owns the table of schedules, and starts their runs (SPEC §17).
type schedules struct {
	s         *state
	access    *authority
	admission *admission
	ended     *ended
	life      *lifecycle
	rows      table[rota.ScheduleName, scheduleRow, *scheduleRow]
	// bytes counts what was set, kept the runs that live or wait; derived.
	bytes, kept int64
	// ready are the schedules of which a waiting run may start at the end of this entry.
	ready []rota.ScheduleName
}

// scheduleEvent is the payload of events about a schedule.
type scheduleEvent struct {
	Schedule rota.ScheduleName `json:"schedule"`
	What     string            `json:"what,omitempty"`
	Date     rota.Date         `json:"date_ms,omitempty"`
	At       string            `json:"date_at,omitempty"`
	// Count and Until are of scheduleMissed: so many dates, the last of them.
	Count uint64 `json:"count,omitempty"`
	Until string `json:"until_at,omitempty"`
}

// emit adds an event about a schedule.
func (sc *schedules) emit(r *scheduleRow, kind rota.EventKind, id rota.JobID, p scheduleEvent) {
	p.Schedule = r.spec.Name
	if p.Date != 0 {
		p.At = p.Date.String()
	}
	sc.s.journal.announce(&rota.Event{Kind: kind, Job: id, Queue: r.kept.Queue, Tenant: r.kept.Tenant, Payload: payload(p)})
}

// skip notes a date that becomes no run.
func (sc *schedules) skip(r *scheduleRow, date rota.Date, what rota.Fate) {
	r.skipped++
	r.note(date, what)
	sc.emit(r, rota.EventScheduleSkipped, "", scheduleEvent{What: what.String(), Date: date})
}

// take does with a date what overlap says (SPEC §17.5), and reports whether it becomes a run; r is
// editable. An error says that its run could not start, and then nothing was changed.
func (sc *schedules) take(r *scheduleRow, date rota.Date, overlap rota.Overlap) (bool, error) {
	id := rota.RunID(r.spec.Name, date, "")
	busy := len(r.live)+len(r.waiting) > 0
	fate := rota.FateNone
	switch {
	case sc.known(r, id):
		fate = rota.FateKnown
	case busy && overlap == rota.OverlapSkip, len(r.waiting) > 0 && overlap == rota.OverlapQueueOne:
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
		r.note(date, rota.FateRun)
		return true, nil
	}
	if overlap == rota.OverlapCancel {
		sc.clear(r)
	}
	sc.wait(r, id, date)
	return true, nil
}

// wait has a date wait for the runs before it; r is editable.
func (sc *schedules) wait(r *scheduleRow, id rota.JobID, date rota.Date) {
	r.waiting = append(r.waiting, id)
	sc.kept++
	r.note(date, rota.FateQueued)
}

// clear cancels what lives of a schedule, and drops what waits.
func (sc *schedules) clear(r *scheduleRow) {
	for _, id := range r.waiting {
		sc.skip(r, r.dateOf(id), rota.FateReplaced)
	}
	sc.kept -= int64(len(r.waiting))
	r.waiting = nil
	for _, id := range slices.Clone(r.live) {
		sc.life.expel(sc.s.jobs.edit(id), rota.JobCancelled, rota.ReasonScheduleCancelled)
	}
}

// known reports whether a run's id stands for a job, or waits.
func (sc *schedules) known(r *scheduleRow, id rota.JobID) bool {
	return sc.s.jobs.get(id) != nil || sc.ended.tombs.get(id) != nil || slices.Contains(r.waiting, id)
}

// full reports whether so many runs live or wait that no more are taken.
func (sc *schedules) full(r *scheduleRow) bool {
	return max(len(r.live), len(r.waiting)) >= limits.MaxScheduleRuns || sc.kept >= limits.MaxRuns
}

// start admits a run as a submission is, but for rates (SPEC §4), and starts it; r is editable.
func (sc *schedules) start(r *scheduleRow, id rota.JobID, date rota.Date) error {
	spec := r.kept.words()
	spec.ID = id
	if date != 0 {
		spec.NotBefore = (date + r.jitter(date)).Time()
	}
	q := sc.s.queues.get(spec.Queue)
	if err := sc.life.admitRun(&spec, q); err != nil {
		return err
	}
	j := sc.life.insert(sc.s.specs.keep(&spec), q)
	r.live, r.runs = append(r.live, id), r.runs+1
	sc.kept++
	sc.emit(r, rota.EventScheduleFired, id, scheduleEvent{Date: date})
	if r.why = ""; r.free <= sc.s.head.clock {
		r.free = 0
	}
	free := r.free // kept: a run that never begins passes it on
	if date == 0 || r.spec.Overlap == rota.OverlapAllow {
		free = 0 // it may run beside others
	}
	sc.life.startAfter(j, free)
	return nil
}

// ended notes that a job ended which may be a run; what waits for it starts at the end of the
// entry.
func (sc *schedules) jobEnded(j *jobRow, state rota.JobState, why rota.Reason) {
	name, run := rota.SplitRunID(j.spec.ID)
	if !run {
		return
	}
	r := sc.rows.get(name)
	if r == nil || !slices.Contains(r.live, j.spec.ID) {
		return
	}
	r = sc.rows.edit(name)
	at := slices.Index(r.live, j.spec.ID)
	r.live = slices.Delete(r.live, at, at+1)
	sc.kept--
	r.free = max(r.free, sc.ended.freeAt)
	replaced := why == rota.ReasonScheduleCancelled && j.firstLease.IsZero() // by a newer date, before it began
	if state != rota.JobCompleted && (!replaced || sc.s.head.rules < outlivingRules) {
		r.failed++
	}
	if r.spec.PauseOnFailure && (state == rota.JobDead || state == rota.JobExpired) && !r.paused {
		sc.pause(r, "run "+string(j.spec.ID)+" ended "+state.String())
	}
	sc.await(r)
}

// inTurn returns the schedule of which a job is a run that starts after those before it have let go; ok is false of any
// other job. What a run waits for does not change as its schedule does.
func (sc *schedules) inTurn(j *jobRow) (name rota.ScheduleName, ok bool) {
	name, run := rota.SplitRunID(j.spec.ID)
	if !run || j.history().life > 0 {
		return "", false
	}
	if _, err := rota.ParseDate(string(j.spec.ID[len(name)+1:])); err != nil {
		return "", false // triggered: it may run beside others
	}
	r := sc.rows.get(name)
	return name, j.ready != 0 || r != nil && r.spec.Overlap != rota.OverlapAllow && slices.Contains(r.live, j.spec.ID)
}

// pause stops a schedule; r is editable.
func (sc *schedules) pause(r *scheduleRow, why string) {
	r.paused, r.why = true, why
	r.version++
	sc.setRetry(r, 0)
	sc.emit(r, rota.EventScheduleChanged, "", scheduleEvent{What: "PAUSED"})
}

// await has the end of the entry look at what waits; r is editable.
func (sc *schedules) await(r *scheduleRow) {
	if len(r.live) == 0 && len(r.waiting) > 0 && !r.paused {
		sc.ready = append(sc.ready, r.spec.Name)
	}
}

// settle starts what waited for a run that ended in this entry; what is refused is tried by a
// sweep a second later.
func (sc *schedules) settle() {
	if len(sc.ready) == 0 {
		return
	}
	slices.SortFunc(sc.ready, cmp.Compare)
	for _, name := range slices.Compact(sc.ready) {
		r := sc.rows.get(name)
		if r == nil || r.paused || len(r.live) > 0 || len(r.waiting) == 0 {
			continue
		}
		sc.next(sc.rows.edit(name))
	}
	sc.ready = sc.ready[:0]
}

// next starts the first of the waiting runs that can; r is editable.
func (sc *schedules) next(r *scheduleRow) {
	sc.setRetry(r, 0)
	for len(r.waiting) > 0 {
		id := r.waiting[0]
		date := r.dateOf(id)
		r.waiting = slices.Delete(r.waiting, 0, 1)
		sc.kept--
		if sc.known(r, id) {
			sc.skip(r, date, rota.FateKnown)
			continue
		}
		err := sc.start(r, id, date)
		if err == nil {
			return
		}
		r.waiting = slices.Insert(r.waiting, 0, id)
		sc.kept++
		r.why = tail(err.Error(), limits.MaxReasonBytes)
		sc.setRetry(r, sc.s.head.clock+limits.ScheduleRetry)
		return
	}
}

// setRetry moves when what waits is tried again; r is editable.
func (sc *schedules) setRetry(r *scheduleRow, at rota.Clock) {
	sc.s.timers.waiting.set(string(r.spec.Name), int64(r.retry), int64(at))
	r.retry = at
}

// fireWaiting tries what waits once more.
func (sc *schedules) fireWaiting(name string) {
	r := sc.rows.edit(rota.ScheduleName(name))
	sc.setRetry(r, 0)
	sc.await(r)
}

// pauseAll pauses every schedule of a state that becomes another cluster's.
func (sc *schedules) pauseAll() {
	var names []rota.ScheduleName
	sc.rows.scan(func(name rota.ScheduleName, _ *scheduleRow) bool {
		names = append(names, name)
		return true
	})
	for _, name := range names {
		if r := sc.rows.edit(name); !r.paused {
			sc.pause(r, "the cluster was restored")
		}
	}
	sc.ready = nil
}

// naming returns a schedule whose job goes to a queue.
func (sc *schedules) naming(queue rota.QueueName) (name rota.ScheduleName, found bool) {
	sc.rows.scan(func(n rota.ScheduleName, r *scheduleRow) bool {
		if found = r.kept.Queue == queue; found {
			name = n
		}
		return !found
	})
	return name, found
}

// derive counts what the rows hold.
func (sc *schedules) derive() {
	sc.bytes, sc.kept = 0, 0
	sc.rows.scan(func(name rota.ScheduleName, r *scheduleRow) bool {
		sc.bytes += r.size
		sc.kept += int64(len(r.live) + len(r.waiting))
		sc.s.timers.waiting.set(string(name), 0, int64(r.retry))
		return true
	})
}

// schedules checks the schedules and what is derived of them.
func (c *checker) schedules() {
	m := c.m
	var bytes, kept int64
	m.schedules.rows.scan(func(name rota.ScheduleName, r *scheduleRow) bool {
		bytes, kept = bytes+r.size, kept+int64(len(r.live)+len(r.waiting))
		if name != r.spec.Name || r.size != r.specSize() || r.version == 0 || r.set > m.head.date() || r.through > m.head.date() {
			c.fault("I4: schedule %s of version %d was set on %d and is decided through %d, on %d", name, r.version, r.set, r.through, m.head.date())
		}
		for _, id := range r.live {
			if of, run := rota.SplitRunID(id); m.jobs.get(id) == nil || of != name || !run {
				c.fault("I4: run %s of schedule %s does not live", id, name)
			}
		}
		if stuck := len(r.waiting) > 0 && len(r.live) == 0 && !r.paused; stuck != (r.retry != 0) {
			c.fault("I4: schedule %s has %d runs waiting for %d, and tries again at %d", name, len(r.waiting), len(r.live), r.retry)
		}
		return true
	})
	if s := &m.schedules; s.bytes != bytes || s.kept != kept || len(s.ready) > 0 {
		c.fault("I4: schedules hold %d bytes and %d runs, %d and %d are counted, %d are ready", bytes, kept, s.bytes, s.kept, len(s.ready))
	}
}
