package cluster

import (
	"slices"
	"sync/atomic"
	"time"
)

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

// allows reports whether an entry may be decided with: a decision is quick, and no round is on its way but
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
