package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot/archive"
)

const (
	// maxChainEntries and maxChainTime bound one verification.
	maxChainEntries = 100_000
	maxChainTime    = 2 * time.Second
)

// Held copies the entries in memory; the caller holds the apply lock, so that the copy matches the state's head.
func (l *eventLog) Held() []archive.EventEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ring)
}

// Verify checks the chain (SPEC §12.1) backwards from the head of a state, over the entries held in memory at that time
// and those on disk, within its bounds. Each finding names the index.
func (l *eventLog) Verify(h fsm.Head, held []archive.EventEntry) []string {
	w := chainWalk{expected: h.Chain, place: h.Events, until: time.Now().Add(maxChainTime)}
	w.entries(held)
	l.store.Walk(func(first, last rota.Index, entries []archive.EventEntry, err error) bool {
		if err != nil {
			w.fault("events of entries %d to %d: %v", first, last, err)
		}
		w.entries(entries)
		return !w.over()
	})
	if w.place == 0 && h.Events > 0 && w.expected != ([32]byte{}) {
		w.fault("events: the chain does not begin with the first event")
	}
	return w.faults
}

// chainWalk iterates from the newest entry to the oldest.
type chainWalk struct {
	// expected is the chain value after the events before place.
	expected [32]byte
	place    uint64
	walked   int
	until    time.Time
	faults   []string
}

func (w *chainWalk) over() bool {
	return w.place == 0 || w.walked >= maxChainEntries || len(w.faults) >= 10 || time.Now().After(w.until)
}

func (w *chainWalk) entries(entries []archive.EventEntry) {
	for i := len(entries) - 1; i >= 0; i-- {
		e := &entries[i]
		if e.End() > w.place {
			continue // already checked, or not applied yet
		}
		// The chain cannot be followed across a gap, which the other nodes fill.
		if e.End() == w.place {
			if got := fsm.NextChain(e.Chain, e.Index, e.Bytes); got != w.expected {
				w.fault("events: the chain breaks at entry %d: its events give %x, the next entry was chained to %x",
					e.Index, got[:8], w.expected[:8])
			}
		}
		w.expected, w.place = e.Chain, e.Before
		if w.walked++; w.over() {
			return
		}
	}
}

func (w *chainWalk) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}
