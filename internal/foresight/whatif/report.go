package whatif

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
)

// Report is the result for a window of the log.
type Report struct {
	// From and To are the first and the last entry, Since and Until the dates before and after them.
	From  rota.Index `json:"from"`
	To    rota.Index `json:"to"`
	Since rota.Date  `json:"since_ms"`
	Until rota.Date  `json:"until_ms"`
	// Control compares the unchanged policy with the record.
	Control Control `json:"control"`
	// Parting is the first moment at which the histories differ, nil if they never do.
	Parting *Parting `json:"parting"`
	// Histories are the record, the control and the changed one.
	Histories []History `json:"histories"`
	// Winners and Losers are the jobs whose waits differ most, the largest difference first.
	Winners []Moved `json:"winners"`
	Losers  []Moved `json:"losers"`
	// Partial means that not everything was finished.
	Partial bool `json:"partial,omitempty"`
}

// Control compares the decisions that the unchanged policy makes with the recorded ones: Equal are those before the
// first difference.
type Control struct {
	Decisions  int64    `json:"decisions"`
	Equal      int64    `json:"equal"`
	Difference *Parting `json:"difference,omitempty"`

	finished bool
}

// The verdicts on the control.
const (
	Equal   = "equal"
	Differs = "differs"
	Unknown = "unknown"
)

// Verdict reports whether every decision of the control is the recorded one.
func (c *Control) Verdict() string {
	switch {
	case c.Difference != nil:
		return Differs
	case c.finished:
		return Equal
	default:
		return Unknown
	}
}

// History is one of the courses of the same load.
type History struct {
	Name string `json:"name"`
	Group
	// Utilisation is the share of the workers' slots that was leased.
	Utilisation float64 `json:"utilisation"`
	// Decisions counts the assignments, Common those that this history and the record have in common from the start:
	// the same jobs to the same workers in the same order.
	Decisions int64 `json:"decisions"`
	Common    int64 `json:"decisions_in_common"`
	// Filled counts the attempts that ran for the median of their type because the record has no run for them; Refused
	// counts operations from outside that were refused. Both are of the part after the parting.
	Filled  int64   `json:"filled_runs"`
	Refused int64   `json:"refused"`
	Queues  []Group `json:"queues"`
	Tenants []Group `json:"tenants"`
}

// Group are the jobs of a queue or of a tenant. A wait is from the first time that a job is QUEUED to its first lease,
// or to its end, or to that of the window.
type Group struct {
	Of        string `json:"of,omitempty"`
	Jobs      int64  `json:"jobs"`
	Started   int64  `json:"started"`
	Completed int64  `json:"completed"`
	// Working counts the jobs that had started and not ended when the window ended, Waiting those that had not started.
	Working   int64   `json:"working"`
	Waiting   int64   `json:"waiting"`
	WaitMeanS float64 `json:"wait_mean_s"`
	WaitP50S  float64 `json:"wait_p50_s"`
	WaitP95S  float64 `json:"wait_p95_s"`
	WaitMaxS  float64 `json:"wait_max_s"`
	// DeadlinesMet counts the jobs with a time to live that completed, DeadlinesMissed those that expired.
	DeadlinesMet    int64 `json:"deadlines_met"`
	DeadlinesMissed int64 `json:"deadlines_missed"`
}

// Moved is a job whose wait differs between the control and the changed history.
type Moved struct {
	Job      rota.JobID     `json:"job"`
	Queue    rota.QueueName `json:"queue"`
	Tenant   rota.TenantID  `json:"tenant"`
	ControlS float64        `json:"wait_control_s"`
	WhatIfS  float64        `json:"wait_what_if_s"`
}

// maxMoved is how many winning, and how many losing, jobs are named.
const maxMoved = 10

// tally collects a group.
type tally struct {
	Group
	waits []int64
}

func (t *tally) add(f *fate, wait int64, dated bool) {
	t.Jobs++
	t.waits = append(t.waits, wait)
	if f.started != 0 {
		t.Started++
	}
	switch {
	case f.ended != 0:
	case f.started != 0:
		t.Working++
	default:
		t.Waiting++
	}
	if f.state == rota.JobCompleted {
		t.Completed++
		if dated {
			t.DeadlinesMet++
		}
	}
	if f.state == rota.JobExpired {
		t.DeadlinesMissed++
	}
}

func (t *tally) group(name string) Group {
	slices.Sort(t.waits)
	sum := 0.0
	for _, w := range t.waits {
		sum += float64(w)
	}
	g := t.Group
	g.Of = name
	if n := len(t.waits); n > 0 {
		g.WaitMeanS = sum / float64(n) / 1000
		g.WaitP50S, g.WaitP95S, g.WaitMaxS = rank(t.waits, 50), rank(t.waits, 95), rank(t.waits, 100)
	}
	return g
}

// rank returns the nearest-rank percentile of a sorted list of ms, in s.
func rank(sorted []int64, percent int) float64 {
	return float64(sorted[max(0, (len(sorted)*percent+99)/100-1)]) / 1000
}

// history adds the figures of a course.
func (r *Report) history(name string, c, record *course) {
	all, queues, tenants := &tally{}, make(map[string]*tally), make(map[string]*tally)
	in := func(m map[string]*tally, key string) *tally {
		if m[key] == nil {
			m[key] = &tally{}
		}
		return m[key]
	}
	for i := range c.fates {
		wait, ok := c.wait(int32(i))
		if !ok {
			continue
		}
		j, f := &c.list[i], &c.fates[i]
		g := c.names[j.group]
		for _, t := range []*tally{all, in(queues, string(g.queue)), in(tenants, string(g.tenant))} {
			t.add(f, wait, j.dated)
		}
	}
	h := History{Name: name, Group: all.group(""), Decisions: int64(len(c.order)), Common: c.common(record),
		Filled: c.filled, Refused: c.refused, Queues: groups(queues), Tenants: groups(tenants)}
	if c.room > 0 {
		h.Utilisation = float64(c.busy) / float64(c.room)
	}
	r.Histories = append(r.Histories, h)
}

func groups(of map[string]*tally) []Group {
	list := make([]Group, 0, len(of))
	for name, t := range of {
		list = append(list, t.group(name))
	}
	slices.SortFunc(list, func(a, b Group) int { return cmp.Compare(a.Of, b.Of) })
	return list
}

// compare finds the jobs whose waits differ most.
func (r *Report) compare(control, changed *course) {
	type diff struct {
		place int32
		ms    int64
	}
	var diffs []diff
	for i := range min(len(control.fates), len(changed.fates)) {
		a, ok := control.wait(int32(i))
		b, also := changed.wait(int32(i))
		if ok && also && a != b {
			diffs = append(diffs, diff{int32(i), b - a})
		}
	}
	slices.SortFunc(diffs, func(a, b diff) int {
		return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.place, b.place))
	})
	moved := func(d diff) Moved {
		j := &control.list[d.place]
		a, _ := control.wait(d.place)
		b, _ := changed.wait(d.place)
		return Moved{j.id, control.names[j.group].queue, control.names[j.group].tenant, float64(a) / 1000,
			float64(b) / 1000}
	}
	for _, d := range diffs {
		if d.ms < 0 && len(r.Winners) < maxMoved {
			r.Winners = append(r.Winners, moved(d))
		}
	}
	slices.Reverse(diffs)
	for _, d := range diffs {
		if d.ms > 0 && len(r.Losers) < maxMoved {
			r.Losers = append(r.Losers, moved(d))
		}
	}
}
