package client

import "context"

// maxIdle bounds the idle goroutines that are kept.
const maxIdle = 256

// start is a handler to be run.
type start struct {
	ctx     context.Context
	lease   *lease
	handler Handler
}

// runner is where an idle goroutine receives its next handler.
type runner chan start

// pool runs handlers on goroutines that it keeps: a new goroutine would grow its stack again for every lease, which
// costs more than most of the worker's other work for a lease. The lease table's lock guards it.
type pool struct {
	work   func(s start, free runner) // runs one handler, then calls keep
	idle   []runner
	closed bool
}

// dispatch runs a handler on an idle goroutine, or on a new one.
func (p *pool) dispatch(s start) {
	if n := len(p.idle); n > 0 {
		free := p.idle[n-1] // the one whose memory is most likely still cached
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

// keep keeps a goroutine that is about to be idle, or lets it end.
func (p *pool) keep(free runner) {
	switch {
	case free == nil: // it ends by itself
	case p.closed || len(p.idle) >= maxIdle:
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
