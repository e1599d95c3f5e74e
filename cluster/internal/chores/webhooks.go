package chores

import (
	"encoding/json"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/filter"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// hooksEvery is how often a leader checks for events that webhooks select.
	hooksEvery = 250 * time.Millisecond
	// hookStride is how many unselected events a leader reads for a hook before it advances the cursor: an entry for
	// each would cost the more, the less a hook selects.
	hookStride = 10_000
	// hookTurns bounds the batches of events that one hook reads before the others have their turn.
	hookTurns = 20
	// hookWaits is how long a hook pauses after its delivery found no room.
	hookWaits = 5 * time.Second
)

// hooker is the leader's chore that creates deliveries of events (SPEC §13.14).
type hooker struct {
	n     *Host
	lag   *Webhooks
	known map[rota.WebhookName]*hookScan
}

// hookScan is how far a leader has read for one version of a hook at one cursor.
type hookScan struct {
	version uint64
	cursor  rota.EventID
	// place is where it continues reading, begun where the cursor is.
	place, begun uint64
	// last is the last event that it read, gap the oldest one after events that are no longer retained.
	last, gap rota.EventID
	filter    filter.Filter
	reader    *access.Reader
	kinds     [256]bool
	all       bool
	// waits is until when it pauses.
	waits time.Time
}

// Loop creates deliveries for as long as a leadership lasts.
func (hl *Webhooks) Loop(l Term) {
	h := &hooker{n: hl.n, lag: hl, known: make(map[rota.WebhookName]*hookScan)}
	tick := hl.n.Ticker(hooksEvery)
	defer tick.Stop()
	defer hl.events.Store(0)
	for {
		select {
		case <-tick.Tick():
		case <-l.Life().Done():
			return
		}
		h.once(l)
	}
}

// once advances each active hook.
func (h *hooker) once(l Term) {
	var list []rota.Webhook
	h.n.Replica.Look(func(v *fsm.View) { list = fsm.WebhooksOf(v) })
	if len(list) == 0 {
		clear(h.known)
		return
	}
	behind := uint64(0)
	for i := range list {
		w := &list[i]
		if w.State != rota.WebhookActive {
			delete(h.known, w.Name)
			continue
		}
		left, err := h.follow(l, w)
		if l.Life().Err() != nil {
			return
		}
		behind = max(behind, left)
		if err != nil {
			delete(h.known, w.Name)
			if h.n.Lines.Allow("webhooks/" + string(w.Name)) {
				h.n.Log.Warn("a webhook does not go on yet", "webhook", string(w.Name), "err", err)
			}
		}
	}
	h.lag.events.Store(behind)
}

// scan returns how far was read for a hook, starting at its cursor if that has changed.
func (h *hooker) scan(l Term, w *rota.Webhook) (*hookScan, error) {
	if s := h.known[w.Name]; s != nil && s.version == w.Version && s.cursor == w.Cursor {
		return s, nil
	}
	s := &hookScan{version: w.Version, cursor: w.Cursor, last: w.Cursor, reader: access.ReaderOf(w.Sees),
		all: len(w.Kinds) == 0}
	for _, k := range w.Kinds {
		s.kinds[k] = true
	}
	var err error
	if s.filter, err = filter.Events(w.Filter); err != nil {
		return nil, err
	}
	s.place, err = h.n.Events.After(l.Life(), w.Cursor)
	if rota.KindOf(err) == rota.KindOutOfRange {
		s.place = h.n.Events.Oldest()
		events, failed := h.n.Events.From(s.place)
		if failed != nil || len(events) == 0 {
			return nil, err
		}
		s.gap, err = events[0].ID, nil
	}
	if err != nil {
		return nil, err
	}
	s.begun = s.place
	if old := h.known[w.Name]; old != nil {
		s.waits = old.waits
	}
	h.known[w.Name] = s
	return s, nil
}

// follow continues reading for one hook and proposes the deliveries. It returns how many events are left.
func (h *hooker) follow(l Term, w *rota.Webhook) (uint64, error) {
	s, err := h.scan(l, w)
	if err != nil || time.Now().Before(s.waits) {
		return 0, err
	}
	room := min(limits.MaxDeliveries, int(limits.MaxPendingDeliveries-w.Pending))
	if room <= 0 {
		return h.n.Events.Behind(s.place), nil // its receiver is behind: the cursor waits
	}
	var deliveries []*fsmpb.HookDelivery
	bytes, full := 0, false
	for range hookTurns {
		events, err := h.n.Events.From(s.place)
		if err != nil {
			return 0, err
		}
		for i := range events {
			e := &events[i]
			if d := s.deliver(e); d != nil {
				if len(deliveries) == room || bytes+len(d.Payload) > limits.DeliveryBytes && len(deliveries) > 0 {
					full = true
					break
				}
				deliveries, bytes = append(deliveries, d), bytes+len(d.Payload)
			}
			s.place, s.last = s.place+1, e.ID
		}
		if full || len(events) == 0 {
			break
		}
	}
	left := h.n.Events.Behind(s.place)
	if s.last == s.cursor || len(deliveries) == 0 && s.gap.IsZero() && s.place-s.begun < hookStride {
		return left, nil
	}
	return left, h.propose(l, w, s, deliveries)
}

// propose lets the machine decide on the events that were read.
func (h *hooker) propose(l Term, w *rota.Webhook, s *hookScan, deliveries []*fsmpb.HookDelivery) error {
	op := &fsmpb.AdvanceHook{Name: string(w.Name), Version: s.version, From: entry.EventOp(s.cursor),
		To: entry.EventOp(s.last), Deliveries: deliveries}
	if !s.gap.IsZero() {
		op.Gap = entry.EventOp(s.gap)
	}
	outcomes, err := l.Propose(l.Life(), []*fsmpb.Op{{Op: &fsmpb.Op_AdvanceHook{AdvanceHook: op}}}, false)
	if err != nil {
		return err
	}
	if err := entry.OutcomeError(outcomes[0]).OrNil(); err != nil {
		return err
	}
	var now rota.Webhook
	h.n.Replica.Look(func(v *fsm.View) { now, _ = fsm.WebhookOf(v, w.Name) })
	if now.Cursor == s.last && now.Version == s.version {
		s.cursor, s.begun, s.gap = s.last, s.place, rota.EventID{}
		return nil
	}
	// A delivery found no room, as the row shows: read again from the cursor.
	s.place, s.last, s.waits = s.begun, s.cursor, time.Now().Add(hookWaits)
	return nil
}

// deliver returns the delivery of an event; nil if the hook does not select it. Events about deliveries cause none.
func (s *hookScan) deliver(e *rota.ServedEvent) *fsmpb.HookDelivery {
	if _, _, own := rota.SplitDeliveryID(e.Job); own || e.Queue == rota.WebhookQueue || !s.all && !s.kinds[e.Kind] ||
		!s.filter.Event(&e.Event) {
		return nil
	}
	seen := s.reader.Events([]rota.ServedEvent{*e})
	if len(seen) == 0 {
		return nil
	}
	body, err := json.Marshal(struct {
		Type      string      `json:"type"`
		Timestamp string      `json:"timestamp"`
		Data      *rota.Event `json:"data"`
	}{e.Kind.String(), e.Date.String(), &seen[0].Event})
	if err != nil {
		return nil // the parts of an event can always be encoded
	}
	return &fsmpb.HookDelivery{Event: entry.EventOp(e.ID), Kind: uint32(e.Kind), Payload: body}
}
