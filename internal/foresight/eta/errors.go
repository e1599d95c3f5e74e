package eta

import (
	"math"
)

const (
	// share is how many of a hundred jobs should start within their interval: more than the 90 that are promised, as what is learned
	// comes late, and loads change meanwhile. Chosen on CTC-SP2, lublin_256 and a Poisson load.
	share = 95
	// rate is by how much one job changes what is learned of its class of wait, askedRate of those that were asked for, in logarithms of time.
	rate, askedRate = 0.25, 0.1
	// least, in ms, is what is added to waits before they are compared: below it nobody asks.
	least = 1_000
	// horizons are the classes of waits that errors are learned of apart: up to 10 s, 100 s, 1,000 s and so on.
	horizons = 6
)

// Raw is what the courses say of when a job starts, in ms from the present: their first, middle and last start.
type Raw struct {
	Low, Middle, High int64
	// Many says that there were enough courses to tell them apart, Asked that it is of the job that was asked for.
	Many, Asked bool
}

// Interval is when a job should start, in ms from the present.
type Interval struct{ Earliest, Expected, Latest int64 }

// Errors are by how much forecasts were off, of those whose jobs have started since: it moves the three figures of the next
// ones until as many start before as after, and no more than were meant to (adaptive conformal inference).
type Errors struct {
	shifts [2][horizons]shifts
	// asked is what the jobs that were asked for need besides: those that are noted beside them stand before them, and are
	// forecast better.
	asked shifts
	// Learned counts the forecasts whose jobs have started.
	Learned int64
}

// shifts are logarithms that are added to those of a raw forecast.
type shifts struct{ low, middle, high float64 }

// NewErrors returns what forecasts of the logs that it was measured on had.
func NewErrors() *Errors {
	e := &Errors{}
	for i := range horizons {
		e.shifts[0][i], e.shifts[1][i] = shifts{-1.2, 0, 1.2}, shifts{-1, 0, 1}
	}
	return e
}

func (e *Errors) class(r Raw) *shifts {
	at := 0
	for top := int64(10_000); at < horizons-1 && r.Middle >= top; top *= 10 {
		at++
	}
	if r.Many {
		return &e.shifts[1][at]
	}
	return &e.shifts[0][at]
}

// of is by how much a raw forecast is moved.
func (e *Errors) of(r Raw) shifts {
	s := *e.class(r)
	if r.Asked {
		s.low, s.high = s.low+e.asked.low, s.high+e.asked.high
	}
	return s
}

func moved(ms int64, by float64) float64 { return math.Log(float64(ms)+least) + by }

func back(log float64) int64 {
	return int64(min(max(math.Exp(log)-least, 0), math.MaxInt64/4))
}

// Of is the interval of a raw forecast.
func (e *Errors) Of(r Raw) Interval {
	s := e.of(r)
	i := Interval{back(moved(r.Low, s.low)), back(moved(r.Middle, s.middle)), back(moved(r.High, s.high))}
	i.Earliest, i.Latest = min(i.Earliest, i.Latest), max(i.Earliest, i.Latest)
	i.Expected = min(max(i.Expected, i.Earliest), i.Latest)
	return i
}

// Settle holds a forecast that was made so long ago against what is known by now: when its job started, in ms from then, or that it
// waits still, which is -1. It reports whether that was enough to learn from: a job that is late is known to be before it starts.
func (e *Errors) Settle(r Raw, ago, start int64) bool {
	if start < 0 {
		if ago <= e.Of(r).Latest {
			return false
		}
		start = ago
	}
	e.Learn(r, start)
	return true
}

// Learn notes when a job started of which a raw forecast was made, in ms from then.
func (e *Errors) Learn(r Raw, start int64) {
	class, whole := e.class(r), e.of(r)
	log := math.Log(float64(max(start, 0)) + least)
	step := func(shift *float64, at int64, by, rate, below float64) {
		if log > moved(at, by) {
			*shift += rate * below
		} else {
			*shift -= rate * (1 - below)
		}
	}
	const out = (1 - share/100.) / 2
	step(&class.low, r.Low, class.low, rate, out)
	step(&class.middle, r.Middle, class.middle, rate, .5)
	step(&class.high, r.High, class.high, rate, 1-out)
	if r.Asked {
		step(&e.asked.low, r.Low, whole.low, askedRate, out)
		step(&e.asked.high, r.High, whole.high, askedRate, 1-out)
	}
	e.Learned++
}
