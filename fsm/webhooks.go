package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// hooks owns the table of webhooks: their cursors over the events, and the results of their deliveries (SPEC §13.14).
type hooks struct {
	s         *state.State
	access    *authority
	ended     *ended
	life      *lifecycle
	placement *placement
	rows      state.Table[rota.WebhookName, state.HookRow, *state.HookRow]
}

// hookEvent is the payload of webhookChanged.
type hookEvent struct {
	Webhook rota.WebhookName `json:"webhook"`
	What    string           `json:"what"`
	Why     string           `json:"why,omitempty"`
	// After and Before belong to GAP: the missed events were between them.
	After  string `json:"after,omitempty"`
	Before string `json:"before,omitempty"`
}

// emit adds an event about a webhook, and returns its id.
func (h *hooks) emit(r *state.HookRow, p hookEvent) rota.EventID {
	p.Webhook = r.Spec.Name
	return h.s.Journal.Announce(&rota.Event{Kind: rota.EventWebhookChanged, Payload: state.Payload(p)})
}

// hookText returns the name of a webhook for refusals, and its version, "" for nil.
func hookText(r *state.HookRow, name rota.WebhookName) (what, etag string) {
	if r != nil {
		etag = r.ETag()
	}
	return fmt.Sprintf("webhook %q", name), etag
}

func unknownHook(name rota.WebhookName) *rota.Error {
	return rota.Refusef(rota.KindNotFound, "webhook", "webhook %.80q is not known", name)
}

// delivery returns the hook that a job delivers for, editable; nil for any other job, and if the hook was deleted
// since.
func (h *hooks) delivery(id rota.JobID) *state.HookRow {
	name, event, ok := rota.SplitDeliveryID(id)
	if !ok {
		return nil
	}
	if r := h.rows.Get(name); r == nil || event.Compare(r.Began) <= 0 {
		return nil
	}
	return h.rows.Edit(name)
}

// jobEnded counts a delivery that has ended. A delivery that failed for good disables its hook: a receiver that fails
// for that long needs attention, and misses no further events meanwhile.
func (h *hooks) jobEnded(j *state.JobRow, st rota.JobState) {
	r := h.delivery(j.Spec.ID)
	if r == nil {
		return
	}
	r.Pending--
	switch st {
	case rota.JobCompleted:
		r.Delivered++
	case rota.JobDead, rota.JobExpired:
		r.Failed++
		h.disable(r, state.Tail("delivery "+string(j.Spec.ID)+" ended "+st.String()+": "+j.LastError,
			limits.MaxReasonBytes))
	}
}

// again counts an ended delivery that runs again.
func (h *hooks) again(id rota.JobID) {
	if r := h.delivery(id); r != nil {
		r.Pending++
	}
}

// disable disables a hook until it is enabled again; r is editable.
func (h *hooks) disable(r *state.HookRow, why string) {
	if r.Disabled {
		return
	}
	r.Disabled, r.Why = true, why
	r.Version++
	h.emit(r, hookEvent{What: "DISABLED", Why: why})
}

// disableAll disables the hooks of some principals.
func (h *hooks) disableAll(why string, of func(rota.Principal) bool) {
	var names []rota.WebhookName
	h.rows.Scan(func(name rota.WebhookName, r *state.HookRow) bool {
		if of(r.By) && !r.Disabled {
			names = append(names, name)
		}
		return true
	})
	for _, name := range names {
		h.disable(h.rows.Edit(name), why)
	}
}

// deliver creates the job that delivers an event; an error means that there is no room now. A known delivery is not
// created again.
func (h *hooks) deliver(r *state.HookRow, event rota.EventID, body []byte) error {
	id := rota.DeliveryID(r.Spec.Name, event)
	if h.s.JobTable.Get(id) != nil || h.ended.tombs.Get(id) != nil {
		return nil
	}
	spec := rota.NewJobSpec(rota.WebhookType, body)
	spec.ID, spec.Queue, spec.Tenant, spec.MaxRuntime = id, rota.WebhookQueue, rota.WebhookTenant, limits.DeliveryRuntime
	spec.Retry = rota.RetryPolicy{Attempts: limits.DeliveryAttempts, Base: limits.DeliveryBase, Cap: limits.DeliveryCap,
		FactorPermille: 2_000,
		JitterPermille: 100}
	q := h.s.QueueTable.Get(spec.Queue)
	if err := h.life.admitRun(&spec, q); err != nil {
		return err
	}
	r.Pending++
	h.life.start(h.life.insert(h.s.Specs.Keep(&spec), q))
	return nil
}

// ofHooks refuses to delete the queue of deliveries.
func ofHooks(n int) *rota.Error {
	return rota.Refusef(rota.KindConflict, "queue",
		"the deliveries of %d webhooks go to queue %q: delete the webhooks first, with `rota webhook delete`",
		n, rota.WebhookQueue)
}

// hooks checks the webhooks against the deliveries that they count.
func (c *checker) hooks() {
	m := c.m
	pending := make(map[rota.WebhookName]int64)
	m.JobTable.Scan(func(id rota.JobID, _ *state.JobRow) bool {
		if name, event, ok := rota.SplitDeliveryID(id); ok {
			if r := m.hooks.rows.Get(name); r != nil && event.Compare(r.Began) > 0 {
				pending[name]++
				if event.Compare(r.Cursor) > 0 {
					c.fault("I4: delivery %s is beyond the cursor %s of its webhook", id, r.Cursor)
				}
			}
		}
		return true
	})
	m.hooks.rows.Scan(func(name rota.WebhookName, r *state.HookRow) bool {
		last := rota.EventID{Incarnation: m.Header.Incarnation, Index: m.Header.Index + 1}
		if name != r.Spec.Name || r.Version == 0 || r.Pending != pending[name] || r.Cursor.Compare(r.Began) < 0 ||
			r.Cursor.Compare(last) >= 0 ||
			r.Disabled && r.Why == "" || len(r.Sees) == 0 || r.Set > m.Header.Date() {
			c.fault("I4: webhook %s of version %d began at %s, stands at %s and counts %d pending deliveries: %d live",
				name, r.Version, r.Began, r.Cursor, r.Pending, pending[name])
		}
		return true
	})
	if m.hooks.rows.Len() > 0 && m.QueueTable.Get(rota.WebhookQueue) == nil {
		c.fault("I4: there are webhooks, and no queue for their deliveries")
	}
}

// setWebhook requires the right to read everything that a hook of the name sees.
func (j *judgement) setWebhook(op *fsmpb.Op) {
	j.somewhere(op)
	if r := j.ac.hooks.rows.Get(rota.WebhookName(op.GetSetWebhook().GetName())); j.refusal == nil && r != nil &&
		!j.rights.CoverAll(r.Sees) {
		j.refusal = rota.Refusef(rota.KindConflict, "name", "webhook %s exists already: choose another name",
			r.Spec.Name)
	}
}

// webhook requires the right to read everything that a hook sees, except of the principal that set it.
func (j *judgement) webhook(name string) {
	r := j.ac.hooks.rows.Get(rota.WebhookName(name))
	if r != nil && r.By != j.actor && !j.rights.CoverAll(r.Sees) {
		j.refusal = unknownHook(rota.WebhookName(name))
		return
	}
	j.somewhere(nil)
}
