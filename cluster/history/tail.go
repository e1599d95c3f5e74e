package history

import (
	"context"
	"encoding/binary"
	"sort"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

const (
	// maxFollowers bounds the followers of events on one node.
	maxFollowers = 10_000
	// maxSend is how long one send may take: a follower that needs longer is too slow.
	maxSend = 30 * time.Second
)

// Events sends the events that a filter selects, in the order in which they happened: from the oldest retained, or the
// one after filter.After, to the newest acknowledged at the call; with Follow it continues until ctx ends. Every node
// sends the same bytes, without a gap or a repeat (SPEC §12.3).
//
// send is called from another goroutine, one call at a time; its error ends Events and is returned. It has returned
// when Events does, unless ctx has ended or send is too slow. If a filter selects nothing for a while, a batch without
// events reports how far the node has read. send may keep the events but must not change them. A send that takes longer
// than 30 s is abandoned: Events returns Exhausted, and the caller must end whatever blocks send. OutOfRange means that
// filter.After is older than the retained events, and names the oldest; Invalid means that there is no such event.
func (ev *Events) Events(ctx context.Context, filter rota.EventFilter, send func(peer.EventBatch) error) error {
	if err := ev.enter(); err != nil {
		return err
	}
	defer ev.leave()
	place, end, err := ev.eventsFrom(ctx, &filter)
	if err != nil {
		return err
	}
	s := ev.newSender(send)
	if err = s.begin(ctx, filter.After); err == nil {
		err = ev.serve(ctx, &filter, place, end, s)
	}
	if err == nil {
		err = s.finish(ctx)
	} else {
		s.abandon(ctx)
	}
	if rota.KindOf(err) == rota.KindExhausted {
		ev.countCut()
	}
	return err
}

// serve sends the events between two places, without an end if the filter follows.
func (ev *Events) serve(ctx context.Context, filter *rota.EventFilter, place, end uint64, s *eventSender) error {
	began := place
	for filter.Follow || place < end {
		state := ev.state()
		if place >= state.visible {
			select {
			case <-state.wake:
			case <-s.rest():
				if err := s.put(ctx, nil); err != nil {
					return err
				}
			case err := <-s.done:
				return err
			case <-ctx.Done():
				return ev.host.ended(ctx, "following events")
			case <-ev.host.Life.Done():
				return ev.host.ended(ctx, "following events")
			}
			continue
		}
		events, err := ev.eventBatch(place)
		switch {
		case rota.KindOf(err) == rota.KindOutOfRange && place > began && place < ev.oldest():
			return ev.tooOld(rota.KindExhausted, "this consumer is too slow: the events after "+s.last.String()+
				" are no longer retained")
		case rota.KindOf(err) == rota.KindOutOfRange && place > began:
			return ev.tooOld(rota.KindOutOfRange, "no node still has the events after "+s.last.String())
		case rota.KindOf(err) == rota.KindOutOfRange:
			if place, err = ev.skipLost(ctx, place, filter); err != nil {
				return err
			}
			began = place
			continue
		case err != nil:
			return err
		}
		if !filter.Follow {
			events = events[:min(uint64(len(events)), end-place)]
		}
		place += uint64(len(events))
		if err := s.took(ctx, events, selected(events, filter)); err != nil {
			return err
		}
	}
	return nil
}

// IndexAt returns the index of the newest entry at or before a moment, by the times in the events; OutOfRange if no
// entry of that time is retained.
func (ev *Events) IndexAt(ctx context.Context, date rota.Date) (rota.Index, error) {
	if err := ev.enter(); err != nil { // followers receive applied events only
		return 0, err
	}
	defer ev.leave()
	low, _ := ev.oldestKept(ev.oldest())
	state := ev.state()
	high, index := state.visible, state.index
	first := low
	for low < high { // binary search for the first later event
		events, err := ev.eventBatch(low + (high-low)/2)
		if err != nil {
			return 0, err
		}
		if err := ctx.Err(); err != nil {
			return 0, ev.host.ended(ctx, "looking for a moment")
		}
		if at := sort.Search(len(events), func(i int) bool { return events[i].Date > date }); at == 0 {
			high, index = low+(high-low)/2, events[0].ID.Index-1
		} else if at < len(events) {
			return events[at].ID.Index - 1, nil
		} else {
			low += (high-low)/2 + uint64(len(events))
		}
	}
	if low == first && first > 0 || index == 0 {
		return 0, rota.Refusef(rota.KindOutOfRange, "at",
			"%s lies before the oldest event that is retained: name an index", date)
	}
	return index, nil
}

// skipLost moves to the oldest event that any node has, if the follower did not ask for an older one: a cluster
// restored from a backup has no events of its past.
func (ev *Events) skipLost(ctx context.Context, place uint64, filter *rota.EventFilter) (uint64, error) {
	if !filter.After.IsZero() {
		return 0, ev.tooOld(rota.KindOutOfRange, "the events after "+filter.After.String()+" are no longer retained")
	}
	if oldest, sure := ev.oldestKept(place); sure && oldest > place {
		return oldest, nil
	}
	if !ev.host.pause(maxWake) || ctx.Err() != nil { // a node has it now, or has to be asked again
		return 0, ev.host.ended(ctx, "following events")
	}
	return place, nil
}

// oldestKept returns the place of the oldest event, from a place on, that any node has; sure reports that all were
// asked.
func (ev *Events) oldestKept(place uint64) (oldest uint64, sure bool) {
	if oldest = ev.next(place); oldest == place {
		return place, true
	}
	silent := ev.host.ask(func(to peer.NodeAddress) (bool, error) {
		ctx, cancel := context.WithTimeout(ev.host.Life, eventsTimeout)
		defer cancel()
		chunk, err := ev.host.Peers.EventRange(ctx, to, peer.EventRange{From: place})
		if err == nil && chunk.Oldest >= place {
			oldest = min(oldest, chunk.Oldest)
		}
		return oldest == place, err
	})
	return oldest, oldest == place || len(silent) == 0
}

// tooOld returns an error that names the oldest retained event.
func (ev *Events) tooOld(kind rota.Kind, text string) error {
	from, _ := ev.oldestKept(ev.oldest())
	oldest, err := ev.eventBatch(from)
	if err != nil {
		return rota.Refusef(kind, "event_id", "%s: begin without an event id", text)
	}
	return rota.Refusef(kind, "event_id", "%s: the oldest is %s, begin without an event id", text, oldest[0].ID)
}

// eventsFrom returns the place to begin at, and the place before which all events acknowledged before the call lie.
func (ev *Events) eventsFrom(ctx context.Context, filter *rota.EventFilter) (place, end uint64, err error) {
	after := filter.After
	if filter.Latest && !after.IsZero() {
		return 0, 0, rota.Refusef(rota.KindInvalid, "event_id",
			"event_id: got %s together with latest; pass one of them", after)
	}
	how := peer.ReadOptions{MinIndex: 1} // followers wait for the leader only if nothing vouches for this node
	if state := ev.state(); !filter.Follow || filter.Latest || after.Index > state.index ||
		after.Incarnation > state.incarnation {
		how = peer.ReadOptions{}
	}
	if _, err := ev.host.State.Fresh(ctx, how); err != nil {
		return 0, 0, err
	}
	state := ev.state()
	if filter.Latest {
		filter.After, err = ev.newest(ctx, state.total)
		return state.total, state.total, err
	}
	if after.IsZero() {
		return ev.oldest(), state.total, nil
	}
	if after.Index > state.index || after.Incarnation > state.incarnation {
		return 0, 0, rota.Refusef(rota.KindOutOfRange, "event_id",
			"event_id: got %s, want at most entry %d of incarnation %d; "+
				"if this cluster sent the id, the cluster was restored since: begin without an event id",
			after, state.index, state.incarnation)
	}
	place, err = ev.placeAfter(ctx, after)
	return place, state.total, err
}

// newest returns the id of the last of the first total events: the position to resume from after them.
func (ev *Events) newest(ctx context.Context, total uint64) (rota.EventID, error) {
	if total == 0 {
		return rota.EventID{}, nil
	}
	place := total - 1
	for state := ev.state(); place >= state.visible; state = ev.state() { // applied but not visible yet
		select {
		case <-state.wake:
		case <-ctx.Done():
			return rota.EventID{}, ev.host.ended(ctx, "looking for the newest event")
		case <-ev.host.Life.Done():
			return rota.EventID{}, ev.host.ended(ctx, "looking for the newest event")
		}
	}
	events, err := ev.eventBatch(place)
	if rota.KindOf(err) == rota.KindOutOfRange { // a restored cluster has no events of its past
		return rota.EventID{}, nil
	}
	if err != nil {
		return rota.EventID{}, err
	}
	return events[0].ID, nil
}

// placeAfter finds the place after an event.
func (ev *Events) placeAfter(ctx context.Context, after rota.EventID) (uint64, error) {
	entries, err := ev.at(after.Index)
	if err != nil || len(entries) == 0 { // it is missing here or damaged
		entries, err = ev.fetchEvents(ctx, peer.EventRange{At: after.Index})
	}
	if rota.KindOf(err) == rota.KindOutOfRange {
		return ev.placeAfterRestore(after)
	}
	if err != nil {
		return 0, err
	}
	e := &entries[0]
	switch of := incarnationOf(e); {
	case e.Index == after.Index && of == after.Incarnation && after.Seq < e.Count:
		place := e.Before + uint64(after.Seq) + 1
		if place < ev.oldest() {
			return 0, ev.tooOld(rota.KindOutOfRange, "the events after "+after.String()+" are no longer retained")
		}
		return place, nil
	case after.Incarnation < of:
		return ev.placeAfterRestore(after)
	default:
		return 0, rota.Refusef(rota.KindInvalid, "event_id",
			"there is no event %s: pass the id of one that was received", after)
	}
}

// placeAfterRestore finds the place after an event that no node has. It may belong to the cluster whose backup this
// cluster was restored from: then all events of this cluster come after it.
func (ev *Events) placeAfterRestore(after rota.EventID) (uint64, error) {
	oldest, _ := ev.oldestKept(ev.oldest())
	events, err := ev.eventBatch(oldest)
	if err == nil && after.Incarnation < events[0].ID.Incarnation && after.Index+1 >= events[0].ID.Index {
		return oldest, nil
	}
	return 0, ev.tooOld(rota.KindOutOfRange, "the events after "+after.String()+" are no longer retained")
}

// incarnationOf reads the first number of an entry's events.
func incarnationOf(e *archive.EventEntry) uint64 {
	v, _ := binary.Uvarint(e.Bytes)
	return v
}

// selected returns the events that a filter selects; the same slice if it selects all.
func selected(events []rota.ServedEvent, f *rota.EventFilter) []rota.ServedEvent {
	if f.All() {
		return events
	}
	var some []rota.ServedEvent
	for i := range events {
		if f.Wants(&events[i].Event) {
			some = append(some, events[i])
		}
	}
	return some
}
