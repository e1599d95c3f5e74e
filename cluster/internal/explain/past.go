package explain

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/verbs"
	"github.com/rotasched/rota/fsm"
)

const (
	// pastKept is how long the state of a past moment stays after it was read: users keep reading it, and another
	// replay costs seconds of a core.
	pastKept = time.Minute
	// PastAsking bounds the readers of the past: one reads, and one waits.
	PastAsking = 2
)

// PastReader provides past states, replayed separately from the current one (SPEC §13.13). It keeps the one that was
// read last, and advances it.
type PastReader struct {
	n *verbs.Host
	// Turn has room for one caller, the one that holds another state in memory in addition to the current one.
	Turn chan struct{}
	// Asking counts the readers, including those that wait.
	Asking atomic.Int32

	// The fields below belong to the caller that has the turn. Kept is the state at reached, replayed from a state
	// stored in a generation; forget drops it.
	Kept       *fsm.Machine
	reached    rota.Index
	generation uint64
	forget     *time.Timer
	// has is reached, for callers without the turn; 0 if nothing is kept.
	has atomic.Uint64
	// Replays counts the states that were built from the start.
	Replays int
}

// NewPastReader returns a reader that keeps nothing yet.
func NewPastReader(n *verbs.Host) *PastReader { return &PastReader{n: n, Turn: make(chan struct{}, 1)} }

// take waits for the turn.
func (p *PastReader) take(ctx context.Context) (leave func(), err error) {
	select {
	case p.Turn <- struct{}{}:
		return func() { <-p.Turn }, nil
	case <-ctx.Done():
		return nil, fault.Deadline(ctx, "waiting for another who looks at the past")
	}
}

// at calls look with the state at an index, which look must not keep.
func (p *PastReader) at(ctx context.Context, index rota.Index, look func(*fsm.Machine)) error {
	defer p.Asking.Add(-1)
	if p.Asking.Add(1) > PastAsking {
		e := rota.Refusef(rota.KindExhausted, "past",
			"node %s looks at the past for one caller, and another one waits: try again, or ask another node",
			p.n.Node)
		e.RetryAfter = time.Second
		return e
	}
	leave, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := p.move(ctx, index); err != nil {
		return err
	}
	look(p.Kept)
	return nil
}

// move makes the kept state the one at an index.
func (p *PastReader) move(ctx context.Context, index rota.Index) error {
	keep := p.n.Audit
	nearest, known := keep.Nearest(index)
	if p.Kept != nil && (p.generation != keep.Generation() || p.reached > index || !known || nearest > p.reached) {
		p.Drop()
	}
	if p.Kept == nil {
		p.generation = keep.Generation()
		m, base, err := keep.Load(index)
		if err != nil {
			return err
		}
		p.Kept, p.reached = m, base
		p.Replays++
	}
	reached, err := audit.Forward(ctx, p.Kept, p.n.Stores.Log, p.reached, index)
	p.has.Store(uint64(reached))
	if p.reached = reached; err != nil && rota.KindOf(err) != rota.KindTimeout { // after a timeout it continues there
		p.Drop()
		return err
	}
	p.keep()
	return err
}

// keep keeps the state for a while from now on.
func (p *PastReader) keep() {
	if p.forget != nil {
		p.forget.Stop()
	}
	p.forget = time.AfterFunc(pastKept, func() {
		select {
		case p.Turn <- struct{}{}:
			p.Drop()
			<-p.Turn
		default: // it is being read: it is kept again afterwards
		}
	})
}

// Drop forgets the kept state. The caller has the turn.
func (p *PastReader) Drop() {
	if p.forget != nil {
		p.forget.Stop()
	}
	p.Kept, p.reached, p.forget = nil, 0, nil
	p.has.Store(0)
}

// Alone waits for the turn and drops the kept state, since the caller creates another one.
func (p *PastReader) Alone(ctx context.Context) (leave func(), err error) {
	leave, err = p.take(ctx)
	if err == nil {
		p.Drop()
	}
	return leave, err
}
