package transport

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// plansService serves Plans (SPEC §21.7).
type plansService struct {
	rotav1.UnimplementedPlansServer
	core PlanCore
}

// List reads the plans by id, whole or in pages.
func (s *plansService) List(ctx context.Context, req *rotav1.ListPlansRequest) (*rotav1.ListPlansResponse, error) {
	made := madeBy(req.GetBy(), func(x *rota.Plan) rota.Principal { return x.By }, s.core.Plans)
	rows, at, next, err := wholeList(ctx, req, made, func(p *rota.Plan) string { return string(p.ID) },
		words.PlanToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListPlansResponse{Plans: rows, At: at, NextCursor: next}, nil
}

// Get reads one plan.
func (s *plansService) Get(ctx context.Context, req *rotav1.GetPlanRequest) (*rotav1.GetPlanResponse, error) {
	id := rota.PlanID(req.GetId())
	if err := rota.CheckID("plan", id); err != nil {
		return nil, err
	}
	p, at, err := s.core.Plan(ctx, id, words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.GetPlanResponse{Plan: words.PlanToWire(&p), At: words.ReadAtToWire(at)}, nil
}

// Start starts a plan.
func (s *plansService) Start(ctx context.Context, req *rotav1.PlanSpec) (*rotav1.Plan, error) {
	spec, err := planned(req)
	if err != nil {
		return nil, err
	}
	return reply(words.PlanToWire)(s.core.StartPlan(ctx, spec))
}

// Preview returns what a plan would do.
func (s *plansService) Preview(ctx context.Context, req *rotav1.PlanSpec) (*rotav1.PlanPreview, error) {
	spec, err := planned(req)
	if err != nil {
		return nil, err
	}
	return reply(words.PlanPreviewToWire)(s.core.PreviewPlan(ctx, spec))
}

func planned(req *rotav1.PlanSpec) (rota.PlanSpec, error) {
	spec, err := words.PlanSpecFromWire(req)
	if err == nil {
		err = spec.CheckShape()
	}
	return spec, err
}

// Cancel stops a plan at its current position.
func (s *plansService) Cancel(ctx context.Context, req *rotav1.CancelPlanRequest) (*rotav1.Plan, error) {
	id := rota.PlanID(req.GetId())
	if err := rota.CheckID("plan", id); err != nil {
		return nil, err
	}
	return reply(words.PlanToWire)(s.core.CancelPlan(ctx, id, req.GetReason()))
}
