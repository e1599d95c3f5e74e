package foresight

import (
	"context"
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/flowfile"
)

// Plan is the input of a simulation.
type Plan struct {
	// Jobs are in the order of their submission; Workers could run each of them.
	Jobs     []Job
	Workers  []rota.WorkerSpec
	Policies []Policy
	// Starts and Length select windows of the jobs, each begun on idle workers; without them all jobs form one window.
	Starts []int
	Length int
	// Flow, if not nil, is the workflow whose nodes the jobs are.
	Flow *Flow
	// Exact uses the true run times as estimates.
	Exact bool
	// Limits, if not nil, are the rules of keys and the budgets that apply to the jobs, under every policy.
	Limits *flowfile.Limits
	// Progress, if not nil, is called from time to time with how many of Lives are over.
	Progress func(over int)
	// Lived, if not nil, is called with the last window of each policy.
	Lived func(p *Policy, l *Life, fates []Fate)
}

// Run simulates each policy. After an error it also returns the finished results, and for an interrupted policy those
// of the jobs that had ended.
func Run(ctx context.Context, plan *Plan) ([]Result, error) {
	windows, err := plan.windows()
	if err != nil {
		return nil, err
	}
	results := make([]Result, 0, len(plan.Policies))
	before := 0
	for i := range plan.Policies {
		p := &plan.Policies[i]
		t := &tally{result: Result{Name: p.Name}, tenants: make(map[rota.TenantID]*tallied)}
		for n, w := range windows {
			l := &Life{Jobs: w, Workers: plan.Workers, Settings: p.Settings, Exact: plan.Exact, Flow: plan.Flow,
				Limits: plan.Limits}
			if plan.Progress != nil {
				l.Progress = func(over int) { plan.Progress(before + over) }
			}
			fates, err := Simulate(ctx, l)
			if err != nil {
				if part, ended := l.part(fates); ctx.Err() != nil && len(ended) > 0 {
					t.window(part, ended)
					results = append(results, t.interrupted(n+1))
				}
				return results, fmt.Errorf("policy %s: %w", p.Name, err)
			}
			before += len(w)
			t.window(l, fates)
			if plan.Lived != nil && n == len(windows)-1 {
				plan.Lived(p, l, fates)
			}
		}
		results = append(results, t.over(len(windows)))
	}
	return results, nil
}

// part returns the jobs that had ended when a life was interrupted.
func (l *Life) part(fates []Fate) (part *Life, ended []Fate) {
	cut := *l
	cut.Jobs = nil
	for i := range fates {
		if fates[i].End >= 0 {
			cut.Jobs, ended = append(cut.Jobs, l.Jobs[i]), append(ended, fates[i])
		}
	}
	return &cut, ended
}

// Lives returns how many jobs are simulated: each of them once for each policy and window.
func (p *Plan) Lives() int {
	if len(p.Starts) == 0 {
		return len(p.Jobs) * len(p.Policies)
	}
	return p.Length * len(p.Starts) * len(p.Policies)
}

// windows returns the jobs of each life.
func (p *Plan) windows() ([][]Job, error) {
	if len(p.Jobs) == 0 {
		return nil, rota.Refusef(rota.KindInvalid, "trace", "no job is left to simulate")
	}
	if len(p.Starts) == 0 {
		return [][]Job{p.Jobs}, nil
	}
	windows := make([][]Job, 0, len(p.Starts))
	for _, s := range p.Starts {
		if s < 0 || p.Length < 1 || s > len(p.Jobs)-p.Length {
			return nil, rota.Refusef(rota.KindInvalid, "starts",
				"starts: a window of %d jobs from job %d exceeds the %d jobs of the log", p.Length, s, len(p.Jobs))
		}
		windows = append(windows, p.Jobs[s:s+p.Length])
	}
	return windows, nil
}
