package transport

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

// fakeHook is the webhook that a core without a cluster returns.
func fakeHook(name rota.WebhookName) rota.Webhook {
	return rota.Webhook{WebhookSpec: rota.WebhookSpec{Name: name, URL: "https://example.com/"},
		State: rota.WebhookDisabled, Why: "a test", Version: 2,
		Gaps: 1, Gap: &rota.WebhookGap{After: rota.EventID{Incarnation: 1, Index: 2},
			Before: rota.EventID{Incarnation: 1, Index: 3}},
		Sees: []rota.Grant{{Right: rota.RightRead, Tenant: "*", Queue: "*"}}}
}

func (c *fakeCore) Webhooks(_ context.Context, opt peer.ReadOptions) ([]rota.Webhook, rota.ReadAt, error) {
	return []rota.Webhook{fakeHook("h")}, fakeAt(opt), c.err
}

func (c *fakeCore) Webhook(_ context.Context, name rota.WebhookName,
	opt peer.ReadOptions) (rota.Webhook, rota.ReadAt, error) {
	return fakeHook(name), fakeAt(opt), c.err
}

func (c *fakeCore) SetWebhook(_ context.Context, spec rota.WebhookSpec) (rota.Webhook, error) {
	w := fakeHook(spec.Name)
	w.WebhookSpec = spec
	return w, c.err
}

func (c *fakeCore) PauseWebhook(_ context.Context, name rota.WebhookName, reason string) (rota.Webhook, error) {
	w := fakeHook(name)
	w.Why = reason
	return w, c.err
}

func (c *fakeCore) ResumeWebhook(_ context.Context, name rota.WebhookName) (rota.Webhook, error) {
	return fakeHook(name), c.err
}

func (c *fakeCore) SkipWebhook(_ context.Context, name rota.WebhookName) (rota.Webhook, error) {
	return fakeHook(name), c.err
}

func (c *fakeCore) DeleteWebhook(context.Context, rota.WebhookName) error { return c.err }

func webhooksUnary(b *bundle) map[string]unaryRow {
	type call = func(context.Context) (proto.Message, error)
	hooks := rotav1.NewWebhooksClient(b.conn)
	set := func(change func(*rotav1.WebhookSpec)) call {
		return func(ctx context.Context) (proto.Message, error) {
			spec := &rotav1.WebhookSpec{Name: "h", Url: "https://example.com/", Kinds: []string{"jobDead"}}
			change(spec)
			return hooks.Set(ctx, &rotav1.SetWebhookRequest{Spec: spec})
		}
	}
	long := strings.Repeat("h", rota.MaxWebhookName+1)
	named := func(do func(context.Context, string) (proto.Message, error)) (good, bad call) {
		return func(ctx context.Context) (proto.Message, error) { return do(ctx, "h") },
			func(ctx context.Context) (proto.Message, error) { return do(ctx, long) }
	}
	row := func(want string, do func(context.Context, string) (proto.Message, error)) unaryRow {
		good, bad := named(do)
		return unaryRow{good, bad, want}
	}
	return map[string]unaryRow{
		"webhooks set": {set(func(*rotav1.WebhookSpec) {}),
			set(func(s *rotav1.WebhookSpec) { s.Url = "file:///etc/passwd" }), `kinds:"jobDead"`},
		"webhooks set kind": {set(func(*rotav1.WebhookSpec) {}),
			set(func(s *rotav1.WebhookSpec) { s.Kinds = []string{"none"} }), `name:"h"`},
		"webhooks set kinds": {set(func(*rotav1.WebhookSpec) {}),
			set(func(s *rotav1.WebhookSpec) { s.Kinds = make([]string, 1_000) }), `name:"h"`},
		"webhooks set user": {set(func(*rotav1.WebhookSpec) {}),
			set(func(s *rotav1.WebhookSpec) { s.Url = "https://u:p@example.com/" }), `name:"h"`},
		"webhooks list": {func(ctx context.Context) (proto.Message, error) {
			return hooks.List(ctx, &rotav1.ListWebhooksRequest{})
		},
			func(ctx context.Context) (proto.Message, error) {
				return hooks.List(ctx, &rotav1.ListWebhooksRequest{Limit: -1})
			}, `gap_before:"1.3.0"`},
		"webhooks get": row(`state:"DISABLED"`, func(ctx context.Context, name string) (proto.Message, error) {
			return hooks.Get(ctx, &rotav1.GetWebhookRequest{Name: name})
		}),
		"webhooks pause": row(`why:"x"`, func(ctx context.Context, name string) (proto.Message, error) {
			return hooks.Pause(ctx, &rotav1.PauseWebhookRequest{Name: name, Reason: "x"})
		}),
		"webhooks resume": row(`name:"h"`, func(ctx context.Context, name string) (proto.Message, error) {
			return hooks.Resume(ctx, &rotav1.ResumeWebhookRequest{Name: name})
		}),
		"webhooks skip": row(`name:"h"`, func(ctx context.Context, name string) (proto.Message, error) {
			return hooks.Skip(ctx, &rotav1.SkipWebhookRequest{Name: name})
		}),
		"webhooks delete": row(``, func(ctx context.Context, name string) (proto.Message, error) {
			return hooks.Delete(ctx, &rotav1.DeleteWebhookRequest{Name: name})
		}),
	}
}
