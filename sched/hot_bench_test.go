package sched

import (
	"testing"

	"github.com/rotasched/rota"
)

// hot is a function that is called for every job or every pair.
type hot struct {
	name string
	f    func()
	// allocates reports that it allocates by design; all others must not.
	allocates bool
}

// sink keeps the results of hot functions from being optimised away.
var sink any

var (
	sinkInt   int64
	sinkFloat float64
	sinkBool  bool
	sinkHash  Hash
	sinkLease rota.LeaseID
	sinkStats Stats
)

func hots(b testing.TB) []hot {
	s, pending, items, p := scene{jobs: 1_000, tenants: 10, classes: 10, batch: 1, fair: true, mixed: true}.build(b)
	ordered, _, _, _ := scene{jobs: 1, tenants: 1, classes: 10, batch: 1, cpu: true}.build(b)
	market := *p
	market.Ranking = rota.RankMarket
	market.WFee, market.WAge, market.WSize, market.WTier = 400_000, 300_000, 200_000, 100_000
	const job, worker = rota.JobID("job-0123456789abcdef"), rota.WorkerID("worker-0500")
	class, now := items[0].Class, rota.Clock(1_700_000_001_000)
	standard := rota.StandardPolicy()
	scoring := ScoringOf(&standard)
	stats := Stats{Success: 70, Fail: 3, EMAus: 250_000, Sampled: true, ExpectedMs: 200}
	it := items[500]
	return []hot{
		{name: "Tie", f: func() { sinkHash = Tie(job, worker, Hash{1}) }},
		{name: "LeaseID", f: func() { sinkLease = LeaseID(job, worker, 3, Hash{1}) }},
		{name: "MatchSeed", f: func() { sinkHash = MatchSeed("cluster", 7, 4711, Hash{1}) }},
		{name: "NextBeacon", f: func() { sinkHash = NextBeacon(Hash{1}, Hash{2}) }},
		{name: "BackoffMs", f: func() { sinkInt = BackoffMs(job, 5, p) }},
		{name: "RankKey aging", f: func() { sinkInt = RankKey(p, 5, 10, 1<<20, rota.TierPro, now, 0) }},
		{name: "RankKey market", f: func() { sinkInt = RankKey(&market, 5, 10, 1<<20, rota.TierPro, now, 0) }},
		{name: "ScoreAt market", f: func() { sinkInt = ScoreAt(&market, 1_000, now) }},
		{name: "AdaptiveScore", f: func() { sinkFloat = scoring.Score(stats, 5, 5_000, 1<<20) }},
		{name: "Observe", f: func() { sinkStats = stats.Observe(1_000, true, 1_000) }},
		{name: "CompareTurn", f: func() { sinkInt = int64(CompareTurn(7, 3, "a", 5, 2, "b")) }},
		{name: "Take and Give", f: func() {
			ordered.Take(worker, Load{1_000, 1, 0})
			ordered.Give(worker, Load{1_000, 1, 0})
		}}, {name: "Fits", f: func() { sinkBool, _ = s.Fits(Ask{Class: class}, worker) }},
		{name: "CouldFit", f: func() { sinkBool = s.CouldFit(Ask{Class: class}, worker) }},
		{name: "EverFits", f: func() { sinkInt = int64(s.EverFits(Ask{Class: class})) }},
		{name: "HasRoom", f: func() { sinkBool = s.HasRoom("q") }},
		{name: "SetShare", f: func() { pending.SetShare(it.Tenant, 3, 2); pending.SetShare(it.Tenant, 4, 2) }},
		{name: "Remove and Add", f: func() { pending.Remove(it); pending.Add(it) }},
		{name: "Oldest", f: func() { _, sinkBool = pending.Oldest() }},
		{name: "Shuffled", f: func() { sink = Shuffled(256, Hash{1}) }, allocates: true},
		{name: "RequirementsOf", f: func() {
			sink = RequirementsOf(&rota.JobSpec{Queue: "q", Requires: []string{"b", "a"}})
		}, allocates: true},
		{name: "Round of none", f: func() {
			sink = NewDraft(s, nil).Round(pending, RoundInput{Policy: p, Limit: 0, Now: now})
		}, allocates: true},
	}
}

// BenchmarkHot measures each function that is called for every job or pair.
func BenchmarkHot(b *testing.B) {
	for _, h := range hots(b) {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.f()
			}
		})
	}
}

// TestHotAllocations checks that functions called for every job or pair allocate nothing.
func TestHotAllocations(t *testing.T) {
	for _, h := range hots(t) {
		if n := testing.AllocsPerRun(200, h.f); n != 0 && !h.allocates {
			t.Errorf("%s allocates %v times a call, and should not at all", h.name, n)
		}
	}
}

// TestRoundAllocations checks that a round allocates for its assignments and its room, not for what it skips.
func TestRoundAllocations(t *testing.T) {
	const pairs = 256
	for _, jobs := range []int{2_000, 20_000} {
		s, pending, _, p := scene{jobs: jobs, tenants: 100, classes: 20, batch: 1, fair: true, blocked: 50}.build(t)
		in := RoundInput{Policy: p, Limit: pairs, Now: 1_700_000_000_000}
		took := testing.AllocsPerRun(5, func() {
			in.Seed[0]++
			if n := len(NewDraft(s, nil).Round(pending, in)); n != pairs {
				t.Fatalf("%d pairs of %d jobs", n, jobs)
			}
		})
		if took > 2*pairs {
			t.Errorf("%v allocations for %d pairs of %d jobs: two a pair are enough", took, pairs, jobs)
		}
	}
}
