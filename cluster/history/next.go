package history

import (
	"context"

	"github.com/rotasched/rota"
)

// After returns the place after an event, from which the leader continues reading. OutOfRange means that the events
// after it are no longer retained.
func (ev *Events) After(ctx context.Context, event rota.EventID) (place uint64, err error) {
	if state := ev.state(); event.Index > state.index || event.Incarnation > state.incarnation {
		return 0, rota.Refusef(rota.KindUnavailable, "events", "event %s is not here yet", event)
	}
	return ev.placeAfter(ctx, event)
}

// From returns some of the events from a place on, none if there are none yet. They must not be changed.
func (ev *Events) From(place uint64) ([]rota.ServedEvent, error) {
	if place >= ev.state().visible {
		return nil, nil
	}
	return ev.eventBatch(place)
}

// Oldest returns the place of the oldest event that any node has.
func (ev *Events) Oldest() uint64 {
	oldest, _ := ev.oldestKept(ev.oldest())
	return oldest
}

// Behind returns the number of events from a place on.
func (ev *Events) Behind(place uint64) uint64 {
	visible := ev.state().visible
	return visible - min(place, visible)
}
