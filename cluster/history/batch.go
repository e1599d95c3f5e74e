package history

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

const (
	// batchEvents is roughly how many events are decoded and sent at a time.
	batchEvents = 1_024
	// batchesKept bounds the decoded batches that followers share.
	batchesKept = 32
	// maxRead bounds reading a batch that may involve other nodes; eventsTimeout bounds one request to a node, since a
	// chunk may take a moment.
	maxRead       = 10 * time.Second
	eventsTimeout = 2 * time.Second
)

// servedBatch is a range of events, decoded once for all followers positioned at its start. Followers that keep up all
// are.
type servedBatch struct {
	once   sync.Once
	events []rota.ServedEvent
	err    error
}

// batchCache keeps the latest batches by the place of their first event.
type batchCache struct {
	mu    sync.Mutex
	at    map[uint64]*servedBatch
	order []uint64
}

// take returns the batch that begins at a place; a new one still has to be filled.
func (c *batchCache) take(from uint64) *servedBatch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.at[from]; b != nil {
		return b
	}
	if c.at == nil {
		c.at = make(map[uint64]*servedBatch)
	}
	if len(c.order) >= batchesKept {
		delete(c.at, c.order[0])
		c.order = c.order[1:]
	}
	b := &servedBatch{}
	c.at[from] = b
	c.order = append(c.order, from)
	return b
}

// drop removes a batch that could not be filled.
func (c *batchCache) drop(from uint64, b *servedBatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[from] == b {
		c.at[from] = &servedBatch{}
	}
}

func (c *batchCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.at)
	c.order = nil
}

// eventBatch returns events from a place on, at least one, none beyond visible. Callers share the slice and must not
// change it. Events that this node lacks are requested from the others.
func (ev *Events) eventBatch(from uint64) ([]rota.ServedEvent, error) {
	b := ev.batches.take(from)
	b.once.Do(func() { b.events, b.err = ev.readBatch(from) })
	if b.err != nil {
		ev.batches.drop(from, b)
	}
	return b.events, b.err
}

// readBatch does not depend on any caller's context: others wait for the same batch.
func (ev *Events) readBatch(from uint64) ([]rota.ServedEvent, error) {
	ctx, cancel := context.WithTimeout(ev.host.Life, maxRead)
	defer cancel()
	entries, err := ev.read(from)
	if err != nil {
		ev.dropEvents(from, err)
	}
	if len(entries) == 0 || err != nil {
		if entries, err = ev.fetchEvents(ctx, peer.EventRange{From: from}); err != nil {
			return nil, err
		}
	}
	visible := ev.state().visible
	var events []rota.ServedEvent
	for i := range entries {
		e := &entries[i]
		if e.End() > visible || len(events) >= batchEvents {
			break
		}
		if events, err = appendServed(events, e); err != nil {
			return nil, err
		}
		if i == 0 {
			events = events[from-e.Before:]
		}
	}
	if len(events) == 0 {
		return nil, rota.Refusef(rota.KindUnavailable, "events", "events from the %d. on are not here yet", from+1)
	}
	return events, nil
}

// dropEvents discards damaged events: they are fetched again from another node.
func (ev *Events) dropEvents(from uint64, err error) {
	if ev.host.Life.Err() != nil {
		return
	}
	if ev.host.Lines.Allow("events/read") {
		ev.host.Log.Error("events are damaged here and are fetched again from another node", "err", err)
	}
	if err := ev.store.Drop(from); err != nil && ev.host.Lines.Allow("events/drop") {
		ev.host.Log.Error("damaged events could not be dropped", "err", err)
	}
}

// appendServed decodes an entry's events and calculates the fields served with them.
func appendServed(to []rota.ServedEvent, e *archive.EventEntry) ([]rota.ServedEvent, error) {
	events, err := fsm.DecodeEvents(e.Index, e.Bytes)
	if err != nil || len(events) != int(e.Count) {
		return nil, &rota.Error{Kind: rota.KindInternal, Subject: "events",
			Text: "the events of an entry cannot be decoded", Cause: err}
	}
	for i := range events {
		s := rota.ServedEvent{Event: events[i], Prior: e.Prior, Post: e.Post}
		if s.Payload != "" {
			sum := sha256.Sum256([]byte(s.Payload))
			s.PayloadHash = sum[:]
		}
		to = append(to, s)
	}
	return to, nil
}

// fetchEvents requests events that this node lacks from the other nodes, one after another, until one has them. It
// returns OutOfRange if none has them, and Unavailable if a node could not be asked: that one may have them.
func (ev *Events) fetchEvents(ctx context.Context, r peer.EventRange) (entries []archive.EventEntry, err error) {
	silent := ev.host.ask(func(to peer.NodeAddress) (bool, error) {
		entries, err = ev.fetchFrom(ctx, to, r)
		return len(entries) > 0 || ctx.Err() != nil, err
	})
	switch {
	case len(entries) > 0:
		return entries, nil
	case ctx.Err() != nil:
		return nil, ev.host.ended(ctx, "asking other nodes for events")
	case len(silent) > 0:
		return nil, &rota.Error{Kind: rota.KindUnavailable, Subject: "events", RetryAfter: 500 * time.Millisecond,
			Cause: errors.Join(silent...),
			Text:  "this node lacks these events and a node that may have them does not answer"}
	}
	return nil, rota.Refusef(rota.KindOutOfRange, "events", "no node still has these events")
}

func (ev *Events) fetchFrom(ctx context.Context, to peer.NodeAddress, r peer.EventRange) ([]archive.EventEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	chunk, err := ev.host.Peers.EventRange(ctx, to, r)
	if err != nil || len(chunk.Data) == 0 {
		return nil, err
	}
	entries, err := archive.DecodeEvents(chunk.Data)
	if err != nil {
		return nil, err
	}
	// A node is trusted about the events it has, but its answer must match the request.
	if first := &entries[0]; r.At == 0 && (first.Before > r.From || first.End() <= r.From) || r.At != 0 &&
		first.Index > r.At {
		return nil, rota.Refusef(rota.KindInternal, "events", "node %s answered with other events than were asked for",
			to.ID)
	}
	return entries, nil
}

// chunkAnswer is roughly how many bytes of events one answer holds.
const chunkAnswer = 1 << 20

// EventRange serves another node events that this one has (SPEC §12.3), without asking other nodes. Events that this
// node has not applied yet are Unavailable, so that a lagging node is not mistaken for one that lost events.
func (ev *Events) EventRange(_ context.Context, r peer.EventRange) (peer.EventChunk, error) {
	if err := ev.host.State.View(func(*fsm.View) {}); err != nil { // without a state it cannot decide
		return peer.EventChunk{}, err
	}
	var entries []archive.EventEntry
	var err error
	// Read this first: events applied during the read are not counted as lost.
	if applied := ev.state().total; r.At != 0 {
		entries, err = ev.at(r.At)
	} else if r.From >= applied {
		err = rota.Refusef(rota.KindUnavailable, "events", "this node has applied %d events yet, not the %d.", applied,
			r.From+1)
	} else {
		entries, err = ev.read(r.From)
	}
	if err != nil {
		return peer.EventChunk{}, err
	}
	chunk := peer.EventChunk{Oldest: ev.next(r.From), Next: ev.state().total}
	most := 0
	for most < len(entries) && entries[most].End() <= chunk.Next {
		most++
	}
	size, k := 0, 0
	for k < most && size < chunkAnswer {
		size += entrySize(&entries[k])
		k++
	}
	if k > 0 {
		chunk.Data = archive.EncodeEvents(entries[:k])
	}
	return chunk, nil
}
