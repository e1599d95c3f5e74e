package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/rebuild"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// leaderWatch signals a change of this node's view of the leader, so that no caller keeps waiting for the answer of a
// former leader: a paused one closes no connection.
type leaderWatch struct {
	n       *base
	mu      sync.Mutex
	present context.Context
	end     context.CancelFunc
	// lost is since when this node knows no leader; 0 while it knows one.
	lost time.Duration
	// caughtUp reports that, since its start, this node's state has once been as new as the leader's.
	caughtUp atomic.Bool
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

// changed ends the current context.
func (lw *leaderWatch) changed() {
	lw.mu.Lock()
	defer lw.mu.Unlock()
	if lw.present != nil {
		lw.end()
		lw.present = nil
	}
}

// run follows raft's observations. The observer never blocks raft; a dropped observation was preceded by others that
// wake this loop.
func (lw *leaderWatch) run() {
	seen := make(chan raft.Observation, 16)
	observer := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	lw.n.raft.RegisterObserver(observer)
	defer lw.n.raft.DeregisterObserver(observer)
	lw.look()
	for {
		select {
		case <-seen:
			lw.changed()
			lw.look()
		case <-lw.n.stopped:
			return
		}
	}
}

// look records since when there is no leader.
func (lw *leaderWatch) look() {
	_, id := lw.n.raft.LeaderWithID()
	lw.mu.Lock()
	defer lw.mu.Unlock()
	switch {
	case id != "":
		lw.lost = 0
	case lw.lost == 0:
		lw.lost = lw.n.sinceBoot()
	}
}

// catchUp records that, since its start, this node has applied everything acknowledged before. Knowing its leader's
// term is not enough: the node may have been down within that term.
func (lw *leaderWatch) catchUp() {
	for !lw.caughtUp.Load() {
		ctx, cancel := context.WithTimeout(lw.n.life, replica.BarrierTimeout)
		_, err := lw.n.replica.Fresh(ctx, peer.ReadOptions{})
		cancel()
		if err != nil && lw.pause(lw.n.life, rebuild.Pause) != nil {
			return
		}
	}
}

// behind returns an error until this node has once caught up after its start.
func (lw *leaderWatch) behind() error {
	if lw.caughtUp.Load() {
		return nil
	}
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "node", RetryAfter: rebuild.Pause,
		Text: fmt.Sprintf(
			"node %s has not caught up with the cluster since it started, and may not know revoked rights: "+
				"read without --stale, or ask another node", lw.n.cfg.Node)}
}

// vouched returns an error if no leader has vouched for this node's state for limits.VouchedFor: rights that it still
// grants may have been revoked (SECURITY §5.4).
func (lw *leaderWatch) vouched() error {
	lw.mu.Lock()
	lost := lw.lost
	lw.mu.Unlock()
	if lost == 0 {
		return nil
	}
	if alone := lw.n.sinceBoot() - lost; alone >= limits.VouchedFor {
		return &rota.Error{Kind: rota.KindUnavailable, Subject: "node", RetryAfter: rebuild.Pause,
			Text: fmt.Sprintf(
				"node %s has heard of no leader for %s, and shows its state for %s at most: rights may have changed. "+
					"Ask another node; `rota cluster status` lists the connections of each", lw.n.cfg.Node,
				alone.Truncate(time.Second), limits.VouchedFor)}
	}
	return nil
}

// pause waits for most, a change of leadership, or the end of ctx.
func (lw *leaderWatch) pause(ctx context.Context, most time.Duration) error {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-lw.leaderContext().Done():
		if lw.n.stopping() {
			return fault.Stopping()
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-lw.n.stopped:
		return fault.Stopping()
	}
}
