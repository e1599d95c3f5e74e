package cluster

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// read waits until the state is as fresh as opt requires, and returns the result of f on it.
func read[T any](ctx context.Context, rp *replica, opt peer.ReadOptions,
	f func(*fsm.View) (T, error)) (T, rota.ReadAt, error) {
	var value T
	at, err := rp.fresh(ctx, opt)
	if err != nil {
		return value, at, err
	}
	var refused error
	if err := rp.view(func(s *fsm.View) { value, refused = f(s) }); err != nil {
		return value, at, err
	}
	return value, at, refused
}

// readAs is read with the rights of the context's caller.
func readAs[T any](ctx context.Context, rp *replica, opt peer.ReadOptions,
	f func(*fsm.View, *access.Reader) (T, error)) (T, rota.ReadAt, error) {
	return read(ctx, rp, opt, func(s *fsm.View) (T, error) {
		c, ok := ctx.Value(access.CallerKey{}).(access.Caller)
		if !ok {
			return f(s, nil)
		}
		rd, err := s.Reader(c.Actor)
		if err != nil {
			var none T
			return none, err
		}
		return f(s, rd)
	})
}

// reader returns what the context's caller may read according to the current state: everything if the node reads for
// itself.
func (rp *replica) reader(ctx context.Context) (rd *access.Reader, err error) {
	c, ok := ctx.Value(access.CallerKey{}).(access.Caller)
	if !ok {
		return nil, nil
	}
	rp.look(func(s *fsm.View) { rd, err = s.Reader(c.Actor) })
	return rd, err
}

// barrierGroup coalesces read barriers: one in flight, and one waiting that all later readers share (SPEC §13.2).
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

// fresh waits until this node's state is as fresh as the options require, and returns its position.
func (rp *replica) fresh(ctx context.Context, opt peer.ReadOptions) (rota.ReadAt, error) {
	if err := rp.refuseRebuilding(); err != nil {
		return rota.ReadAt{}, err
	}
	vouched := rp.vouched(ctx)
	switch {
	case opt.Stale && vouched != nil:
		return rota.ReadAt{}, vouched
	case opt.Stale:
	case opt.MinIndex > 0 && vouched == nil:
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
		if err := rp.waitApplied(ctx, max(index, opt.MinIndex)); err != nil { // the index may not exist yet
			return rota.ReadAt{}, err
		}
		rp.leader.caughtUp.Store(true)
	}
	at := rota.ReadAt{Index: rota.Index(rp.applied.Load()), Age: -time.Millisecond}
	if t := rp.appliedAt.Load(); t != 0 {
		at.Age = time.Duration(int64(rp.n.sinceBoot()) - t)
	}
	return at, nil
}

// vouched rejects callers while this node cannot vouch for its state; reads by the node itself are shown to no caller.
func (rp *replica) vouched(ctx context.Context) error {
	if _, called := ctx.Value(access.CallerKey{}).(access.Caller); !called {
		return nil
	}
	return cmp.Or(rp.leader.behind(), rp.leader.vouched())
}

// waitApplied waits until this node's own machine has applied an index.
func (rp *replica) waitApplied(ctx context.Context, index rota.Index) error {
	done := rp.hub.reached(index)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		rp.hub.forgetWait(done)
		return fault.Deadline(ctx, "waiting for this node to catch up")
	case <-rp.n.stopped:
		return fault.Stopping()
	}
}

// barrierIndex returns an index such that a state that has applied it includes everything acknowledged before the call.
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
		return 0, fault.NoLeader(ctx.Err())
	case <-rp.n.stopped:
		return 0, fault.Stopping()
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

// Barrier returns the index of a read barrier to another node.
func (rp *replica) Barrier(ctx context.Context) (rota.Index, error) {
	if rp.terms.leading() == nil {
		return 0, fault.NotLeader()
	}
	return rp.barrierIndex(ctx)
}
