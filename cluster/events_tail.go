package cluster

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

const (
	// followersMost bounds who follows events on one node.
	followersMost = 10_000
	// sendMost is how long one sending may take: who needs longer is too slow.
	sendMost = 30 * time.Second
)

// Events returns the events that a filter selects, in the order in which they
// happened: from the oldest retained, or the one after filter.After, to what is
// acknowledged now; with Follow it goes on until ctx ends. The same bytes come from
// every node, without a gap or a repeat (SPEC §12.3).
//
// send is called from another goroutine, once at a time; its error ends the telling
// and is returned. A filter that selects nothing for a while is told how far the
// node has looked, by a batch without events. It may keep the events, which it must not change. One that takes
// longer than 30 s is left behind: Events returns Exhausted, and the caller has to
// end what it is stuck in. OutOfRange says that filter.After is older than what is
// retained, and names the oldest; Invalid, that there is no such event.
func (ef *eventFeed) Events(ctx context.Context, filter rota.EventFilter, send func(peer.EventBatch) error) error {
	if err := ef.events.enter(); err != nil {
		return err
	}
	defer ef.events.leave()
	place, end, err := ef.eventsFrom(ctx, &filter)
	if err != nil {
		return err
	}
	s := newEventSender(send)
	err = ef.tell(ctx, &filter, place, end, s)
	if err == nil {
		err = s.finish(ctx)
	} else {
		s.abandon()
	}
	if rota.KindOf(err) == rota.KindExhausted {
		ef.events.countCut()
	}
	return err
}

