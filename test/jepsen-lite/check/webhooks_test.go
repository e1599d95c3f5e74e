package check

import (
	"testing"

	"github.com/rotasched/rota"
)

// runs completes the schedule's run of a second, as event n.
func (s *story) runs(n int64) *story {
	id := string(rota.RunID("tick", rota.Date(1_700_000_040_000+n*1_000), ""))
	s.happened("jobCompleted", id, 0, "")
	e := &s.h.Events[len(s.h.Events)-1]
	e.ID, e.Clock = rota.EventID{Incarnation: 1, Index: rota.Index(1_000_000 + 10*n)}, e.Clock+n*1_000
	return s
}

// delivers adds the delivery of event n.
func (s *story) delivers(n int64) *story {
	id := string(rota.DeliveryID("hook", rota.EventID{Incarnation: 1, Index: rota.Index(1_000_000 + 10*n)}))
	s.happened("jobEnqueued", id, 0, "")
	return s.ended(id, "quick", "COMPLETED", "")
}

// fails makes an attempt of the delivery of event n fail, and queues the delivery again.
func (s *story) fails(n int64) *story {
	id := string(rota.DeliveryID("hook", rota.EventID{Incarnation: 1, Index: rota.Index(1_000_000 + 10*n)}))
	s.happened("jobRetryScheduled", id, 0, "")
	s.happened("jobEnqueued", id, 0, "")
	return s
}

// loses ends a lease of the delivery of event n by an event, and queues the delivery again at once.
func (s *story) loses(n int64, by string) *story {
	id := string(rota.DeliveryID("hook", rota.EventID{Incarnation: 1, Index: rota.Index(1_000_000 + 10*n)}))
	s.happened(by, id, 0, "")
	s.happened("jobEnqueued", id, 0, "")
	return s
}

// hookStory adds three runs, each delivered.
func hookStory(s *story) {
	s.h.Webhooks = []WebhookFacts{{Name: "hook", Schedule: "tick", Kinds: []string{"jobCompleted"}, Known: true,
		State: "ACTIVE", Cursor: rota.EventID{Incarnation: 1, Index: 1_000_025}}}
	s.runs(1).delivers(1).runs(2).runs(3).delivers(2)
}

func TestWebhooksBite(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"twice", "webhooks", after(hookStory, func(s *story) { s.delivers(1) })},
		{"twice_behind_a_retry", "webhooks", after(hookStory, func(s *story) { s.fails(1).delivers(1) })},
		{"twice_behind_a_lost_lease", "webhooks", after(hookStory,
			func(s *story) { s.loses(1, "leaseCancelled").delivers(1) })},
		{"twice_behind_a_cancellation", "webhooks", after(hookStory, func(s *story) {
			id := string(rota.DeliveryID("hook", rota.EventID{Incarnation: 1, Index: 1_000_010}))
			s.happened("leaseCancelled", id, 0, "")
			s.loses(1, "jobCancelled")
		})},
		{"never", "webhooks", after(hookStory, func(s *story) { s.h.Webhooks[0].Cursor.Index = 1_000_030 })},
		{"late", "webhooks", after(hookStory, func(s *story) { s.runs(20) })},
		{"of_nothing", "webhooks", after(hookStory, func(s *story) { s.delivers(7) })},
		{"out_of_order", "webhooks", after(hookStory, func(s *story) { s.runs(4).delivers(4).delivers(3) })},
		{"disabled", "webhooks", after(hookStory, func(s *story) { s.h.Webhooks[0].State = "DISABLED" })},
		{"a_gap", "webhooks", after(hookStory, func(s *story) { s.h.Webhooks[0].Gaps = 1 })},
		{"not_worked", "webhooks", after(hookStory, func(s *story) { s.h.Final[len(s.h.Final)-1].State = "QUEUED" })},
		{"gone", "webhooks", after(hookStory, func(s *story) { s.h.Final = s.h.Final[:len(s.h.Final)-1] })},
	})
	spares(t, []plant{
		{"all_is_well", "webhooks", hookStory},
		{"the_last_is_under_way", "webhooks", after(hookStory, func(s *story) { s.runs(5) })},
		{"another_attempt", "webhooks", after(hookStory, func(s *story) { s.fails(1) })},
		{"a_worker_suspended", "webhooks", after(hookStory, func(s *story) { s.loses(1, "leaseCancelled") })},
		{"a_lease_declined", "webhooks", after(hookStory, func(s *story) { s.loses(1, "leaseDeclined") })},
		{"a_lease_expired", "webhooks", after(hookStory, func(s *story) { s.loses(1, "leaseExpired") })},
	})
}
