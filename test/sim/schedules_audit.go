package sim

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// calendar is the ledger of one schedule: the dates that accepted operations asked to decide, and the outcome of each
// according to the events (SPEC §17).
type calendar struct {
	name rota.ScheduleName
	// set means that the schedule exists; life counts the lives of its name.
	set  bool
	life int
	// fires is the distance between its dates by the operations up to here, told the distance by the events; sets holds
	// the ones between.
	fires, told rota.Date
	sets        []rota.Date
	cron        string
	// through holds the moments up to which everything may be decided; the row has one of them. open holds the dates
	// since the start of the last Fire, which are decided up to there.
	through, open []rota.Date
	// asked counts by operations how often each date had to be decided, got by events how often it was.
	asked, got map[rota.Date]int
	// touched holds the dates of this entry.
	touched map[rota.Date]bool
	live    map[rota.JobID]bool
	// limited: it ends after a number of runs
	limited               bool
	runs, skipped, missed uint64
}

// dated is the auditor's model of schedules.
type dated struct {
	calendars map[rota.ScheduleName]*calendar
	// runsOf holds the runs reported by events, each with the life of its schedule; begun holds the jobs of this entry
	// whose id is that of a run.
	runsOf map[rota.JobID]int
	begun  []rota.JobID
}

func newDated() dated {
	d := dated{calendars: map[rota.ScheduleName]*calendar{}, runsOf: map[rota.JobID]int{}}
	for _, name := range scheduleNames {
		c := &calendar{name: name, asked: map[rota.Date]int{}, touched: map[rota.Date]bool{}}
		c.clear()
		d.calendars[name] = c
	}
	return d
}

// clear starts another life, as far as events report it.
func (c *calendar) clear() {
	c.got, c.live = map[rota.Date]int{}, map[rota.JobID]bool{}
	c.runs, c.skipped, c.missed = 0, 0, 0
	c.life++
}

// datedOps follows the operations of an entry on schedules, before its events.
func (a *auditor) datedOps(n *node, e *fsmpb.Entry, r *fsm.Applied) {
	if !a.w.Schedules {
		return
	}
	now := n.machine.Head().Date
	for i, op := range e.GetOps() {
		if o := r.Outcomes[i]; OutcomeOK(o) && !o.GetExisted() {
			a.datedOp(op, now, r.Stamped)
		}
	}
}

func (a *auditor) datedOp(op *fsmpb.Op, now rota.Date, stamped bool) {
	switch {
	case op.GetSetSchedule() != nil:
		a.calendars[rota.ScheduleName(op.GetSetSchedule().GetName())].setBy(op.GetSetSchedule(), now)
	case op.GetPauseSchedule() != nil && !op.GetPauseSchedule().GetPaused() && !op.GetPauseSchedule().GetCatchUp():
		a.calendars[rota.ScheduleName(op.GetPauseSchedule().GetName())].jump(now)
	case op.GetDeleteSchedule() != nil:
		c := a.calendars[rota.ScheduleName(op.GetDeleteSchedule().GetName())]
		c.set, c.asked, c.through, c.open, c.cron, c.limited = false, map[rota.Date]int{}, nil, nil, "", false
	case op.GetBackfillSchedule() != nil:
		c := a.calendars[rota.ScheduleName(op.GetBackfillSchedule().GetName())]
		for _, d := range op.GetBackfillSchedule().GetDatesMs() {
			c.ask(rota.Date(d))
		}
	case op.GetFire() != nil:
		a.fired(a.calendars[rota.ScheduleName(op.GetFire().GetName())], op.GetFire(), stamped)
	}
}

// setBy applies an operation that may change the times of a schedule; a schedule that was done starts again in either
// case.
func (c *calendar) setBy(op *fsmpb.SetSchedule, now rota.Date) {
	times := everyOf(op)
	same := c.set && c.fires == times && (c.cron != "") == (op.GetCron() != "")
	switch {
	case !same:
		c.jump(now)
	case c.limited:
		c.through = append(c.through, now)
	}
	c.set, c.fires, c.cron, c.limited = true, times, op.GetCron(), op.GetLimit() > 0
	c.sets = append(c.sets, times)
}

