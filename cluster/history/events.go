package history

import (
	"log/slog"
	"sort"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot/archive"
)

// Bounds on a node's events, each with its reason.
const (
	// ringBytes is how many bytes of encoded events stay in memory, for followers that keep up.
	ringBytes = 16 << 20
	// maxUnflushed bounds the bytes not yet on disk. Beyond it the oldest events are given up: applying waits only for
	// the log's disk.
	maxUnflushed = 64 << 20
	// flushAt is the number of bytes that triggers a flush before flushEvery.
	flushAt = 4 << 20
)

// eventLog holds the events of the entries that this node applied: the newest in memory, from where they are written
// asynchronously to the archive, the others on disk. An event's place is the number of the cluster's events before it.
type eventLog struct {
	store    *archive.Events
	retained uint64
	// maxSend is how long one send to a follower may take.
	maxSend time.Duration
	// idleEvery is the longest time without a message to a follower.
	idleEvery time.Duration
	log       *slog.Logger
	// flushing ensures that only one flush runs at a time.
	flushing sync.Mutex

	mu sync.Mutex
	// ring holds the newest entries, oldest first, without a gap. Those from place flushed on are not on disk.
	ring           []archive.EventEntry
	bytes          int
	unflushed      int
	flushed, total uint64
	// incarnation and index belong to the newest state.
	incarnation uint64
	index       rota.Index
	// visible is how far followers can read: the value of total when they were last woken by closing wake. Without
	// followers it equals total at once: waking the loop that wakes no follower, and its timer, were a ninth of the
	// wake-ups per entry on a follower node.
	visible uint64
	wake    chan struct{}
	// dirty and full notify the loops that wake followers and flush.
	dirty, full chan struct{}
	// followers counts the followers, to reject too many.
	followers int
	// dropped counts events given up because the disk was too slow, behind reports that it is too slow now; cut counts
	// followers that were disconnected.
	dropped, cut uint64
	behind       bool
	// failing is the error of the last flush, nil if it succeeded.
	failing error
	// lost is the place up to which no node has the events that this one lacks.
	lost    uint64
	batches batchCache
}

func newEventLog(store *archive.Events, retained uint64, log *slog.Logger) *eventLog {
	return &eventLog{store: store, retained: retained, log: log, maxSend: maxSend, idleEvery: idleEvery,
		wake: make(chan struct{}), dirty: make(chan struct{}, 1), full: make(chan struct{}, 1)}
}

// Append adds the events of an entry; it runs under the apply lock and does not block.
func (l *eventLog) Append(incarnation uint64, a *fsm.Applied) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.incarnation, l.index = incarnation, a.Index
	if len(a.Events) == 0 {
		return
	}
	e := archive.EventEntry{Index: a.Index, Before: a.EventsBefore, Count: uint32(len(a.Events)), Chain: a.EventsChain,
		Prior: a.Prior, Post: a.Digest, Bytes: a.EventBytes}
	l.ring = append(l.ring, e)
	l.bytes += entrySize(&e)
	l.unflushed += entrySize(&e)
	l.total = e.End()
	l.trim()
	if l.followers > 0 {
		notify(l.dirty)
	} else {
		l.visible = l.total // there are no followers to wake
	}
	if l.unflushed >= flushAt {
		notify(l.full)
	}
}

// entrySize returns the memory used by an entry.
func entrySize(e *archive.EventEntry) int { return len(e.Bytes) + 160 }

// trim releases entries that are on disk and exceed the ring's size, and those that the disk did not store in time.
func (l *eventLog) trim() {
	n := 0
	for n < len(l.ring)-1 {
		e := &l.ring[n]
		onDisk := e.End() <= l.flushed
		if l.bytes <= ringBytes || !onDisk && l.unflushed <= maxUnflushed {
			break
		}
		l.bytes -= entrySize(e)
		if !onDisk {
			l.unflushed -= entrySize(e)
			l.dropped += uint64(e.Count)
			l.flushed = e.End()
			if !l.behind {
				l.behind = true
				l.log.Warn("the disk is too slow for events: the oldest are not kept here, other nodes have them",
					"index", uint64(e.Index))
			}
		}
		l.ring[n] = archive.EventEntry{}
		n++
	}
	l.ring = l.ring[n:]
}

// Reset adopts a state that came from a snapshot: of the past it holds a count and the chain; the events are on disk or
// at the other nodes.
func (l *eventLog) Reset(h fsm.Head) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total > h.Events { // never of the same cluster: none of it may be served
		l.batches.clear()
	}
	l.ring, l.bytes, l.unflushed = nil, 0, 0
	l.total, l.flushed, l.incarnation, l.index = h.Events, h.Events, h.Incarnation, h.Index
	notify(l.dirty)
}

// Hold drops the memory's entries of a state that differed; Reset follows.
func (l *eventLog) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches.clear()
	l.ring, l.bytes, l.unflushed, l.flushed = nil, 0, 0, l.total
}

