package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

const (
	// planDelay is how long the jobs of plans wait before they run by themselves.
	planDelay = 12 * time.Second
	// planChunk is the number of jobs that one call submits.
	planChunk = 250
)

// startPlans submits groups of jobs that wait, and runs plans over each, one after the other, until all are cancelled;
// those of small groups are retried and run then. Big groups need more than one step.
func startPlans(ctx, drain context.Context, w *trial, r *rand.Rand) {
	p := &planner{w: w, r: r, name: fmt.Sprintf("plans-%d", r.IntN(1_000_000))}
	for n := 0; ctx.Err() == nil && !w.Rec.Full(); n++ {
		size := 5 + r.IntN(40)
		if n%3 == 2 {
			size = 520 + r.IntN(300)
		}
		p.group = fmt.Sprintf("%s-%d", p.name, n)
		p.submit(drain, size)
		for _, verb := range []rota.PlanVerb{rota.PlanReprioritise, rota.PlanMove} {
			if r.IntN(2) == 0 && ctx.Err() == nil {
				p.plan(drain, verb, 0)
			}
		}
		if r.IntN(3) == 0 {
			p.plan(drain, rota.PlanCancel, int64(1+r.IntN(size)))
		}
		p.plan(drain, rota.PlanCancel, 0)
		if size < 100 && ctx.Err() == nil {
			p.plan(drain, rota.PlanRetry, 0)
		}
		if !fault.Rest(ctx, time.Duration(300+r.IntN(1_500))*time.Millisecond) {
			return
		}
	}
}

type planner struct {
	w     *trial
	r     *rand.Rand
	name  string
	group string
	jobs  []string
	made  int
}

// submit submits the jobs of a group.
func (p *planner) submit(ctx context.Context, size int) {
	p.jobs = nil
	specs := make([]rota.JobSpec, size)
	for i := range specs {
		spec := rota.NewJobSpec("planned", jobPlan{}.payload())
		spec.ID, spec.Queue, spec.Tenant = rota.JobID(fmt.Sprintf("c%d-%s-%d", p.w.Options.Seed, p.group,
			i)), "quick", "t-free"
		spec.Delay, spec.Labels = planDelay, map[string]string{"group": p.group}
		p.jobs, specs[i] = append(p.jobs, string(spec.ID)), spec
	}
	for from := 0; from < size; from += planChunk {
		submitAll(ctx, p.w, p.r, p.name, specs[from:min(size, from+planChunk)])
	}
}

// plan starts a plan over the group and waits until it is over.
func (p *planner) plan(ctx context.Context, verb rota.PlanVerb, most int64) {
	p.made++
	spec := rota.PlanSpec{ID: rota.PlanID(fmt.Sprintf("%s-p%d", p.name, p.made)), Verb: verb,
		Filter: "label.group=" + p.group, Max: most}
	switch verb {
	case rota.PlanMove:
		spec.To = []rota.QueueName{"prey", "market", "flux"}[p.r.IntN(3)]
	case rota.PlanReprioritise:
		priority := int32(p.r.IntN(rota.DefaultPriority)) // a job that has it already has no turn
		spec.Priority = &priority
	case rota.PlanRetry:
		spec.Filter += " state=CANCELLED,DEAD"
	}
	f := check.PlanFacts{ID: string(spec.ID), Verb: verb.String(), To: string(spec.To), Max: most, At: p.w.Rec.Now(),
		Jobs: p.jobs}
	at := 0
	p.w.Rec.With(func(h *check.History) { at, h.Plans = len(h.Plans), append(h.Plans, f) })
	op := check.Op{Process: p.name, Func: "plan_start", Text: f.ID, Did: f.Verb}
	if p.w.insist(ctx, p.r, op, func(ctx context.Context, c *client.Client, _ *check.Op) error {
		_, err := client.PlansOf(c).Start(ctx, spec)
		return err
	}) != check.OK {
		return
	}
	p.w.Rec.With(func(h *check.History) { h.Plans[at].Started = true })
	for fault.Rest(ctx, 50*time.Millisecond) {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		plan, err := client.PlansOf(p.w.Someone(p.r).As(p.w.badge)).Get(try, spec.ID)
		cancel()
		if err == nil && plan.State != rota.PlanRunning {
			p.w.Rec.With(func(h *check.History) { h.Plans[at].Shown = &plan })
			return
		}
	}
}
