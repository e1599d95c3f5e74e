package fsm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rotasched/rota"
	"pgregory.net/rapid"
)

// TestLimits runs random lives under limits that are always close: modes, rates, max_concurrent, windows, failure
// domains and changing policies. The pairs that Decide places must be valid when applied, so that the caps of a draft
// and the re-check of an assignment are one rule; Check and a twin through snapshots cover the rest.
func TestLimits(t *testing.T) {
	t.Parallel()
	long(t)
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		s := &strait{bench: newBench(rt), chance: rand.New(rand.NewPCG(seed, seed))}
		s.every = 3
		for _, q := range []string{"default", "other"} {
			s.ok(queueOp(q, "min_health", "0", "backoff_base", "0", "attempt_max", "1000", "queue_cap", "60",
				"domain_min_samples", "3",
				"domain_probe_burst", "2", "fair_share", pick(s, "on", "off"), "ranking",
				pick(s, "aging", "market", "fifo", "adaptive"),
				"oldest_every", pick(s, "0", "2"), "tenant_window_max", pick(s, "0", "2", "5"), "tenant_window", "6s",
				"rate_limit_rps", pick(s, "0", "3")))
		}
		for i := range 3 {
			s.worker(fmt.Sprint("w", i), int32(2+2*i), serving("other"))
		}
		for range rapid.IntRange(1, 250).Draw(rt, "steps") {
			s.step()
		}
		s.sound()
		s.endAll()
	})
}

// strait is a bench whose tenants, domains and modes leave little room.
type strait struct {
	*bench
	chance *rand.Rand
	n      int
	open   []rota.Lease
}

func pick[T any](s *strait, of ...T) T { return of[s.chance.IntN(len(of))] }

func (s *strait) step() {
	tenantID := pick(s, "ann", "bob", "cyd")
	switch s.chance.IntN(14) {
	case 0, 1, 2, 3, 4:
		s.n++
		s.entry(submitOp(jobSpec(fmt.Sprint("j", s.n), tenant(tenantID), priority(int32(s.chance.IntN(11))),
			queue(pick(s, "default", "other")), inDomain(pick(s, "", "z1", "z2")))))
	case 5, 6:
		s.round()
	case 7, 8, 9:
		for range min(len(s.open), 3) {
			i := s.chance.IntN(len(s.open))
			l := s.open[i]
			s.open = append(s.open[:i], s.open[i+1:]...)
			s.entry(verb(pick(s, rota.VerbComplete, rota.VerbComplete, rota.VerbFail, rota.VerbDecline), l))
		}
	case 10:
		s.ok(tenantOp(tenantID, "max_concurrent", pick(s, "0", "1", "3"), "penalty", pick(s, "0", "700ms"),
			"rate_limit_rps", pick(s, "-1", "0", "2"), "weight", pick(s, "1", "4"), "tier", pick(s, "FREE", "PREMIUM")))
	case 11:
		if s.chance.IntN(2) == 0 {
			s.entry(autoMode(rota.ClusterMode(s.chance.IntN(2)), pick(s, "x", "y"), s.chance.IntN(2) == 0))
		} else {
			s.ok(modeOp(pick(s, rota.ModeNormal, rota.ModeNormal, rota.ModeDegraded, rota.ModeReadOnly,
				rota.ModeDraining), "by hand"))
		}
	case 12:
		key, value := pick(s, "tenant_window_max", "domain_min_samples", "domain_probe_burst",
			"weight"), fmt.Sprint(1+s.chance.IntN(4))
		if s.chance.IntN(2) == 0 {
			key, value = "ranking", pick(s, "aging", "market", "fifo", "adaptive")
		}
		s.ok(queueOp(pick(s, "default", "other"), key, value))
	default:
		s.pass(rota.Clock(s.chance.IntN(4)) * 1300)
	}
}

