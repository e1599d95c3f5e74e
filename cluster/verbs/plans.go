package verbs

import (
	"context"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// PlanVerbs are the operations on plans, for users (SPEC §21.7).
type PlanVerbs struct{ n *Host }

// NewPlans returns the verbs on plans.
func NewPlans(h *Host) PlanVerbs { return PlanVerbs{h} }

func unknownPlan(id rota.PlanID) error {
	return rota.Refusef(rota.KindNotFound, "plan", "plan %q is not known", id)
}

// shown reports whether the context's caller may see a plan: its creator, or a caller that may read everything.
func shown(ctx context.Context, rd *access.Reader, p *rota.Plan) bool {
	c, _ := ctx.Value(access.CallerKey{}).(access.Caller)
	return c.Actor.Owner() == p.By || rd.Reads(access.Everything, access.Everything)
}

// Plans lists the plans that the caller may see.
func (pv *PlanVerbs) Plans(ctx context.Context, opt peer.ReadOptions) ([]rota.Plan, rota.ReadAt, error) {
	return replica.ReadAs(ctx, pv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) ([]rota.Plan, error) {
		var some []rota.Plan
		for _, p := range fsm.PlansOf(s) {
			if shown(ctx, rd, &p) {
				some = append(some, p)
			}
		}
		return some, nil
	})
}

// Plan reads one plan.
func (pv *PlanVerbs) Plan(ctx context.Context, id rota.PlanID, opt peer.ReadOptions) (rota.Plan, rota.ReadAt, error) {
	return replica.ReadAs(ctx, pv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) (rota.Plan, error) {
		p, ok := fsm.PlanOf(s, id)
		if !ok || !shown(ctx, rd, &p) {
			return rota.Plan{}, unknownPlan(id)
		}
		return p, nil
	})
}

// StartPlan starts a plan; the leader's chore processes its jobs.
func (pv *PlanVerbs) StartPlan(ctx context.Context, spec rota.PlanSpec) (rota.Plan, error) {
	if _, err := fsm.ReadPlan(&spec); err != nil {
		return rota.Plan{}, err
	}
	return pv.changed(ctx, spec.ID, fsm.StartPlanOp(&spec))
}

// changed applies an operation of the caller and returns the plan as the operation left it.
func (pv *PlanVerbs) changed(ctx context.Context, id rota.PlanID, op *fsmpb.Op) (rota.Plan, error) {
	_, index, err := pv.n.ProposeOne(ctx, op)
	if err != nil {
		return rota.Plan{}, err
	}
	p, _, err := pv.Plan(access.Itself(ctx), id, peer.ReadOptions{MinIndex: index})
	return p, err
}

// CancelPlan ends a plan at its current position.
func (pv *PlanVerbs) CancelPlan(ctx context.Context, id rota.PlanID, reason string) (rota.Plan, error) {
	if reason == "" {
		reason = "somebody ended it"
	} else if err := checkReason(reason); err != nil {
		return rota.Plan{}, err
	}
	return pv.changed(ctx, id, &fsmpb.Op{Op: &fsmpb.Op_CancelPlan{CancelPlan: &fsmpb.CancelPlan{Id: string(id),
		Reason: reason}}})
}

// maxPreview bounds the duration of a preview, and previewed the jobs that it names.
const (
	maxPreview = 5 * time.Second
	previewed  = 20
)

// PreviewPlan returns the jobs that a plan would process if it were started now. It runs the code that produces the
// plan's steps, and proposes nothing.
func (pv *PlanVerbs) PreviewPlan(ctx context.Context, spec rota.PlanSpec) (rota.PlanPreview, error) {
	preview := rota.PlanPreview{Jobs: []rota.JobID{}}
	if _, err := fsm.ReadPlan(&spec); err != nil {
		return preview, err
	}
	var w fsm.PlanWork
	if _, _, err := replica.Read(ctx, pv.n.Replica, peer.ReadOptions{}, func(s *fsm.View) (struct{}, error) {
		w = fsm.PreviewOf(s, spec)
		return struct{}{}, nil
	}); err != nil {
		return preview, err
	}
	rd, err := pv.n.Replica.Reader(ctx)
	if err != nil {
		return preview, err
	}
	for began := time.Now(); time.Since(began) < maxPreview && ctx.Err() == nil; {
		next, err := pv.n.Archive.Members(&w, limits.MaxPage, rd)
		if err != nil {
			return preview, err
		}
		for i := range next.Jobs {
			job := &next.Jobs[i]
			if !rd.Has(rota.RightControl, job.Tenant, job.Queue) {
				continue
			}
			if preview.Count++; len(preview.Jobs) < previewed {
				preview.Jobs = append(preview.Jobs, job.ID)
			}
			if preview.Count == spec.Max {
				preview.Complete = true
				return preview, nil
			}
		}
		if w.Cursor, preview.Complete = next.To, next.End; next.End {
			break
		}
	}
	return preview, nil
}
