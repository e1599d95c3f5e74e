package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// handOver is the time that may pass between a system's decision and the arrival of its call. It is added to the
	// length of each window of starts and units.
	handOver = 250 * time.Millisecond
	// tolerance is the difference between two shares that counts as none, such as 0.05.
	tolerance = 0.05
	// reportTime is how long before a worker's death or cut a call may have ended without a report that arrived.
	reportTime = time.Second
)

// span is a part of a run.
type span struct{ From, To time.Duration }

// outage is a worker that was killed, stopped or cut off, and from when to when.
type outage struct {
	Worker string
	span
}

// record is what the judge judges: the provider's calls and what the harness did.
type record struct {
	Calls  []call
	Limits limits
	// Has names the limits that the system offers: starts, concurrency, units. Others are not judged.
	Has map[kind]bool
	// PerMinute means that the limits are per minute: windows that are shorter are not judged.
	PerMinute bool
	// Largest is the largest estimate of a job in units.
	Largest int
	Hot     map[string]kind
	// Acked are the jobs whose submission was acknowledged; nil for a system without jobs.
	Acked []string
	// Calm is a part of the run before the fault, After the same part after recovery.
	Calm, After span
	Outages     []outage
	// Drained means that the harness waited for jobs until none was called any more. Otherwise a job that was not called
	// may still be waiting.
	Drained bool
}

// excess is the largest excess over a limit.
type excess struct {
	// Over is by how much the limit was exceeded, after the allowance for the hand-over; 0 if it was kept.
	Over float64
	// Raw is the largest figure that was seen, RawOver by how much it exceeds the limit without the allowance.
	Raw, RawOver float64
	Key          string    `json:",omitempty"`
	At           []float64 `json:",omitempty"`
}

// worse keeps the larger excess.
func (e *excess) worse(other excess) {
	if cmp.Or(cmp.Compare(other.Over, e.Over), cmp.Compare(other.RawOver, e.RawOver), cmp.Compare(other.Raw, e.Raw)) > 0 {
		*e = other
	}
}

// figures are the verdict on one run.
type figures struct {
	Calls       int
	Concurrency excess
	// Starts1 is for windows of 1 s, and so on.
	Starts1, Starts10, Starts60, Units10, Units60 excess
	// Share is what the hot keys of a kind reached of what the limit allows, the lowest of the kind's keys: in the calm
	// part and after recovery. Unused is the difference to 1 after recovery, 0 within the tolerance.
	CalmShare, AfterShare, Unused map[kind]float64
	// Acked, Lost and Twice count jobs: acknowledged, never called, called twice without a fault that explains it.
	// Overlapping counts the jobs with two calls at a time. Explained counts those whose second call a fault explains.
	// Waiting counts those that were not called either, in a run that ended before its last job.
	Acked, Lost, Waiting, Twice, Overlapping, Explained int
	Examples                                            []string `json:",omitempty"`
}

// judge returns the verdict on a run.
func judge(r record) figures {
	f := figures{Calls: len(r.Calls), CalmShare: make(map[kind]float64), AfterShare: make(map[kind]float64),
		Unused: make(map[kind]float64)}
	byKey := make(map[string][]call)
	for _, c := range r.Calls {
		byKey[c.Key] = append(byKey[c.Key], c)
	}
	unitsBurst := float64(max(r.Limits.UnitsBurst, r.Largest))
	one := func(call) float64 { return 1 }
	units := func(c call) float64 { return float64(c.Units) }
	for key, calls := range byKey {
		slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.Start, b.Start) })
		if r.Has[long] {
			f.Concurrency.worse(together(key, calls, r.Limits.Concurrency))
		}
		starts := func(into *excess, w time.Duration) {
			if r.Has[short] && (w == time.Minute || !r.PerMinute) {
				into.worse(window(key, calls, w, float64(r.Limits.Rate), float64(r.Limits.Burst), one))
			}
		}
		starts(&f.Starts1, time.Second)
		starts(&f.Starts10, 10*time.Second)
		starts(&f.Starts60, time.Minute)
		if r.Has[costly] {
			if !r.PerMinute {
				f.Units10.worse(window(key, calls, 10*time.Second, r.Limits.unitsPerS(), unitsBurst, units))
			}
			f.Units60.worse(window(key, calls, time.Minute, r.Limits.unitsPerS(), unitsBurst, units))
		}
	}
	for key, k := range r.Hot {
		if r.Has[k] && !r.PerMinute {
			f.use(k, r, byKey[key])
		}
	}
	f.jobs(r)
	return f
}

