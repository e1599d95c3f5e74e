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
	changed chan struct{}
}

// next gives a channel that is closed at the next change.
func (w *leaderWatch) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

func (w *leaderWatch) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed != nil {
		close(w.changed)
	}
	w.changed = make(chan struct{})
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

// until gives a context that also ends when the leader changes, or this node
// stops. `changed` must be taken before the leader's address is read.
func (n *Node) until(ctx context.Context, changed <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-changed:
			cancel()
		case <-n.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