// jump drops the open dates: they stay undecided.
func (c *calendar) jump(now rota.Date) {
	for _, d := range c.open { // events alone report those that could not start
		c.asked[d] = -1
	}
	c.through, c.open = []rota.Date{now}, nil
}

func (c *calendar) ask(d rota.Date) {
	if c.asked[d] >= 0 {
		c.asked[d]++
	}
	c.touched[d] = true
}

// fired checks an accepted Fire against the one before: it continues where that one ended and has each date.
func (a *auditor) fired(c *calendar, op *fsmpb.Fire, stamped bool) {
	from, until := rota.Date(op.GetFromMs()), rota.Date(op.GetUntilMs())
	dates := multiples(c.fires, from, until)
	switch {
	case !stamped:
		a.failf("schedule %s was fired by a leader of a term that is over", c.name)
	case !slices.Contains(c.through, from):
		a.failf("schedule %s was fired from %s, it is decided through %v", c.name, from, c.through)
	case !sameDates(op, dates):
		a.failf("schedule %s was fired on other dates than there are from %s to %s", c.name, from, until)
	}
	c.settle(from)
	c.open, c.through = dates, []rota.Date{until}
	for _, d := range dates {
		c.through = append(c.through, d-1)
	}
}

// settle assumes that everything is decided up to a moment and nothing after it.
func (c *calendar) settle(through rota.Date) {
	for _, d := range c.open {
		if d <= through {
			c.ask(d)
		}
	}
	c.open, c.through = nil, []rota.Date{through}
}

// datedEvent follows the events of schedules.
func (a *auditor) datedEvent(e *rota.Event) {
	_, callback := rota.SplitCallbackID(e.Job) // a batch's callback belongs to no schedule
	_, _, delivery := rota.SplitDeliveryID(e.Job)
	if name, run := rota.SplitRunID(e.Job); run && !callback && !delivery && a.w.Schedules {
		switch e.Kind {
		case rota.EventJobEnqueued, rota.EventJobDelayed:
			a.begun = append(a.begun, e.Job)
		case rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired, rota.EventJobCancelled:
			delete(a.calendars[name].live, e.Job)
		}
	}
	switch e.Kind {
	case rota.EventScheduleChanged, rota.EventScheduleFired, rota.EventScheduleSkipped, rota.EventScheduleMissed:
	default:
		return
	}
	var p struct {
		Schedule rota.ScheduleName `json:"schedule"`
		What     string            `json:"what"`
		Date     rota.Date         `json:"date_ms"`
		Count    uint64            `json:"count"`
		Until    string            `json:"until_at"`
	}
	if err := json.Unmarshal([]byte(e.Payload), &p); err != nil {
		a.failf("%s has payload %q: %v", e.Kind, e.Payload, err)
		return
	}
	c := a.calendars[p.Schedule]
	switch e.Kind {
	case rota.EventScheduleChanged:
		switch p.What {
		case "SET":
			c.told, c.sets = c.sets[0], c.sets[1:]
		case "DELETED":
			c.clear()
		}
	case rota.EventScheduleFired:
		a.runBegun(c, e.Job, p.Date)
	case rota.EventScheduleSkipped:
		a.DatesSkipped++
		c.skipped++
		c.take(p.Date)
	case rota.EventScheduleMissed:
		a.DatesMissed += int(p.Count)
		c.missed += p.Count
		last, err := rota.ParseDate(p.Until)
		if err != nil {
			a.failf("%s has payload %q: %v", e.Kind, e.Payload, err)
		}
		for d := last / c.told * c.told; p.Count > 0; d, p.Count = d-c.told, p.Count-1 {
			c.take(d)
		}
	}
}

func (c *calendar) take(d rota.Date) {
	c.got[d]++
	c.touched[d] = true
}

