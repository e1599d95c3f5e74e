package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/fsm"
)

const (
	// pastKept is how long the state of a past moment stays once it was looked at: a person goes
	// on looking, and to replay it once more costs seconds of a core.
	pastKept = time.Minute
	// pastAsking bounds who looks at the past: one does, and one waits.
	pastAsking = 2
)

// pastReader shows states of the past, replayed beside the present one (SPEC §13.13). It keeps
// the one that was looked at last, and moves it forward.
type pastReader struct {
	n *base
	// turn has room for the one who holds another state beside the present one.
	turn chan struct{}
	// asking counts those who look, or wait.
	asking atomic.Int32

	// What follows is of who has the turn. kept is the state at reached, replayed from what was
	// kept in a generation; forget is when it is let go of.
	kept       *fsm.Machine
	reached    rota.Index
	generation uint64
	forget     *time.Timer
	// has is reached, as far as one may say that does not have the turn; 0 where nothing is kept.
	has atomic.Uint64
	// replays counts the states that were built from the beginning.
	replays int
}

func newPastReader(n *base) *pastReader { return &pastReader{n: n, turn: make(chan struct{}, 1)} }

// take waits for the turn.
func (p *pastReader) take(ctx context.Context) (leave func(), err error) {
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, ctxError(ctx, "waiting for another who looks at the past")
	}
}

// at has look see the state at an index, which it must not keep.
func (p *pastReader) at(ctx context.Context, index rota.Index, look func(*fsm.Machine)) error {
	defer p.asking.Add(-1)
	if p.asking.Add(1) > pastAsking {
		e := rota.Refusef(rota.KindExhausted, "past", "node %s looks at the past for one caller, and another one waits: try again, or ask another node", p.n.cfg.Node)
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
	if p.reached = reached; err != nil && rota.KindOf(err) != rota.KindTimeout { // one that ran out of time goes on where it was
		p.drop()
		return err
	}
	p.keep()
	return err
}

// keep has the state stay for a while from now on.
func (p *pastReader) keep() {
	if p.forget != nil {
		p.forget.Stop()
	}
	p.forget = time.AfterFunc(pastKept, func() {
		select {
		case p.turn <- struct{}{}:
			p.drop()
			<-p.turn
		default: // somebody looks: it is kept anew
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

// alone waits for the turn, and lets go of the kept state: the caller makes another one.
func (p *pastReader) alone(ctx context.Context) (leave func(), err error) {
	leave, err = p.take(ctx)
	if err == nil {
		p.drop()
	}
	return leave, err
}
