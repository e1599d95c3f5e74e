package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
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

// CaughtUp reports whether, since its start, this node has applied everything acknowledged before, and still has
// contact with a leader: otherwise it may not know a valid credential.
func (n *Node) CaughtUp() bool { return n.leader.behind() == nil && n.leader.vouched() == nil }

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

// Vouched returns nil while a leader vouches for this node's state (SECURITY §5.4).
func (n *Node) Vouched() error { return n.leader.vouched() }

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

// cutOff reports whether the node answered that this one was removed.
func (v peerView) cutOff() bool {
	var refusal *rota.Error
	return errors.As(v.err, &refusal) && refusal.Subject == fault.SubjectRemoved
}

// aloneAfter is how many seconds without a leader make a node ask the others.
const aloneAfter = 5

// askWhenAlone asks the others whether this node is still a member: a removed node receives nothing from the leader,
// not even that. cutOff reports that one of them has already answered so.
func (w *watcher) askWhenAlone(cutOff bool) {
	_, leader := w.n.raft.LeaderWithID()
	w.mu.Lock()
	if leader != "" && !cutOff {
		w.leaderless, w.refused = 0, nil
	} else {
		w.leaderless++
	}
	ask := cutOff || w.leaderless >= aloneAfter
	w.mu.Unlock()
	if !ask {
		return
	}
	ctx, cancel := context.WithTimeout(w.n.life, peerTimeout)
	defer cancel()
	_, err := w.membership.introduceTo(ctx, slices.DeleteFunc(w.membership.aliveMembers(),
		func(m gossip.Member) bool { return m.ID == w.n.cfg.Node || !m.HasState }))
	if err == nil {
		return
	}
	w.mu.Lock()
	w.refused = err
	w.mu.Unlock()
	if w.n.lines.Allow("alone") {
		w.n.log.Error("the cluster continues without this node", "err", err)
	}
}

// stillMember returns the others' objection to this node, nil for none.
func (w *watcher) stillMember() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}
