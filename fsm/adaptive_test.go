package fsm

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/learn"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/sched"
)

// The four rows of DFPS-S §5, driven through entries as in a cluster's log. The expected values are calculated by the
// formulas of SPEC §5.3 in this file, separately from the code that decides.

// dfps returns a bench with a default queue of the preset dfps, without the turn of the oldest, and a worker of one
// slot.
func dfps(t tester) *bench {
	t.Helper()
	b := newBench(t)
	b.every = 20
	b.ok(presetOp("default", "dfps", "oldest_every", "0", "hold_after", "24h", "lease_ms", "600000", "backoff_base",
		"0", "attempt_max", "1000", "estimate", "user"))
	b.worker("w", 1)
	return b
}

func ofType(typ rota.JobType) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.Type = typ } }

func sized(bytes int64) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.SizeBytes = bytes } }

// serves checks that the next round gives its only pair to a job with this score, and returns the lease, acknowledged.
func (b *bench) serves(job rota.JobID, score float64) rota.Lease {
	b.t.Helper()
	leases := b.match()
	l, placed := leases[job]
	if !placed || len(leases) != 1 {
		b.t.Fatalf("placed %v, want only %s", leases, job)
	}
	if got := math.Float64frombits(uint64(l.Decision.Score)); got != score {
		b.t.Fatalf("job %s has score %v, want %v", job, got, score)
	}
	b.ok(verb(rota.VerbAck, l))
	return l
}

// weightOf returns W of SPEC §5.3.
func weightOf(success, fail, expectedMs, emaMs float64) float64 {
	yield := (success + 2) / (success + fail + 4)
	ratio := 1.0
	if expectedMs > 0 {
		ratio = expectedMs / math.Max(1, emaMs)
	}
	c := math.Min(1, (success+fail)/50)
	blended := float64(c*float64(ratio*yield)) + float64((1-c)*1)
	return math.Max(0.1, math.Min(1.5, blended))
}

// scoreOf returns the score of SPEC §5.3, of a job of 1 byte if mib is 0.
func scoreOf(base, waitS, weight, mib float64) float64 {
	aged := float64(base * math.Min(3, 1+waitS/600))
	return float64(aged * (weight / math.Sqrt(math.Max(0.1, mib))))
}

func (b *bench) knows(typ rota.JobType, want sched.Stats) {
	b.t.Helper()
	if got := b.typeStats.Stats(b.QueueTable.Get("default"), typ); got != want {
		b.t.Fatalf("type %s: %+v is known, want %+v", typ, got, want)
	}
}

// relieve replaces all workers by a new one.
func (b *bench) relieve(worker string) {
	b.t.Helper()
	for _, w := range b.View.Workers() {
		if w.Status == rota.WorkerActive {
			b.ok(statusOp(string(w.ID), rota.WorkerRetired, 0))
		}
	}
	b.worker(worker, 1)
}

func TestEarlySampleBias(t *testing.T) {
	t.Parallel()
	b := dfps(t)
	b.submit("first", ofType("fresh"), func(s *rota.JobSpec) { s.Expected = 100 * time.Millisecond })
	l := b.serves("first", scoreOf(2, 0, 1, 0)) // no statistics yet: the weight is neutral
	b.pass(1_000)
	b.ok(verb(rota.VerbFail, l))
	l = b.serves("first", scoreOf(2, 1, weightOf(0, 1, 100, 1_000), 0))
	b.pass(1_000)
	b.ok(verb(rota.VerbFail, l))
	b.knows("fresh", sched.Stats{Fail: 2, EMAus: 1_000_000, ExpectedMs: 100, Sampled: true})
	b.ok(cancelOp("first"))

	// Two samples, both bad and ten times too slow, are trusted for 4 %.
	w := weightOf(0, 2, 100, 1_000)
	if raw := 100.0 / 1_000 * 2 / 6; w < 0.96 || w > 0.97 || math.Abs(w-(0.04*raw+0.96)) > 1e-12 {
		t.Fatalf("weight %v", w)
	}
	b.submit("known-bad", ofType("fresh"))
	wait := rota.Clock(30_000)
	if b.pass(wait); scoreOf(2, 30, w, 0) <= scoreOf(2, 0, 1, 0) {
		t.Fatal("30 s of waiting must outweigh two samples")
	}
	b.submit("unknown", ofType("other"))
	l = b.serves("known-bad", scoreOf(2, 30, w, 0))
	b.ok(verb(rota.VerbComplete, l))
	b.serves("unknown", scoreOf(2, 0, 1, 0))
}

