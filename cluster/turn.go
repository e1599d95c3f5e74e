package cluster

import (
	"github.com/rotasched/rota/cluster/replica"
	"slices"
	"sync/atomic"
	"time"
)

// roundTurn lets a round join the entry that its cause makes room for. A round is decided when an entry was applied. At
// that moment the next entry may be sent, and without this type it was sent slightly too early: each round waited for
// the whole commit of an entry that it could have been part of. Letting the loop that fills entries decide by itself
// was rejected: if a decision takes long, every entry would wait for it.
type roundTurn struct {
	phase atomic.Int32
	// took is the duration of the latest decision, in nanoseconds.
	took atomic.Int64
	// over is notified when a decision has finished: queued, or with nothing to place.
	over chan struct{}
}

// Phases of the one round in progress.
const (
	noRound int32 = iota
	roundDeciding
	roundInFlight // in the queue or in the log: no other is decided until it was applied
)

// withPatience is the maximum duration of the latest decision, since the entry would wait for a similar one.
const withPatience = time.Millisecond

func newRoundTurn() roundTurn { return roundTurn{over: make(chan struct{}, 1)} }

// begin records that a round is being decided.
func (t *roundTurn) begin() { t.phase.Store(roundDeciding) }

// queued records that rounds wait for the entry that is filled next.
func (t *roundTurn) queued() {
	t.phase.Store(roundInFlight)
	replica.Notify(t.over)
}

// landed records that an entry with rounds was applied: the next is decided immediately.
func (t *roundTurn) landed() { t.phase.CompareAndSwap(roundInFlight, roundDeciding) }

// rest records that there is nothing to place.
func (t *roundTurn) rest() {
	t.phase.Store(noRound)
	replica.Notify(t.over)
}

// allows reports whether a round may be decided with an entry: a decision is quick, and no round is in progress except
// one that is in the entry.
func (t *roundTurn) allows(batch []*proposal) bool {
	if t.took.Load() > int64(withPatience) {
		return false
	}
	switch t.phase.Load() {
	case noRound:
		return true
	case roundInFlight:
		return slices.ContainsFunc(batch, (*proposal).rounds)
	default:
		return false
	}
}

// await waits briefly for the round that is being decided or due to be.
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
