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

// hand is where an idle goroutine takes its next handler. Goroutines are kept because a
// new one would grow its stack again with every lease, which costs more than most of
// what a worker does for it.
type hand chan start

// give has a goroutine run a handler: an idle one, or a new one.
func (b *book) give(s start) {
	if n := len(b.idle); n > 0 {
		free := b.idle[n-1] // the last one is the one whose memory is still near
		b.idle[n-1] = nil
		b.idle = b.idle[:n-1]
		free <- s
		return
	}
	go b.run(s)
}

// run runs handlers until its goroutine is not kept any more.
func (b *book) run(s start) {
	free := make(hand, 1)
	for more := true; more; s, more = <-free {
		b.work(s, free)
	}
}

// keep takes a goroutine that is about to be idle, or lets it end.
func (b *book) keep(free hand) {
	switch {
	case free == nil: // it ends by itself
	case b.dismissed || len(b.idle) >= idleMost:
		close(free)
	default:
		b.idle = append(b.idle, free)
	}
}

// dismiss ends the idle goroutines, and those that are not once their handlers return.
func (b *book) dismiss() {
	b.mu.Lock()
	defer b.unlock()
	b.dismissed = true
	for _, free := range b.idle {
		close(free)
	}
	b.idle = nil
}