// runBegun checks a run against earlier ones: its date has no run yet, and no other run is alive, unless overlap is
// allowed or the run was triggered.
func (a *auditor) runBegun(c *calendar, id rota.JobID, date rota.Date) {
	if _, twice := a.runsOf[id]; twice || id != rota.RunID(c.name, date, "") && date != 0 {
		a.failf("schedule %s ran date %s as %s, which ran before or is another's", c.name, date, id)
	}
	if len(c.live) > 0 && date != 0 && c.name != "allows" {
		a.failf("schedule %s ran date %s while %v live", c.name, date, slices.Sorted(maps.Keys(c.live)))
	}
	a.runsOf[id], c.live[id] = c.life, true
	c.runs++
	if date != 0 {
		a.Dated++
		c.take(date)
	}
}

// datedSettled compares the outcomes of an entry's dates with the row.
func (a *auditor) datedSettled(n *node) {
	for _, id := range a.begun {
		if _, told := a.runsOf[id]; !told {
			a.failf("job %s began without a schedule that fired", id)
		}
	}
	a.begun = nil
	if !a.w.Schedules {
		return
	}
	for _, name := range scheduleNames {
		c := a.calendars[name]
		x, ok := fsm.ScheduleOf(&n.machine.View, name)
		if ok != c.set {
			a.failf("schedule %s is there: %v, it was set: %v", name, ok, c.set)
		}
		if !ok || len(c.touched) == 0 && len(c.through) == 1 && c.through[0] == x.Through {
			continue
		}
		if !slices.Contains(c.through, x.Through) {
			a.failf("schedule %s is decided through %s, it was fired through one of %v", name, x.Through, c.through)
		}
		if x.State == rota.ScheduleDone && c.limited { // dates after its last run belong to no run
			for len(c.open) > 0 && c.got[c.open[len(c.open)-1]] == 0 &&
				!slices.Contains(x.Waiting, rota.RunID(name, c.open[len(c.open)-1], "")) {
				c.open = c.open[:len(c.open)-1]
			}
		}
		c.settle(x.Through)
		a.balance(c, &x, slices.Sorted(maps.Keys(c.touched)))
		clear(c.touched)
	}
}

// balance checks that each date became one run, skip or miss, or is pending, once for each time that it had to be
// decided.
func (a *auditor) balance(c *calendar, x *rota.Schedule, dates []rota.Date) {
	for _, d := range dates {
		waits := 0
		for _, id := range x.Waiting {
			if id == rota.RunID(c.name, d, "") {
				waits++
			}
		}
		if asked := c.asked[d]; asked >= 0 && c.got[d]+waits != asked {
			a.failf("schedule %s: date %s was to be decided %d times: it became a run, was skipped or missed %d times, and waits %d times",
				c.name, d, asked, c.got[d], waits)
		}
	}
	if x.Runs != c.runs || x.Skipped != c.skipped || x.Missed != c.missed {
		a.failf("schedule %s counts %d runs, %d skipped and %d missed, events tell of %d, %d and %d", c.name, x.Runs,
			x.Skipped, x.Missed, c.runs, c.skipped, c.missed)
	}
}

// datesFinal checks all dates and all runs at the end.
func (a *auditor) datesFinal(n *node) {
	if !a.w.Schedules {
		return
	}
	for _, name := range scheduleNames {
		c := a.calendars[name]
		if x, ok := fsm.ScheduleOf(&n.machine.View, name); ok {
			a.balance(c, &x, slices.Sorted(maps.Keys(c.asked)))
			a.balance(c, &x, slices.Sorted(maps.Keys(c.got)))
			if len(x.Live) > 0 {
				a.failf("schedule %s has runs that live at the end: %v", name, x.Live)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.runsOf)) {
		if s := n.machine.JobState(id); !s.Terminal() {
			a.failf("run %s is %s at the end", id, s)
		}
	}
}

// beside reports whether two jobs are runs of one schedule whose runs must not overlap.
func (a *auditor) beside(one, other rota.JobID) bool {
	name, run := rota.SplitRunID(one)
	if !run || one == other || name == "allows" || strings.Contains(string(one)+string(other), "@+") {
		return false
	}
	of, _ := rota.SplitRunID(other)
	return of == name && a.runsOf[one] == a.runsOf[other]
}
