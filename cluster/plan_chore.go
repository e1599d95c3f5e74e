package cluster

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
type planner struct{ n *base }

// planLoop runs the chore.
func (ch *chores) planLoop(l *leadership) {
	p := &planner{n: &ch.n.base}
	tick := ch.n.ticker(planEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.Tick():
		case <-l.ctx.Done():
			return
		}
		for p.once(l) {
		}
	}
}

// once advances each running plan by a step, and reports whether there was one.
func (p *planner) once(l *leadership) (on bool) {
	var list []fsm.PlanWork
	p.n.replica.Look(func(v *fsm.View) { list = fsm.RunningPlans(v) })
	for i := range list {
		began := time.Now()
		err := p.step(l, &list[i])
		if l.ctx.Err() != nil {
			return false
		}
		if err == nil {
			on = true
			p.rest(l, time.Since(began))
		} else if p.n.lines.Allow("plans/" + string(list[i].Spec.ID)) {
			p.n.log.Warn("a plan does not go on yet", "plan", string(list[i].Spec.ID), "err", err)
		}
	}
	return on
}

// rest leaves the log to others for as long as a step took.
func (p *planner) rest(l *leadership, took time.Duration) {
	pause := time.NewTimer(took)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-l.ctx.Done():
	}
}

// step proposes the next step of a plan.
func (p *planner) step(l *leadership, w *fsm.PlanWork) error {
	most := limits.MaxPlanItems
	if w.Spec.Max > 0 {
		most = int(min(int64(most), w.Spec.Max-w.Done))
	}
	next, err := p.members(l.ctx, w, most)
	if err != nil {
		return err
	}
	r := l.propose(l.ctx, []*fsmpb.Op{{Op: &fsmpb.Op_PlanStep{PlanStep: fsm.StepOf(w, &next)}}}, false)
	if r.err != nil {
		return r.err
	}
	return entry.OutcomeError(r.outcomes[0]).OrNil()
}

// members reads the next jobs of a plan, with the rights of the user who started it.
func (p *planner) members(ctx context.Context, w *fsm.PlanWork, most int) (fsm.Members, error) {
	var rd *access.Reader
	if w.Caller.Actor != "" {
		var err error
		if rd, err = p.n.replica.Reader(context.WithValue(ctx, access.CallerKey{}, w.Caller)); err != nil {
			return fsm.Members{To: w.Cursor}, nil // the machine ends the plan
		}
	}
	next, err := p.n.archive.Members(w, most, rd)
	if err != nil || w.Spec.Verb != rota.PlanRetry {
		return next, err
	}
	for i := range next.Jobs {
		job := &next.Jobs[i]
		if !job.RecordDropped {
			continue
		}
		e, ok, err := p.n.archive.Ended(ctx, job.ID, next.Numbers[i])
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
