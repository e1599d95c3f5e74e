package check

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rotasched/rota"
)

// ScheduleFacts describe a schedule that is due at each multiple of a time, as it was set and as it is at the end.
type ScheduleFacts struct {
	Name    string `json:"name"`
	EveryMs int64  `json:"every_ms"`
	// InTurn means that a run starts after those before it have let go.
	InTurn bool `json:"in_turn,omitempty"`
	// SetAt is when it was set, in the run's time.
	SetAt int64 `json:"set_at"`
	// Known means that it was read at the end.
	Known   bool   `json:"known"`
	Runs    uint64 `json:"runs"`
	Skipped uint64 `json:"skipped"`
	Missed  uint64 `json:"missed"`
}

// dated records the fields of a schedule's event.
func (s *SeenEvent) dated(payload string) {
	var p struct {
		Schedule string    `json:"schedule"`
		Date     rota.Date `json:"date_ms"`
		Count    uint64    `json:"count"`
		Until    time.Time `json:"until_at"`
	}
	err := json.Unmarshal([]byte(payload), &p)
	if s.Schedule, s.Date, s.Count = p.Schedule, p.Date, p.Count; !p.Until.IsZero() {
		s.Date = rota.DateOf(p.Until)
	}
	if err != nil {
		s.Wrong = fmt.Sprintf("payload %q: %v", Short(payload), err)
	}
}

// readRuns makes the runs of schedules count as jobs that may have been submitted at any time since their schedule was
// set.
func (v *view) readRuns() {
	set := make(map[string]int64)
	for i := range v.Schedules {
		set[v.Schedules[i].Name] = v.Schedules[i].SetAt
	}
	if len(set) == 0 {
		return
	}
	runs := make(map[string]bool)
	note := func(id string) {
		name, ok := rota.SplitRunID(rota.JobID(id))
		if at, ours := set[string(name)]; ok && ours && !runs[id] {
			runs[id] = true
			v.jobs[id] = append(v.jobs[id], &Op{Process: "schedule", Func: OpSubmit, Job: id, Invoke: at, Return: never,
				Outcome: Unknown})
		}
	}
	for i := range v.Ops {
		note(v.Ops[i].Job)
	}
	for i := range v.Final {
		note(v.Final[i].ID)
	}
}

// checkSchedules checks the events of each schedule against its dates: each between the first and the last is decided
// once (SPEC §17.4), and each date that became a run has a job.
func checkSchedules(v *view) (found []Anomaly) {
	runs := 0
	for i := range v.Schedules {
		f := &v.Schedules[i]
		d := decided{f: f, fired: make(map[string]bool), dates: make(map[rota.Date]string)}
		for k := range v.Events {
			if e := &v.Events[k]; e.Schedule == f.Name {
				d.told(e)
			}
		}
		d.judge(v)
		for _, text := range d.faults {
			found = append(found, Anomaly{IDs: []string{f.Name}, Text: "schedule " + f.Name + ": " + text})
		}
		runs += len(d.fired)
	}
	if len(v.Schedules) > 0 {
		v.figures["scheduled_runs"] = runs
	}
	return found
}

// decided is the state of a schedule according to the events.
type decided struct {
	f *ScheduleFacts
	// dates are the decided dates, by the event that decided them; fired are the runs.
	dates         map[rota.Date]string
	fired         map[string]bool
	missed        uint64
	first, latest rota.Date
	faults        []string
}

func (d *decided) say(format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

func (d *decided) told(e *SeenEvent) {
	first := e.Date
	if e.Kind == "scheduleMissed" {
		d.missed += e.Count
		first -= rota.Date(int64(max(e.Count, 1)-1) * d.f.EveryMs)
	} else if before, twice := d.dates[e.Date]; twice {
		d.say("date %s was decided by event %s, and again by event %s (%s)", e.Date, before, e.ID, e.Kind)
	} else {
		d.dates[e.Date] = e.ID.String()
	}
	if e.Kind == "scheduleFired" {
		if want := rota.RunID(rota.ScheduleName(d.f.Name), e.Date, ""); e.Job != string(want) || d.fired[e.Job] {
			d.say("event %s runs date %s as job %q, which is another date's", e.ID, e.Date, e.Job)
		}
		d.fired[e.Job] = true
	}
	if d.first == 0 || first < d.first {
		d.first = first
	}
	d.latest = max(d.latest, e.Date)
}

// judge requires that no date between the first and the last is left out, and that the runs are the existing ones.
func (d *decided) judge(v *view) {
	if d.first == 0 {
		if d.f.Known && d.f.Runs > 0 {
			d.say("it counts %d runs, but none has an event", d.f.Runs)
		}
		return
	}
	due := uint64(int64(d.latest-d.first)/d.f.EveryMs) + 1
	if all := uint64(len(d.dates)) + d.missed; all != due {
		d.say("%d dates are due from %s to %s, %d were decided", due, d.first, d.latest, all)
	}
	if d.f.Known && (d.f.Runs != uint64(len(d.fired)) || d.f.Skipped != uint64(len(d.dates)-len(d.fired)) ||
		d.f.Missed != d.missed) {
		d.say("it counts %d runs, %d skipped and %d missed, the events say %d, %d and %d", d.f.Runs, d.f.Skipped,
			d.f.Missed, len(d.fired), len(d.dates)-len(d.fired), d.missed)
	}
	there := 0
	for i := range v.Final {
		id := v.Final[i].ID
		if name, run := rota.SplitRunID(rota.JobID(id)); !run || string(name) != d.f.Name {
			continue
		}
		if there++; !d.fired[id] {
			d.say("job %s exists, but no event reports that it was due", id)
		}
	}
	if v.Liveness.Listed && there < len(d.fired) {
		d.say("%d dates became runs, %d of them are there", len(d.fired), there)
	}
}
