package loadgen

import (
	"context"
	"time"

	"github.com/rotasched/rota"
)

// FillReport is the result of filling.
type FillReport struct {
	Jobs        int     `json:"jobs"`
	Accepted    int64   `json:"accepted"`
	Seconds     float64 `json:"seconds"`
	JobsPerS    float64 `json:"jobs_per_s"`
	SubmitP50Ms float64 `json:"submit_p50_ms"`
	SubmitP99Ms float64 `json:"submit_p99_ms"`
	Errors      int64   `json:"errors"`
}

// fillPatience is how long filling waits while there is no room: bursts of submissions are refused for a shorter time.
const fillPatience = 20 * time.Second

// Fill submits jobs that no worker runs. It returns the refusal if there is no room for them.
func (l *Lab) Fill(ctx context.Context, plan *Filling) (*FillReport, error) {
	queues := queueNames(plan.Queue, plan.Queues)
	if err := l.ready(ctx, plan, queues); err != nil {
		return nil, err
	}
	ledger := newLedger(newRun("fill"), plan.Jobs)
	spec := plan.specs(queues)
	p := &producers{to: l.Client, ledger: ledger, count: plan.Producers, batch: batchOf(plan.Batch, plan.Payload),
		patience: fillPatience, spec: func(i int) rota.JobSpec { return spec(i, ledger.id(i)) }}
	ledger.begin = time.Now()
	hide := l.Watch("fill", int64(plan.Jobs), ledger.accepted.Load)
	err := p.run(ctx)
	hide()
	if err != nil {
		l.left(ledger)
		return nil, err
	}
	took, submit := time.Since(ledger.begin).Seconds(), ledger.spans(planned, answered, nil)
	return &FillReport{Jobs: plan.Jobs, Accepted: ledger.accepted.Load(), Seconds: RoundTo(took, 1000),
		JobsPerS:    RoundTo(float64(ledger.accepted.Load())/took, 10),
		SubmitP50Ms: quantile(submit, 0.50), SubmitP99Ms: quantile(submit, 0.99), Errors: ledger.errors.Load()}, nil
}
