package verbs

import (
	"context"
	"net/url"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/filter"
	"github.com/rotasched/rota/internal/peer"
)

// WebhookVerbs are the operations on webhooks, for users (SPEC §13.14).
type WebhookVerbs struct{ n *Host }

// NewWebhooks returns the verbs on webhooks.
func NewWebhooks(h *Host) WebhookVerbs { return WebhookVerbs{h} }

func unknownWebhook(name rota.WebhookName) error {
	return rota.Refusef(rota.KindNotFound, "webhook", "webhook %q is not known", name)
}

// Webhooks lists the webhooks that the caller may read.
func (wv *WebhookVerbs) Webhooks(ctx context.Context, opt peer.ReadOptions) ([]rota.Webhook, rota.ReadAt, error) {
	return replica.ReadAs(ctx, wv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) (some []rota.Webhook,
		err error) {
		for _, w := range fsm.WebhooksOf(s) {
			if rd.Webhook(&w) {
				some = append(some, w)
			}
		}
		return some, nil
	})
}

// Webhook reads one webhook.
func (wv *WebhookVerbs) Webhook(ctx context.Context, name rota.WebhookName,
	opt peer.ReadOptions) (rota.Webhook, rota.ReadAt, error) {
	return replica.ReadAs(ctx, wv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) (rota.Webhook, error) {
		w, ok := fsm.WebhookOf(s, name)
		if !ok || !rd.Webhook(&w) {
			return rota.Webhook{}, unknownWebhook(name)
		}
		return w, nil
	})
}

// changed applies an operation of the caller and returns the webhook as the operation left it.
func (wv *WebhookVerbs) changed(ctx context.Context, name rota.WebhookName, op *fsmpb.Op) (rota.Webhook, error) {
	_, index, err := wv.n.ProposeOne(ctx, op)
	if err != nil {
		return rota.Webhook{}, err
	}
	w, _, err := wv.Webhook(access.Itself(ctx), name, peer.ReadOptions{MinIndex: index})
	return w, err
}

// SetWebhook creates a webhook, or replaces its content.
func (wv *WebhookVerbs) SetWebhook(ctx context.Context, spec rota.WebhookSpec) (rota.Webhook, error) {
	if err := spec.CheckShape(); err != nil {
		return rota.Webhook{}, err
	}
	if _, err := filter.Events(spec.Filter); err != nil {
		return rota.Webhook{}, err
	}
	if u, err := url.Parse(spec.URL); err != nil || u.Hostname() == "" {
		return rota.Webhook{}, rota.Refusef(rota.KindInvalid, "url",
			"url: got %.80q; use one such as https://example.com/rota", spec.URL)
	}
	return wv.changed(ctx, spec.Name, entry.WebhookOp(&spec))
}

// PauseWebhook disables a webhook, for a reason that is shown.
func (wv *WebhookVerbs) PauseWebhook(ctx context.Context, name rota.WebhookName, reason string) (rota.Webhook, error) {
	return wv.changed(ctx, name,
		&fsmpb.Op{Op: &fsmpb.Op_PauseWebhook{PauseWebhook: &fsmpb.PauseWebhook{Name: string(name), Paused: true,
			Reason: reason}}})
}

// ResumeWebhook resumes a webhook from its cursor.
func (wv *WebhookVerbs) ResumeWebhook(ctx context.Context, name rota.WebhookName) (rota.Webhook, error) {
	return wv.changed(ctx, name,
		&fsmpb.Op{Op: &fsmpb.Op_PauseWebhook{PauseWebhook: &fsmpb.PauseWebhook{Name: string(name)}}})
}

// SkipWebhook skips the events after a webhook's cursor.
func (wv *WebhookVerbs) SkipWebhook(ctx context.Context, name rota.WebhookName) (rota.Webhook, error) {
	return wv.changed(ctx, name,
		&fsmpb.Op{Op: &fsmpb.Op_SkipWebhook{SkipWebhook: &fsmpb.SkipWebhook{Name: string(name)}}})
}

// DeleteWebhook deletes a webhook; deleting a missing one is not an error.
func (wv *WebhookVerbs) DeleteWebhook(ctx context.Context, name rota.WebhookName) error {
	_, _, err := wv.n.ProposeOne(ctx,
		&fsmpb.Op{Op: &fsmpb.Op_DeleteWebhook{DeleteWebhook: &fsmpb.DeleteWebhook{Name: string(name)}}})
	return err
}
