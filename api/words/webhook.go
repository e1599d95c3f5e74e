package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// WebhookSpecToWire converts the specification of a webhook.
func WebhookSpecToWire(s *rota.WebhookSpec) *rotav1.WebhookSpec {
	w := &rotav1.WebhookSpec{Name: string(s.Name), Url: s.URL, Filter: s.Filter, Generation: s.Generation}
	for _, k := range s.Kinds {
		w.Kinds = append(w.Kinds, k.String())
	}
	return w
}

// WebhookSpecFromWire is the inverse of WebhookSpecToWire.
func WebhookSpecFromWire(w *rotav1.WebhookSpec) (rota.WebhookSpec, error) {
	s := rota.WebhookSpec{Name: rota.WebhookName(w.GetName()), URL: w.GetUrl(), Filter: w.GetFilter(),
		Generation: w.GetGeneration()}
	if n, most := len(w.GetKinds()), int(rota.EventLast); n > most {
		return s, rota.TooMany("kinds", n, most)
	}
	for _, name := range w.GetKinds() {
		var k rota.EventKind
		if err := k.UnmarshalText([]byte(name)); err != nil || k == rota.EventNone {
			return s, rota.Refusef(rota.KindInvalid, "kinds",
				"kinds: unknown event kind %.80q; use one such as jobDead", name)
		}
		s.Kinds = append(s.Kinds, k)
	}
	return s, nil
}

// WebhookToWire converts a webhook's current state.
func WebhookToWire(h *rota.Webhook) *rotav1.Webhook {
	w := &rotav1.Webhook{Spec: WebhookSpecToWire(&h.WebhookSpec), State: h.State.String(), Why: clean(h.Why),
		Version: h.Version, Began: h.Began.String(),
		Cursor: h.Cursor.String(), Pending: h.Pending, Delivered: h.Delivered, Failed: h.Failed, Gaps: h.Gaps,
		Sees: GrantsToWire(h.Sees),
		Etag: h.ETag, RotatedMs: int64(h.Rotated), SetMs: int64(h.Set), By: string(h.By)}
	if h.Gap != nil {
		w.GapAfter, w.GapBefore = h.Gap.After.String(), h.Gap.Before.String()
	}
	return w
}

// WebhookFromWire is the inverse of WebhookToWire.
func WebhookFromWire(w *rotav1.Webhook) (h rota.Webhook, err error) {
	h = rota.Webhook{Why: w.GetWhy(), Version: w.GetVersion(), ETag: w.GetEtag(), Pending: w.GetPending(),
		Delivered: w.GetDelivered(), Failed: w.GetFailed(),
		Gaps: w.GetGaps(), Rotated: rota.Date(w.GetRotatedMs()), Set: rota.Date(w.GetSetMs()),
		By: rota.Principal(w.GetBy())}
	if h.WebhookSpec, err = WebhookSpecFromWire(w.GetSpec()); err != nil {
		return h, err
	}
	if h.State, err = webhookStates.value(w.GetState()); err != nil {
		return h, err
	}
	if h.Sees, err = GrantsFromWire(w.GetSees()); err != nil {
		return h, err
	}
	var gap rota.WebhookGap
	for _, id := range []struct {
		text string
		to   *rota.EventID
	}{{w.GetBegan(), &h.Began}, {w.GetCursor(), &h.Cursor}, {w.GetGapAfter(), &gap.After}, {w.GetGapBefore(),
		&gap.Before}} {
		if *id.to, err = rota.ParseEventID(id.text); err != nil {
			return h, err
		}
	}
	if h.Gaps > 0 {
		h.Gap = &gap
	}
	return h, nil
}

// WebhooksFromWire converts a list of webhooks.
func WebhooksFromWire(w []*rotav1.Webhook) ([]rota.Webhook, error) {
	return tryEach(w, WebhookFromWire)
}
