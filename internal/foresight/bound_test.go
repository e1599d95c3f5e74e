package foresight

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestBounds_small has bounds that are computed by hand.
func TestBounds_small(t *testing.T) {
	// The first runs until 100. The second is pending from 1 on, alone: it is the first, and the longest estimate is
	// 100. One is pending when the third arrives, two when the fourth does.
	jobs := []Job{job(0, 100, 100, 10), job(1, 10, 10, 10), job(2, 30, 30, 10), job(3, 5, 5, 10)}
	for _, c := range []struct {
		policy, want string
		jobs         []Job
	}{
		{"p:ranking=fifo,backfill=easy", "[100 100 200 300]", jobs},
		{"p:ranking=fifo,backfill=none", "[100 100 200 300]", jobs},
		// The keys are 200, 21, 62, 13: the fourth precedes all pending jobs, and the third and the second precede the
		// first.
		{"p:ranking=shortest,shortest_aging=2,backfill=easy", "[400 200 300 100]", jobs},
		{"p:ranking=shortest,shortest_aging=2,backfill=easy,oldest_every=5", "[400 200 300 300]", jobs},
		// The keys are 200, 21, 62, 13 if all jobs take the whole machine, and 200, 3, 8, 4 if the last three take a
		// tenth: then the second precedes the fourth.
		{"p:ranking=smallest,shortest_aging=2,backfill=easy", "[400 200 300 100]", jobs},
		{"p:ranking=smallest,shortest_aging=2,backfill=easy", "[400 100 300 200]",
			[]Job{job(0, 100, 100, 10), job(1, 10, 10, 1), job(2, 30, 30, 1), job(3, 5, 5, 1)}},
		// A learned estimate may be anything up to the declared one: every job that arrives before that goes before,
		// and all pending ones.
		{"p:ranking=shortest,shortest_aging=2,backfill=easy,estimate=last2", "[800 600 600 600]", jobs},
		// One outlives its estimate: the longest estimate is 30 s, the longest run 100 s.
		{"p:ranking=fifo,backfill=conservative", "[200 200 400 600]",
			[]Job{job(0, 100, 10, 10), jobs[1], jobs[2], jobs[3]}},
	} {
		l := &Life{Jobs: c.jobs, Workers: Machine(10), Settings: policy(t, c.policy).Settings}
		fates, err := Simulate(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		of, none := l.bounds(fates)
		for i := range of {
			of[i] /= 1000
		}
		if got := fmt.Sprint(of); got != c.want || none != "" {
			t.Errorf("%s: %s %s, want %s", c.policy, got, none, c.want)
		}
	}
	for _, c := range [][2]string{{"p:ranking=fifo", "backfill=free"},
		{"p:ranking=shortest,backfill=easy", "shortest_aging=0"},
		{"p:ranking=smallest,backfill=easy", "shortest_aging=0"}, {"p:ranking=aging,backfill=easy", "ranking=aging"},
		{"p:ranking=fifo,backfill=none,fair_share=on", "fair_share=on"},
		{"p:ranking=fifo,backfill=none,estimate=type", "estimate=type"},
		{"p:ranking=fifo,backfill=none,preempt=on", "preempt=on"}} {
		l := &Life{Jobs: jobs, Workers: Machine(10), Settings: policy(t, c[0]).Settings}
		if of, none := l.bounds(nil); of != nil || !strings.HasPrefix(none, c[1]) {
			t.Errorf("%s: %v, %q", c[0], of, none)
		}
	}
}

// TestBounds_hold checks that no job of random loads with arbitrary estimates, and none of a log, waits longer than its
// bound, and that the counts of jobs before it match a naive count.
func TestBounds_hold(t *testing.T) {
	policies := []string{"ranking=fifo,backfill=easy", "ranking=fifo,backfill=conservative",
		"ranking=shortest,shortest_aging=3,backfill=easy",
		"ranking=shortest,shortest_aging=3,backfill=conservative,oldest_every=3", "ranking=fifo,backfill=none",
		"ranking=shortest,shortest_aging=1,backfill=easy,backfill_order=shortest",
		"ranking=smallest,shortest_aging=3,backfill=easy",
		"ranking=smallest,shortest_aging=2,backfill=conservative,estimate=ema",
		"ranking=shortest,shortest_aging=2,backfill=easy,estimate=last2",
		"preset=batch", "ranking=fifo,backfill=easy,estimate=quantile"}
	nearest := make([]float64, len(policies))
	for seed := range uint64(132) {
		r := rand.New(rand.NewPCG(seed, 264))
		at := seed % uint64(len(policies))
		l := &Life{Jobs: randomJobs(r), Workers: Machine(12), Settings: policy(t, "p:"+policies[at]).Settings,
			Exact: r.IntN(2) == 0}
		for i := range l.Jobs {
			l.Jobs[i].Spec = nil
		}
		fates, err := Simulate(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		of, none := l.bounds(fates)
		if none != "" {
			t.Fatal(none)
		}
		for i := range of {
			wait := fates[i].Start - l.Jobs[i].Submit
			if wait > of[i] {
				t.Fatalf("seed %d, %s: job %d waited for %d ms, its bound is %d", seed, policies[at], i, wait, of[i])
			}
			nearest[at] = max(nearest[at], float64(wait)/float64(of[i]))
		}
		keys := keysOf{make([]int64, len(l.Jobs)), make([]int64, len(l.Jobs))}
		for i := range l.Jobs {
			keys.least[i] = l.Jobs[i].Submit + r.Int64N(3)*l.Jobs[i].Estimate
			keys.most[i] = keys.least[i] + r.Int64N(2)*l.Jobs[i].Estimate
		}
		for i, got := range l.before(fates, false, keys) {
			want := int64(0)
			for k := range l.Jobs {
				precedes := keys.least[k] < keys.most[i] || keys.least[k] == keys.most[i] && k < i
				if precedes && (k > i || k < i && fates[k].Start > l.Jobs[i].Submit) {
					want++
				}
			}
			if got != want {
				t.Fatalf("seed %d: %d go before job %d, want %d", seed, got, i, want)
			}
		}
	}
	if slices.Min(nearest) < 0.1 {
		t.Errorf("the closest to a bound was %.2f: the loads show too little", nearest)
	}
	log, _ := Clean(openLog(t, "testdata/ctc_sp2_20000.swf.gz"), CleanPredictsim)
	got, err := Run(context.Background(), &Plan{Jobs: log, Workers: Machine(338),
		Policies: []Policy{policy(t, "p:ranking=shortest,shortest_aging=10,backfill=easy"),
			policy(t, "p:preset=batch")}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if g := &got[i]; g.WaitOfBound <= 0 || g.WaitOfBound > 1 || g.WaitBoundS < g.WaitMaxS {
			t.Errorf("%.3f of a bound, at most %.0f s, bound %.0f s, %q", g.WaitOfBound, g.WaitMaxS, g.WaitBoundS,
				g.Unbounded)
		}
	}
}
