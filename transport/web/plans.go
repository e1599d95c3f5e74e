package web

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// planCalls serves the calls of plans.
type planCalls struct{ *Site }

func (s *Site) plans() {
	c := planCalls{s}
	const all, one = "/v1/plans", "/v1/plans/{id}"
	add(s, route{method: http.MethodGet, path: all, call: rotav1.Plans_List_FullMethodName, id: "listPlans",
		says: "List the running plans, and the ended plans that are retained"}, c.listPlans)
	add(s, route{method: http.MethodGet, path: one, call: rotav1.Plans_Get_FullMethodName, id: "getPlan",
		says: "Read a plan: its progress, and the jobs for which its verb was refused"}, c.getPlan)
	add(s, route{method: http.MethodPut, path: one, call: rotav1.Plans_Start_FullMethodName, id: "startPlan",
		says: "Apply one verb to all jobs that a filter selects; dry_run=1 only counts them"}, c.startPlan)
	add(s, route{method: http.MethodDelete, path: one, call: rotav1.Plans_Cancel_FullMethodName, id: "cancelPlan",
		says: "Cancel a plan; the changes that it has made remain"}, c.cancelPlan)
}

func (s planCalls) listPlans(ctx context.Context, in *MadeList) (*Answer[rest.Plans], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Plans.List(ctx, &rotav1.ListPlansRequest{Read: read, Limit: in.Limit, Cursor: in.Cursor,
		By: in.By})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetPlans(), words.PlanFromWire)
	return answer(rest.Plans{Plans: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

func (s planCalls) getPlan(ctx context.Context, in *One) (*Answer[rota.Plan], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Plans.Get(ctx, &rotav1.GetPlanRequest{Id: in.ID, Read: read})
	if err != nil {
		return nil, err
	}
	p, err := words.PlanFromWire(got.GetPlan())
	return answer(p, got.GetAt()), err
}

// Dry holds the parameter for a dry run.
type Dry struct {
	DryRun bool `query:"dry_run" doc:"Changes nothing, and returns what the call would do."`
}

// PlanStart holds the parameters of a plan.
type PlanStart struct {
	Named
	Dry
	Given In[rota.PlanSpec]
}

// PlanAnswer is a plan, or the preview of one.
type PlanAnswer struct{ Body planBody }

type planBody struct{ value any }

// Schema implements huma.SchemaProvider.
func (planBody) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{schemaOf[rota.Plan](r), schemaOf[rota.PlanPreview](r)}}
}

func (b planBody) inner() any { return b.value }

func (s planCalls) startPlan(ctx context.Context, in *PlanStart) (*PlanAnswer, error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	if err := sameID(string(body.ID), in.ID); err != nil {
		return nil, err
	}
	body.ID = rota.PlanID(in.ID)
	if in.DryRun {
		got, err := s.options.Calls.Plans.Preview(ctx, words.PlanSpecToWire(&body))
		if err != nil {
			return nil, err
		}
		preview, err := words.PlanPreviewFromWire(got)
		if preview.Jobs == nil {
			preview.Jobs = []rota.JobID{}
		}
		return &PlanAnswer{planBody{preview}}, err
	}
	got, err := s.options.Calls.Plans.Start(ctx, words.PlanSpecToWire(&body))
	if err != nil {
		return nil, err
	}
	p, err := words.PlanFromWire(got)
	return &PlanAnswer{planBody{p}}, err
}

// sameID rejects a body with another id than the URL.
func sameID(body, address string) error {
	if body != "" && body != address {
		return rota.Refusef(rota.KindInvalid, "id",
			"id is %q in the body, but %q in the address: omit it in the body, or make them equal", head(body),
			head(address))
	}
	return nil
}

// PlanEnd holds the parameters of the end of a plan.
type PlanEnd struct {
	Named
	Reason string `query:"reason" maxLength:"1024" doc:"The reason, shown with the plan."`
}

func (s planCalls) cancelPlan(ctx context.Context, in *PlanEnd) (*Answer[rota.Plan], error) {
	got, err := s.options.Calls.Plans.Cancel(ctx, &rotav1.CancelPlanRequest{Id: in.ID, Reason: in.Reason})
	if err != nil {
		return nil, err
	}
	p, err := words.PlanFromWire(got)
	return answer(p, nil), err
}
