package eta

import (
	"math"
)

const (
	// share is how many of a hundred jobs should start within their interval.
	share = 90
	// rate is by how much one job changes what is learned, in logarithms of time.
	rate = 0.25
	// least, in ms, is what is added to waits before they are compared: below it nobody asks.
	least = 1_000
	// horizons are the classes of waits that errors are learned of apart: up to 10 s, 100 s, 1,000 s and so on.
	horizons = 6
)

// Raw is what the courses say of when a job starts, in ms from the present: their first, middle and last start.
type Raw struct {
	Low, Middle, High int64
	// Many says that there were enough courses to tell them apart.
	Many bool
}

// Interval is when a job should start, in ms from the present.
type Interval struct{ Earliest, Expected, Latest int64 }

// Errors are by how much forecasts were off, of those whose jobs have started since: it moves the three figures of the next
// ones until one in twenty starts before, half after the middle, and one in twenty after (adaptive conformal inference).
type Errors struct {
	shifts [2][horizons]shifts
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

func (e *Errors) of(r Raw) *shifts {
	at := 0
	for top := int64(10_000); at < horizons-1 && r.Middle >= top; top *= 10 {
		at++
	}
	if r.Many {
		return &e.shifts[1][at]
	}
	return &e.shifts[0][at]
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

// Learn notes when a job started of which a raw forecast was made, in ms from then.
func (e *Errors) Learn(r Raw, start int64) {
	s := e.of(r)
	log := math.Log(float64(max(start, 0)) + least)
	step := func(shift *float64, at int64, below float64) {
		if log > moved(at, *shift) {
			*shift += rate * below
		} else {
			*shift -= rate * (1 - below)
		}
	}
	const out = (1 - share/100.) / 2
	step(&s.low, r.Low, out)
	step(&s.middle, r.Middle, .5)
	step(&s.high, r.High, 1-out)
	e.Learned++
}
