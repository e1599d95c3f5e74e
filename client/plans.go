package client

import (
	"context"
	"iter"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// Plans apply one verb to all jobs that a filter selects (SPEC §21.7).
type Plans struct{ c *Client }

// PlansOf returns the calls for plans.
func PlansOf(c *Client) Plans { return Plans{c} }

// Start starts a plan and returns at once: the cluster goes through the jobs. Starting the same plan again changes
// nothing; an empty id is set before the first try.
func (p Plans) Start(ctx context.Context, spec rota.PlanSpec) (rota.Plan, error) {
	spec.ID = planID(spec.ID)
	ask := func(ctx context.Context, n *node) (*rotav1.Plan, error) {
		return n.plans.Start(ctx, words.PlanSpecToWire(&spec))
	}
	return one(ctx, p.c, "start plan", words.PlanFromWire, ask)
}

func planID(id rota.PlanID) rota.PlanID {
	if id == "" {
		id = rota.PlanID(NewJobID())
	}
	return id
}

// Preview returns the number of jobs that a plan would process if it were started now, and the first of these jobs. It
// changes nothing.
func (p Plans) Preview(ctx context.Context, spec rota.PlanSpec) (rota.PlanPreview, error) {
	spec.ID = planID(spec.ID)
	ask := func(ctx context.Context, n *node) (*rotav1.PlanPreview, error) {
		return n.plans.Preview(ctx, words.PlanSpecToWire(&spec))
	}
	return one(ctx, p.c, "preview plan", words.PlanPreviewFromWire, ask)
}

// List lists the running plans, and the ended plans that are still stored, by id.
func (p Plans) List(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Plan, error] {
	return list(ctx, p.c, "list plans", 0, "", opts, func(ctx context.Context, n *node, at page) (got pageOf[rota.Plan],
		err error) {
		answer, err := n.plans.List(ctx, &rotav1.ListPlansRequest{Read: words.ReadToWire(at.read),
			Limit: int32(at.limit), Cursor: at.cursor, By: at.by})
		if err != nil {
			return got, err
		}
		got.items, err = words.PlansFromWire(answer.GetPlans())
		got.next, got.at = answer.GetNextCursor(), answer.GetAt()
		return got, err
	})
}

// Get reads one plan.
func (p Plans) Get(ctx context.Context, id rota.PlanID, opts ...ReadOption) (rota.Plan, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetPlanResponse, error) {
		return n.plans.Get(ctx, &rotav1.GetPlanRequest{Id: string(id), Read: how})
	}
	from := func(w *rotav1.GetPlanResponse) (rota.Plan, error) { return words.PlanFromWire(w.GetPlan()) }
	return read(ctx, p.c, "show plan", opts, from, ask)
}

// waitEvery is how often Wait reads the plan.
const waitEvery = 250 * time.Millisecond

// Wait returns a plan once it no longer runs.
func (p Plans) Wait(ctx context.Context, id rota.PlanID) (rota.Plan, error) {
	tick := time.NewTicker(waitEvery)
	defer tick.Stop()
	for {
		plan, err := p.Get(ctx, id)
		if err != nil || plan.State != rota.PlanRunning {
			return plan, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return plan, &rota.Error{Kind: rota.KindTimeout, Subject: "plan",
				Text:  "the waiting time is over and plan " + string(id) + " runs still",
				Cause: ctx.Err()}
		}
	}
}

// Cancel stops a plan, but does not undo its changes. Reading the plan returns the reason.
func (p Plans) Cancel(ctx context.Context, id rota.PlanID, reason string) (rota.Plan, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Plan, error) {
		return n.plans.Cancel(ctx, &rotav1.CancelPlanRequest{Id: string(id), Reason: reason})
	}
	return one(ctx, p.c, "cancel plan", words.PlanFromWire, ask)
}
