package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// leaderWatch notifies of a change of this node's view of who leads, so that nobody
// keeps waiting for an answer of a leader that is none any more: a paused one
// closes no connection.
type leaderWatch struct {
	n       *Node
	mu      sync.Mutex
	present context.Context
	end     context.CancelFunc
}

// leaderContext returns a context that ends at the next change, or when the node stops.
func (lw *leaderWatch) leaderContext() context.Context {
	lw.mu.Lock()
	defer lw.mu.Unlock()
	if lw.present == nil {
		lw.present, lw.end = context.WithCancel(lw.n.life)
	}
	return lw.present
}

// changed ends the present context.
func (lw *leaderWatch) changed() {
	lw.mu.Lock()
	defer lw.mu.Unlock()
	if lw.present != nil {
		lw.end()
		lw.present = nil
	}
}

// run follows raft's observations. The observer never blocks raft; one
// that is dropped was preceded by others that wake this loop.
func (lw *leaderWatch) run() {
	seen := make(chan raft.Observation, 16)
	observer := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	lw.n.raft.RegisterObserver(observer)
	defer lw.n.raft.DeregisterObserver(observer)
	for {
		select {
		case <-seen:
			lw.changed()
		case <-lw.n.stopped:
			return
		}
	}
}

// until returns a context that also ends with the leader's, which must be taken before the
// leader's address is read.
func until(ctx, leader context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(leader, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// pause waits a moment, a change of leadership, or the end of ctx.
func (lw *leaderWatch) pause(ctx context.Context, most time.Duration) error {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-lw.leaderContext().Done():
		if lw.n.stopping() {
			return errStopping()
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-lw.n.stopped:
		return errStopping()
	}
}
