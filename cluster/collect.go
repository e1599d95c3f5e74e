package cluster

import (
	"context"

	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// secondOps and secondBytes are the minimum content for an entry to be sent while another is in progress. The fixed
	// cost of an entry, two writes on every node, exceeds the cost of hundreds of operations in it, so a few operations
	// wait for more. A large entry is not delayed: the leader writes it while followers write the previous one.
	secondOps   = limits.MaxEntryOps / 2
	secondBytes = limits.MaxEntryBytes / 2
)

// enqueue puts a batch into one of the two queues and waits for its result. If the queue is full, it waits for space.
func (l *leadership) enqueue(ctx context.Context, b batch, urgent bool) reply {
	p := &proposal{ops: b.ops, encoded: b.encoded, size: len(b.encoded), reply: make(chan reply, 1)}
	queue := l.normal
	if urgent {
		queue = l.urgent
	}
	select {
	case queue <- p:
	case <-l.ctx.Done():
		return reply{err: errNotLeader}
	case <-ctx.Done():
		return reply{err: fault.Deadline(ctx, "waiting for a place in the log")}
	}
	if p.rounds() {
		l.turn.queued()
	}
	select {
	case r := <-p.reply:
		return r
	case <-l.landed:
	case <-ctx.Done():
		return reply{err: fault.Unknown(ctx.Err())}
	}
	select {
	case r := <-p.reply:
		return r
	default:
		return reply{err: errNotLeader} // no loop reads the queue any more
	}
}

// urgent reports whether operations go before submissions on their way into the log.
func urgent(ops []*fsmpb.Op) bool {
	switch ops[0].GetOp().(type) {
	case *fsmpb.Op_Submit, *fsmpb.Op_OpenWorkflow, *fsmpb.Op_AddNodes, *fsmpb.Op_CommitWorkflow:
		return false
	default:
		return true
	}
}

// entrySoon reports whether an entry is being filled or operations are queued for one.
func (l *leadership) entrySoon() bool {
	return l.filling.Load() || len(l.urgent) > 0 || len(l.normal) > 0
}

// gather fills an entry with queued operations up to its bounds; carried did not fit. While another entry is in
// progress, it waits for more operations, and after that entry has been applied, for the round that it caused.
func (l *leadership) gather(first *proposal) (batch []*proposal, ops int, carried *proposal) {
	batch, ops = []*proposal{first}, len(first.ops)
	awaited := false
	for size := first.size; ; {
		p := l.waiting()
		if p == nil && len(l.slots) > 1 && ops < secondOps && size < secondBytes {
			p = l.nextBeside()
		}
		if p == nil && !awaited {
			l.turn.await(&l.n.replica.Hub.Due, l.ctx.Done())
			awaited = true
			continue
		}
		if p == nil {
			return batch, ops, nil
		}
		if size+p.size > limits.MaxEntryBytes || ops+len(p.ops) > limits.MaxEntryOps {
			return batch, ops, p
		}
		batch, size, ops = append(batch, p), size+p.size, ops+len(p.ops)
	}
}

// nextBeside waits for one more proposal; nil when the entry in progress has been applied, or the term is over.
func (l *leadership) nextBeside() *proposal {
	for {
		select {
		case p := <-l.urgent:
			return p
		case p := <-l.normal:
			return p
		case <-l.freed:
			if len(l.slots) < 2 {
				return nil
			} // otherwise it was a notification of an earlier one
		case <-l.ctx.Done():
			return nil
		}
	}
}

// next waits for a proposal, urgent ones first; nil when the term is over.
func (l *leadership) next() *proposal {
	if p := l.waiting(); p != nil {
		return p
	}
	select {
	case p := <-l.urgent:
		return p
	case p := <-l.normal:
		return p
	case <-l.ctx.Done():
		return nil
	}
}

func (l *leadership) waiting() *proposal {
	select {
	case p := <-l.urgent:
		return p
	default:
	}
	select {
	case p := <-l.normal:
		return p
	default:
		return nil
	}
}

// refuse answers proposals that never entered the log with a definite rejection, after which the caller may safely
// propose them to the next leader.
func (l *leadership) refuse(taken ...*proposal) {
	for _, p := range taken {
		if p != nil {
			p.reply <- reply{err: errNotLeader}
		}
	}
	for {
		p := l.waiting()
		if p == nil {
			return
		}
		p.reply <- reply{err: errNotLeader}
	}
}

// free releases an entry's slot.
func (l *leadership) free() {
	<-l.slots
	replica.Notify(l.freed)
}
