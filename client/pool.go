package client

import "context"

// idleMost bounds the goroutines that wait for a handler to run.
const idleMost = 256

// start is a handler that is to run.
type start struct {
	ctx     context.Context
	lease   *lease
	handler Handler
}

// runner is where an idle goroutine receives its next handler.
type runner chan start

// pool runs handlers on goroutines that it keeps: a new one would grow its stack again
// with every lease, which costs more than most of what a worker does for it. The lease
// table's lock guards it.
type pool struct {
	work   func(s start, free runner) // runs one handler, then calls keep
	idle   []runner
	closed bool
}

// dispatch has a goroutine run a handler: an idle one, or a new one.
func (p *pool) dispatch(s start) {
	if n := len(p.idle); n > 0 {
		free := p.idle[n-1] // the one whose memory is still near
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		free <- s
		return
	}
	go p.run(s)
}

// run runs handlers until its goroutine is no longer kept.
func (p *pool) run(s start) {
	free := make(runner, 1)
	for more := true; more; s, more = <-free {
		p.work(s, free)
	}
}

// keep takes a goroutine that is about to be idle, or lets it end.
func (p *pool) keep(free runner) {
	switch {
	case free == nil: // it ends by itself
	case p.closed || len(p.idle) >= idleMost:
		close(free)
	default:
		p.idle = append(p.idle, free)
	}
}

// close ends the idle goroutines, and the others once their handlers return.
func (p *pool) close() {
	p.closed = true
	for _, free := range p.idle {
		close(free)
	}
	p.idle = nil
}
