package hooks

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/filter"
	"github.com/rotasched/rota/internal/limits"
)

// Apply applies an operation on webhooks.
func (h *Hooks) Apply(op *fsmpb.Op) *fsmpb.Outcome {
	switch op := op.GetOp().(type) {
	case *fsmpb.Op_SetWebhook:
		return h.set(op.SetWebhook)
	case *fsmpb.Op_PauseWebhook:
		return h.setPaused(op.PauseWebhook)
	case *fsmpb.Op_SkipWebhook:
		return h.skip(op.SkipWebhook)
	case *fsmpb.Op_DeleteWebhook:
		return h.remove(op.DeleteWebhook)
	case *fsmpb.Op_AdvanceHook:
		return h.advance(op.AdvanceHook)
	default:
		panic("fsm: the machine names the operations on webhooks")
	}
}

// set creates a webhook, or replaces its settings; a repetition changes nothing. It selects events by the present
// rights of the caller.
func (h *Hooks) set(op *fsmpb.SetWebhook) *fsmpb.Outcome {
	spec := entry.WebhookWords(op)
	if err := spec.CheckShape(); err != nil {
		return entry.Refused(err)
	}
	if _, err := filter.Events(spec.Filter); err != nil {
		return entry.Refused(err)
	}
	slices.Sort(spec.Kinds)
	sees, err := h.seenBy(h.s.Journal.Owner())
	if err != nil {
		return entry.Refused(err)
	}
	old := h.Rows.Get(spec.Name)
	if err := h.admit(old, spec); err != nil {
		return entry.Refused(err)
	}
	if old != nil && same(old, spec, sees) {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := h.s.Journal.Matches(textOf(old, spec.Name)); err != nil {
		return entry.Refused(err)
	}
	by, now := h.s.Journal.Owner(), h.s.Header.Date()
	if old == nil {
		h.ports.Hold(by, access.OwnsWebhook, 1)
		if h.s.QueueTable.Get(rota.WebhookQueue) == nil {
			h.ports.AddQueue(rota.WebhookQueue, rota.StandardPolicy())
		}
		r := &state.HookRow{Spec: *spec, Sees: sees, By: by, Version: 1, Set: now}
		r.Began = h.emit(r, event{What: "SET"})
		r.Cursor = r.Began
		h.Rows.Insert(spec.Name, r)
		return &fsmpb.Outcome{}
	}
	h.ports.Hold(old.By, access.OwnsWebhook, -1)
	h.ports.Hold(by, access.OwnsWebhook, 1)
	r := h.Rows.Edit(spec.Name)
	if spec.Generation != r.Spec.Generation {
		r.Rotated = now
	}
	r.Spec, r.Sees, r.By, r.Set = *spec, sees, by, now
	r.Version++
	h.emit(r, event{What: "SET"})
	return &fsmpb.Outcome{}
}

// seenBy returns the rights by which a principal's hook selects events; hooks of the leader itself see all.
func (h *Hooks) seenBy(by rota.Principal) ([]rota.Grant, error) {
	all := access.AllRights()
	rights := &all
	if by != "" {
		var refusal *rota.Error
		if rights, refusal = h.ports.RightsOf(by); refusal != nil {
			return nil, refusal
		}
	}
	sees := rights.Events(limits.MaxWebhookSees)
	switch n := len(sees); {
	case n == 0:
		return nil, rota.Refusef(rota.KindDenied, rota.RightRead.String(),
			"%s has no right to read events: ask for a role that grants it", by)
	case n > limits.MaxWebhookSees:
		return nil, rota.Refusef(rota.KindInvalid, "webhook",
			"%s reads events of more than %d sets of tenants and queues: use a token of fewer", by,
			limits.MaxWebhookSees)
	}
	return sees, nil
}

// admit refuses a webhook that the cluster has no room for, and a generation that is not the next one. It fills in an
// unchanged generation.
func (h *Hooks) admit(old *state.HookRow, spec *rota.WebhookSpec) error {
	least := uint64(1)
	if old != nil {
		least = old.Spec.Generation
	}
	switch {
	case h.s.Header.Cluster == "":
		return rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again")
	case spec.Generation == 0:
		spec.Generation = least
	case spec.Generation < least || spec.Generation > least+1 || old == nil && spec.Generation != 1:
		return rota.Refusef(rota.KindInvalid, "generation", "generation: got %d, want the secret's %d or one more",
			spec.Generation, least)
	}
	if old != nil {
		if now := h.s.Header.Date(); spec.Generation > least && old.Rotated > 0 &&
			now < old.Rotated+rota.Date(limits.SecretOverlap.Milliseconds()) {
			return rota.Refusef(rota.KindConflict, "generation",
				"the secret of webhook %s was rotated at %s, and the one before signs still: rotate it again "+
					"a day after", spec.Name, old.Rotated)
		}
		if by := h.s.Journal.Owner(); by != old.By {
			return h.ports.MayHold(by, access.OwnsWebhook)
		}
		return nil
	}
	if h.Rows.Len() >= limits.MaxWebhooks {
		return refuse.Exhausted("webhook",
			"%d webhooks are set: no more are taken, delete one with `rota webhook delete`",
			limits.MaxWebhooks)
	}
	if err := h.ports.MayHold(h.s.Journal.Owner(), access.OwnsWebhook); err != nil {
		return err
	}
	q := h.s.QueueTable.Get(rota.WebhookQueue)
	switch {
	case q != nil && q.DrainTo != "":
		return refuse.Leaving(q)
	case q == nil && h.s.QueueTable.Len() >= limits.MaxQueues:
		return refuse.Exhausted("queue",
			"%d queues are set, and queue %q is not there: delete one with `rota queue delete`",
			limits.MaxQueues, rota.WebhookQueue)
	}
	return nil
}

// same reports whether a webhook already has these settings.
func same(old *state.HookRow, spec *rota.WebhookSpec, sees []rota.Grant) bool {
	return old.Spec.URL == spec.URL && old.Spec.Filter == spec.Filter && old.Spec.Generation == spec.Generation &&
		slices.Equal(old.Spec.Kinds, spec.Kinds) && slices.Equal(old.Sees, sees)
}

// named returns a webhook, or a refusal if there is none.
func (h *Hooks) named(name string) (*state.HookRow, *rota.Error) {
	if r := h.Rows.Get(rota.WebhookName(name)); r != nil {
		return r, nil
	}
	return nil, refuse.UnknownHook(rota.WebhookName(name))
}

// setPaused disables a webhook, or makes it continue from its cursor.
func (h *Hooks) setPaused(op *fsmpb.PauseWebhook) *fsmpb.Outcome {
	r, err := h.named(op.GetName())
	switch {
	case err != nil:
	case len(op.GetReason()) > limits.MaxReasonBytes:
		err = rota.Refusef(rota.KindInvalid, "reason", "reason too long: got %d bytes, maximum %d", len(op.GetReason()),
			limits.MaxReasonBytes)
	case r.Disabled == op.GetPaused():
		return &fsmpb.Outcome{Existed: true}
	}
	if err != nil {
		return entry.Refused(err)
	}
	if err := h.s.Journal.Matches(textOf(r, r.Spec.Name)); err != nil {
		return entry.Refused(err)
	}
	r = h.Rows.Edit(r.Spec.Name)
	if op.GetPaused() {
		why := op.GetReason()
		if why == "" {
			why = "somebody paused it"
		}
		h.disable(r, why)
		return &fsmpb.Outcome{}
	}
	r.Disabled, r.Why = false, ""
	r.Version++
	h.emit(r, event{What: "RESUMED"})
	return &fsmpb.Outcome{}
}

// skip skips the events that wait for the cursor: it continues after those of this entry.
func (h *Hooks) skip(op *fsmpb.SkipWebhook) *fsmpb.Outcome {
	r, err := h.named(op.GetName())
	if err != nil {
		return entry.Refused(err)
	}
	r = h.Rows.Edit(r.Spec.Name)
	r.Version++
	if !r.Disabled {
		r.Why = ""
	}
	r.Cursor = h.emit(r, event{What: "SKIPPED", After: r.Cursor.String()})
	return &fsmpb.Outcome{}
}

// remove deletes a webhook; its deliveries stay until a worker ends them.
func (h *Hooks) remove(op *fsmpb.DeleteWebhook) *fsmpb.Outcome {
	r := h.Rows.Get(rota.WebhookName(op.GetName()))
	if r == nil {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := h.s.Journal.Matches(textOf(r, r.Spec.Name)); err != nil {
		return entry.Refused(err)
	}
	h.ports.Hold(r.By, access.OwnsWebhook, -1)
	h.emit(r, event{What: "DELETED"})
	h.Rows.Drop(r.Spec.Name)
	return &fsmpb.Outcome{}
}

// advance decides the events after one and up to another. The next one begins where it ends, so that no event is
// delivered twice or skipped, whichever node leads. If a delivery has no room the cursor stops before it.
func (h *Hooks) advance(op *fsmpb.AdvanceHook) *fsmpb.Outcome {
	if o := h.s.Internal(); o != nil {
		return o
	}
	r, err := h.named(op.GetName())
	if err == nil {
		err = h.mayAdvance(r, op)
	}
	if err != nil {
		return entry.Refused(err)
	}
	r = h.Rows.Edit(r.Spec.Name)
	if gap := entry.EventWords(op.GetGap()); !gap.IsZero() {
		r.Gaps, r.GapFrom, r.GapUntil = r.Gaps+1, r.Cursor, gap
		h.emit(r, event{What: "GAP", After: r.Cursor.String(), Before: gap.String()})
	}
	for _, d := range op.GetDeliveries() {
		event := entry.EventWords(d.GetEvent())
		if err := h.deliver(r, event, d.GetPayload()); err != nil {
			r.Why = state.Tail(err.Error(), limits.MaxReasonBytes)
			return &fsmpb.Outcome{}
		}
		r.Cursor = event
	}
	r.Cursor, r.Why = entry.EventWords(op.GetTo()), ""
	return &fsmpb.Outcome{}
}

// mayAdvance refuses deliveries for another cursor or another version, and a range of events that is not valid.
func (h *Hooks) mayAdvance(r *state.HookRow, op *fsmpb.AdvanceHook) *rota.Error {
	from, to, gap := entry.EventWords(op.GetFrom()), entry.EventWords(op.GetTo()), entry.EventWords(op.GetGap())
	n := len(op.GetDeliveries())
	switch {
	case r.Disabled || op.GetVersion() != r.Version || from != r.Cursor && !planted.hookRepeats():
		return rota.Refusef(rota.KindStale, "from", "webhook %s of version %d stands at %s: not in version %d at %s",
			r.Spec.Name, r.Version, r.Cursor, op.GetVersion(), from)
	case to.Compare(from) <= 0 || to.Incarnation > h.s.Header.Incarnation || to.Index >= h.s.At:
		return rota.Refusef(rota.KindInvalid, "to", "to: got %s, want an event after %s and before entry %d", to, from,
			h.s.At)
	case !gap.IsZero() && (gap.Compare(from) <= 0 || gap.Compare(to) > 0):
		return rota.Refusef(rota.KindInvalid, "gap", "gap: got %s, want an event after %s and up to %s", gap, from, to)
	case n > limits.MaxDeliveries:
		return rota.Refusef(rota.KindInvalid, "deliveries", "too many deliveries: got %d, maximum %d", n,
			limits.MaxDeliveries)
	case r.Pending+int64(n) > limits.MaxPendingDeliveries:
		return rota.Refusef(rota.KindExhausted, "deliveries",
			"too many pending deliveries: webhook %s has %d, maximum %d", r.Spec.Name, r.Pending,
			limits.MaxPendingDeliveries)
	}
	return h.ascend(r, op, from, to, gap)
}

// ascend refuses deliveries that are not of events of the range, in their order, and of its kinds.
func (h *Hooks) ascend(r *state.HookRow, op *fsmpb.AdvanceHook, from, to, gap rota.EventID) *rota.Error {
	for i, d := range op.GetDeliveries() {
		event := entry.EventWords(d.GetEvent())
		if event.Compare(from) <= 0 || event.Compare(to) > 0 || event.Compare(gap) < 0 {
			return rota.Refusef(rota.KindInvalid, "deliveries",
				"deliveries: delivery %d is of event %s, want one after %s and up to %s", i+1, event, from, to)
		}
		from = event
		if kind := rota.EventKind(min(d.GetKind(), 255)); len(r.Spec.Kinds) > 0 &&
			!slices.Contains(r.Spec.Kinds, kind) {
			return rota.Refusef(rota.KindInvalid, "deliveries",
				"delivery %d is of kind %s, which webhook %s does not select", i+1, kind, r.Spec.Name)
		}
	}
	return nil
}
