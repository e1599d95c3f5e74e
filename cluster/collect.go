package cluster

import (
	"context"
	"time"

	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// secondOps and secondBytes are what an entry must hold to go out while another is
	// under way. What an entry costs by itself, two writes on every node, is more than
	// hundreds of operations in it cost, so that few wait for company; what is large
	// is not held up: the leader writes it while followers write the one before.
	secondOps   = limits.MaxEntryOps / 2
	secondBytes = limits.MaxEntryBytes / 2
	// secondPatience is how long after the latest entry one goes out beside others, however
	// small it is and however many they are: entries between near nodes have landed by then,
	// those between regions are under way for many times as long. A hundred entries a second
	// more cost little.
	secondPatience = 10 * time.Millisecond
)

// proposal is a batch of one caller; its operations stay together in one entry.
type proposal struct {
	ops     []*fsmpb.Op
	encoded []byte
	size    int
	reply   chan reply
}

// rounds reports whether these are decisions of the match loop.
func (p *proposal) rounds() bool { return p.ops[0].GetRound() != nil }

// enqueue puts a batch into one of the two queues and waits for what became of it. Where the
// queue is full it waits for a place.
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
		return reply{err: ctxError(ctx, "waiting for a place in the log")}
	}
	if p.rounds() {
		l.turn.queued()
	}
	select {
	case r := <-p.reply:
		return r
	case <-l.landed:
	case <-ctx.Done():
		return reply{err: errUnknown(ctx.Err())}
	}
	select {
	case r := <-p.reply:
		return r
	default:
		return reply{err: errNotLeader} // it stands in a queue that nobody empties any more
	}
}

// urgent reports whether operations overtake submissions on their way into the log.
func urgent(ops []*fsmpb.Op) bool {
	switch ops[0].GetOp().(type) {
	case *fsmpb.Op_Submit, *fsmpb.Op_OpenWorkflow, *fsmpb.Op_AddNodes, *fsmpb.Op_CommitWorkflow:
		return false
	default:
		return true
	}
}

// place takes a slot in flight: at once where at most one entry is under way, and else when
// that is so, or the latest went out secondPatience ago.
func (l *leadership) place(latest time.Time) {
	for len(l.slots) > 1 {
		p := time.NewTimer(secondPatience - time.Since(latest))
		select {
		case <-l.freed:
			p.Stop()
			continue
		case <-p.C:
		case <-l.ctx.Done():
			p.Stop()
		}
		break
	}
	select {
	case l.slots <- struct{}{}:
	case <-l.ctx.Done():
	}
}

// collect is the loop that fills entries. A slot in flight is waited for first:
// what arrives meanwhile shares the next entry (group commit).
func (l *leadership) collect() {
	defer close(l.inFlight)
	var carried *proposal
	var latest time.Time
	for {
		l.place(latest)
		if l.ctx.Err() != nil {
			l.refuse(carried)
			return
		}
		first := carried
		carried = nil
		if first == nil {
			if first = l.next(); first == nil {
				l.refuse()
				return
			}
		}
		l.filling.Store(true)
		var batch []*proposal
		var ops int
		batch, ops, carried = l.gather(first, latest)
		if l.ctx.Err() != nil { // what came in with the end is not put into the log any more
			l.refuse(batch...)
			l.refuse(carried)
			return
		}
		l.launch(batch, ops)
		latest = time.Now()
		l.filling.Store(false)
	}
}

// entrySoon reports whether an entry is being filled, or that there is something for one.
func (l *leadership) entrySoon() bool {
	return l.filling.Load() || len(l.urgent) > 0 || len(l.normal) > 0
}

// gather fills an entry with what waits, up to its bounds; carried did not fit any more. The
// latest entry went out at latest.
// While another entry is under way it waits a while for company, and when that one has
// landed for the round that it caused.
func (l *leadership) gather(first *proposal, latest time.Time) (batch []*proposal, ops int, carried *proposal) {
	batch, ops = []*proposal{first}, len(first.ops)
	awaited := false
	for size := first.size; ; {
		p := l.waiting()
		if p == nil && len(l.slots) > 1 && ops < secondOps && size < secondBytes {
			p = l.nextBeside(secondPatience - time.Since(latest))
		}
		if p == nil && !awaited {
			l.turn.await(&l.n.replica.hub.due, l.ctx.Done())
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

// nextBeside waits for one more proposal; nil when the entry that is under way has
// landed, patience is over, or the term is.
func (l *leadership) nextBeside(patience time.Duration) *proposal {
	if patience <= 0 {
		return nil
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		select {
		case p := <-l.urgent:
			return p
		case p := <-l.normal:
			return p
		case <-l.freed:
			if len(l.slots) < 2 {
				return nil
			} // else it was notified of an earlier one
		case <-over.C:
			return nil
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

// refuse answers what never went into the log: a definite refusal, which the
// caller may repeat blindly at the next leader.
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

// free gives an entry's slot back.
func (l *leadership) free() {
	<-l.slots
	notify(l.freed)
}
