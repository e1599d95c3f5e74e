package virtualnet

import (
	"sync"
	"time"

	"github.com/rotasched/rota/cluster"
)

// Pace paces the periodic tasks of a cluster's nodes: as rota does, and not at all while they coast.
type Pace struct {
	mu      sync.Mutex
	tickers map[*ticker]struct{}
	// until is the end of the coasting.
	until time.Time
	woken chan struct{} // closed when it ends sooner
}

// NewPace returns a pace that does not coast.
func NewPace() *Pace {
	return &Pace{tickers: make(map[*ticker]struct{}), woken: make(chan struct{})}
}

// Coast stops all tickers for a while, after which all tick. It returns once that is over, or once Wake was called.
func (p *Pace) Coast(d time.Duration) {
	p.mu.Lock()
	p.until, p.woken = time.Now().Add(d), make(chan struct{})
	woken := p.woken
	p.mu.Unlock()
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-woken:
	}
}

// Wake ends the coasting.
func (p *Pace) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !time.Now().Before(p.until) {
		return
	}
	p.until = time.Time{}
	close(p.woken)
	for t := range p.tickers {
		t.timer.Reset(t.every)
	}
}

// Ticker implements cluster.Environment.Ticker.
func (p *Pace) Ticker(every time.Duration) cluster.Ticker {
	t := &ticker{pace: p, every: every, ticks: make(chan time.Time, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tickers[t] = struct{}{}
	t.timer = time.AfterFunc(every, t.tick)
	return t
}

// ticker is the ticker of one task. Its fields are guarded by the pace's lock.
type ticker struct {
	pace  *Pace
	every time.Duration
	timer *time.Timer
	ticks chan time.Time
}

func (t *ticker) tick() {
	t.pace.mu.Lock()
	defer t.pace.mu.Unlock()
	if _, on := t.pace.tickers[t]; !on {
		return
	}
	now := time.Now()
	if left := t.pace.until.Sub(now); left > 0 {
		t.timer.Reset(left)
		return
	}
	t.timer.Reset(t.every)
	select {
	case t.ticks <- now:
	default:
	}
}

// Tick implements cluster.Ticker.
func (t *ticker) Tick() <-chan time.Time { return t.ticks }

// Reset implements cluster.Ticker.
func (t *ticker) Reset(every time.Duration) {
	t.pace.mu.Lock()
	defer t.pace.mu.Unlock()
	t.every = every
	t.timer.Reset(every)
}

// Stop implements cluster.Ticker.
func (t *ticker) Stop() {
	t.pace.mu.Lock()
	defer t.pace.mu.Unlock()
	delete(t.pace.tickers, t)
	t.timer.Stop()
}
