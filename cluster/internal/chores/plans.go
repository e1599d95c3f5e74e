package chores

import (
	"context"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// planEvery is how often a leader looks for running plans.
const planEvery = 200 * time.Millisecond

// planner is the leader's chore that processes the jobs of plans (SPEC §21.8). Plans take turns of one step each, and
// one step is in progress at a time.
type planner struct{ n *Host }

// Plans processes plans for as long as a leadership lasts.
func (h *Host) Plans(l Term) {
	p := &planner{n: h}
	tick := h.Ticker(planEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.Tick():
		case <-l.Life().Done():
			return
		}
		for p.once(l) {
		}
	}
}

// once advances each running plan by a step, and reports whether there was one.
func (p *planner) once(l Term) (on bool) {
	var list []fsm.PlanWork
	p.n.Replica.Look(func(v *fsm.View) { list = fsm.RunningPlans(v) })
	for i := range list {
		began := time.Now()
		err := p.step(l, &list[i])
		if l.Life().Err() != nil {
			return false
		}
		if err == nil {
			on = true
			p.rest(l, time.Since(began))
		} else if p.n.Lines.Allow("plans/" + string(list[i].Spec.ID)) {
			p.n.Log.Warn("a plan does not go on yet", "plan", string(list[i].Spec.ID), "err", err)
		}
	}
	return on
}

// rest leaves the log to others for as long as a step took.
func (p *planner) rest(l Term, took time.Duration) {
	pause := time.NewTimer(took)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-l.Life().Done():
	}
}

// step proposes the next step of a plan.
func (p *planner) step(l Term, w *fsm.PlanWork) error {
	most := limits.MaxPlanItems
	if w.Spec.Max > 0 {
		most = int(min(int64(most), w.Spec.Max-w.Done))
	}
	next, err := p.members(l.Life(), w, most)
	if err != nil {
		return err
	}
	outcomes, err := l.Propose(l.Life(), []*fsmpb.Op{{Op: &fsmpb.Op_PlanStep{PlanStep: fsm.StepOf(w, &next)}}}, false)
	if err != nil {
		return err
	}
	return entry.OutcomeError(outcomes[0]).OrNil()
}

// members reads the next jobs of a plan, with the rights of the user who started it.
func (p *planner) members(ctx context.Context, w *fsm.PlanWork, most int) (fsm.Members, error) {
	var rd *access.Reader
	if w.Caller.Actor != "" {
		var err error
		if rd, err = p.n.Replica.Reader(context.WithValue(ctx, access.CallerKey{}, w.Caller)); err != nil {
			return fsm.Members{To: w.Cursor}, nil // the machine ends the plan
		}
	}
	next, err := p.n.Archive.Members(w, most, rd)
	if err != nil || w.Spec.Verb != rota.PlanRetry {
		return next, err
	}
	for i := range next.Jobs {
		job := &next.Jobs[i]
		if !job.RecordDropped {
			continue
		}
		e, ok, err := p.n.Archive.Ended(ctx, job.ID, next.Numbers[i])
		if err != nil {
			return next, &rota.Error{Kind: rota.KindUnavailable, Subject: "job", RetryAfter: history.RetryAfter,
				Cause: err,
				Text:  "the payload of job " + string(job.ID) + " is in another node's archive, which does not answer"}
		}
		if ok {
			life := job.Life
			*job = e.Job
			job.Life = life
		}
	}
	return next, nil
}
