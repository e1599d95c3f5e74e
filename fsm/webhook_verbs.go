package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/filter"
	"github.com/rotasched/rota/internal/limits"
)

// apply applies an operation on webhooks.
func (h *hooks) apply(op *fsmpb.Op) *fsmpb.Outcome {
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

// set creates a webhook, or replaces what one says; a repetition changes nothing. It selects events by
// the rights of the caller as they are now.
func (h *hooks) set(op *fsmpb.SetWebhook) *fsmpb.Outcome {
	spec := entry.WebhookWords(op)
	if err := spec.CheckShape(); err != nil {
		return entry.Refused(err)
	}
	if _, err := filter.Events(spec.Filter); err != nil {
		return entry.Refused(err)
	}
	slices.Sort(spec.Kinds)
	sees, err := h.seenBy(h.s.journal.owner())
	if err != nil {
		return entry.Refused(err)
	}
	old := h.rows.get(spec.Name)
	if err := h.admit(old, spec); err != nil {
		return entry.Refused(err)
	}
	if old != nil && same(old, spec, sees) {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := h.s.journal.matches(hookText(old, spec.Name)); err != nil {
		return entry.Refused(err)
	}
	by, now := h.s.journal.owner(), h.s.head.date()
	if old == nil {
		h.access.hold(by, access.OwnsWebhook, 1)
		if h.s.queues.get(rota.WebhookQueue) == nil {
			h.placement.addQueue(rota.WebhookQueue, rota.StandardPolicy())
		}
		r := &hookRow{spec: *spec, sees: sees, by: by, version: 1, set: now}
		r.began = h.emit(r, hookEvent{What: "SET"})
		r.cursor = r.began
		h.rows.insert(spec.Name, r)
		return &fsmpb.Outcome{}
	}
	h.access.hold(old.by, access.OwnsWebhook, -1)
	h.access.hold(by, access.OwnsWebhook, 1)
	r := h.rows.edit(spec.Name)
	if spec.Generation != r.spec.Generation {
		r.rotated = now
	}
	r.spec, r.sees, r.by, r.set = *spec, sees, by, now
	r.version++
	h.emit(r, hookEvent{What: "SET"})
	return &fsmpb.Outcome{}
}

// seenBy returns the rights by which a principal's hook selects events; those of the leader itself see all.
func (h *hooks) seenBy(by rota.Principal) ([]rota.Grant, error) {
	all := access.AllRights()
	rights := &all
	if by != "" {
		var refusal *rota.Error
		if rights, refusal = h.access.rightsOf(by); refusal != nil {
			return nil, refusal
		}
	}
	sees := rights.Events(limits.MaxWebhookSees)
	switch n := len(sees); {
	case n == 0:
		return nil, rota.Refusef(rota.KindDenied, rota.RightRead.String(), "%s may read no events: ask for a role that grants it", by)
	case n > limits.MaxWebhookSees:
		return nil, rota.Refusef(rota.KindInvalid, "webhook", "%s reads events of more than %d sets of tenants and queues: use a token of fewer", by,
			limits.MaxWebhookSees)
	}
	return sees, nil
}

// admit refuses a webhook that the cluster has no room for, and a generation that is not the next one. It
// fills in the generation that stays.
func (h *hooks) admit(old *hookRow, spec *rota.WebhookSpec) error {
	least := uint64(1)
	if old != nil {
		least = old.spec.Generation
	}
	switch {
	case h.s.head.cluster == "":
		return rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again")
	case spec.Generation == 0:
		spec.Generation = least
	case spec.Generation < least || spec.Generation > least+1 || old == nil && spec.Generation != 1:
		return rota.Refusef(rota.KindInvalid, "generation", "generation is %d, the secret's is %d: that, or one more, is wanted", spec.Generation, least)
	}
	if old != nil {
		if now := h.s.head.date(); spec.Generation > least && old.rotated > 0 && now < old.rotated+rota.Date(limits.SecretOverlap.Milliseconds()) {
			return rota.Refusef(rota.KindConflict, "generation", "the secret of webhook %s was rotated at %s, and the one before signs still: rotate it again "+
				"a day after", spec.Name, old.rotated)
		}
		if by := h.s.journal.owner(); by != old.by {
			return h.access.mayHold(by, access.OwnsWebhook)
		}
		return nil
	}
	if h.rows.len() >= limits.MaxWebhooks {
		return exhausted("webhook", "%d webhooks are set: no more are taken, delete one with `rota webhook delete`", limits.MaxWebhooks)
	}
	if err := h.access.mayHold(h.s.journal.owner(), access.OwnsWebhook); err != nil {
		return err
	}
	q := h.s.queues.get(rota.WebhookQueue)
	switch {
	case q != nil && q.drainTo != "":
		return leaving(q)
	case q == nil && h.s.queues.len() >= limits.MaxQueues:
		return exhausted("queue", "%d queues are set, and queue %q is not there: delete one with `rota queue delete`", limits.MaxQueues, rota.WebhookQueue)
	}
	return nil
}

// same reports whether a webhook was set so before.
func same(old *hookRow, spec *rota.WebhookSpec, sees []rota.Grant) bool {
	return old.spec.URL == spec.URL && old.spec.Filter == spec.Filter && old.spec.Generation == spec.Generation &&
		slices.Equal(old.spec.Kinds, spec.Kinds) && slices.Equal(old.sees, sees)
}

// named returns a webhook, or the refusal of one that is not there.
func (h *hooks) named(name string) (*hookRow, *rota.Error) {
	if r := h.rows.get(rota.WebhookName(name)); r != nil {
		return r, nil
	}
	return nil, unknownHook(rota.WebhookName(name))
}

// setPaused disables a webhook, or has it go on from its cursor.
func (h *hooks) setPaused(op *fsmpb.PauseWebhook) *fsmpb.Outcome {
	r, err := h.named(op.GetName())
	switch {
	case err != nil:
	case len(op.GetReason()) > limits.MaxReasonBytes:
		err = rota.Refusef(rota.KindInvalid, "reason", "reason has %d bytes: at most %d are taken", len(op.GetReason()), limits.MaxReasonBytes)
	case r.disabled == op.GetPaused():
		return &fsmpb.Outcome{Existed: true}
	}
	if err != nil {
		return entry.Refused(err)
	}
	if err := h.s.journal.matches(hookText(r, r.spec.Name)); err != nil {
		return entry.Refused(err)
	}
	r = h.rows.edit(r.spec.Name)
	if op.GetPaused() {
		why := op.GetReason()
		if why == "" {
			why = "somebody paused it"
		}
		h.disable(r, why)
		return &fsmpb.Outcome{}
	}
	r.disabled, r.why = false, ""
	r.version++
	h.emit(r, hookEvent{What: "RESUMED"})
	return &fsmpb.Outcome{}
}

// skip passes over the events that wait for the cursor: it goes on behind this entry's.
func (h *hooks) skip(op *fsmpb.SkipWebhook) *fsmpb.Outcome {
	r, err := h.named(op.GetName())
	if err != nil {
		return entry.Refused(err)
	}
	r = h.rows.edit(r.spec.Name)
	r.version++
	if !r.disabled {
		r.why = ""
	}
	r.cursor = h.emit(r, hookEvent{What: "SKIPPED", After: r.cursor.String()})
	return &fsmpb.Outcome{}
}

// remove forgets a webhook; its deliveries stay, and whoever works them ends them.
func (h *hooks) remove(op *fsmpb.DeleteWebhook) *fsmpb.Outcome {
	r := h.rows.get(rota.WebhookName(op.GetName()))
	if r == nil {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := h.s.journal.matches(hookText(r, r.spec.Name)); err != nil {
		return entry.Refused(err)
	}
	h.access.hold(r.by, access.OwnsWebhook, -1)
	h.emit(r, hookEvent{What: "DELETED"})
	h.rows.drop(r.spec.Name)
	return &fsmpb.Outcome{}
}

// advance decides the events after one and up to another: whoever leads, the next one begins where it
// ends, so that no event is delivered twice or passed over. Where a delivery has no place the cursor
// stops before it.
func (h *hooks) advance(op *fsmpb.AdvanceHook) *fsmpb.Outcome {
	if o := h.s.internal(); o != nil {
		return o
	}
	r, err := h.named(op.GetName())
	if err == nil {
		err = h.mayAdvance(r, op)
	}
	if err != nil {
		return entry.Refused(err)
	}
	r = h.rows.edit(r.spec.Name)
	if gap := entry.EventWords(op.GetGap()); !gap.IsZero() {
		r.gaps, r.gapFrom, r.gapUntil = r.gaps+1, r.cursor, gap
		h.emit(r, hookEvent{What: "GAP", After: r.cursor.String(), Before: gap.String()})
	}
	for _, d := range op.GetDeliveries() {
		event := entry.EventWords(d.GetEvent())
		if err := h.deliver(r, event, d.GetPayload()); err != nil {
			r.why = tail(err.Error(), limits.MaxReasonBytes)
			return &fsmpb.Outcome{}
		}
		r.cursor = event
	}
	r.cursor, r.why = entry.EventWords(op.GetTo()), ""
	return &fsmpb.Outcome{}
}

// mayAdvance refuses what was read for another cursor or another version, and what is no stretch of events.
func (h *hooks) mayAdvance(r *hookRow, op *fsmpb.AdvanceHook) *rota.Error {
	from, to, gap := entry.EventWords(op.GetFrom()), entry.EventWords(op.GetTo()), entry.EventWords(op.GetGap())
	n := len(op.GetDeliveries())
	switch {
	case r.disabled || op.GetVersion() != r.version || from != r.cursor && !planted.hookRepeats():
		return rota.Refusef(rota.KindStale, "from", "webhook %s of version %d stands at %s: not in version %d at %s", r.spec.Name, r.version, r.cursor,
			op.GetVersion(), from)
	case to.Compare(from) <= 0 || to.Incarnation > h.s.head.incarnation || to.Index >= h.s.at:
		return rota.Refusef(rota.KindInvalid, "to", "to is %s: an event after %s and before entry %d is wanted", to, from, h.s.at)
	case !gap.IsZero() && (gap.Compare(from) <= 0 || gap.Compare(to) > 0):
		return rota.Refusef(rota.KindInvalid, "gap", "gap is %s: an event after %s and up to %s is wanted", gap, from, to)
	case n > limits.MaxDeliveries:
		return rota.Refusef(rota.KindInvalid, "deliveries", "deliveries are %d: at most %d are taken", n, limits.MaxDeliveries)
	case r.pending+int64(n) > limits.MaxPendingDeliveries:
		return rota.Refusef(rota.KindExhausted, "deliveries", "webhook %s has %d pending deliveries: at most %d are taken", r.spec.Name, r.pending,
			limits.MaxPendingDeliveries)
	}
	return h.ascend(r, op, from, to, gap)
}

// ascend refuses deliveries that are not of events of the stretch, in their order, and of its kinds.
func (h *hooks) ascend(r *hookRow, op *fsmpb.AdvanceHook, from, to, gap rota.EventID) *rota.Error {
	for i, d := range op.GetDeliveries() {
		event := entry.EventWords(d.GetEvent())
		if event.Compare(from) <= 0 || event.Compare(to) > 0 || event.Compare(gap) < 0 {
			return rota.Refusef(rota.KindInvalid, "deliveries", "delivery %d is of event %s: one after %s and up to %s is wanted", i+1, event, from, to)
		}
		from = event
		if kind := rota.EventKind(min(d.GetKind(), 255)); len(r.spec.Kinds) > 0 && !slices.Contains(r.spec.Kinds, kind) {
			return rota.Refusef(rota.KindInvalid, "deliveries", "delivery %d is of kind %s, which webhook %s does not select", i+1, kind, r.spec.Name)
		}
	}
	return nil
}
