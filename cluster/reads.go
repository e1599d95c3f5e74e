package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
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
func (rp *replica) fresh(ctx context.Context, opt rota.ReadOptions) (rota.ReadAt, error) {
	if err := rp.refuseRebuilding(); err != nil {
		return rota.ReadAt{}, err
	}
	switch {
	case opt.Stale:
	case opt.MinIndex > 0:
		if err := rp.waitApplied(ctx, opt.MinIndex); err != nil {
			return rota.ReadAt{}, err
		}
	default:
		index, err := rp.barrierIndex(ctx)
		if err != nil {
			return rota.ReadAt{}, err
		}
		if planted.laggingRead() {
			index = min(index, rota.Index(rp.applied.Load()))
		}
		if err := rp.waitApplied(ctx, index); err != nil {
			return rota.ReadAt{}, err
		}
	}
	at := rota.ReadAt{Index: rota.Index(rp.applied.Load()), Age: -time.Millisecond}
	if t := rp.appliedAt.Load(); t != 0 {
		at.Age = time.Duration(int64(rp.n.sinceBoot()) - t)
	}
	return at, nil
}

// waitApplied waits until this node's own machine has applied an index.
func (rp *replica) waitApplied(ctx context.Context, index rota.Index) error {
	done := rp.hub.reached(index)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		rp.hub.forgetWait(done)
		return ctxError(ctx, "waiting for this node to catch up")
	case <-rp.n.stopped:
		return errStopping()
	}
}

// barrierIndex gives an index such that a state that has applied it holds all
// that was acknowledged before the call.
func (rp *replica) barrierIndex(ctx context.Context) (rota.Index, error) {
	if planted.verifyLeaderReads() && rp.n.raft.VerifyLeader().Error() == nil {
		return rota.Index(rp.applied.Load()), nil
	}
	rp.barrier.mu.Lock()
	call := rp.barrier.next
	if call == nil {
		call = &barrierCall{done: make(chan struct{})}
		rp.barrier.next = call
		if !rp.barrier.inFlight {
			rp.barrier.inFlight = true
			go rp.runBarriers()
		}
	}
	rp.barrier.mu.Unlock()
	select {
	case <-call.done:
		return call.index, call.err
	case <-ctx.Done():
		return 0, errNoLeader(ctx.Err())
	case <-rp.n.stopped:
		return 0, errStopping()
	}
}

// barrierTimeout bounds one barrier; its readers may give up earlier.
const barrierTimeout = 10 * time.Second

func (rp *replica) runBarriers() {
	for {
		rp.barrier.mu.Lock()
		call := rp.barrier.next
		rp.barrier.next = nil
		if call == nil {
			rp.barrier.inFlight = false
			rp.barrier.mu.Unlock()
			return
		}
		rp.barrier.mu.Unlock()
		ctx, cancel := context.WithTimeout(rp.n.life, barrierTimeout)
		_, call.index, call.err = rp.n.proposer.proposeOne(ctx, barrierOp())
		cancel()
		close(call.done)
	}
}

func barrierOp() *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}}
}

// Barrier gives another node the index of a read barrier.
func (rp *replica) Barrier(ctx context.Context, _ rota.NodeID) (rota.Index, error) {
	if rp.n.terms.leading() == nil {
		return 0, notLeader()
	}
	return rp.barrierIndex(ctx)
}

// Ready is nil when this node knows a leader and has caught up with its term.
func (rp *replica) Ready() error {
	if rp.n.stopping() {
		return errStopping()
	}
	if err := rp.refuseRebuilding(); err != nil {
		return err
	}
	var term uint64
	var of member
	if !rp.peek(func(s *fsm.View) { term, of = s.Head().Term, memberOf(s, rp.n.cfg.Node) }) {
		return errStalled()
	}
	if of.removed {
		return errRemoved(rp.n.cfg.Node)
	}
	if err := rp.n.watch.stillMember(); err != nil {
		return err
	}
	if _, id := rp.n.raft.LeaderWithID(); id == "" {
		return errNoLeader(nil)
	}
	if now := rp.n.raft.CurrentTerm(); term != now {
		return rota.Refusef(rota.Unavailable, "node", "this node has applied term %d, the cluster is in term %d: it is catching up",
			term, now)
	}
	return nil
}
