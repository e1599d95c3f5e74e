package cluster

import (
	"sync/atomic"
	"time"

	"github.com/rotasched/rota/internal/limits"
)

const (
	// secondOps and secondBytes are what an entry must hold to go out while another is
	// under way. What an entry costs by itself, two writes on every node, is more than
	// hundreds of operations in it cost, so that few wait for company; what is large
	// is not held up: the leader writes it while followers write the one before.
	secondOps   = limits.MaxEntryOps / 2
	secondBytes = limits.MaxEntryBytes / 2
)

// collect is the loop that fills entries. A slot in flight is waited for first:
// what arrives meanwhile shares the next entry (group commit).
func (l *leadership) collect() {
	defer close(l.inFlight)
	var carried *proposal
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
		}
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
		batch, ops, carried = l.gather(first)
		if l.ctx.Err() != nil { // what came in with the end is not put into the log any more
			l.refuse(batch...)
			l.refuse(carried)
			return
		}
		l.launch(batch, ops)
		l.filling.Store(false)
	}
}

// entrySoon reports whether an entry is being filled, or that there is something for one.
func (l *leadership) entrySoon() bool {
	return l.filling.Load() || len(l.urgent) > 0 || len(l.normal) > 0
}

// gather fills an entry with what waits, up to its bounds; carried did not fit any more.
// While another entry is under way it waits for company, and when that one has landed
// for the round that it caused.
func (l *leadership) gather(first *proposal) (batch []*proposal, ops int, carried *proposal) {
	batch, ops = []*proposal{first}, len(first.ops)
	awaited := false
	for size := first.size; ; {
		p := l.waiting()
		if p == nil && len(l.slots) > 1 && ops < secondOps && size < secondBytes {
			p = l.nextBeside()
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
// landed, or the term is over.
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
			} // else it was notified of an earlier one
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

// roundTurn lets a round go out in the entry that its cause makes room for. A round is
// decided when an entry has applied; at that moment the next entry may go, and without
// this it went a moment too early: each round waited for the whole commit of an entry that
// it could have been part of. The loop that fills entries deciding by itself was refused:
// where a decision takes long, every entry would wait for it.
type roundTurn struct {
	phase atomic.Int32
	// took is how long the latest decision took, in nanoseconds.
	took atomic.Int64
	// over is notified when a decision is over: in the queue, or with nothing to place.
	over chan struct{}
}

// Phases of the one round that is on its way.
const (
	noRound int32 = iota
	roundDeciding
	roundInFlight // in the queue or in the log: no other is decided until it has applied
)

func newRoundTurn() roundTurn { return roundTurn{over: make(chan struct{}, 1)} }

// begin notes that a round is being decided.
func (t *roundTurn) begin() { t.phase.Store(roundDeciding) }

// queued notes that rounds wait for the entry that is filled next.
func (t *roundTurn) queued() {
	t.phase.Store(roundInFlight)
	notify(t.over)
}

// landed notes that an entry with rounds has applied: the next is decided at once.
func (t *roundTurn) landed() { t.phase.CompareAndSwap(roundInFlight, roundDeciding) }

// rest notes that there is nothing to place.
func (t *roundTurn) rest() {
	t.phase.Store(noRound)
	notify(t.over)
}

// await waits for the round that is being decided, or due to be, a moment at most.
func (t *roundTurn) await(due *atomic.Bool, end <-chan struct{}) {
	if t.took.Load() > int64(roundPatience) {
		return
	}
	var patience *time.Timer
	for {
		phase := t.phase.Load()
		if phase == roundInFlight || phase == noRound && !due.Load() {
			return
		}
		if patience == nil {
			patience = time.NewTimer(roundPatience)
			defer patience.Stop() //nolint:gocritic // it is made once
		}
		select {
		case <-t.over:
		case <-patience.C:
			return
		case <-end:
			return
		}
	}
}
