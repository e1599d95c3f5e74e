package transport

import "sync"

// crewIdle bounds the goroutines that wait for something to do.
const crewIdle = 256

// crew runs functions on goroutines that it keeps: a new one would grow its stack again with every batch of
// commands, which costs more than most of what is done for one.
type crew struct {
	mu     sync.Mutex
	idle   []chan func()
	closed bool
}

// run has a goroutine run f: an idle one, or a new one.
func (c *crew) run(f func()) {
	c.mu.Lock()
	n := len(c.idle) - 1
	if n < 0 {
		c.mu.Unlock()
		go c.serve(f)
		return
	}
	free := c.idle[n] // the one whose memory is still near
	c.idle[n] = nil
	c.idle = c.idle[:n]
	c.mu.Unlock()
	free <- f
}

// serve runs functions until its goroutine is no longer kept.
func (c *crew) serve(f func()) {
	own := make(chan func(), 1)
	for more := true; more; f, more = <-own {
		f()
		if !c.keep(own) {
			return
		}
	}
}

func (c *crew) keep(own chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= crewIdle {
		return false
	}
	c.idle = append(c.idle, own)
	return true
}

// close ends the idle goroutines, and the others once they have done what they do.
func (c *crew) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, own := range c.idle {
		close(own)
	}
	c.idle = nil
}
