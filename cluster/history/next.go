package history

import (
	"context"

	"github.com/rotasched/rota"
)

// After returns the place behind an event, as the leader reads on from it. OutOfRange says that what
// came after it is retained no longer.
func (ev *Events) After(ctx context.Context, event rota.EventID) (place uint64, err error) {
	if state := ev.state(); event.Index > state.index || event.Incarnation > state.incarnation {
		return 0, rota.Refusef(rota.KindUnavailable, "events", "event %s is not here yet", event)
	}
	return ev.placeAfter(ctx, event)
}

// From returns the events from a place on, some of them, and none where there are none yet. They must
// not be changed.
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

// Behind returns how many events there are from a place on.
func (ev *Events) Behind(place uint64) uint64 {
	visible := ev.state().visible
	return visible - min(place, visible)
}
