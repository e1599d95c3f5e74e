package transport

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// webhooksService serves Webhooks (SPEC §13.14).
type webhooksService struct {
	rotav1.UnimplementedWebhooksServer
	core WebhookCore
}

// hookNamed checks the name in a call.
func hookNamed(name string) (rota.WebhookName, error) {
	return rota.WebhookName(name), rota.WebhookName(name).Check("name")
}

// List reads the webhooks by name, whole or in pages.
func (s *webhooksService) List(ctx context.Context,
	req *rotav1.ListWebhooksRequest) (*rotav1.ListWebhooksResponse, error) {
	made := madeBy(req.GetBy(), func(x *rota.Webhook) rota.Principal { return x.By }, s.core.Webhooks)
	rows, at, next, err := wholeList(ctx, req, made, func(x *rota.Webhook) string { return string(x.Name) },
		words.WebhookToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListWebhooksResponse{Webhooks: rows, At: at, NextCursor: next}, nil
}

// Get reads one webhook.
func (s *webhooksService) Get(ctx context.Context, req *rotav1.GetWebhookRequest) (*rotav1.GetWebhookResponse, error) {
	name, err := hookNamed(req.GetName())
	if err != nil {
		return nil, err
	}
	x, at, err := s.core.Webhook(ctx, name, words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.GetWebhookResponse{Webhook: words.WebhookToWire(&x), At: words.ReadAtToWire(at)}, nil
}

// Set creates a webhook, or replaces its specification.
func (s *webhooksService) Set(ctx context.Context, req *rotav1.SetWebhookRequest) (*rotav1.Webhook, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	spec, err := words.WebhookSpecFromWire(req.GetSpec())
	if err != nil {
		return nil, err
	}
	if err := spec.CheckShape(); err != nil {
		return nil, err
	}
	return reply(words.WebhookToWire)(s.core.SetWebhook(ctx, spec))
}

// Pause disables a webhook.
func (s *webhooksService) Pause(ctx context.Context, req *rotav1.PauseWebhookRequest) (*rotav1.Webhook, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	name, err := hookNamed(req.GetName())
	if err != nil {
		return nil, err
	}
	return reply(words.WebhookToWire)(s.core.PauseWebhook(ctx, name, req.GetReason()))
}

// Resume resumes a webhook at its cursor.
func (s *webhooksService) Resume(ctx context.Context, req *rotav1.ResumeWebhookRequest) (*rotav1.Webhook, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	name, err := hookNamed(req.GetName())
	if err != nil {
		return nil, err
	}
	return reply(words.WebhookToWire)(s.core.ResumeWebhook(ctx, name))
}

// Skip discards the pending events.
func (s *webhooksService) Skip(ctx context.Context, req *rotav1.SkipWebhookRequest) (*rotav1.Webhook, error) {
	name, err := hookNamed(req.GetName())
	if err != nil {
		return nil, err
	}
	return reply(words.WebhookToWire)(s.core.SkipWebhook(ctx, name))
}

// Delete deletes a webhook.
func (s *webhooksService) Delete(ctx context.Context,
	req *rotav1.DeleteWebhookRequest) (*rotav1.DeleteWebhookResponse, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	name, err := hookNamed(req.GetName())
	if err != nil {
		return nil, err
	}
	return &rotav1.DeleteWebhookResponse{}, s.core.DeleteWebhook(ctx, name)
}