// tell sends what lies between two places; without an end if the filter follows.
func (ef *eventFeed) tell(ctx context.Context, filter *rota.EventFilter, place, end uint64, s *eventSender) error {
	began := place
	for filter.Follow || place < end {
		state := ef.events.state()
		if place >= state.visible {
			select {
			case <-state.wake:
			case <-s.rest():
				if err := s.put(ctx, ef.n, nil); err != nil {
					return err
				}
			case err := <-s.done:
				return err
			case <-ctx.Done():
				return ctxError(ctx, "following events")
			case <-ef.n.stopped:
				return errStopping()
			}
			continue
		}
		events, err := ef.eventBatch(place)
		switch {
		case rota.KindOf(err) == rota.KindOutOfRange && place > began && place < ef.events.oldest():
			return ef.tooOld(rota.KindExhausted, "this consumer is too slow: the events after "+s.last.String()+
				" are no longer retained")
		case rota.KindOf(err) == rota.KindOutOfRange && place > began:
			return ef.tooOld(rota.KindOutOfRange, "the events after "+s.last.String()+" are on no node any more")
		case rota.KindOf(err) == rota.KindOutOfRange:
			if place, err = ef.skipLost(ctx, place, filter); err != nil {
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
		if err := s.took(ctx, ef.n, events, selected(events, filter)); err != nil {
			return err
		}
	}
	return nil
}

// skipLost goes to the oldest event that any node has, where nobody was promised
// an older one: a cluster restored from a backup has no events of its past.
func (ef *eventFeed) skipLost(ctx context.Context, place uint64, filter *rota.EventFilter) (uint64, error) {
	if !filter.After.IsZero() {
		return 0, ef.tooOld(rota.KindOutOfRange, "the events after "+filter.After.String()+" are no longer retained")
	}
	if oldest, sure := ef.oldestKept(place); sure && oldest > place {
		return oldest, nil
	}
	if err := ef.n.leader.pause(ctx, wakeMost); err != nil { // a node has it now, or is to be asked again
		if ctx.Err() != nil {
			return 0, ctxError(ctx, "following events")
		}
		return 0, err
	}
	return place, nil
}

// oldestKept is the place of the oldest event from a place on that a node has; sure
// says that all were asked.
func (ef *eventFeed) oldestKept(place uint64) (oldest uint64, sure bool) {
	oldest, sure = ef.events.next(place), true
	for _, s := range ef.n.membership.servers() {
		if oldest == place {
			return place, true
		}
		if rota.NodeID(s.ID) == ef.n.cfg.Node {
			continue
		}
		to, known := ef.n.membership.address(rota.NodeID(s.ID))
		if !known {
			sure = false
			continue
		}
		ctx, cancel := context.WithTimeout(ef.n.life, eventsTimeout)
		chunk, err := ef.n.peers.EventRange(ctx, to, peer.EventRange{From: place})
		cancel()
		if err != nil {
			sure = false
		} else if chunk.Oldest >= place && chunk.Oldest < oldest {
			oldest = chunk.Oldest
		}
	}
	return oldest, sure
}

// tooOld refuses and names the oldest event that is retained.
func (ef *eventFeed) tooOld(kind rota.Kind, text string) error {
	from, _ := ef.oldestKept(ef.events.oldest())
	oldest, err := ef.eventBatch(from)
	if err != nil {
		return rota.Refusef(kind, "event_id", "%s: begin without an event id", text)
	}
	return rota.Refusef(kind, "event_id", "%s: the oldest is %s, begin without an event id", text, oldest[0].ID)
}

// eventsFrom returns the place to begin at, and that where all events lie that were
// acknowledged before the call.
func (ef *eventFeed) eventsFrom(ctx context.Context, filter *rota.EventFilter) (place, end uint64, err error) {
	after := filter.After
	if state := ef.events.state(); !filter.Follow || after.Index > state.index || after.Incarnation > state.incarnation {
		if _, err := ef.n.replica.fresh(ctx, peer.ReadOptions{}); err != nil {
			return 0, 0, err
		}
	}
	state := ef.events.state()
	if after.IsZero() {
		return ef.events.oldest(), state.total, nil
	}
	if after.Index > state.index || after.Incarnation > state.incarnation {
		return 0, 0, rota.Refusef(rota.KindOutOfRange, "event_id", "event %s is of the future: the newest entry is %d of "+
			"incarnation %d", after, state.index, state.incarnation)
	}
	place, err = ef.placeAfter(ctx, after)
	return place, state.total, err
}

// placeAfter finds the place after an event.
func (ef *eventFeed) placeAfter(ctx context.Context, after rota.EventID) (uint64, error) {
	entries, err := ef.events.at(after.Index)
	if err != nil || len(entries) == 0 { // it is not here, or is damaged
		entries, err = ef.fetchEvents(ctx, peer.EventRange{At: after.Index})
	}
	if rota.KindOf(err) == rota.KindOutOfRange {
		return ef.placeAfterRestore(after)
	}
	if err != nil {
		return 0, err
	}
	e := &entries[0]
	switch of := incarnationOf(e); {
	case e.Index == after.Index && of == after.Incarnation && after.Seq < e.Count:
		place := e.Before + uint64(after.Seq) + 1
		if place < ef.events.oldest() {
			return 0, ef.tooOld(rota.KindOutOfRange, "the events after "+after.String()+" are no longer retained")
		}
		return place, nil
	case after.Incarnation < of:
		return ef.placeAfterRestore(after)
	default:
		return 0, rota.Refusef(rota.KindInvalid, "event_id", "there is no event %s: give the id of one that was told", after)
	}
}

// placeAfterRestore finds the place after an event that no node has. It may be one
// of the cluster whose backup this cluster was made of: what came after it then is
// all that this one told.
func (ef *eventFeed) placeAfterRestore(after rota.EventID) (uint64, error) {
	oldest, _ := ef.oldestKept(ef.events.oldest())
	events, err := ef.eventBatch(oldest)
	if err == nil && after.Incarnation < events[0].ID.Incarnation && after.Index+1 >= events[0].ID.Index {
		return oldest, nil
	}
	return 0, ef.tooOld(rota.KindOutOfRange, "the events after "+after.String()+" are no longer retained")
}

// incarnationOf reads the first number of an entry's events.
func incarnationOf(e *archive.EventEntry) uint64 {
	v, _ := binary.Uvarint(e.Bytes)
	return v
}

// selected returns the events that a filter lets through; the slice itself where it
// lets all.
func selected(events []rota.ServedEvent, f *rota.EventFilter) []rota.ServedEvent {
	if len(f.Kinds) == 0 && f.Job == "" {
		return events
	}
	var wanted [256]bool
	for _, k := range f.Kinds {
		wanted[k] = true
	}
	var some []rota.ServedEvent
	for i := range events {
		e := &events[i]
		if (len(f.Kinds) == 0 || wanted[e.Kind]) && (f.Job == "" || f.Job == e.Job) {
			some = append(some, *e)
		}
	}
	return some
}
