package sched

import (
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
)

// Took is how long a job ran, and its submitter's estimate, Said, in ms; the latter is 0 if not given.
type Took struct{ Ms, Said int64 }

// MaxTook is the number of jobs remembered per tenant and type.
const MaxTook = 20

// Learn returns a new list with a job added, newest last.
func Learn(list []Took, t Took) []Took {
	t.Ms = min(max(t.Ms, 1), longestRun)
	list = list[max(0, len(list)-MaxTook+1):]
	return append(append(make([]Took, 0, len(list)+1), list...), t)
}

// Foretell estimates the next job of a tenant and type, in ms, from the remembered jobs; 0 if there are none. given is
// its submitter's value, 0 if not given; the estimate is at most that (SPEC §26.1).
func Foretell(by rota.EstimateBy, list []Took, given int64) int64 {
	n := len(list)
	if n == 0 {
		return 0
	}
	estimate := list[n-1].Ms
	switch by {
	case rota.EstimateLast2:
		if n > 1 {
			estimate = (estimate + list[n-2].Ms) / 2
		}
	case rota.EstimateEMA:
		estimate = list[0].Ms
		for _, t := range list[1:] {
			estimate += floorDiv(t.Ms-estimate, 4)
		}
	case rota.EstimateQuantile:
		estimate = quartile(list, given)
	}
	if given > 0 {
		estimate = min(estimate, given)
	}
	return max(estimate, 1)
}

// quartile returns the third quartile, by the nearest rank, of the ratio of actual to stated durations, applied to the
// duration stated for this job; if none was stated, the third quartile of the actual durations.
func quartile(list []Took, said int64) int64 {
	parts := make([]int64, 0, len(list))
	if said > 0 {
		for _, t := range list {
			if t.Said > 0 {
				parts = append(parts, mulDiv(t.Ms, million, t.Said))
			}
		}
	}
	byPart := len(parts) > 0
	if !byPart {
		for _, t := range list {
			parts = append(parts, t.Ms)
		}
	}
	slices.Sort(parts)
	third := parts[(3*len(parts)+3)/4-1]
	if byPart {
		return mulDiv(said, third, million)
	}
	return third
}

// corrected returns when a run that has outlived its estimate should end: after twice the expected time, then four
// times, and so on, but no later than Most (SPEC §26.1).
func (r Run) corrected(now rota.Clock) rota.Clock {
	if r.Most <= now || r.End > now {
		return r.End
	}
	expected := max(r.End-r.Began, 1)
	for r.Began+expected <= now {
		expected *= 2
	}
	return min(r.Began+expected, r.Most)
}

// runsAt returns the runs of a worker in the order in which they should end as of now.
func (s *Supply) runsAt(slot int32, now rota.Clock) []Run {
	runs := s.runs[slot]
	copied := false
	for i := 0; i < len(runs) && runs[i].End <= now; i++ {
		if end := runs[i].corrected(now); end != runs[i].End {
			if !copied {
				runs, copied = slices.Clone(runs), true
			}
			runs[i].End = end
		}
	}
	if copied {
		SortRuns(runs)
	}
	return runs
}

const million = 1_000_000

// capacity is the total capacity of all active workers.
type capacity struct {
	Load
	slots int64
}

// count adds a worker, or removes one.
func (c *capacity) count(w *rota.WorkerSpec, more bool) {
	l := Load{w.CPUMilli, w.MemoryBytes, w.IOBytesPerS}
	if more {
		c.Load, c.slots = c.Plus(l), c.slots+int64(w.Slots)
	} else {
		c.Load, c.slots = c.Minus(l), c.slots-int64(w.Slots)
	}
}

// PartOf returns the largest fraction of all active workers' slots, cpu, memory or I/O that a lease uses, in
// millionths, rounded up.
func (s *Supply) PartOf(l Load) int64 {
	part := int64(1)
	for _, of := range [...]struct{ takes, all int64 }{{1, s.all.slots}, {l.CPU, s.all.CPU}, {l.Memory, s.all.Memory},
		{l.IO, s.all.IO}} {
		switch {
		case of.takes <= 0:
		case of.takes >= of.all:
			return million
		default:
			hi, lo := bits.Mul64(uint64(of.takes), million)
			q, rest := bits.Div64(hi, lo, uint64(of.all)) // hi < of.all, as takes < of.all
			if rest > 0 {
				q++
			}
			part = max(part, int64(q))
		}
	}
	return part
}

// Weighed returns an estimate times the fraction of all workers that the job uses, for the ranking `smallest` (SPEC
// §26.2). A part of 0 means unknown and counts as all workers.
func Weighed(estimate, part int64) int64 {
	if part <= 0 {
		return estimate
	}
	return max(mulDiv(estimate, part, million), 1)
}
