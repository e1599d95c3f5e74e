package eta

import (
	"math"
)

const (
	// share is how many of a hundred jobs should start within their interval: more than the promised 90, because
	// learning lags behind, and loads change meanwhile. Chosen on CTC-SP2, lublin_256 and a Poisson load.
	share = 95
	// rate is by how much one job changes the values learned for its class of wait, askedRate for jobs with a requested
	// forecast, in logarithms of time.
	rate, askedRate = 0.25, 0.1
	// least, in ms, is added to waits before they are compared: shorter waits do not matter to users.
	least = 1_000
	// horizons is the number of classes of waits whose errors are learned separately: up to 10 s, 100 s, 1,000 s and so
	// on.
	horizons = 6
)

// Raw is the forecast of the courses for the start of a job, in ms from the present: their first, middle and last
// start.
type Raw struct {
	Low, Middle, High int64
	// Many means that there were enough courses for a spread, Asked that the forecast is of the job that was asked for.
	Many, Asked bool
}

// Interval is when a job should start, in ms from the present.
type Interval struct{ Earliest, Expected, Latest int64 }

// Errors are the errors of forecasts whose jobs have started since. They shift the three figures of the next forecasts
// until as many jobs start before as after, and no more than intended (adaptive conformal inference).
type Errors struct {
	shifts [2][horizons]shifts
	// asked is the additional shift of jobs that were asked for: other jobs noted with them are ahead of them, and
	// their forecasts are better.
	asked shifts
	// Learned counts the forecasts whose jobs have started.
	Learned int64
}

// shifts are logarithms that are added to those of a raw forecast.
type shifts struct{ low, middle, high float64 }

// NewErrors returns the errors measured on logs.
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

// of returns the shifts of a raw forecast.
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

// Of returns the interval of a raw forecast.
func (e *Errors) Of(r Raw) Interval {
	s := e.of(r)
	i := Interval{back(moved(r.Low, s.low)), back(moved(r.Middle, s.middle)), back(moved(r.High, s.high))}
	i.Earliest, i.Latest = min(i.Earliest, i.Latest), max(i.Earliest, i.Latest)
	i.Expected = min(max(i.Expected, i.Earliest), i.Latest)
	return i
}

// Settle compares a forecast made ago ms ago with the facts known by now: when its job started, in ms from then, or -1
// if it is still pending. It reports whether that was enough to learn from: that a job is late is known before it
// starts.
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

// Learn records when the job of a raw forecast started, in ms from the forecast.
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
