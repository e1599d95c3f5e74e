package transport

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

// fakePlan is the plan that a core without a cluster returns.
func fakePlan(id rota.PlanID) rota.Plan {
	return rota.Plan{PlanSpec: rota.PlanSpec{ID: id, Verb: rota.PlanCancel, Filter: "id=*"}, State: rota.PlanDone,
		Done: 7, Refused: 1, Refusals: []rota.PlanRefusal{{Job: "j", Text: "refused"}}, Cursor: "z"}
}

func (c *fakeCore) Plans(_ context.Context, opt peer.ReadOptions) ([]rota.Plan, rota.ReadAt, error) {
	return []rota.Plan{fakePlan("p")}, fakeAt(opt), c.err
}

func (c *fakeCore) Plan(_ context.Context, id rota.PlanID, opt peer.ReadOptions) (rota.Plan, rota.ReadAt, error) {
	return fakePlan(id), fakeAt(opt), c.err
}

func (c *fakeCore) StartPlan(_ context.Context, spec rota.PlanSpec) (rota.Plan, error) {
	return rota.Plan{PlanSpec: spec}, c.err
}

func (c *fakeCore) PreviewPlan(context.Context, rota.PlanSpec) (rota.PlanPreview, error) {
	return rota.PlanPreview{Count: 3, Jobs: []rota.JobID{"a"}, Complete: true}, c.err
}

func (c *fakeCore) CancelPlan(_ context.Context, id rota.PlanID, reason string) (rota.Plan, error) {
	p := fakePlan(id)
	p.Why = reason
	return p, c.err
}

// plansUnary returns each unary call of the service Plans, once well-formed and once not.
func plansUnary(b *bundle) map[string]unaryRow {
	type call = func(context.Context) (proto.Message, error)
	plans := rotav1.NewPlansClient(b.conn)
	urgent, background := int32(1), int32(11)
	start := func(spec *rotav1.PlanSpec) call {
		return func(ctx context.Context) (proto.Message, error) { return plans.Start(ctx, spec) }
	}
	preview := func(spec *rotav1.PlanSpec) call {
		return func(ctx context.Context) (proto.Message, error) { return plans.Preview(ctx, spec) }
	}
	list := func(limit int32) call {
		return func(ctx context.Context) (proto.Message, error) {
			return plans.List(ctx, &rotav1.ListPlansRequest{Limit: limit})
		}
	}
	get := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return plans.Get(ctx, &rotav1.GetPlanRequest{Id: id})
		}
	}
	cancel := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return plans.Cancel(ctx, &rotav1.CancelPlanRequest{Id: id, Reason: "r"})
		}
	}
	return map[string]unaryRow{
		"plans start": {start(&rotav1.PlanSpec{Id: "p", Verb: "reprioritise", Filter: "id=*", Priority: &urgent}),
			start(&rotav1.PlanSpec{Id: "p", Verb: "reprioritise", Filter: "id=*", Priority: &background}),
			`priority:1`},
		"plans start verb": {start(&rotav1.PlanSpec{Id: "p", Verb: "cancel", Filter: "id=*"}),
			start(&rotav1.PlanSpec{Id: "p", Verb: "drop"}), `verb:"cancel"`},
		"plans preview": {preview(&rotav1.PlanSpec{Id: "p", Verb: "retry", Filter: "id=*"}), preview(nil),
			`complete:true`}, "plans list": {list(0), list(-1), `text:"refused"`},
		"plans get":    {get("p"), get(strings.Repeat("p", 100)), `cursor:"z"`},
		"plans cancel": {cancel("p"), cancel(""), `why:"r"`},
	}
}
