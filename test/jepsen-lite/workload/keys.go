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

// keyRules are those of the run's keys.
var keyRules = []rota.KeyRule{
	{Name: "solo", Concurrency: 1},
	{Name: "few", Concurrency: 2},
	{Name: "line", Sequence: rota.SequenceSkip},
}

func makeKeyRules(ctx context.Context, c *client.Client) error {
	for _, r := range keyRules {
		if err := c.Keys().SetRule(ctx, r); err != nil {
			return fmt.Errorf("set rule of key %s: %w", r.Name, err)
		}
	}
	return nil
}

// keysAhead is how many jobs with keys a user has before it waits for the oldest: jobs in a line are done one by one,
// and must be over soon after the faults.
const keysAhead = 25

// submitKeyed submits jobs with its own keys one by one, each once the one before it has its answer, so that their
// order is known.
func submitKeyed(ctx, drain context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("keys-%d", r.IntN(1_000_000))
	facts := make([]check.KeyFacts, len(keyRules))
	for i, rule := range keyRules {
		facts[i] = check.KeyFacts{Key: rule.Name + ":" + name, Most: int(max(rule.Concurrency, 1)),
			Sequence: rule.Sequence != rota.SequenceNone}
	}
	defer func() { w.Rec.With(func(h *check.History) { h.Keyed = append(h.Keyed, facts...) }) }()
	var ahead []rota.JobID
	for n := 0; ctx.Err() == nil && !w.Rec.Full(); n++ {
		spec := newKeyed(fmt.Sprintf("c%d-%s-%d", w.Options.Seed, name, n), r)
		with := []int{r.IntN(len(facts))}
		if other := r.IntN(len(facts)); other != with[0] {
			with = append(with, other)
		}
		for _, i := range with {
			spec.Keys = append(spec.Keys, facts[i].Key)
			if keyRules[i].Name == chaosBudget.Key {
				spec.Costs = rota.Costs{chaosBudget.Unit: int64(1+r.IntN(80)) * rota.CostUnit / 10}
				w.noteCost(&spec, facts[i].Key)
			}
		}
		if len(submitAll(drain, w, r, name, []rota.JobSpec{spec})) == 0 && drain.Err() == nil {
			for _, i := range with {
				facts[i].Jobs = append(facts[i].Jobs, string(spec.ID))
			}
			ahead = append(ahead, spec.ID)
		}
		if r.IntN(8) == 0 && fault.Rest(ctx,
			time.Duration(r.IntN(150))*time.Millisecond) { // at times while it is at work
			cancelOne(ctx, w, r, name, string(spec.ID))
		}
		if len(ahead) > keysAhead {
			awaitOver(ctx, w, r, ahead[0])
			ahead = ahead[1:]
		}
		if !fault.Rest(ctx, time.Duration(20+r.IntN(100))*time.Millisecond) {
			return
		}
	}
}

// newKeyed draws a job whose handler fails at times, so that the head of a line may come again.
func newKeyed(id string, r *rand.Rand) rota.JobSpec {
	payload := jobPlan{Ms: 20 + r.IntN(130), Fail: 80, NoRetry: 20, Decline: 20, Snooze: 40,
		Clean: r.IntN(maxClean), Spend: r.IntN(100)}.payload()
	spec := rota.NewJobSpec(rota.JobType(fmt.Sprint("keyed-", r.IntN(16))), payload)
	spec.ID, spec.Queue, spec.Tenant, spec.Priority = rota.JobID(id), "quick", "t-free", int32(r.IntN(11))
	return spec
}

// awaitOver waits until a job is over.
func awaitOver(ctx context.Context, w *trial, r *rand.Rand, id rota.JobID) {
	for {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		job, err := w.Someone(r).As(w.badge).Job(try, id)
		cancel()
		if err == nil && job.State.Terminal() || !fault.Rest(ctx, 200*time.Millisecond) {
			return
		}
	}
}
