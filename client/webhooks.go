package client

import (
	"context"
	"iter"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// Webhooks groups the calls for webhooks: events posted to other systems (SPEC §13.14).
type Webhooks struct{ c *Client }

// WebhooksOf returns the calls for a cluster's webhooks.
func WebhooksOf(c *Client) Webhooks { return Webhooks{c} }

// webhook makes a call that returns a webhook.
func webhook[Q any](ctx context.Context, c *Client, what string, request *Q,
	call func(rotav1.WebhooksClient, context.Context, *Q, ...grpc.CallOption) (*rotav1.Webhook, error)) (rota.Webhook,
	error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Webhook, error) { return call(n.webhooks, ctx, request) }
	return one(ctx, c, what, words.WebhookFromWire, ask)
}

// Set creates or replaces a webhook; setting the same again changes nothing. The events that it selects from now on
// become jobs, which `rota relay webhooks` posts.
func (w Webhooks) Set(ctx context.Context, spec rota.WebhookSpec, only ...Condition) (rota.Webhook, error) {
	return webhook(ctx, w.c, "set webhook", &rotav1.SetWebhookRequest{Spec: words.WebhookSpecToWire(&spec),
		IfMatch: etagOf(only)}, rotav1.WebhooksClient.Set)
}

// Pause disables a webhook. Reading the webhook returns the reason.
func (w Webhooks) Pause(ctx context.Context, name rota.WebhookName, reason string,
	only ...Condition) (rota.Webhook, error) {
	return webhook(ctx, w.c, "pause webhook", &rotav1.PauseWebhookRequest{Name: string(name), Reason: reason,
		IfMatch: etagOf(only)}, rotav1.WebhooksClient.Pause)
}

// Resume continues a webhook from its cursor.
func (w Webhooks) Resume(ctx context.Context, name rota.WebhookName, only ...Condition) (rota.Webhook, error) {
	return webhook(ctx, w.c, "resume webhook", &rotav1.ResumeWebhookRequest{Name: string(name), IfMatch: etagOf(only)},
		rotav1.WebhooksClient.Resume)
}

// Skip skips the events that are pending at a webhook's cursor.
func (w Webhooks) Skip(ctx context.Context, name rota.WebhookName) (rota.Webhook, error) {
	return webhook(ctx, w.c, "skip webhook", &rotav1.SkipWebhookRequest{Name: string(name)}, rotav1.WebhooksClient.Skip)
}

// Delete deletes a webhook; a missing webhook is not an error.
func (w Webhooks) Delete(ctx context.Context, name rota.WebhookName, only ...Condition) error {
	ask := func(ctx context.Context, n *node) (*rotav1.DeleteWebhookResponse, error) {
		return n.webhooks.Delete(ctx, &rotav1.DeleteWebhookRequest{Name: string(name), IfMatch: etagOf(only)})
	}
	_, err := one(ctx, w.c, "delete webhook", func(*rotav1.DeleteWebhookResponse) (struct{}, error) {
		return struct{}{}, nil
	}, ask)
	return err
}

// Get reads one webhook.
func (w Webhooks) Get(ctx context.Context, name rota.WebhookName, opts ...ReadOption) (rota.Webhook, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetWebhookResponse, error) {
		return n.webhooks.Get(ctx, &rotav1.GetWebhookRequest{Name: string(name), Read: how})
	}
	from := func(a *rotav1.GetWebhookResponse) (rota.Webhook, error) { return words.WebhookFromWire(a.GetWebhook()) }
	return read(ctx, w.c, "show webhook", opts, from, ask)
}

// List lists the webhooks by name.
func (w Webhooks) List(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Webhook, error] {
	return list(ctx, w.c, "list webhooks", 0, "", opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.Webhook], err error) {
			answer, err := n.webhooks.List(ctx, &rotav1.ListWebhooksRequest{Read: words.ReadToWire(p.read),
				Limit: int32(p.limit), Cursor: p.cursor, By: p.by})
			if err != nil {
				return got, err
			}
			got.items, err = words.WebhooksFromWire(answer.GetWebhooks())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}
