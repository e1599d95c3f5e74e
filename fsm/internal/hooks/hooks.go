package hooks

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// Hooks owns the table of webhooks: their cursors over the events, and the results of their deliveries (SPEC §13.14).
type Hooks struct {
	s     *state.State
	ports Ports
	Rows  state.Table[rota.WebhookName, state.HookRow, *state.HookRow]
}

// Ports is what the webhooks use of other parts.
type Ports struct {
	// RightsOf returns the rights of a principal at the present date.
	RightsOf func(rota.Principal) (*access.Rights, *rota.Error)
	// MayHold refuses one more row of a principal; Hold counts them.
	MayHold func(by rota.Principal, what access.Owned) error
	Hold    func(by rota.Principal, what access.Owned, n int64)
	Tombs   *state.Tombs
	// AdmitRun checks a job that is not a submission, Insert adds it, Start gives it its first state.
	AdmitRun func(*rota.JobSpec, *state.QueueRow) error
	Insert   func(*state.KeptSpec, *state.QueueRow) *state.JobRow
	Start    func(*state.JobRow)
	AddQueue func(rota.QueueName, rota.QueuePolicy)
}

// Init connects the webhooks to the state and the parts that they use.
func (h *Hooks) Init(s *state.State, ports Ports) {
	h.s, h.ports = s, ports
	h.Rows.Init(state.TagWebhook, &s.Ledger)
}

// event is the payload of webhookChanged.
type event struct {
	Webhook rota.WebhookName `json:"webhook"`
	What    string           `json:"what"`
	Why     string           `json:"why,omitempty"`
	// After and Before belong to GAP: the missed events were between them.
	After  string `json:"after,omitempty"`
	Before string `json:"before,omitempty"`
}

// emit adds an event about a webhook, and returns its id.
func (h *Hooks) emit(r *state.HookRow, p event) rota.EventID {
	p.Webhook = r.Spec.Name
	return h.s.Journal.Announce(&rota.Event{Kind: rota.EventWebhookChanged, Payload: state.Payload(p)})
}

// textOf returns the name of a webhook for refusals, and its version, "" for nil.
func textOf(r *state.HookRow, name rota.WebhookName) (what, etag string) {
	if r != nil {
		etag = r.ETag()
	}
	return fmt.Sprintf("webhook %q", name), etag
}

// delivery returns the hook that a job delivers for, editable; nil for any other job, and if the hook was deleted
// since.
func (h *Hooks) delivery(id rota.JobID) *state.HookRow {
	name, event, ok := rota.SplitDeliveryID(id)
	if !ok {
		return nil
	}
	if r := h.Rows.Get(name); r == nil || event.Compare(r.Began) <= 0 {
		return nil
	}
	return h.Rows.Edit(name)
}

// JobEnded counts a delivery that has ended. A delivery that failed for good disables its hook: a receiver that fails
// for that long needs attention, and misses no further events meanwhile.
func (h *Hooks) JobEnded(j *state.JobRow, st rota.JobState) {
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

// Again counts an ended delivery that runs again.
func (h *Hooks) Again(id rota.JobID) {
	if r := h.delivery(id); r != nil {
		r.Pending++
	}
}

// disable disables a hook until it is enabled again; r is editable.
func (h *Hooks) disable(r *state.HookRow, why string) {
	if r.Disabled {
		return
	}
	r.Disabled, r.Why = true, why
	r.Version++
	h.emit(r, event{What: "DISABLED", Why: why})
}

// DisableAll disables the hooks of some principals.
func (h *Hooks) DisableAll(why string, of func(rota.Principal) bool) {
	var names []rota.WebhookName
	h.Rows.Scan(func(name rota.WebhookName, r *state.HookRow) bool {
		if of(r.By) && !r.Disabled {
			names = append(names, name)
		}
		return true
	})
	for _, name := range names {
		h.disable(h.Rows.Edit(name), why)
	}
}

// deliver creates the job that delivers an event; an error means that there is no room now. A known delivery is not
// created again.
func (h *Hooks) deliver(r *state.HookRow, event rota.EventID, body []byte) error {
	id := rota.DeliveryID(r.Spec.Name, event)
	if h.s.JobTable.Get(id) != nil || h.ports.Tombs.Get(id) != nil {
		return nil
	}
	spec := rota.NewJobSpec(rota.WebhookType, body)
	spec.ID, spec.Queue, spec.Tenant, spec.MaxRuntime = id, rota.WebhookQueue, rota.WebhookTenant,
		limits.DeliveryRuntime
	spec.Retry = rota.RetryPolicy{Attempts: limits.DeliveryAttempts, Base: limits.DeliveryBase, Cap: limits.DeliveryCap,
		FactorPermille: 2_000,
		JitterPermille: 100}
	q := h.s.QueueTable.Get(spec.Queue)
	if err := h.ports.AdmitRun(&spec, q); err != nil {
		return err
	}
	r.Pending++
	h.ports.Start(h.ports.Insert(h.s.Specs.Keep(&spec), q))
	return nil
}

// OfHooks refuses to delete the queue of deliveries.
func OfHooks(n int) *rota.Error {
	return rota.Refusef(rota.KindConflict, "queue",
		"the deliveries of %d webhooks go to queue %q: delete the webhooks first, with `rota webhook delete`",
		n, rota.WebhookQueue)
}

// Check checks the webhooks against the deliveries that they count.
func (h *Hooks) Check(fault func(format string, args ...any)) {
	pending := make(map[rota.WebhookName]int64)
	h.s.JobTable.Scan(func(id rota.JobID, _ *state.JobRow) bool {
		if name, event, ok := rota.SplitDeliveryID(id); ok {
			if r := h.Rows.Get(name); r != nil && event.Compare(r.Began) > 0 {
				pending[name]++
				if event.Compare(r.Cursor) > 0 {
					fault("I4: delivery %s is beyond the cursor %s of its webhook", id, r.Cursor)
				}
			}
		}
		return true
	})
	h.Rows.Scan(func(name rota.WebhookName, r *state.HookRow) bool {
		last := rota.EventID{Incarnation: h.s.Header.Incarnation, Index: h.s.Header.Index + 1}
		if name != r.Spec.Name || r.Version == 0 || r.Pending != pending[name] || r.Cursor.Compare(r.Began) < 0 ||
			r.Cursor.Compare(last) >= 0 ||
			r.Disabled && r.Why == "" || len(r.Sees) == 0 || r.Set > h.s.Header.Date() {
			fault("I4: webhook %s of version %d began at %s, stands at %s and counts %d pending deliveries: %d live",
				name, r.Version, r.Began, r.Cursor, r.Pending, pending[name])
		}
		return true
	})
	if h.Rows.Len() > 0 && h.s.QueueTable.Get(rota.WebhookQueue) == nil {
		fault("I4: there are webhooks, and no queue for their deliveries")
	}
}

// Hook returns a webhook in its present state.
func (h *Hooks) Hook(name rota.WebhookName) (rota.Webhook, bool) {
	r := h.Rows.Get(name)
	if r == nil {
		return rota.Webhook{}, false
	}
	return r.Words(), true
}

// List lists the webhooks in the order of their names.
func (h *Hooks) List() []rota.Webhook {
	list := make([]rota.Webhook, 0, h.Rows.Len())
	h.Rows.Scan(func(_ rota.WebhookName, r *state.HookRow) bool {
		list = append(list, r.Words())
		return true
	})
	return list
}
