package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

const (
	// minRate is the shortest quiet stretch from which a rate is calculated.
	minRate = int64(10e9)
	// rateBlur is how far a reading may be from its nominal moment, at either end: a sweep's pause and a follower's
	// lag.
	rateBlur = 0.4
	// The clock's rate while there is no fault (SPEC §3.11).
	rateSlow, rateFast = 0.98, 1.01
)

// checkClock orders readings by index, for the clock is a function of it.
func checkClock(v *view) (found []Anomaly) {
	samples := slices.Clone(v.Samples)
	slices.SortStableFunc(samples, func(a, b Sample) int { return cmp.Compare(a.Index, b.Index) })
	for i := 1; i < len(samples); i++ {
		a, b := &samples[i-1], &samples[i]
		if b.Clock < a.Clock || b.Index == a.Index && b.Clock != a.Clock {
			found = append(found, Anomaly{At: b.At, Text: fmt.Sprintf(
				"the clock is %d at index %d (%s) and %d at index %d (%s)", a.Clock, a.Index, a.Node, b.Clock, b.Index,
				b.Node)})
		}
	}
	return append(append(found, checkRate(v)...), checkDate(v)...)
}

// checkRate looks at stretches of one leadership without a fault.
func checkRate(v *view) (found []Anomaly) {
	slowest, fastest, stretches := math.Inf(1), math.Inf(-1), 0
	samples := newest(v.Samples)
	for i := 0; i < len(samples); {
		k := i
		for k+1 < len(samples) && v.quiet(samples[i], samples[k+1]) {
			k++
		}
		a, b := samples[i], samples[k]
		if length := b.At - a.At; length >= minRate {
			took := float64(length) / 1e9
			rate := float64(b.Clock-a.Clock) / 1e3 / took
			blur := (2*rateBlur + float64(b.At-b.Asked+a.At-a.Asked)/1e9) / took
			slowest, fastest, stretches = min(slowest, rate), max(fastest, rate), stretches+1
			if rate < rateSlow-blur || rate > rateFast+blur {
				found = append(found, Anomaly{At: a.At, Text: fmt.Sprintf(
					"the clock ran at %.4f from %s to %s, with one leader and nothing broken", rate, seconds(a.At),
					seconds(b.At))})
			}
		}
		i = k + 1
	}
	if stretches == 0 {
		v.undecided = append(v.undecided, "clock: no quiet stretch was long enough for its rate")
		return found
	}
	v.figures["clock_rate_least"], v.figures["clock_rate_most"] = round(slowest), round(fastest)
	return found
}

// newest returns the samples of entries that no earlier sample covers, in the order of the answers: a node that catches
// up reports a clock that is long past.
func newest(all []Sample) (samples []*Sample) {
	for i := range all {
		samples = append(samples, &all[i])
	}
	slices.SortStableFunc(samples, func(a, b *Sample) int { return cmp.Compare(a.At, b.At) })
	last := uint64(0)
	return slices.DeleteFunc(samples, func(s *Sample) bool {
		late := s.Index < last
		last = max(last, s.Index)
		return late
	})
}

func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// quiet reports whether one node led and there was no fault between two readings. A moved wall clock does not matter:
// no duration depends on it (SPEC §3.1).
func (v *view) quiet(a, b *Sample) bool {
	if a.Term != b.Term || a.Leader == "" || a.Leader != b.Leader {
		return false
	}
	for _, f := range v.Faults {
		if !WallFault(f.Nemesis) && f.From < b.At && f.To+settling > a.Asked {
			return false
		}
	}
	return true
}
