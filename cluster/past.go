package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/fsm"
)

const (
	// pastKept is how long the state of a past moment stays after it was read: users keep reading it, and another
	// replay costs seconds of a core.
	pastKept = time.Minute
	// pastAsking bounds the readers of the past: one reads, and one waits.
	pastAsking = 2
)

// pastReader provides past states, replayed separately from the current one (SPEC §13.13). It keeps the one that was
// read last, and advances it.
type pastReader struct {
	n *base
	// turn has room for one caller, the one that holds another state in memory in addition to the current one.
	turn chan struct{}
	// asking counts the readers, including those that wait.
	asking atomic.Int32

	// The fields below belong to the caller that has the turn. kept is the state at reached, replayed from a state
	// stored in a generation; forget drops it.
	kept       *fsm.Machine
	reached    rota.Index
	generation uint64
	forget     *time.Timer
	// has is reached, for callers without the turn; 0 if nothing is kept.
	has atomic.Uint64
	// replays counts the states that were built from the start.
	replays int
}

func newPastReader(n *base) *pastReader { return &pastReader{n: n, turn: make(chan struct{}, 1)} }

// take waits for the turn.
func (p *pastReader) take(ctx context.Context) (leave func(), err error) {
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, fault.Deadline(ctx, "waiting for another who looks at the past")
	}
}

// at calls look with the state at an index, which look must not keep.
func (p *pastReader) at(ctx context.Context, index rota.Index, look func(*fsm.Machine)) error {
	defer p.asking.Add(-1)
	if p.asking.Add(1) > pastAsking {
		e := rota.Refusef(rota.KindExhausted, "past",
			"node %s looks at the past for one caller, and another one waits: try again, or ask another node",
			p.n.cfg.Node)
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
	look(p.kept)
	return nil
}

// move makes the kept state the one at an index.
func (p *pastReader) move(ctx context.Context, index rota.Index) error {
	keep := p.n.audit
	nearest, known := keep.Nearest(index)
	if p.kept != nil && (p.generation != keep.Generation() || p.reached > index || !known || nearest > p.reached) {
		p.drop()
	}
	if p.kept == nil {
		p.generation = keep.Generation()
		m, base, err := keep.Load(index)
		if err != nil {
			return err
		}
		p.kept, p.reached = m, base
		p.replays++
	}
	reached, err := audit.Forward(ctx, p.kept, p.n.stores.Log, p.reached, index)
	p.has.Store(uint64(reached))
	if p.reached = reached; err != nil && rota.KindOf(err) != rota.KindTimeout { // after a timeout it continues there
		p.drop()
		return err
	}
	p.keep()
	return err
}

// keep keeps the state for a while from now on.
func (p *pastReader) keep() {
	if p.forget != nil {
		p.forget.Stop()
	}
	p.forget = time.AfterFunc(pastKept, func() {
		select {
		case p.turn <- struct{}{}:
			p.drop()
			<-p.turn
		default: // it is being read: it is kept again afterwards
		}
	})
}

func (p *pastReader) drop() {
	if p.forget != nil {
		p.forget.Stop()
	}
	p.kept, p.reached, p.forget = nil, 0, nil
	p.has.Store(0)
}

// alone waits for the turn and drops the kept state, since the caller creates another one.
func (p *pastReader) alone(ctx context.Context) (leave func(), err error) {
	leave, err = p.take(ctx)
	if err == nil {
		p.drop()
	}
	return leave, err
}
