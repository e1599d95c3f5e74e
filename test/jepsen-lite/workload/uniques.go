package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// uniqueKeys are few, so that users meet at them.
const uniqueKeys = 3

var onConflicts = []string{rota.UniqueRefuse, rota.UniqueExisting, rota.UniqueReplace, rota.UniqueExtend}

// submitUnique submits jobs that are unique by a key which all such users share.
func submitUnique(ctx, drain context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("uniques-%d", r.IntN(1_000_000))
	facts := make([]check.UniqueFacts, uniqueKeys)
	for i := range facts {
		facts[i].Key = fmt.Sprintf("only-%d", i)
	}
	defer func() { w.Rec.With(func(h *check.History) { h.Uniques = append(h.Uniques, facts...) }) }()
	for n := 0; ctx.Err() == nil && !w.Rec.Full(); n++ {
		f := &facts[r.IntN(len(facts))]
		asked := check.UniqueAsked{ID: fmt.Sprintf("c%d-%s-%d", w.Options.Seed, name, n),
			OnConflict: onConflicts[r.IntN(len(onConflicts))]}
		plan := jobPlan{Ms: r.IntN(250), Fail: 100, NoRetry: 20, Decline: 30, Snooze: 50, Cancel: 20,
			Clean: r.IntN(maxClean), Mark: asked.ID}
		spec := rota.NewJobSpec("unique", plan.payload())
		spec.ID, spec.Queue, spec.Tenant = rota.JobID(asked.ID), "quick", "t-free"
		spec.Unique = &rota.Unique{Key: f.Key, OnConflict: asked.OnConflict}
		if r.IntN(2) == 0 {
			spec.Delay = time.Duration(r.IntN(700)) * time.Millisecond
		}
		if asked.OnConflict == rota.UniqueExtend {
			spec.Unique.ExtendMax = 3 * time.Second
		}
		f.Subs = append(f.Subs, asked)
		submitAll(drain, w, r, name, []rota.JobSpec{spec})
		if r.IntN(3) == 0 && fault.Rest(ctx,
			time.Duration(r.IntN(250))*time.Millisecond) { // at times while it is at work
			cancelOne(ctx, w, r, name, asked.ID)
		}
		if !fault.Rest(ctx, time.Duration(50+r.IntN(350))*time.Millisecond) {
			return
		}
	}
}
