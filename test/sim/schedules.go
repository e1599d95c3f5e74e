package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/cron"
	"github.com/rotasched/rota/internal/millis"
)

// scheduler sets schedules (SPEC §17), one for each overlap policy, sets some again, pauses, resumes, triggers,
// backfills and deletes them, and cancels runs. It draws from a random source of its own, separate from the world's.
type scheduler struct {
	actor
	w      *World
	chance *rand.Rand
	n      int
	// open counts the calls without an answer once the world has healed, stuck holds the dates due then.
	open  int
	done  bool
	stuck map[rota.ScheduleName]rota.Date
}

// scheduleNames has a schedule for each overlap policy.
var scheduleNames = []rota.ScheduleName{"skips", "queues-one", "queues", "cancels", "allows"}

func newScheduler(w *World) *scheduler {
	s := &scheduler{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x1739))}
	s.name = "scheduler"
	if w.Schedules {
		for i := range scheduleNames {
			s.set(i)
		}
		w.on(&s.actor, 5_000, s.next)
	}
	return s
}

// next performs one action. Once the world has healed it waits until everything due is fired, and then pauses all
// schedules, so that everything ends.
func (s *scheduler) next() {
	w := s.w
	if w.now >= max(w.Heal, 20_000) {
		w.on(&s.actor, 12_000, s.look)
		return
	}
	w.on(&s.actor, Time(s.chance.IntN(4_000)), s.next)
	i := s.chance.IntN(len(scheduleNames))
	name := string(scheduleNames[i])
	switch s.chance.IntN(12) {
	case 0, 1:
		s.set(i)
	case 2:
		s.ask(pauseOp(name, true, false))
	case 3, 4, 5:
		s.ask(pauseOp(name, false, s.chance.IntN(2) == 0))
	case 6:
		s.ask(&fsmpb.Op{Op: &fsmpb.Op_TriggerSchedule{TriggerSchedule: &fsmpb.TriggerSchedule{Name: name,
			Id: fmt.Sprint("t", s.n)}}})
	case 7:
		s.fill(scheduleNames[i])
	case 8:
		if s.chance.IntN(3) == 0 {
			s.install()
		}
		if s.chance.IntN(3) == 0 {
			s.ask(&fsmpb.Op{Op: &fsmpb.Op_DeleteSchedule{DeleteSchedule: &fsmpb.DeleteSchedule{Name: name}}})
		}
	default:
		if x, ok := fsm.ScheduleOf(&s.machine().View, scheduleNames[i]); ok && len(x.Live) > 0 {
			s.ask(&fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: string(x.Live[s.chance.IntN(len(
				x.Live))])}}})
		}
	}
	s.n++
}

// machine returns the state of a random node, which may lag.
func (s *scheduler) machine() *fsm.Machine { return s.w.nodes[s.chance.IntN(len(s.w.nodes))].machine }

// set creates a schedule, or sets it again: every few seconds, by a cron expression or a period.
func (s *scheduler) set(i int) {
	job := rota.NewJobSpec("work", []byte("dated"))
	job.Tenant = rota.TenantID(fmt.Sprint("t", s.chance.IntN(3)))
	job.Retry = rota.RetryPolicy{Attempts: 2, Base: millis.Duration(500)}
	spec := rota.NewScheduleSpec(scheduleNames[i], job)
	spec.Overlap = rota.Overlap(i)
	every := []int{5, 10, 15, 30}[s.chance.IntN(4)]
	if s.chance.IntN(2) == 0 {
		spec.Cron = fmt.Sprintf("*/%d * * * * *", every)
	} else {
		spec.Every, spec.Start = time.Duration(every)*time.Second, 30_000 // its dates are multiples, like the others'
	}
	spec.CatchUp = time.Duration(10+s.chance.IntN(120)) * time.Second
	spec.CatchUpMax = int64(s.chance.IntN(4))
	if s.chance.IntN(3) == 0 {
		spec.Jitter = 3 * time.Second
	}
	if s.chance.IntN(4) == 0 {
		spec.Limit = int64(1 + s.chance.IntN(9))
	}
	spec.PauseOnFailure = s.chance.IntN(4) == 0
	s.ask(entry.ScheduleOp(&spec))
}

// fill backfills dates of the last minutes that have no run.
func (s *scheduler) fill(name rota.ScheduleName) {
	m := s.machine()
	due, ok := fsm.DueOf(&m.View, name)
	if !ok {
		return
	}
	table, err := cron.Embedded().Of(due.Times, due.Set)
	if err != nil {
		s.w.audit.failf("schedule %s means nothing: %v", name, err)
		return
	}
	until := int64(m.Head().Date) - int64(s.chance.IntN(60_000))
	dates, _ := cron.Between(table, until-int64(s.chance.IntN(60_000)), until, rota.MaxScheduleDates)
	s.ask(&fsmpb.Op{Op: &fsmpb.Op_BackfillSchedule{BackfillSchedule: &fsmpb.BackfillSchedule{Name: string(name),
		Version: due.Version,
		DatesMs: dates, Tzdata: installedZones(m), Overlap: uint32([]rota.Overlap{rota.OverlapQueueAll,
			rota.OverlapQueueAll, rota.OverlapSkip}[s.chance.IntN(3)])}}})
}