// round applies the result of Decide; match ends the test if anything is dropped.
func (s *strait) round() {
	before, mode := make(map[rota.TenantID]rota.Tenant), s.View.Mode()
	for _, t := range s.View.Tenants() {
		before[t.ID] = t
	}
	started := make(map[rota.TenantID]int64)
	for _, l := range inOrder(s.match()) {
		s.open = append(s.open, l)
		j, _ := s.View.Job(l.Job)
		started[j.Tenant]++
		turn := l.Decision.Reasoning.Rule == rota.ReasoningByTurnOfTheOldest
		if mode.Mode == rota.ModeReadOnly || mode.Mode == rota.ModeDegraded && mode.Holds && j.Priority > 5 &&
			!(mode.Auto && turn) {
			s.t.Fatalf("job %s of priority %d was started in %+v", j.ID, j.Priority, mode)
		}
	}
	for id, n := range started {
		t := before[id]
		if t.Throttled || t.MaxConcurrent > 0 && t.Open+n > t.MaxConcurrent {
			s.t.Fatalf("tenant %+v got %d more leases", t, n)
		}
	}
}

// endAll ends everything and lets the clock run: only settings may remain.
func (s *strait) endAll() {
	s.ok(modeOp(rota.ModeNormal, "over"))
	for i := range s.n {
		s.entry(cancelOp(fmt.Sprint("j", i+1)))
	}
	s.pass(70_000)
	if s.admission.limiters.Len() != 0 || s.admission.domains.Len() != 0 || s.Timers.Penalty.Len() != 0 {
		s.t.Fatalf("%d limiters, %d domains, %d penalties at rest", s.admission.limiters.Len(),
			s.admission.domains.Len(), s.Timers.Penalty.Len())
	}
	s.sound()
}

// BenchmarkLifeLimited is BenchmarkLife with every limit of SPEC §4 on and none reached: the cost of isolation for one
// job in Apply.
func BenchmarkLifeLimited(b *testing.B) {
	each(b, func(b *testing.B, m *filled) {
		m.entry(queueOp("default", "rate_limit_rps", "10000000", "tenant_window_max", "100000000",
			"max_queue_size", "100000000"), tenantOp("default", "max_concurrent", "100000000", "weight", "2"))
		l := newLife(m)
		l.change = inDomain("zone-1")
		measure(b, l, "submit", "round", "ack", "complete")
	})
}

// BenchmarkLifeKeyed is BenchmarkLife for jobs with a unique key each, and one of 1,000 keys whose leases are counted.
func BenchmarkLifeKeyed(b *testing.B) {
	each(b, func(b *testing.B, m *filled) {
		m.entry(SetKeyRuleOp(&rota.KeyRule{Name: "k", Concurrency: rota.MaxKeyConcurrency}))
		l := newLife(m)
		l.change = func(s *rota.JobSpec) {
			s.Unique, s.Keys = &rota.Unique{Key: string(s.ID)}, []string{fmt.Sprint("k:", l.n%1000)}
		}
		measure(b, l, "submit", "round", "ack", "complete")
	})
}

// BenchmarkLifeCosts is BenchmarkLife for jobs with a cost, a key whose rate it weighs, and a budget.
func BenchmarkLifeCosts(b *testing.B) {
	each(b, func(b *testing.B, m *filled) {
		m.entry(switchOp(2))
		m.rules = 2
		m.entry(SetKeyRuleOp(&rota.KeyRule{Name: "k", Rate: rota.MaxCost / unit, PeriodMs: 1000, Unit: "usd",
			Concurrency: rota.MaxKeyConcurrency}))
		m.entry(usd("all", rota.MaxCost/unit))
		l := newLife(m)
		l.change = func(s *rota.JobSpec) {
			s.Keys, s.Costs = []string{"k:1"}, rota.Costs{"usd": int64(2+l.n%20) * unit}
		}
		measure(b, l, "submit", "round", "ack", "complete")
	})
}
