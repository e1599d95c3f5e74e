package workload

import (
	"context"
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// hooked is the run's webhook: it selects the events of the runs of a schedule. The workers of the run process its
// deliveries like other jobs; other tests cover what a relay does with one.
var hooked = check.WebhookFacts{Name: "hook", Schedule: "tick",
	Kinds: []string{rota.EventJobEnqueued.String(), rota.EventJobCompleted.String()}}

// makeWebhook sets it, before the first date of its schedule.
func (w *trial) makeWebhook(ctx context.Context, c *client.Client) error {
	f := hooked
	f.SetAt = w.Rec.Now()
	spec := rota.WebhookSpec{Name: rota.WebhookName(f.Name), URL: "https://example.com/hook",
		Filter: "schedule=" + f.Schedule, Kinds: []rota.EventKind{rota.EventJobEnqueued, rota.EventJobCompleted}}
	if _, err := client.WebhooksOf(c).Set(ctx, spec); err != nil {
		return fmt.Errorf("set webhook %s: %w", f.Name, err)
	}
	w.Rec.With(func(h *check.History) { h.Webhooks = append(h.Webhooks, f) })
	return nil
}

// readWebhook reads its state, before the jobs are listed.
func (w *trial) readWebhook(ctx context.Context, c *client.Client) error {
	hook, err := client.WebhooksOf(c).Get(ctx, rota.WebhookName(hooked.Name))
	if err != nil {
		return fmt.Errorf("read webhook %s: %w", hooked.Name, err)
	}
	w.Rec.With(func(h *check.History) {
		for i := range h.Webhooks {
			f := &h.Webhooks[i]
			f.Known, f.State, f.Cursor, f.Gaps = true, hook.State.String(), hook.Cursor, hook.Gaps
		}
	})
	return nil
}
