package web

import (
	"context"
	"net/http"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// webhookCalls serves the calls of webhooks.
type webhookCalls struct{ *Site }

func (s *Site) webhooks() {
	c := webhookCalls{s}
	const all, one = "/v1/webhooks", "/v1/webhooks/{id}"
	add(s, route{method: http.MethodGet, path: all, call: rotav1.Webhooks_List_FullMethodName, id: "listWebhooks",
		says: "List the webhooks"}, c.list)
	add(s, route{method: http.MethodGet, path: one, call: rotav1.Webhooks_Get_FullMethodName, id: "getWebhook",
		says: "Read a webhook: its cursor, its deliveries, and the reason if it waits"}, c.get)
	add(s, route{method: http.MethodPut, path: one, call: rotav1.Webhooks_Set_FullMethodName, id: "setWebhook",
		says: "Create or replace a webhook; increasing the generation by one rotates its secret"}, c.set)
	add(s, route{method: http.MethodDelete, path: one, call: rotav1.Webhooks_Delete_FullMethodName, id: "deleteWebhook",
		says: "Delete a webhook"}, c.delete)
	add(s, route{method: http.MethodPost, path: one + "/pause", call: rotav1.Webhooks_Pause_FullMethodName,
		id: "pauseWebhook", optional: true,
		says: "Pause a webhook: deliveries stop, and its cursor stays where it is"}, c.pause)
	add(s, route{method: http.MethodPost, path: one + "/resume", call: rotav1.Webhooks_Resume_FullMethodName,
		id:   "resumeWebhook",
		says: "Resume a webhook from its cursor"},
		func(ctx context.Context, in *NamedVersion) (*Versioned[rota.Webhook], error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			return webhookAnswer(s.options.Calls.Webhooks.Resume(ctx,
				&rotav1.ResumeWebhookRequest{Name: in.ID, IfMatch: version}))
		})
	add(s, route{method: http.MethodPost, path: one + "/skip", call: rotav1.Webhooks_Skip_FullMethodName,
		id:   "skipWebhook",
		says: "Skip the pending events of a webhook"}, func(ctx context.Context, in *Named) (*Versioned[rota.Webhook],
		error) {
		return webhookAnswer(s.options.Calls.Webhooks.Skip(ctx, &rotav1.SkipWebhookRequest{Name: in.ID}))
	})
}

func webhookAnswer(w *rotav1.Webhook, err error) (*Versioned[rota.Webhook], error) {
	if err != nil {
		return nil, err
	}
	hook, err := words.WebhookFromWire(w)
	return versioned(hook, hook.ETag, nil), err
}

func (s webhookCalls) list(ctx context.Context, in *MadeList) (*Answer[rest.Webhooks], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Webhooks.List(ctx, &rotav1.ListWebhooksRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor, By: in.By})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetWebhooks(), words.WebhookFromWire)
	return answer(rest.Webhooks{Webhooks: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

func (s webhookCalls) get(ctx context.Context, in *One) (*Versioned[rota.Webhook], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Webhooks.Get(ctx, &rotav1.GetWebhookRequest{Name: in.ID, Read: read})
	if err != nil {
		return nil, err
	}
	hook, err := words.WebhookFromWire(got.GetWebhook())
	return versioned(hook, hook.ETag, got.GetAt()), err
}

func (s webhookCalls) set(ctx context.Context, in *VersionSetting[rota.WebhookSpec]) (*Versioned[rota.Webhook], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	spec, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	if err := sameID(string(spec.Name), in.ID); err != nil {
		return nil, err
	}
	spec.Name = rota.WebhookName(in.ID)
	return webhookAnswer(s.options.Calls.Webhooks.Set(ctx,
		&rotav1.SetWebhookRequest{Spec: words.WebhookSpecToWire(&spec), IfMatch: version}))
}

func (s webhookCalls) delete(ctx context.Context, in *NamedVersion) (*Answer[rest.Deleted], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	_, err = s.options.Calls.Webhooks.Delete(ctx, &rotav1.DeleteWebhookRequest{Name: in.ID, IfMatch: version})
	return answer(rest.Deleted{}, nil), err
}

func (s webhookCalls) pause(ctx context.Context,
	in *VersionSetting[rest.WebhookPause]) (*Versioned[rota.Webhook], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	return webhookAnswer(s.options.Calls.Webhooks.Pause(ctx,
		&rotav1.PauseWebhookRequest{Name: in.ID, Reason: body.Reason, IfMatch: version}))
}
