package chores

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/zones"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/cron"
)

// scheduleEvery is how often a leader checks for due dates.
const scheduleEvery = time.Second

// maxFires bounds the dates in one proposal: far less than an entry.
const maxFires = 20_000

// scheduler is the leader's chore that fires due schedules (SPEC §17.4).
type scheduler struct {
	n     *Host
	dates *Schedules
	// known are the next dates of schedules calculated so far, with zones.
	known map[rota.ScheduleName]nextDate
	zones *cron.Zones
}

// nextDate is the first date after a moment, for one version of a schedule.
type nextDate struct {
	version uint64
	through rota.Date
	table   cron.Table
	date    rota.Date
	ok      bool
}

// Loop fires schedules for as long as a leadership lasts.
func (sh *Schedules) Loop(l Term) {
	s := &scheduler{n: sh.n, dates: sh, known: make(map[rota.ScheduleName]nextDate)}
	tick := sh.n.Ticker(scheduleEvery)
	defer tick.Stop()
	defer sh.Lag.Store(0)
	for {
		select {
		case <-tick.Tick():
			if s.once(l) {
				s.once(l) // the date has advanced
			}
		case <-l.Life().Done():
			return
		}
	}
}

// once fires the schedules that are due by the state's date. If they are due only by the wall clocks, it first advances
// the date with a sweep, and reports that.
func (s *scheduler) once(l Term) (swept bool) {
	var list []fsm.DueSchedule
	var budgets []fsm.DueBudget
	var now rota.Date
	var in zones.InForce
	s.n.Replica.Look(func(v *fsm.View) {
		list, budgets, now, in = fsm.ActiveOf(v), fsm.BudgetsWithPeriods(v), v.Head().Date, zones.Of(v)
	})
	var lag rota.Date
	defer func() { s.dates.Lag.Store(int64(lag)) }()
	if len(list)+len(budgets) == 0 {
		clear(s.known)
		return false
	}
	zones, err := s.n.Zones.Open(in)
	if err != nil {
		if s.n.Lines.Allow("tzdata") {
			s.n.Log.Error("this binary cannot read the installed time zone data, and fires nothing", "tzdata",
				in.Name(), "err", err)
		}
		return false
	}
	if s.zones != zones {
		clear(s.known)
		s.zones = zones
	}
	var ops []*fsmpb.Op
	due, dates := false, 0
	wall := rota.Date(l.WallNow())
	for i := range list {
		next := s.next(&list[i])
		due = due || next.ok && next.date > now && next.date <= wall
		if next.ok {
			lag = max(lag, max(now, wall)-next.date)
		}
		if !next.ok || next.date > now {
			continue
		}
		op := fireOf(&list[i], next.table, now, zones.Name())
		ops, dates = append(ops, op), dates+len(op.GetFire().GetDatesMs())
		if dates >= maxFires {
			s.propose(l, ops)
			ops, dates = nil, 0
		}
	}
	for i := range budgets {
		op, waits := s.turn(&budgets[i], now, wall)
		if due = due || waits; op != nil {
			ops = append(ops, op)
		}
	}
	s.propose(l, ops)
	if due {
		_, err := l.Propose(l.Life(), []*fsmpb.Op{{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}}}, true)
		return err == nil
	}
	return false
}

// propose fires; a rejected schedule is checked again a second later.
func (s *scheduler) propose(l Term, ops []*fsmpb.Op) {
	if len(ops) == 0 {
		return
	}
	if err := l.All(l.Life(), ops); err != nil && l.Life().Err() == nil && s.n.Lines.Allow("schedules") {
		s.n.Log.Warn("schedules could not be fired", "err", err)
	}
}

// turn returns the operation that begins the present period of a budget, or states its end, nil if there is none; waits
// reports that it is due only by the wall clocks.
func (s *scheduler) turn(b *fsm.DueBudget, now, wall rota.Date) (op *fsmpb.Op, waits bool) {
	if b.Until > now {
		return nil, b.Until <= wall
	}
	table, err := s.zones.Of(&b.Times, 0)
	if err != nil {
		if s.n.Lines.Allow("budget/" + string(b.Name)) {
			s.n.Log.Error("a budget's time zone means nothing to this node, which begins no period of it", "budget", b.Name,
				"tzdata", s.zones.Name(), "err", err)
		}
		return nil, false
	}
	since, until, ok := cron.Period(table, int64(now))
	if !ok {
		return nil, false
	}
	return fsm.TurnBudgetOp(b, max(rota.Date(since), b.Until), rota.Date(until), s.zones.Name()), false
}

// next calculates the next date of a schedule, once while it remains unchanged.
func (s *scheduler) next(at *fsm.DueSchedule) nextDate {
	known, ok := s.known[at.Name]
	if ok && known.version == at.Version && known.through == at.Through {
		return known
	}
	table, err := s.zones.Of(at.Times, at.Set)
	if err != nil {
		if s.n.Lines.Allow("schedule/" + string(at.Name)) {
			s.n.Log.Error("a schedule means nothing to this node, which fires nothing of it", "schedule", at.Name,
				"tzdata", s.zones.Name(), "err", err)
		}
		return nextDate{}
	}
	known = nextDate{version: at.Version, through: at.Through, table: table}
	var date int64
	date, known.ok = table.Next(int64(at.Through))
	known.date = rota.Date(date)
	s.known[at.Name] = known
	return known
}

// fireOf returns the operation that decides a schedule up to a date, with the named time zones.
func fireOf(at *fsm.DueSchedule, table cron.Table, until rota.Date, zones string) *fsmpb.Op {
	dates, missed := cron.Between(table, int64(at.Through), int64(until), rota.MaxScheduleDates)
	return &fsmpb.Op{Op: &fsmpb.Op_Fire{Fire: &fsmpb.Fire{Name: string(at.Name), Version: at.Version,
		FromMs: int64(at.Through), UntilMs: int64(until), DatesMs: dates, Missed: uint64(missed), Tzdata: zones}}}
}
