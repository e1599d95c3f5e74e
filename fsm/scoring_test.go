package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/sched"
)

// TestScoringKeys changes the keys of the adaptive score on a queue with pending jobs.
func TestScoringKeys(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(tiered(t))
		})
	}
	depths := func(b *bench, want ...int64) {
		b.t.Helper()
		if q, _ := b.View.Queue("default"); !slices.Equal(q.Tiers, want) {
			b.t.Fatalf("tiers: got %v, want %v", q.Tiers, want)
		}
		b.sound()
	}
	run("another_number_of_tiers_spreads_the_jobs_and_keeps_their_order", func(b *bench) {
		l := b.leased("p6", "w", priority(6)) // it comes back to the tier of the new number
		for p := int32(10); p >= 0; p-- {
			if p != 6 {
				b.submit(fmt.Sprint("p", p), priority(p))
			}
		}
		b.ok(queueOp("default", "tiers", "3"))
		depths(b, 1, 5, 4)
		b.stand(0, "p0")
		b.stand(1, "p5", "p4", "p3", "p2", "p1")
		b.stand(2, "p10", "p9", "p8", "p7")
		b.ok(verb(rota.VerbDecline, l))
		b.pass(20_000)
		b.stand(2, "p10", "p9", "p8", "p7", "p6")
		b.ok(queueOp("default", "tiers", "8"))
		b.stand(1, "p2", "p1")
		b.stand(3, "p5", "p6")
		b.stand(7, "p10")
		depths(b, 1, 2, 2, 2, 1, 1, 1, 1)
		b.ok(queueOp("default", "ranking", "aging", "tiers", "2"))
		depths(b, 1, 10)
		b.ok(queueOp("default", "ranking", "adaptive"))
		depths(b, 1, 10)
	})
	run("jobs_rise_through_all_tiers", func(b *bench) {
		b.ok(queueOp("default", "tiers", "8"))
		b.submit("a", priority(10))
		b.stand(7, "a")
		for tier := int32(6); tier > 0; tier-- {
			b.pass(60_000)
			b.stand(tier, "a")
		}
		b.pass(600_000)
		b.stand(1, "a")
		b.ok(queueOp("default", "tiers", "2"))
		b.submit("b", priority(10))
		b.pass(600_000)
		b.stand(1, "a", "b")
	})
	run("quotas_and_bases_decide", func(b *bench) {
		for i := range 4 {
			b.submit(fmt.Sprint("high", i), priority(1))
			b.submit(fmt.Sprint("back", i), priority(10))
		}
		b.worker("w", 2)
		b.ok(queueOp("default", "quota_1", "0", "quota_4", "100", "batch_size", "2"))
		for id := range b.match() {
			if id != "back0" && id != "back1" {
				b.t.Fatalf("%s is placed from a sample of background jobs", id)
			}
		}
	})
	run("owner_says_how_long_a_type_takes", func(b *bench) {
		expects := func(want int64) {
			b.t.Helper()
			q := b.QueueTable.Get("default")
			if got := b.typeStats.Stats(q, "work"); got != (sched.Stats{ExpectedMs: want}) {
				b.t.Fatalf("%+v is known, want %d ms", got, want)
			}
			full, _ := b.View.QueueInFull("default")
			shown := slices.ContainsFunc(full.Types, func(s rota.TypeStats) bool {
				return s.Type == "work" && s.Expected == millis.Duration(want)
			})
			if want > 0 && !shown {
				b.t.Fatalf("shown are %+v", full.Types)
			}
			b.sound()
		}
		declares := func(id string, ms int64) {
			b.submit(id, func(s *rota.JobSpec) { s.Expected = millis.Duration(ms) })
		}
		declares("a", 5)
		expects(0) // a submitter's value counts only if the policy uses it
		b.ok(queueOp("default", "expected.work", "2s", "expected.other", "1"))
		expects(2000)
		declares("b", 5)
		expects(2000)
		b.ok(queueOp("default", "estimate", "user"))
		expects(2000) // no submission declared one since
		declares("c", 7)
		expects(7)
		b.ok(queueOp("default", "estimate", "type", "expected.work", "3000", "expected.Work", "1"))
		expects(3000)
		b.ok(queueOp("default", "expected.work", "0"))
		expects(0)
		if o := b.ok(queueOp("default", "expected.work", "0")); !o.GetExisted() {
			b.t.Fatalf("outcome %v", o)
		}
		b.refuses(rota.KindInvalid, "type", queueOp("default", "expected.a b", "1s"))
	})
	run("expected_times_are_bounded", func(b *bench) {
		pairs := make([]string, 0, 2*limits.MaxExpectedTypes)
		for i := range limits.MaxExpectedTypes {
			pairs = append(pairs, fmt.Sprint("expected.t", i), "1")
		}
		b.ok(queueOp("default", pairs...))
		b.refuses(rota.KindExhausted, "expected", queueOp("default", "expected.more", "1"))
		b.ok(queueOp("default", "expected.t0", "0", "expected.more", "1"))
		b.sound()
	})
}
