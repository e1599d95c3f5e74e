package clock

import "time"

// Ticker is a time.Ticker or its replacement.
type Ticker interface {
	// Tick returns the channel that delivers the ticks.
	Tick() <-chan time.Time
	Reset(every time.Duration)
	Stop()
}

// New returns a time.Ticker.
func New(every time.Duration) Ticker { return ticker{time.NewTicker(every)} }

type ticker struct{ *time.Ticker }

func (t ticker) Tick() <-chan time.Time { return t.C }