// together returns the largest number of calls of a key in flight at a time.
func together(key string, calls []call, limit int) excess {
	type change struct {
		at   time.Duration
		step int
	}
	var changes []change
	for _, c := range calls {
		changes = append(changes, change{c.Start, 1}, change{c.End, -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	worst := excess{Key: key}
	open := 0
	for _, c := range changes {
		if open += c.step; float64(open) > worst.Raw {
			worst.Raw, worst.At = float64(open), []float64{c.at.Seconds()}
		}
	}
	worst.RawOver = max(0, worst.Raw-float64(limit))
	worst.Over = worst.RawOver
	return worst
}

// window returns the largest excess in any window of length w, over rate*w + burst. The allowance for the hand-over
// adds the rate of that time.
func window(key string, calls []call, w time.Duration, rate, burst float64, weight func(call) float64) excess {
	worst := excess{Key: key}
	sum, first := 0.0, 0
	for _, c := range calls {
		for sum += weight(c); c.Start-calls[first].Start > w; first++ {
			sum -= weight(calls[first])
		}
		if sum > worst.Raw {
			worst.Raw, worst.At = sum, []float64{calls[first].Start.Seconds(), c.Start.Seconds()}
		}
	}
	const rounding = 1e-6
	above := func(limit float64) float64 {
		if worst.Raw-limit < rounding {
			return 0
		}
		return worst.Raw - limit
	}
	worst.RawOver = above(rate*w.Seconds() + burst)
	worst.Over = above(rate*(w+handOver).Seconds() + burst)
	return worst
}

// use adds what a hot key reached of its limit.
func (f *figures) use(k kind, r record, calls []call) {
	calm, after := r.share(k, calls, r.Calm), r.share(k, calls, r.After)
	if old, ok := f.CalmShare[k]; !ok || calm < old {
		f.CalmShare[k] = calm
	}
	if old, ok := f.AfterShare[k]; !ok || after < old {
		f.AfterShare[k] = after
	}
	unused := max(0, 1-after)
	if unused <= max(0, 1-calm)+tolerance {
		unused = 0
	}
	f.Unused[k] = max(f.Unused[k], unused)
}

// share returns which part of its limit a key used in a span.
func (r record) share(k kind, calls []call, s span) float64 {
	seconds := (s.To - s.From).Seconds()
	if seconds <= 0 {
		return 0
	}
	sum := 0.0
	for _, c := range calls {
		inside := c.Start >= s.From && c.Start < s.To
		switch {
		case k == long:
			sum += max(0, (min(c.End, s.To) - max(c.Start, s.From)).Seconds())
		case k == costly && inside:
			sum += float64(c.Units)
		case k == short && inside:
			sum++
		}
	}
	switch k {
	case long:
		return sum / seconds / float64(r.Limits.Concurrency)
	case costly:
		return sum / seconds / r.Limits.unitsPerS()
	default:
		return sum / seconds / float64(r.Limits.Rate)
	}
}

// maxExamples limits the jobs that the output names.
const maxExamples = 10

// jobs counts lost and repeated jobs.
func (f *figures) jobs(r record) {
	calls := make(map[string][]call)
	for _, c := range r.Calls {
		calls[c.Job] = append(calls[c.Job], c)
	}
	f.Acked = len(r.Acked)
	for _, id := range r.Acked {
		switch {
		case len(calls[id]) > 0:
		case !r.Drained:
			f.Waiting++
		default:
			f.Lost++
			f.example("lost " + id)
		}
	}
	for id, of := range calls {
		if len(of) < 2 || r.Acked == nil {
			continue
		}
		slices.SortFunc(of, func(a, b call) int { return cmp.Compare(a.Start, b.Start) })
		unexplained, overlapping := false, false
		ended := of[0].End
		for i, next := range of[1:] {
			overlapping = overlapping || next.Start < ended
			unexplained = unexplained || !r.explained(of[i])
			ended = max(ended, next.End)
		}
		switch {
		case overlapping:
			f.Overlapping++
			f.Twice++
			f.example("overlapping " + id)
		case unexplained:
			f.Twice++
			f.example("twice " + id)
		default:
			f.Explained++
		}
	}
	slices.Sort(f.Examples)
}

// explained reports whether a fault explains that the job of this call was called again: its worker was killed,
// stopped or cut off during the call, or within reportTime of its end.
func (r record) explained(c call) bool {
	return slices.ContainsFunc(r.Outages, func(o outage) bool {
		return o.Worker == c.Worker && c.Start <= o.To && c.End >= o.From-reportTime
	})
}

func (f *figures) example(text string) {
	if len(f.Examples) < maxExamples {
		f.Examples = append(f.Examples, text)
	}
}

// clean reports whether a run has no excess, no unused limit, and no lost or repeated job.
func (f *figures) clean() bool {
	sum := f.Concurrency.Over + f.Starts1.Over + f.Starts10.Over + f.Starts60.Over + f.Units10.Over + f.Units60.Over
	for _, u := range f.Unused {
		sum += u
	}
	return math.Abs(sum) == 0 && f.Lost == 0 && f.Twice == 0
}