// Forget discards the events after an entry, which a wrong state wrote: they are fetched again.
func (l *eventLog) Forget(after rota.Index) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	return l.store.Forget(after)
}

// flush writes entries that are not on disk.
func (l *eventLog) flush() error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.mu.Lock()
	at := sort.Search(len(l.ring), func(i int) bool { return l.ring[i].End() > l.flushed })
	entries := append([]archive.EventEntry(nil), l.ring[at:]...)
	l.mu.Unlock()
	if len(entries) == 0 {
		return nil
	}
	failpointWithin("events")
	err := l.store.Put(entries)
	failpointWithin("")
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.behind {
		l.behind = false
		l.log.Warn("the disk takes events again", "dropped_so_far", l.dropped)
	}
	l.flushed = max(l.flushed, entries[len(entries)-1].End())
	l.unflushed = 0
	for i := range l.ring {
		if l.ring[i].End() > l.flushed {
			l.unflushed += entrySize(&l.ring[i])
		}
	}
	l.trim()
	return nil
}

// read returns entries of this node, beginning with the one that holds the event at a place; none if it lacks that one.
func (l *eventLog) read(event uint64) ([]archive.EventEntry, error) {
	l.mu.Lock()
	if at := sort.Search(len(l.ring), func(i int) bool { return l.ring[i].End() > event }); at < len(l.ring) &&
		l.ring[at].Before <= event {
		entries := append([]archive.EventEntry(nil), l.ring[at:min(at+entriesRead, len(l.ring))]...)
		l.mu.Unlock()
		return entries, nil
	}
	l.mu.Unlock()
	return l.store.Read(event)
}

// entriesRead bounds the entries copied from memory by one read.
const entriesRead = 4_096

// at returns the entry at an index and those after it, or the newest before it if this node knows that no events lie
// between. It returns none if this node has no entry that old, or has a gap there. A node that has not applied that
// index cannot decide: Unavailable.
func (l *eventLog) at(index rota.Index) ([]archive.EventEntry, error) {
	l.mu.Lock()
	if index > l.index {
		defer l.mu.Unlock()
		return nil, rota.Refusef(rota.KindUnavailable, "events",
			"this node has applied entry %d, and does not know the events of entry %d yet",
			l.index, index)
	}
	if at := sort.Search(len(l.ring), func(i int) bool { return l.ring[i].Index > index }); at > 0 {
		entries := append([]archive.EventEntry(nil), l.ring[at-1:min(at+entriesRead, len(l.ring))]...)
		l.mu.Unlock()
		return entries, nil
	}
	to := l.total
	if len(l.ring) > 0 {
		to = l.ring[0].Before
	}
	l.mu.Unlock()
	entries, err := l.store.At(index)
	if err != nil || len(entries) == 0 || entries[0].Index == index || len(entries) > 1 {
		return entries, err
	}
	if from, end := l.store.Missing(entries[0].End(), to); from == entries[0].End() && from < end {
		return nil, nil
	}
	return entries, nil
}

// eventState is the position of a log at one moment.
type eventState struct {
	total, visible uint64
	incarnation    uint64
	index          rota.Index
	wake           chan struct{}
}

func (l *eventLog) state() eventState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return eventState{l.total, l.visible, l.incarnation, l.index, l.wake}
}

// oldest returns the place of the oldest event that is retained and not known to be lost on every node: the same on
// every node with the same retention.
func (l *eventLog) oldest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.total-min(l.total, l.retained), l.lost)
}

// next returns the place of this node's oldest event at or after a place.
func (l *eventLog) next(from uint64) uint64 {
	l.mu.Lock()
	to := l.total
	if len(l.ring) > 0 {
		to = l.ring[0].Before
	}
	l.mu.Unlock()
	if from >= to {
		return from
	}
	if missing, end := l.store.Missing(from, to); missing == from {
		return end
	}
	return from
}

// show makes applied events visible to followers, and wakes them.
func (l *eventLog) show() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.visible == l.total {
		return
	}
	l.visible = l.total
	close(l.wake)
	l.wake = make(chan struct{})
}

// missing returns the oldest range that should be retained but is neither on disk nor in memory; from == to if there is
// none.
func (l *eventLog) missing() (from, to uint64) {
	from = l.oldest()
	l.mu.Lock()
	to = l.total
	if len(l.ring) > 0 {
		to = l.ring[0].Before
	}
	l.mu.Unlock()
	return l.store.Missing(from, max(from, to))
}

// giveUp ends the search for events before a place: no node has them.
func (l *eventLog) giveUp(to uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = max(l.lost, to)
}

// waiting returns the number of entries not yet on disk; mu is held.
func (l *eventLog) waiting() int {
	return len(l.ring) - sort.Search(len(l.ring), func(i int) bool { return l.ring[i].End() > l.flushed })
}
