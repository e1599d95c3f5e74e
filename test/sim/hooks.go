package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// hooker performs the leader's work on webhooks (SPEC §13.14) at any node, however far behind, so that several leaders
// decide the same events; it also sets the webhook, pauses, resumes, skips and deletes it, and ends some deliveries. It
// draws from a random source of its own, separate from the world's.
type hooker struct {
	actor
	w      *World
	chance *rand.Rand
	n      int
}

// hookName is the only webhook.
const hookName = "hook"

// hookKinds are the kinds of events that it selects.
var hookKinds = []rota.EventKind{rota.EventJobEnqueued, rota.EventJobCompleted, rota.EventJobDead}

func newHooker(w *World) *hooker {
	h := &hooker{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x400c))}
	h.name = "hooker"
	if w.Hooks {
		h.set()
		w.on(&h.actor, 2_000, h.next)
		w.on(&h.actor, 1_000, h.follow)
	}
	return h
}

// quiet reports that every event is delivered.
func (h *hooker) quiet() bool { return len(h.w.audit.hooked.due) == 0 }

// ask sends an operation once, or twice, to any node, without waiting for the answer.
func (h *hooker) ask(op *fsmpb.Op) {
	for i := range 1 + h.chance.IntN(8)/7 {
		h.w.on(&h.actor, Time(i*h.chance.IntN(3_000)), func() {
			n := h.w.nodes[h.chance.IntN(len(h.w.nodes))]
			h.w.forward(n, &h.actor, !n.down, op, func(*fsmpb.Outcome) {})
		})
	}
}

func (h *hooker) set() {
	h.n++
	h.ask(entry.WebhookOp(&rota.WebhookSpec{Name: hookName, URL: fmt.Sprintf("https://example.com/%d", h.n),
		Kinds: slices.Clone(hookKinds)}))
}

func pauseHook(paused bool) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_PauseWebhook{PauseWebhook: &fsmpb.PauseWebhook{Name: hookName, Paused: paused}}}
}

// next performs an operator's action. Once the world has healed it only keeps the hook running.
func (h *hooker) next() {
	w := h.w
	w.on(&h.actor, Time(500+h.chance.IntN(4_000)), h.next)
	if w.now >= max(w.Heal, 20_000) {
		h.ask(pauseHook(false))
		return
	}
	switch h.chance.IntN(16) {
	case 0, 1:
		h.set()
	case 2, 3:
		h.ask(pauseHook(true))
	case 4, 5, 6, 7:
		h.ask(pauseHook(false))
	case 8:
		h.ask(&fsmpb.Op{Op: &fsmpb.Op_SkipWebhook{SkipWebhook: &fsmpb.SkipWebhook{Name: hookName}}})
	case 9:
		h.ask(&fsmpb.Op{Op: &fsmpb.Op_DeleteWebhook{DeleteWebhook: &fsmpb.DeleteWebhook{Name: hookName}}})
		h.set()
	default:
		if all := w.audit.hooked.made; len(all) > 0 {
			h.ask(&fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: string(all[h.chance.IntN(len(all))])}}})
		}
	}
}

// follow reads the events after the cursor that a node knows of, as far as that node has applied, and proposes their
// deliveries: the next leader's proposal may be in flight already.
func (h *hooker) follow() {
	w := h.w
	w.on(&h.actor, Time(50+h.chance.IntN(700)), h.follow)
	n := w.nodes[h.chance.IntN(len(w.nodes))]
	if n.down {
		return
	}
	for _, hook := range fsm.WebhooksOf(&n.machine.View) {
		if hook.State != rota.WebhookActive {
			continue
		}
		if op := h.stretch(n, &hook); op != nil {
			h.ask(op)
		}
	}
}

// stretch returns the operation that decides the events after a hook's cursor, nil if there are none.
func (h *hooker) stretch(n *node, hook *rota.Webhook) *fsmpb.Op {
	op := &fsmpb.AdvanceHook{Name: hookName, Version: hook.Version, From: entry.EventOp(hook.Cursor)}
	last := hook.Cursor
	most := 1 + h.chance.IntN(30)
	for i := range h.w.audit.hooked.events {
		e := &h.w.audit.hooked.events[i]
		if e.ID.Compare(hook.Cursor) <= 0 {
			continue
		}
		if int(e.ID.Index) > n.applied || len(op.Deliveries) == min(most, limits.MaxDeliveries) {
			break
		}
		last = e.ID
		if selects(e) {
			body, _ := json.Marshal(e.ID.String())
			op.Deliveries = append(op.Deliveries, &fsmpb.HookDelivery{Event: entry.EventOp(e.ID), Kind: uint32(e.Kind),
				Payload: body})
		}
	}
	if last == hook.Cursor {
		return nil
	}
	op.To = entry.EventOp(last)
	return &fsmpb.Op{Op: &fsmpb.Op_AdvanceHook{AdvanceHook: op}}
}

// selects reports whether the hook selects an event: deliveries cause no deliveries.
func selects(e *rota.Event) bool {
	_, _, delivery := rota.SplitDeliveryID(e.Job)
	return !delivery && slices.Contains(hookKinds, e.Kind)
}

// hooked is a naive model of the webhook, built from events only.
type hooked struct {
	events []rota.Event
	there  bool
	// due holds the events that it selects and that have no delivery yet.
	due map[rota.EventID]bool
	// made holds the deliveries.
	made []rota.JobID
}

// hookEvent checks that each delivery is of an event that is due, so that none occurs twice, and none of skipped events
// or of events before the hook.
func (a *auditor) hookEvent(e *rota.Event) {
	if !a.w.Hooks {
		return
	}
	m := &a.hooked
	m.events = append(m.events, rota.Event{ID: e.ID, Kind: e.Kind, Job: e.Job})
	_, event, delivery := rota.SplitDeliveryID(e.Job)
	switch {
	case e.Kind == rota.EventWebhookChanged:
		var p struct{ What string }
		if err := json.Unmarshal([]byte(e.Payload), &p); err != nil {
			a.failf("event %s: %v", e.ID, err)
		}
		switch p.What {
		case "SET":
			m.there = true
		case "DELETED":
			m.there = false
			clear(m.due)
		case "SKIPPED":
			a.HooksSkipped += min(len(m.due), 1)
			clear(m.due)
		case "GAP":
			a.failf("the hook has a gap, and all events are there")
		}
	case delivery && e.Kind == rota.EventJobEnqueued:
		if !m.due[event] {
			a.failf("event %s is delivered, and was already, or is not to be", event)
		}
		delete(m.due, event)
		m.made = append(m.made, e.Job)
		a.Delivered++
	case m.there && selects(e):
		m.due[e.ID] = true
	}
}

// hooksFinal checks that every event is delivered.
func (a *auditor) hooksFinal() {
	for id := range a.hooked.due {
		a.failf("event %s was never delivered, and %d others", id, len(a.hooked.due)-1)
		return
	}
}
