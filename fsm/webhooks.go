package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// hooks owns the table of webhooks: their cursors over the events, and what becomes of their deliveries
// (SPEC §13.14).
type hooks struct {
	s         *state
	access    *authority
	ended     *ended
	life      *lifecycle
	placement *placement
	rows      table[rota.WebhookName, hookRow, *hookRow]
}

// hookEvent is the payload of webhookChanged.
type hookEvent struct {
	Webhook rota.WebhookName `json:"webhook"`
	What    string           `json:"what"`
	Why     string           `json:"why,omitempty"`
	// After and Before are of GAP: the events that it never saw lay between them.
	After  string `json:"after,omitempty"`
	Before string `json:"before,omitempty"`
}

// emit adds an event about a webhook, and returns its id.
func (h *hooks) emit(r *hookRow, p hookEvent) rota.EventID {
	p.Webhook = r.spec.Name
	return h.s.journal.announce(&rota.Event{Kind: rota.EventWebhookChanged, Payload: payload(p)})
}

// hookText returns the name of a webhook for refusals, and its version, "" for nil.
func hookText(r *hookRow, name rota.WebhookName) (what, etag string) {
	if r != nil {
		etag = r.etag()
	}
	return fmt.Sprintf("webhook %q", name), etag
}

func unknownHook(name rota.WebhookName) *rota.Error {
	return rota.Refusef(rota.KindNotFound, "webhook", "webhook %.80q is not known", name)
}

// delivery returns the hook that a job is a delivery of, to be edited; nil of any other job, and of one of
// a hook that was deleted since.
func (h *hooks) delivery(id rota.JobID) *hookRow {
	name, event, ok := rota.SplitDeliveryID(id)
	if !ok {
		return nil
	}
	if r := h.rows.get(name); r == nil || event.Compare(r.began) <= 0 {
		return nil
	}
	return h.rows.edit(name)
}

// ended counts a delivery that has ended. One that was given up disables its hook: a receiver that is away
// for so long is to be looked at, and misses nothing more meanwhile.
func (h *hooks) jobEnded(j *jobRow, st rota.JobState) {
	r := h.delivery(j.spec.ID)
	if r == nil {
		return
	}
	r.pending--
	switch st {
	case rota.JobCompleted:
		r.delivered++
	case rota.JobDead, rota.JobExpired:
		r.failed++
		h.disable(r, tail("delivery "+string(j.spec.ID)+" ended "+st.String()+": "+j.lastError, limits.MaxReasonBytes))
	}
}

// again counts an ended delivery that runs once more.
func (h *hooks) again(id rota.JobID) {
	if r := h.delivery(id); r != nil {
		r.pending++
	}
}

// disable has a hook wait for somebody; r is editable.
func (h *hooks) disable(r *hookRow, why string) {
	if r.disabled {
		return
	}
	r.disabled, r.why = true, why
	r.version++
	h.emit(r, hookEvent{What: "DISABLED", Why: why})
}

// disableAll disables the hooks of some principals.
func (h *hooks) disableAll(why string, of func(rota.Principal) bool) {
	var names []rota.WebhookName
	h.rows.scan(func(name rota.WebhookName, r *hookRow) bool {
		if of(r.by) && !r.disabled {
			names = append(names, name)
		}
		return true
	})
	for _, name := range names {
		h.disable(h.rows.edit(name), why)
	}
}

// deliver makes the job that delivers an event; an error says that it has no place now. One that is known
// is not made twice.
func (h *hooks) deliver(r *hookRow, event rota.EventID, body []byte) error {
	id := rota.DeliveryID(r.spec.Name, event)
	if h.s.jobs.get(id) != nil || h.ended.tombs.get(id) != nil {
		return nil
	}
	spec := rota.NewJobSpec(rota.WebhookType, body)
	spec.ID, spec.Queue, spec.Tenant, spec.MaxRuntime = id, rota.WebhookQueue, rota.WebhookTenant, limits.DeliveryRuntime
	spec.Retry = rota.RetryPolicy{Attempts: limits.DeliveryAttempts, Base: limits.DeliveryBase, Cap: limits.DeliveryCap, FactorPermille: 2_000,
		JitterPermille: 100}
	q := h.s.queues.get(spec.Queue)
	if err := h.life.admitRun(&spec, q); err != nil {
		return err
	}
	r.pending++
	h.life.start(h.life.insert(h.s.specs.keep(&spec), q))
	return nil
}

// ofHooks refuses to delete the queue of deliveries.
func ofHooks(n int) *rota.Error {
	return rota.Refusef(rota.KindConflict, "queue", "the deliveries of %d webhooks go to queue %q: delete the webhooks first, with `rota webhook delete`",
		n, rota.WebhookQueue)
}

// hooks checks the webhooks against the deliveries that they count.
func (c *checker) hooks() {
	m := c.m
	pending := make(map[rota.WebhookName]int64)
	m.jobs.scan(func(id rota.JobID, _ *jobRow) bool {
		if name, event, ok := rota.SplitDeliveryID(id); ok {
			if r := m.hooks.rows.get(name); r != nil && event.Compare(r.began) > 0 {
				pending[name]++
				if event.Compare(r.cursor) > 0 {
					c.fault("I4: delivery %s is beyond the cursor %s of its webhook", id, r.cursor)
				}
			}
		}
		return true
	})
	m.hooks.rows.scan(func(name rota.WebhookName, r *hookRow) bool {
		last := rota.EventID{Incarnation: m.head.incarnation, Index: m.head.index + 1}
		if name != r.spec.Name || r.version == 0 || r.pending != pending[name] || r.cursor.Compare(r.began) < 0 || r.cursor.Compare(last) >= 0 ||
			r.disabled && r.why == "" || len(r.sees) == 0 || r.set > m.head.date() {
			c.fault("I4: webhook %s of version %d began at %s, stands at %s and counts %d pending deliveries: %d live", name, r.version, r.began,
				r.cursor, r.pending, pending[name])
		}
		return true
	})
	if m.hooks.rows.len() > 0 && m.queues.get(rota.WebhookQueue) == nil {
		c.fault("I4: there are webhooks, and no queue for their deliveries")
	}
}

// setWebhook needs to read all that a hook of the name sees.
func (j *judgement) setWebhook(op *fsmpb.Op) {
	j.somewhere(op)
	if r := j.ac.hooks.rows.get(rota.WebhookName(op.GetSetWebhook().GetName())); j.refusal == nil && r != nil && !j.rights.CoverAll(r.sees) {
		j.refusal = rota.Refusef(rota.KindConflict, "name", "webhook %s is taken: choose another name", r.spec.Name)
	}
}

// webhook needs to read all that a hook sees, but of whoever set it.
func (j *judgement) webhook(name string) {
	r := j.ac.hooks.rows.get(rota.WebhookName(name))
	if r != nil && r.by != j.actor && !j.rights.CoverAll(r.sees) {
		j.refusal = unknownHook(rota.WebhookName(name))
		return
	}
	j.somewhere(nil)
}
