package cluster

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestWebhooks_withoutAPlace: an event whose delivery found no room, because its queue was full, is delivered once
// there is room: it is not skipped together with the events read after it.
func TestWebhooks_withoutAPlace(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n, ctx := b.leader(), within(t, ample)
	hook := rota.WebhookSpec{Name: "h", URL: "https://127.0.0.1:9/", Kinds: []rota.EventKind{rota.EventJobEnqueued}}
	if _, err := n.SetWebhook(ctx, hook); err != nil {
		t.Fatal(err)
	}
	capped := func(most string) {
		if _, err := n.SetQueue(ctx, rota.WebhookQueue, "", []rota.Setting{{Key: "queue_cap",
			Value: most}}); err != nil {
			t.Fatal(err)
		}
	}
	delivered := func() (n int) {
		w, _, err := b.leader().Webhook(within(t, ample), "h", peer.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return int(w.Pending)
	}
	capped("1")
	submitAll(t, n, specs("first", 1))
	b.eventually("the first event is delivered", func() bool { return delivered() == 1 })
	submitAll(t, n, specs("second", 1))
	b.eventually("the second has no place", func() bool {
		w, _, err := n.Webhook(within(t, ample), "h", peer.ReadOptions{})
		return err == nil && w.Why != ""
	})
	capped("10")
	submitAll(t, n, specs("third", 1))
	b.eventually("all three are delivered", func() bool { return delivered() == 3 })
}
