package history

import (
	"sort"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// Doubt requests a comparison of the events here with another node's: a snapshot replaces a log that may belong to a
// different past, after the disk of a voter went back in time (SPEC §2.5). All events of that log must have been
// flushed.
func (ev *Events) Doubt() {
	_, next := ev.store.Range()
	ev.doubted.Store(next)
}

// settle compares the newest event here with the cluster's, and discards the history from the first difference on. It
// reports whether no doubt remains.
func (ev *Events) settle() bool {
	next, total := ev.doubted.Load(), ev.state().total
	oldest, _ := ev.store.Range()
	if oldest >= min(next, total) { // this node has no such events
		ev.doubted.Store(0)
		return true
	}
	newest := min(next, total) - 1
	differs, err := ev.differs(newest)
	switch {
	case rota.KindOf(err) == rota.KindOutOfRange: // no node has it: there is nothing to compare with
	case err != nil:
		return false
	case differs || next > total:
		from := oldest + uint64(sort.Search(int(newest-oldest), func(i int) bool {
			differs, err := ev.differs(oldest + uint64(i))
			return err == nil && differs
		}))
		first, err := ev.store.Read(from)
		if err != nil || len(first) == 0 {
			return false
		}
		if err := ev.host.Replaced(first[0].Index, ev.store.Newest()); err != nil {
			if ev.host.Lines.Allow("events/past") {
				ev.host.Log.Error("history of another past was not given up yet", "err", err)
			}
			return false
		}
	}
	ev.doubted.Store(0)
	return true
}

// differs reports whether the event at a place differs from that of the first node that has it.
func (ev *Events) differs(place uint64) (bool, error) {
	own, err := ev.store.Read(place)
	if err != nil || len(own) == 0 {
		return false, err
	}
	there, err := ev.fetchEvents(ev.host.Life, peer.EventRange{From: place})
	if err != nil {
		return false, err
	}
	same := func(a, b *archive.EventEntry) bool {
		return a.Index == b.Index && a.Before == b.Before && a.Count == b.Count && a.Chain == b.Chain
	}
	return !same(&own[0], &there[0]), nil
}
