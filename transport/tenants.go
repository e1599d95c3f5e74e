package transport

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// tenantsService serves Tenants.
type tenantsService struct {
	rotav1.UnimplementedTenantsServer
	core TenantCore
}

// List reads the tenants by id, whole or in pages.
func (s *tenantsService) List(ctx context.Context,
	req *rotav1.ListTenantsRequest) (*rotav1.ListTenantsResponse, error) {
	rows, at, next, err := wholeList(ctx, req, s.core.Tenants, func(t *rota.Tenant) string { return string(t.ID) },
		words.TenantToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListTenantsResponse{Tenants: rows, At: at, NextCursor: next}, nil
}

// Get reads one tenant, set or not.
func (s *tenantsService) Get(ctx context.Context, req *rotav1.GetTenantRequest) (*rotav1.GetTenantResponse, error) {
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return nil, err
	}
	tenant, at, err := s.core.Tenant(ctx, rota.TenantID(req.GetId()), words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.GetTenantResponse{Tenant: words.TenantToWire(&tenant), At: words.ReadAtToWire(at)}, nil
}

// Set creates or changes a tenant. A setting that no tenant could have is rejected here, whatever the tenant's limits
// are.
func (s *tenantsService) Set(ctx context.Context, req *rotav1.SetTenantRequest) (*rotav1.Tenant, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return nil, err
	}
	if n := len(req.GetSet()); n > maxSettings {
		return nil, rota.TooMany("set", n, maxSettings)
	}
	set, scratch := words.SettingsFromWire(req.GetSet()), rota.DefaultTenantLimits()
	for _, one := range set {
		if err := scratch.Set(one); err != nil {
			return nil, err
		}
	}
	if req.GetDryRun() {
		return reply(words.TenantToWire)(s.core.PreviewTenant(ctx, rota.TenantID(req.GetId()), set))
	}
	return reply(words.TenantToWire)(s.core.SetTenant(ctx, rota.TenantID(req.GetId()), set))
}

// Delete removes the settings of a tenant that nothing refers to.
func (s *tenantsService) Delete(ctx context.Context,
	req *rotav1.DeleteTenantRequest) (*rotav1.DeleteTenantResponse, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return nil, err
	}
	return &rotav1.DeleteTenantResponse{}, s.core.DeleteTenant(ctx, rota.TenantID(req.GetId()))
}
