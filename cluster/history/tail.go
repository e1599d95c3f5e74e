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
// send is called from another goroutine, once at a time; its error ends the call
// and is returned. It has returned when Events does, unless ctx has ended or it is too slow. Where a filter selects nothing for a while, a batch without events says
// how far the node has looked. send may keep the events, which it must not change. One that takes
// longer than 30 s is left behind: Events returns Exhausted, and the caller has to
// end what it is stuck in. OutOfRange says that filter.After is older than what is
// retained, and names the oldest; Invalid, that there is no such event.
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

// serve sends what lies between two places; without an end if the filter follows.
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
			return ev.tooOld(rota.KindOutOfRange, "the events after "+s.last.String()+" are on no node any more")
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

// IndexAt returns the index of the newest entry of a moment or before it, as events say when they
// happened; OutOfRange where none of then is retained.
func (ev *Events) IndexAt(ctx context.Context, date rota.Date) (rota.Index, error) {
	if err := ev.enter(); err != nil { // what is applied is shown to who follows
		return 0, err
	}
	defer ev.leave()
	low, _ := ev.oldestKept(ev.oldest())
	state := ev.state()
	high, index := state.visible, state.index
	first := low
	for low < high { // the first event that came later
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
		return 0, rota.Refusef(rota.KindOutOfRange, "at", "%s lies before the oldest event that is retained: name an index", date)
	}
	return index, nil
}

// skipLost goes to the oldest event that any node has, where nobody was promised
// an older one: a cluster restored from a backup has no events of its past.
func (ev *Events) skipLost(ctx context.Context, place uint64, filter *rota.EventFilter) (uint64, error) {
	if !filter.After.IsZero() {
		return 0, ev.tooOld(rota.KindOutOfRange, "the events after "+filter.After.String()+" are no longer retained")
	}
	if oldest, sure := ev.oldestKept(place); sure && oldest > place {
		return oldest, nil
	}
	if !ev.host.pause(wakeMost) || ctx.Err() != nil { // a node has it now, or is to be asked again
		return 0, ev.host.ended(ctx, "following events")
	}
	return place, nil
}

// oldestKept is the place of the oldest event from a place on that a node has; sure
// says that all were asked.
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

// tooOld refuses and names the oldest event that is retained.
func (ev *Events) tooOld(kind rota.Kind, text string) error {
	from, _ := ev.oldestKept(ev.oldest())
	oldest, err := ev.eventBatch(from)
	if err != nil {
		return rota.Refusef(kind, "event_id", "%s: begin without an event id", text)
	}
	return rota.Refusef(kind, "event_id", "%s: the oldest is %s, begin without an event id", text, oldest[0].ID)
}

// eventsFrom returns the place to begin at, and that where all events lie that were
// acknowledged before the call.
func (ev *Events) eventsFrom(ctx context.Context, filter *rota.EventFilter) (place, end uint64, err error) {
	after := filter.After
	if filter.Latest && !after.IsZero() {
		return 0, 0, rota.Refusef(rota.KindInvalid, "event_id", "event %s is given beside latest: give one of them", after)
	}
	how := peer.ReadOptions{MinIndex: 1} // who follows waits for the leader only where nobody vouches for this node
	if state := ev.state(); !filter.Follow || filter.Latest || after.Index > state.index || after.Incarnation > state.incarnation {
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
		return 0, 0, rota.Refusef(rota.KindOutOfRange, "event_id", "event %s is of the future: the newest entry is %d of "+
			"incarnation %d; where it came from this cluster, that was restored since: begin without an event id", after, state.index, state.incarnation)
	}
	place, err = ev.placeAfter(ctx, after)
	return place, state.total, err
}

// newest returns the id of the last of so many events: where who begins behind it resumes.
func (ev *Events) newest(ctx context.Context, total uint64) (rota.EventID, error) {
	if total == 0 {
		return rota.EventID{}, nil
	}
	place := total - 1
	for state := ev.state(); place >= state.visible; state = ev.state() { // applied, and not shown yet
		select {
		case <-state.wake:
		case <-ctx.Done():
			return rota.EventID{}, ev.host.ended(ctx, "looking for the newest event")
		case <-ev.host.Life.Done():
			return rota.EventID{}, ev.host.ended(ctx, "looking for the newest event")
		}
	}
	events, err := ev.eventBatch(place)
	if rota.KindOf(err) == rota.KindOutOfRange { // a cluster that was restored has none of its past
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
	if err != nil || len(entries) == 0 { // it is not here, or is damaged
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
		return 0, rota.Refusef(rota.KindInvalid, "event_id", "there is no event %s: pass the id of one that was received", after)
	}
}

// placeAfterRestore finds the place after an event that no node has. It may be one
// of the cluster whose backup this cluster was made of: what came after it then is
// all that this one has.
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

// selected returns the events that a filter lets through; the slice itself where it
// lets all.
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