func TestFastFailureTrap(t *testing.T) {
	t.Parallel()
	b := dfps(t)
	b.every = 200
	b.submit("crash", ofType("crash"))
	for i := range 60 {
		b.relieve(fmt.Sprint("w", i)) // a worker that fails three times in a row cools down
		l := b.serves("crash", scoreOf(2, float64(i)/100, weightOf(0, float64(i), 0, 0), 0))
		b.now += 10
		b.ok(verb(rota.VerbFail, l))
	}
	b.knows("crash", sched.Stats{Fail: 60, EMAus: 10_000, Sampled: true})
	if yield := 2.0 / 64; yield >= 0.1 || weightOf(0, 60, 0, 0) != 0.1 {
		t.Fatalf("weight %v: the floor must be visible", weightOf(0, 60, 0, 0))
	}
	// Any other type goes first, but a type that crashes is never locked out.
	b.submit("sound", ofType("sound"))
	l := b.serves("sound", scoreOf(2, 0, 1, 0))
	b.ok(verb(rota.VerbComplete, l))
	l = b.serves("crash", scoreOf(2, 0.6, 0.1, 0))

	// Once the fix is deployed, successes bring the weight back by themselves.
	b.ok(verb(rota.VerbComplete, l))
	for i := range 59 {
		id := fmt.Sprint("fixed", i)
		b.submit(id, ofType("crash"))
		b.ok(verb(rota.VerbComplete, b.serves(rota.JobID(id), scoreOf(2, 0, weightOf(float64(i+1), 60, 0, 0), 0))))
	}
	if w := sched.ScoringOf(&b.QueueTable.Get("default").Policy).Weight(b.typeStats.Stats(b.QueueTable.Get("default"),
		"crash")); w != weightOf(60, 60, 0, 0) || w != 0.5 {
		t.Fatalf("weight %v after the fix", w)
	}
}

func TestHeavyWallAgainstVIP(t *testing.T) {
	t.Parallel()
	b := dfps(t)
	b.every = 1_000
	const wall = 500
	for i := range wall {
		b.submit(fmt.Sprintf("huge%03d", i), sized(1<<30))
		b.now++
	}
	b.pass(1_200_000) // as old as age counts
	b.submit("vip", priority(0), sized(1<<10), ofType("vip"))
	l := b.serves("vip", scoreOf(100, 0, 1, 0)) // 0.1 MiB is the least size
	b.ok(verb(rota.VerbComplete, l))

	// Huge jobs are not starved: because of the square root an old one of 1 GiB loses to a fresh small NORMAL job, and
	// wins against one of 150 MiB.
	b.submit("small", sized(1<<20), ofType("small"))
	b.submit("middling", sized(150<<20), ofType("middling"))
	order := []struct {
		job   rota.JobID
		score float64
	}{{"small", scoreOf(2, 0, 1, 1)}, {"huge", scoreOf(2, 1_200, 1, 1024)}, {"middling", scoreOf(2, 0, 1, 150)}}
	if !(order[0].score > order[1].score && order[1].score > order[2].score) {
		t.Fatalf("scores %+v", order)
	}
	b.ok(verb(rota.VerbComplete, b.serves("small", order[0].score)))
	l = b.serves("huge000", order[1].score)
	b.ok(verb(rota.VerbComplete, l))
	b.sound()
}

func TestStarvingPeasant(t *testing.T) {
	t.Parallel()
	b := dfps(t)
	b.every = 500
	b.submit("peasant", priority(7))
	score := func(waitS float64) float64 { return scoreOf(1, waitS, 1, 0) }
	normal, high, critical := scoreOf(2, 0, 1, 0), scoreOf(10, 0, 1, 0), scoreOf(100, 0, 1, 0)

	// It passes a fresh NORMAL job once it has waited 600 s, not before.
	b.pass(599_000)
	if score(599) >= normal || score(601) <= normal {
		t.Fatalf("scores %v and %v against %v", score(599), score(601), normal)
	}
	b.submit("early", priority(5), ofType("early"))
	b.ok(verb(rota.VerbComplete, b.serves("early", normal)))
	b.pass(2_000)
	b.submit("late", priority(5), ofType("late"))
	b.ok(verb(rota.VerbDecline, b.serves("peasant", score(601))))

	// Age is limited to three times the base: however long it waits it passes neither a fresh HIGH nor a CRITICAL job.
	b.ok(cancelOp("late"))
	b.pass(3_600_000)
	if old := score(4_201); old != scoreOf(3, 0, 1, 0) || old >= high {
		t.Fatalf("score %v", old)
	}
	b.submit("high", priority(2), ofType("high"))
	b.submit("critical", priority(0), ofType("critical"))
	b.ok(verb(rota.VerbComplete, b.serves("critical", critical)))
	b.ok(verb(rota.VerbComplete, b.serves("high", high)))
	b.serves("peasant", score(4_201))
}

