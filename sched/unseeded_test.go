package sched

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
)

// TestUnseeded checks strategies that order workers by id: least_loaded and affinity take the lowest of equals, and
// random depends only on the job and the number of workers, whatever the round's seed. Otherwise the seed decides each
// of them.
func TestUnseeded(t *testing.T) {
	t.Parallel()
	const workers, jobs = 7, 24
	s := NewSupply()
	for i := range workers {
		s.Put(WorkerEntry{Active: true, Spec: &rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprint("w", i)),
			Queues: []rota.QueueName{"q"}, Slots: 100}})
	}
	chosen := func(strategy rota.Strategy, unseeded bool, job int, seed byte) rota.WorkerID {
		t.Helper()
		p := rota.StandardPolicy()
		p.Strategy, p.Unseeded = strategy, unseeded
		it := &Item{ID: rota.JobID(fmt.Sprint("j", job)), JobSpec: &rota.JobSpec{Queue: "q", Type: "t", Tenant: "t"}}
		it.Class = s.Intern(RequirementsOf(it.JobSpec))
		pending := NewPending(false)
		pending.Add(it)
		pairs := NewDraft(s, nil).Round(pending, RoundInput{Queue: "q", Policy: &p, Limit: 1, Seed: Hash{seed}})
		if len(pairs) != 1 {
			t.Fatalf("%v were assigned", show(pairs))
		}
		return pairs[0].Worker
	}
	for _, strategy := range []rota.Strategy{rota.StrategyLeastLoaded, rota.StrategyAffinity, rota.StrategyRandom} {
		byJob, bySeed := map[rota.WorkerID]bool{}, map[rota.WorkerID]bool{}
		for job := range jobs {
			first := chosen(strategy, true, job, 0)
			byJob[first] = true
			for seed := range byte(8) {
				if w := chosen(strategy, true, job, seed); w != first {
					t.Errorf("%s: job %d is assigned to %s under one seed, to %s under another", strategy, job, first,
						w)
				}
				bySeed[chosen(strategy, false, job, seed)] = true
			}
		}
		switch {
		case strategy == rota.StrategyRandom && len(byJob) < 3:
			t.Errorf("%s: all jobs went to %v", strategy, byJob)
		case strategy != rota.StrategyRandom && (len(byJob) != 1 || !byJob["w0"]):
			t.Errorf("%s: equals went to %v, and w0 is the lowest", strategy, byJob)
		case len(bySeed) < 3:
			t.Errorf("%s: seeds chose among %d workers alone", strategy, len(bySeed))
		}
	}
}
