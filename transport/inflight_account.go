package transport

import (
	"context"
	"sync/atomic"

	"github.com/rotasched/rota"
)

// account sums the bytes held by a principal's connections.
type account struct {
	of   rota.Principal
	held atomic.Int64
	// conns is the number of connections; the lock of inflight guards it.
	conns int
}

// relieveOf is relieve for the connections of one principal, which may hold half.
func (f *inflight) relieveOf(a *account) {
	for a.held.Load() > f.most/2 {
		if !f.endWorst(a, "the messages in flight of its principal exceed half of --inflight-bytes, "+
			"and this connection has the most unfinished bytes") {
			return
		}
	}
}

// awaitRoom waits while requests that were cut off still hold memory that leaves no room. They release it at once, so
// the wait is one scheduling turn each. It returns false if ctx ends first.
func (f *inflight) awaitRoom(ctx context.Context) bool {
	for {
		f.mu.Lock()
		if f.freed == nil {
			f.freed = make(chan struct{})
		}
		freed := f.freed
		f.mu.Unlock()
		if leaving := f.leaving.Load(); leaving == 0 || f.held.Load()+leaving <= f.most {
			return true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// left releases the bytes that a request that was cut off held.
func (f *inflight) left(n int64) {
	if n == 0 {
		return
	}
	f.leaving.Add(-n)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.freed != nil {
		close(f.freed)
		f.freed = nil
	}
}

// join returns the account of a principal, and counts a connection to it.
func (f *inflight) join(p rota.Principal) *account {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.accounts[p]
	if a == nil {
		a = &account{of: p}
		f.accounts[p] = a
	}
	a.conns++
	return a
}

// leave removes a connection from an account; the last one removes the account.
func (f *inflight) leave(a *account) {
	if a == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.conns--; a.conns == 0 {
		delete(f.accounts, a.of)
	}
}

// belongs sets the principal of the connection's calls; a nil connection is not followed.
func (c *inflightConn) belongs(p rota.Principal) {
	if c == nil || p == "" {
		return
	}
	if a := c.account.Load(); a != nil && a.of == p {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	next := c.all.join(p)
	next.held.Add(c.held.Load())
	before := c.account.Swap(next)
	if before != nil {
		before.held.Add(-c.held.Load())
	}
	c.all.leave(before)
}
