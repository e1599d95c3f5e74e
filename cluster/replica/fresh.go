package replica

import (
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

// Read waits until the state is as fresh as opt requires, and returns the result of f on it.
func Read[T any](ctx context.Context, rp *Replica, opt peer.ReadOptions,
	f func(*fsm.View) (T, error)) (T, rota.ReadAt, error) {
	var value T
	at, err := rp.Fresh(ctx, opt)
	if err != nil {
		return value, at, err
	}
	var refused error
	if err := rp.View(func(s *fsm.View) { value, refused = f(s) }); err != nil {
		return value, at, err
	}
	return value, at, refused
}

// ReadAs is read with the rights of the context's caller.
func ReadAs[T any](ctx context.Context, rp *Replica, opt peer.ReadOptions,
	f func(*fsm.View, *access.Reader) (T, error)) (T, rota.ReadAt, error) {
	return Read(ctx, rp, opt, func(s *fsm.View) (T, error) {
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

// Reader returns what the context's caller may read according to the current state: everything if the node reads for
// itself.
func (rp *Replica) Reader(ctx context.Context) (rd *access.Reader, err error) {
	c, ok := ctx.Value(access.CallerKey{}).(access.Caller)
	if !ok {
		return nil, nil
	}
	rp.Look(func(s *fsm.View) { rd, err = s.Reader(c.Actor) })
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

// Fresh waits until this node's state is as fresh as the options require, and returns its position.
func (rp *Replica) Fresh(ctx context.Context, opt peer.ReadOptions) (rota.ReadAt, error) {
	if err := rp.RefuseRebuilding(); err != nil {
		return rota.ReadAt{}, err
	}
	vouched := rp.Vouched(ctx)
	switch {
	case opt.Stale && vouched != nil:
		return rota.ReadAt{}, vouched
	case opt.Stale:
	case opt.MinIndex > 0 && vouched == nil:
		if err := rp.WaitApplied(ctx, opt.MinIndex); err != nil {
			return rota.ReadAt{}, err
		}
	default:
		index, err := rp.BarrierIndex(ctx)
		if err != nil {
			return rota.ReadAt{}, err
		}
		if planted.laggingRead() {
			index = min(index, rota.Index(rp.Applied.Load()))
		}
		if err := rp.WaitApplied(ctx, max(index, opt.MinIndex)); err != nil { // the index may not exist yet
			return rota.ReadAt{}, err
		}
		rp.host.CaughtUp()
	}
	at := rota.ReadAt{Index: rota.Index(rp.Applied.Load()), Age: -time.Millisecond}
	if t := rp.appliedAt.Load(); t != 0 {
		at.Age = time.Duration(int64(rp.host.SinceBoot()) - t)
	}
	return at, nil
}

// Vouched rejects callers while this node cannot vouch for its state; reads by the node itself are shown to no caller.
func (rp *Replica) Vouched(ctx context.Context) error {
	if _, called := ctx.Value(access.CallerKey{}).(access.Caller); !called {
		return nil
	}
	return rp.host.Vouched()
}

// WaitApplied waits until this node's own machine has applied an index.
func (rp *Replica) WaitApplied(ctx context.Context, index rota.Index) error {
	done := rp.Hub.reached(index)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		rp.Hub.forgetWait(done)
		return fault.Deadline(ctx, "waiting for this node to catch up")
	case <-rp.host.Stopped:
		return fault.Stopping()
	}
}

// BarrierIndex returns an index such that a state that has applied it includes everything acknowledged before the call.
func (rp *Replica) BarrierIndex(ctx context.Context) (rota.Index, error) {
	if planted.verifyLeaderReads() && rp.host.VerifyLeader() == nil {
		return rota.Index(rp.Applied.Load()), nil
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
	case <-rp.host.Stopped:
		return 0, fault.Stopping()
	}
}

// BarrierTimeout bounds one barrier; its readers may give up earlier.
const BarrierTimeout = 10 * time.Second

func (rp *Replica) runBarriers() {
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
		ctx, cancel := context.WithTimeout(rp.host.Life, BarrierTimeout)
		call.index, call.err = rp.proposeOne(ctx, BarrierOp())
		cancel()
		close(call.done)
	}
}

// BarrierOp returns an operation that changes nothing.
func BarrierOp() *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}}
}

// Barrier returns the index of a read barrier to another node.
func (rp *Replica) Barrier(ctx context.Context) (rota.Index, error) {
	if !rp.host.Leads() {
		return 0, fault.NotLeader()
	}
	return rp.BarrierIndex(ctx)
}