// look checks twice that no date stays due, and pauses the schedules.
func (s *scheduler) look() {
	l := s.w.leader
	if l == nil || !l.ready { // an election is in progress
		s.w.on(&s.actor, 1_000, s.look)
		return
	}
	due := map[rota.ScheduleName]rota.Date{}
	for _, x := range fsm.ActiveOf(&l.node.machine.View) {
		every := s.w.audit.calendars[x.Name].fires
		if next := x.Through/every*every + every; next <= l.node.machine.Head().Date {
			due[x.Name] = next
			if s.stuck[x.Name] == next {
				s.w.audit.failf("schedule %s: date %s is due, but does not fire", x.Name, next)
			}
		}
	}
	if s.stuck == nil {
		s.stuck = due
		s.w.on(&s.actor, 3_000, s.look)
		return
	}
	for _, name := range scheduleNames {
		s.open++
		s.asked(pauseOp(string(name), true, false), func() { s.open-- })
	}
	s.done = true
}

// quiet reports whether no further runs follow.
func (s *scheduler) quiet() bool { return !s.w.Schedules || s.done && s.open == 0 }

func pauseOp(name string, paused, catchUp bool) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_PauseSchedule{PauseSchedule: &fsmpb.PauseSchedule{Name: name, Paused: paused,
		CatchUp: catchUp}}}
}

func (s *scheduler) ask(op *fsmpb.Op) { s.asked(op, func() {}) }

// asked repeats an operation until it is answered.
func (s *scheduler) asked(op *fsmpb.Op, then func()) {
	w, answered := s.w, false
	var try func()
	try = func() {
		if answered {
			return
		}
		n := w.nodes[s.chance.IntN(len(w.nodes))]
		w.forward(n, &s.actor, !n.down, op, func(*fsmpb.Outcome) {
			if !answered {
				answered = true
				then()
			}
		})
		w.on(&s.actor, 500, try)
	}
	try()
}

// fireDates decides due dates, as a leader does (SPEC §17.4): also before its last proposal has applied, and sometimes
// twice, so that some of it is stale.
func (l *leadership) fireDates(m *fsm.Machine) {
	s := l.w.scheduler
	if !l.w.Schedules || s.chance.IntN(4) == 0 {
		return
	}
	now := m.Head().Date
	for _, due := range fsm.ActiveOf(&m.View) {
		table, err := cron.Embedded().Of(due.Times, due.Set)
		if err != nil {
			l.w.audit.failf("schedule %s means nothing: %v", due.Name, err)
			return
		}
		if next, ok := table.Next(int64(due.Through)); !ok || rota.Date(next) > now {
			continue
		}
		dates, missed := cron.Between(table, int64(due.Through), int64(now), rota.MaxScheduleDates)
		op := &fsmpb.Op{Op: &fsmpb.Op_Fire{Fire: &fsmpb.Fire{Name: string(due.Name), Version: due.Version,
			FromMs:  int64(due.Through),
			UntilMs: int64(now), DatesMs: dates, Missed: uint64(missed),
			Tzdata: cmp.Or(installedZones(m), cron.Release)}}}
		for range 1 + s.chance.IntN(6)/5 {
			l.propose(op, nil)
		}
	}
}

// installedZones returns the identity of the installed time zones, "" without any. All releases of this world have the
// embedded zones: their schedules are in UTC.
func installedZones(m *fsm.Machine) string {
	t, _, ok := fsm.InstalledTZData(&m.View)
	if !ok {
		return ""
	}
	return t.Name()
}

// install puts another release of the time zone data in force, which refuses the dates calculated before.
func (s *scheduler) install() {
	year := s.chance.IntN(4)
	s.ask(&fsmpb.Op{Op: &fsmpb.Op_SetTzdata{SetTzdata: &fsmpb.SetTZData{Release: fmt.Sprintf("203%da", year),
		ReleasedMs: int64(1 + year), Data: fmt.Append(nil, "zones ", s.chance.IntN(3))}}})
}

// everyOf returns the milliseconds between the dates of a schedule of this world.
func everyOf(op *fsmpb.SetSchedule) rota.Date {
	var seconds rota.Date
	if op.GetEveryMs() > 0 {
		return rota.Date(op.GetEveryMs())
	}
	if _, err := fmt.Sscanf(op.GetCron(), "*/%d", &seconds); err != nil {
		panic("this world draws no schedule by " + op.GetCron())
	}
	return seconds * 1_000
}

// multiples lists the multiples of a time after one moment and up to another.
func multiples(every, from, until rota.Date) (dates []rota.Date) {
	for d := from/every*every + every; d <= until; d += every {
		dates = append(dates, d)
	}
	return dates
}

// sameDates reports whether an operation names the newest of some dates, and counts the others.
func sameDates(op *fsmpb.Fire, dates []rota.Date) bool {
	before := max(0, len(dates)-rota.MaxScheduleDates)
	return int(op.GetMissed()) == before && slices.EqualFunc(op.GetDatesMs(), dates[before:],
		func(a int64, b rota.Date) bool { return a == int64(b) })
}
