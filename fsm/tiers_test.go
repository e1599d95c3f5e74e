package fsm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// tiered has an adaptive queue in which nothing is placed.
func tiered(t tester) *bench {
	t.Helper()
	b := newBench(t)
	b.every = 20
	b.ok(presetOp("default", "dfps"))
	return b
}

// stand checks that these jobs are in a tier, in this order.
func (b *bench) stand(tier int32, jobs ...rota.JobID) {
	b.t.Helper()
	var rows []*state.JobRow
	b.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.State == rota.JobQueued && j.Tier == tier {
			rows = append(rows, j)
		}
		return true
	})
	slices.SortFunc(rows, func(a, b *state.JobRow) int { return int(a.TierSeq) - int(b.TierSeq) })
	got := []rota.JobID{}
	for _, j := range rows {
		got = append(got, j.Spec.ID)
	}
	if !slices.Equal(got, jobs) {
		b.t.Fatalf("tier %d holds %v, want %v", tier, got, jobs)
	}
}

func TestTiers(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(tiered(t))
		})
	}
	run("are_entered_by_priority_at_the_back", func(b *bench) {
		for p := int32(10); p >= 0; p-- {
			b.submit(fmt.Sprint("p", p), priority(p))
		}
		b.stand(0, "p0")
		b.stand(1, "p3", "p2", "p1")
		b.stand(2, "p6", "p5", "p4")
		b.stand(3, "p8", "p7")
		b.stand(4, "p10", "p9")
		if q, _ := b.View.Queue("default"); !slices.Equal(q.Tiers, []int64{1, 3, 3, 2, 2}) {
			b.t.Fatalf("tiers %v", q.Tiers)
		}
		if j, _ := b.View.Job("p10"); j.Tier != 4 {
			b.t.Fatalf("job %+v", j)
		}
	})
	run("let_the_aged_rise_every_five_seconds", func(b *bench) {
		b.submit("a", priority(10)) // at 0: aged at 60 s
		b.pass(250)
		b.submit("b", priority(10)) // aged at 60.25 s: 65 s
		b.submit("n", priority(5))
		b.pass(59_500)
		b.stand(4, "a", "b")
		events := b.pass(250) // 60 s
		if len(events) != 1 || events[0].Kind != rota.EventJobPromoted || events[0].Job != "a" ||
			events[0].Payload != `{"from":4,"to":3}` || events[0].Queue != "default" {
			b.t.Fatalf("events %+v", events)
		}
		b.stand(4, "b")
		b.stand(3, "a")
		b.pass(4_750)
		b.stand(3, "a")
		b.pass(250) // 65 s
		b.stand(3, "a", "b")
		b.stand(2)
		b.stand(1, "n")
		b.pass(55_000) // 120 s: a has been in its tier for 60 s
		b.stand(2, "a")
		b.pass(60_000)
		b.stand(1, "n", "a") // at 185 s b follows
		b.pass(5_000)
		b.stand(1, "n", "a", "b")
		b.pass(600_000) // and no job is promoted to critical
		b.stand(1, "n", "a", "b")
		b.stand(0)
		if b.Timers.Promote.Len() != 0 {
			b.t.Fatal("a queue without jobs to promote keeps a timer")
		}
	})
	run("serve_those_who_rise_together_first_in_first_out", func(b *bench) {
		for _, id := range []string{"c", "a", "b"} {
			b.submit("low-"+id, priority(7))
			b.submit("back-"+id, priority(9))
		}
		var rose []rota.JobID
		for _, e := range b.pass(60_000) {
			if e.Kind == rota.EventJobPromoted {
				rose = append(rose, e.Job)
			}
		}
		// The higher tier first, so that no job is promoted behind one that it was ahead of.
		want := []rota.JobID{"low-c", "low-a", "low-b", "back-c", "back-a", "back-b"}
		if !slices.Equal(rose, want) {
			b.t.Fatalf("rose %v", rose)
		}
		b.stand(2, "low-c", "low-a", "low-b")
		b.stand(3, "back-c", "back-a", "back-b")
	})
	run("keep_who_reached_them_through_retries", func(b *bench) {
		b.submit("low", priority(7))
		b.submit("other", priority(5), func(s *rota.JobSpec) { s.Worker = "absent" })
		b.pass(60_000)
		b.stand(2, "low")
		b.submit("third", priority(5), func(s *rota.JobSpec) { s.Worker = "absent" })
		b.worker("w", 1)
		l := b.match()["low"]
		b.ok(verb(rota.VerbDecline, l)) // uncounted: a moment later, at the back
		b.pass(100)
		b.stand(2, "third", "low")
		b.worker("v", 1)
		l = b.match()["low"]
		b.ok(verb(rota.VerbFail, l))
		b.stand(2, "third")
		due := b.JobTable.Get("low").Due
		b.pass(due - b.now)
		b.stand(2, "third", "low") // when due, at the back of the tier that it had reached
		if j := b.JobTable.Get("low"); j.TierAt != due || j.Spec.Priority != 7 {
			b.t.Fatalf("row %+v", j)
		}
		b.ok(cancelOp("low"))
		b.ok(retryOp("low")) // a new life begins at the tier of its priority
		b.stand(3, "low")
	})
	run("keep_who_is_throttled_or_held_rising", func(b *bench) {
		b.submit("j", priority(9))
		b.ok(queueOp("default", "paused", "on"))
		b.pass(60_000)
		b.stand(3, "j")
	})
	run("rise_by_the_queues_own_threshold", func(b *bench) {
		b.submit("j", priority(9))
		b.ok(queueOp("default", "aging_threshold", "10s"))
		b.pass(9_750)
		b.stand(4, "j")
		b.pass(250)
		b.stand(3, "j")
		b.ok(queueOp("default", "aging_threshold", "1h"))
		b.pass(300_000)
		b.stand(3, "j")
	})
}

func TestRankingChangesToAdaptiveAndBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "oldest_every", "0"))
	b.submit("z", priority(7), func(s *rota.JobSpec) { s.Delay = time.Second })
	b.submit("y", priority(8))
	b.pass(500)
	b.submit("x", priority(7))
	b.now++
	b.submit("w", priority(7))
	b.pass(1_000) // z is QUEUED last
	enqueued := b.JobTable.Get("z").Enqueued
	b.ok(queueOp("default", "ranking", "adaptive"))
	b.stand(3, "y", "x", "w", "z")
	if j := b.JobTable.Get("z"); j.Enqueued != enqueued || j.TierAt != b.Header.Clock {
		t.Fatalf("row %+v", j)
	}
	b.pass(65_000)
	b.stand(2, "y", "x", "w", "z")
	b.ok(queueOp("default", "ranking", "fifo"))
	if b.Timers.Promote.Len() != 0 {
		t.Fatal("a queue that is not adaptive promotes")
	}
	b.pass(120_000)
	b.worker("v", 1)
	for _, want := range []rota.JobID{"y", "x"} {
		l, placed := b.match()[want]
		if !placed {
			t.Fatalf("%s lost its place", want)
		}
		b.ok(verb(rota.VerbComplete, l))
	}
	b.submit("new", priority(5))
	b.ok(queueOp("default", "ranking", "adaptive"))
	b.stand(2, "w", "z", "new") // they keep the tier that they had reached
	b.sound()
}

// TestManyRiseAtOnce spreads promotions over sweeps, and keeps other timers running.
func TestManyRiseAtOnce(t *testing.T) {
	t.Parallel()
	b := tiered(t)
	b.every = 200
	const many = 2_500
	for i := range many {
		b.submit(fmt.Sprintf("j%04d", i), priority(9))
	}
	b.submit("gone", priority(0))
	b.ok(cancelOp("gone"))
	for b.now < startClock+60_000 {
		b.now += 500
		b.entry()
	}
	b.submit("expires", priority(0), func(s *rota.JobSpec) { s.TTL = 500 * time.Millisecond })
	b.now += 500
	b.walls = []int64{startClock + int64(sevenDays) + 60_500} // the tombstone is due too
	for i, want := range []state.Sweep{{Fired: 1000, More: true}, {Fired: 1000, More: true}, {Fired: 502, More: false},
		{More: false}} {
		a := b.entry(sweepOp())
		if a.Sweep != want {
			t.Fatalf("sweep %d: got %+v, want %+v", i, a.Sweep, want)
		}
		if i == 0 && a.Events[0].Kind != rota.EventJobExpired {
			t.Fatalf("the first is %+v", a.Events[0])
		}
	}
	b.state("gone", rota.JobNone)
	if q, _ := b.View.Queue("default"); !slices.Equal(q.Tiers, []int64{3: many, 4: 0}) {
		t.Fatalf("tiers %v", q.Tiers)
	}
	for i, id := range []rota.JobID{"j0000", "j2499"} {
		if j := b.JobTable.Get(id); j.TierSeq != uint64(many+3+i*(many-1)) {
			t.Fatalf("job %s has place %d", id, j.TierSeq)
		}
	}
	b.sound()
}