// TestTypeStatistics checks which outcomes count, and for how long.
func TestTypeStatistics(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(dfps(t))
		})
	}
	run("from_acknowledgement_or_assignment_to_the_end", func(b *bench) {
		b.submit("a")
		l := b.match()["a"]
		b.pass(3_000) // unacknowledged: it does not count as running
		b.ok(verb(rota.VerbAck, l))
		b.pass(800)
		b.ok(verb(rota.VerbComplete, l))
		b.knows("work", sched.Stats{Success: 1, EMAus: 800_000, Sampled: true})
		b.submit("b")
		l = b.match()["b"]
		b.pass(1_600)
		b.ok(verb(rota.VerbComplete, l)) // acknowledges: only the assignment is known
		b.knows("work", sched.Stats{Success: 2, EMAus: 800_000 + (1_600_000-800_000)>>3, Sampled: true})
		b.submit("c")
		l = b.match()["c"]
		b.pass(100)
		b.ok(verb(rota.VerbFail, l))
		b.knows("work", sched.Stats{Success: 2, Fail: 1, EMAus: 900_000 + (100_000-900_000)>>3, Sampled: true})
	})
	run("an_expired_lease_fails_without_a_sample", func(b *bench) {
		b.ok(queueOp("default", "lease_ms", "10000"))
		b.submit("a")
		b.ok(verb(rota.VerbAck, b.match()["a"]))
		b.pass(10_000)
		b.knows("work", sched.Stats{Fail: 1})
	})
	run("an_invalid_proof_fails_with_a_sample", func(b *bench) {
		b.submit("a", func(s *rota.JobSpec) { s.ExpectedDigest = make([]byte, 32) })
		l := b.match()["a"]
		b.ok(verb(rota.VerbAck, l))
		b.pass(500)
		b.entry(verb(rota.VerbComplete, l))
		b.knows("work", sched.Stats{Fail: 1, EMAus: 500_000, Sampled: true})
	})
	run("what_is_not_the_types_fault_counts_nothing", func(b *bench) {
		b.submit("a")
		b.match()
		b.pass(5_000) // ack timeout
		b.ok(statusOp("w", rota.WorkerRetired, 0))
		b.worker("v", 1)
		b.ok(verb(rota.VerbDecline, b.match()["a"]))
		b.pass(100)
		if l, placed := b.match()["a"]; placed {
			b.ok(cancelOp(string(l.Job)))
		} else {
			b.t.Fatal("not placed")
		}
		if b.typeStats.Types.Len() != 0 {
			b.t.Fatalf("statistics %+v", b.typeStats.Stats(b.QueueTable.Get("default"), "work"))
		}
	})
	run("only_while_the_queue_is_adaptive", func(b *bench) {
		b.ok(queueOp("default", "ranking", "aging"))
		b.submit("a", func(s *rota.JobSpec) { s.Expected = 5 * time.Millisecond })
		l := b.match()["a"]
		b.ok(queueOp("default", "ranking", "adaptive"))
		b.ok(verb(rota.VerbFail, l)) // the ranking at the outcome counts
		b.knows("work", sched.Stats{Fail: 1, Sampled: true})
		l = b.match()["a"]
		b.ok(queueOp("default", "ranking", "aging"))
		b.ok(verb(rota.VerbComplete, l))
		b.knows("work", sched.Stats{Fail: 1, Sampled: true})
	})
	run("halved_at_the_window", func(b *bench) {
		b.ok(queueOp("default", "stats_window", "4"))
		want := sched.Stats{}
		for i := range 11 {
			id := fmt.Sprint("j", i)
			b.submit(id)
			l := b.match()[rota.JobID(id)]
			b.now += rota.Clock(90 * (i + 1))
			ok := i%3 != 0
			if want = want.Observe(int64(90_000*(i+1)), ok, 4); ok {
				b.ok(verb(rota.VerbComplete, l))
			} else {
				b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
			}
		}
		b.knows("work", want)
	})
	run("the_newest_declaration_counts", func(b *bench) {
		b.submit("a", func(s *rota.JobSpec) { s.Expected = 100 * time.Millisecond })
		b.submit("b", func(s *rota.JobSpec) { s.Expected = 300 * time.Millisecond })
		b.submit("c") // declares nothing
		b.submit("b", func(s *rota.JobSpec) { s.Expected = 300 * time.Millisecond })
		b.knows("work", sched.Stats{ExpectedMs: 300})
	})
	run("of_so_many_types_and_no_more", func(b *bench) {
		for _, m := range []*Machine{b.Machine, b.twin} {
			m.Ledger.Gen++
			for i := range limits.MaxTypes - 1 {
				typ := rota.JobType(fmt.Sprint("t", i))
				m.typeStats.Types.Insert(typ, &state.TypeRow{Typ: typ})
			}
			m.settleHeader()
			m.Ledger.Settle()
		}
		declare := func(typ rota.JobType) {
			b.submit(string(typ), ofType(typ), func(s *rota.JobSpec) { s.Expected = 7 * time.Millisecond })
		}
		declare("last")
		declare("over")
		b.knows("last", sched.Stats{ExpectedMs: 7})
		b.knows("over", sched.Stats{})
		b.completeAll(b.match1())
		b.completeAll(b.match1())
		if b.typeStats.Types.Len() != limits.MaxTypes || b.typeStats.Stats(b.QueueTable.Get("default"),
			"over") != (sched.Stats{}) || b.typeStats.Stats(b.QueueTable.Get("default"), "last").Success != 1 {
			b.t.Fatalf("%d types", b.typeStats.Types.Len())
		}
		if q, _ := b.View.QueueInFull("default"); len(q.Types) != learn.TypesShown {
			b.t.Fatalf("%d types are shown", len(q.Types))
		}
	})
}

// match1 places one job and names it.
func (b *bench) match1() rota.JobID {
	b.t.Helper()
	for id := range b.match() {
		return id
	}
	b.t.Fatal("nothing was placed")
	return ""
}
