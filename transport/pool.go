package transport

import "sync"

// poolIdle bounds the idle goroutines.
const poolIdle = 256

// pool runs functions on goroutines that it keeps. A new goroutine's stack would have to grow for every batch of
// commands, which costs more than most of the work for it.
type pool struct {
	mu     sync.Mutex
	idle   []chan func()
	closed bool
}

// run makes a goroutine run f: an idle one, or a new one.
func (c *pool) run(f func()) {
	c.mu.Lock()
	n := len(c.idle) - 1
	if n < 0 {
		c.mu.Unlock()
		go c.serve(f)
		return
	}
	free := c.idle[n] // used last, so its stack is likely still cached
	c.idle[n] = nil
	c.idle = c.idle[:n]
	c.mu.Unlock()
	free <- f
}

// serve runs functions until its goroutine is no longer kept.
func (c *pool) serve(f func()) {
	own := make(chan func(), 1)
	for more := true; more; f, more = <-own {
		f()
		if !c.keep(own) {
			return
		}
	}
}

func (c *pool) keep(own chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= poolIdle {
		return false
	}
	c.idle = append(c.idle, own)
	return true
}

// close ends the idle goroutines, and the others once they have finished their work.
func (c *pool) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, own := range c.idle {
		close(own)
	}
	c.idle = nil
}
