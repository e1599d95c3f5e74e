package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// barrierGroup coalesces read barriers: one in flight, one waiting that all
// later readers share (SPEC §13.2).
type barrierGroup struct {
	mu       sync.Mutex
	inFlight bool
	next     *barrierCall
}

type barrierCall struct {
	done  chan struct{}
	index rota.Index
	err   error
}

// fresh waits until this node's state is as fresh as the options ask, and says
// what it is.
func (n *Node) fresh(ctx context.Context, opt rota.ReadOptions) (rota.ReadAt, error) {
	if err := n.refuseRebuilding(); err != nil {
		return rota.ReadAt{}, err
	}
	switch {
	case opt.Stale:
	case opt.MinIndex > 0:
		if err := n.waitApplied(ctx, opt.MinIndex); err != nil {
			return rota.ReadAt{}, err
		}
	default:
		index, err := n.barrierIndex(ctx)
		if err != nil {
			return rota.ReadAt{}, err
		}
		if planted.laggingRead() {
			index = min(index, rota.Index(n.applied.Load()))
		}
		if err := n.waitApplied(ctx, index); err != nil {
			return rota.ReadAt{}, err
		}
	}
	at := rota.ReadAt{Index: rota.Index(n.applied.Load()), AgeMs: -1}
	if t := n.appliedAt.Load(); t != 0 {
		at.AgeMs = (int64(n.sinceBoot()) - t) / int64(time.Millisecond)
	}
	return at, nil
}

// waitApplied waits until this node's own machine has applied an index.
func (n *Node) waitApplied(ctx context.Context, index rota.Index) error {
	done := n.hub.reached(index)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		n.hub.forgetWait(done)
		return ctxError(ctx, "waiting for this node to catch up")
	case <-n.stopped:
		return errStopping()
	}
}

// barrierIndex gives an index such that a state that has applied it holds all
// that was acknowledged before the call.
func (n *Node) barrierIndex(ctx context.Context) (rota.Index, error) {
	if planted.verifyLeaderReads() && n.raft.VerifyLeader().Error() == nil {
		return rota.Index(n.applied.Load()), nil
	}
	g := &n.barrier
	g.mu.Lock()
	call := g.next
	if call == nil {
		call = &barrierCall{done: make(chan struct{})}
		g.next = call
		if !g.inFlight {
			g.inFlight = true
			go n.runBarriers()
		}
	}
	g.mu.Unlock()
	select {
	case <-call.done:
		return call.index, call.err
	case <-ctx.Done():
		return 0, errNoLeader(ctx.Err())
	case <-n.stopped:
		return 0, errStopping()
	}
}

// barrierTimeout bounds one barrier; its readers may give up earlier.
const barrierTimeout = 10 * time.Second

func (n *Node) runBarriers() {
	g := &n.barrier
	for {
		g.mu.Lock()
		call := g.next
		g.next = nil
		if call == nil {
			g.inFlight = false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		ctx, cancel := context.WithTimeout(n.life, barrierTimeout)
		_, call.index, call.err = n.proposeOne(ctx, barrierOp())
		cancel()
		close(call.done)
	}
}

func barrierOp() *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}}
}

// Barrier gives another node the index of a read barrier.
func (n *Node) Barrier(ctx context.Context, _ rota.NodeID) (rota.Index, error) {
	if n.leading() == nil {
		return 0, notLeader()
	}
	return n.barrierIndex(ctx)
}

// Ready is nil when this node knows a leader and has caught up with its term.
func (n *Node) Ready() error {
	if n.stopping() {
		return errStopping()
	}
	if err := n.refuseRebuilding(); err != nil {
		return err
	}
	if !n.peek() {
		return errStalled()
	}
	term := n.machine.Head().Term
	_, _, removed, _ := n.machine.Node(n.cfg.Node)
	n.mu.RUnlock()
	if removed {
		return errRemoved(n.cfg.Node)
	}
	if err := n.watch.stillMember(); err != nil {
		return err
	}
	if _, id := n.raft.LeaderWithID(); id == "" {
		return errNoLeader(nil)
	}
	if now := n.raft.CurrentTerm(); term != now {
		return rota.Refusef(rota.Unavailable, "node", "this node has applied term %d, the cluster is in term %d: it is catching up",
			term, now)
	}
	return nil
}
