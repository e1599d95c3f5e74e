package cluster

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"
)

// leaderWatch tells when this node's view of who leads changes, so that nobody
// keeps waiting for an answer of a leader that is none any more: a paused one
// closes no connection.
type leaderWatch struct {
	mu      sync.Mutex
	present context.Context
	end     context.CancelFunc
}

// reign gives a context that ends at the next change, or when the node stops.
func (n *Node) reign() context.Context {
	w := &n.leader
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.present == nil {
		w.present, w.end = context.WithCancel(n.life)
	}
	return w.present
}

// tell ends the present reign.
func (w *leaderWatch) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.present != nil {
		w.end()
		w.present = nil
	}
}

// leaderLoop follows raft's observations. The observer never blocks raft; one
// that is dropped was preceded by others that wake this loop.
func (n *Node) leaderLoop() {
	seen := make(chan raft.Observation, 16)
	observer := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	n.raft.RegisterObserver(observer)
	defer n.raft.DeregisterObserver(observer)
	for {
		select {
		case <-seen:
			n.leader.tell()
		case <-n.stopped:
			return
		}
	}
}

// until gives a context that also ends with a reign, which must be taken before the
// leader's address is read.
func until(ctx, reign context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(reign, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
