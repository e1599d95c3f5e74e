package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	t.Run("fires_by_kind_then_due_then_id", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 2)
		b.submit("leased")
		b.match()
		b.submit("z-wakes-first", func(s *rota.JobSpec) { s.Delay = 5 * time.Second })
		b.submit("b-wakes", func(s *rota.JobSpec) { s.Delay = 5_500 * time.Millisecond })
		b.submit("a-wakes", func(s *rota.JobSpec) { s.Delay = 5_500 * time.Millisecond })
		b.submit("expires", func(s *rota.JobSpec) { s.TTL, s.Delay = 5_800*time.Millisecond, 1000*time.Second })
		for range 6 {
			b.now += 1000
			b.entry()
		}
		var order []string
		for _, e := range b.entry(sweepOp()).Events {
			order = append(order, e.Kind.String()+" "+string(e.Job))
		}
		want := "[leaseCancelled leased jobRetryScheduled leased jobExpired expires jobEnqueued z-wakes-first" +
			" jobEnqueued a-wakes jobEnqueued b-wakes]"
		if got := fmt.Sprint(order); got != want {
			t.Fatalf("got fired %s\nwant %s", got, want)
		}
	})
	t.Run("fires_a_thousand_at_most", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 500
		for i := range 2500 {
			b.submit(fmt.Sprint("j", i), func(s *rota.JobSpec) { s.Delay = 100 * time.Millisecond })
		}
		b.now += 1000
		for _, want := range []state.Sweep{{Fired: 1000, More: true}, {Fired: 1000, More: true},
			{Fired: 500, More: false}, {More: false}} {
			if a := b.entry(sweepOp(), sweepOp()); a.Sweep != want { // two share the bound
				t.Fatalf("sweep: got %+v, want %+v", a.Sweep, want)
			}
		}
		b.sound()
	})
	t.Run("fires_nothing_in_an_entry_of_another_term", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.leased("j", "w")
		for range 7 {
			b.now += 1000
			b.entry()
		}
		b.lead()
		a := b.stamped(&fsmpb.Entry{Term: 1, NowMs: int64(b.now + 900),
			Ops: []*fsmpb.Op{sweepOp(), submitOp(jobSpec("k"))}}, 2)
		if err := entry.OutcomeError(a.Outcomes[0]); err == nil || err.Kind != rota.KindStale || a.Stamped ||
			a.Clock != b.now {
			t.Fatalf("applied %+v", a)
		}
		b.state("j", rota.JobAssigned)
		b.state("k", rota.JobQueued) // a client's operation still applies
	})
	t.Run("ends_jobs_by_the_earlier_time_to_live", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "ttl_rel_max", "10s", "ttl_abs", "30s"))
		b.submit("waits", func(s *rota.JobSpec) { s.Worker = "absent" })
		l := b.leased("runs", "w", func(s *rota.JobSpec) { s.Priority = 0 })
		b.ok(verb(rota.VerbAck, l))
		b.pass(10_000)
		if j := b.state("runs", rota.JobExpired); j.Reason != rota.ReasonTTLRelative {
			t.Fatalf("job %+v", j)
		}
		b.pass(20_000)
		if j := b.state("waits", rota.JobExpired); j.Reason != rota.ReasonTTLAbsolute {
			t.Fatalf("job %+v", j)
		}
	})
	t.Run("forgets_tombstones_after_seven_days_of_date", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		b.ok(cancelOp("j"))
		b.walls = []int64{startClock + int64(sevenDays) - 1, startClock + int64(sevenDays) - 1}
		b.entry(sweepOp())
		b.state("j", rota.JobCancelled)
		b.walls[0]++
		b.walls[1]++
		b.entry(sweepOp())
		b.state("j", rota.JobNone)
		b.submit("j") // the id is free again
	})
	t.Run("forgets_workers_after_a_day", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 10_000
		s := b.worker("w", 1)
		b.ok(statusOp("w", rota.WorkerRetired, s))
		for range int(limits.WorkerForgotten/1000) - 1 {
			b.now += 1000
			b.entry()
		}
		b.entry(sweepOp())
		if len(b.View.Workers()) != 1 {
			t.Fatal("forgotten early")
		}
		b.now += 1000
		b.entry(sweepOp())
		if len(b.View.Workers()) != 0 {
			t.Fatal("not forgotten")
		}
		b.sound()
		if again := b.worker("w", 1); again <= s {
			t.Fatalf("session %d after %d", again, s)
		}
	})
	t.Run("rests_when_nothing_can_fire", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		if !b.View.AtRest() {
			t.Fatal("an empty state is not at rest")
		}
		b.submit("dated", func(s *rota.JobSpec) { s.NotBefore = rota.Date(startClock + 1e6).Time() })
		if !b.View.AtRest() {
			t.Fatal("a date keeps it from rest")
		}
		b.submit("j")
		if b.View.AtRest() || !b.View.Waiting() || !b.View.QueueBusy("default") || b.View.QueueBusy("nowhere") {
			t.Fatal("a QUEUED job rests")
		}
		b.worker("w", 1)
		l := b.match()["j"]
		if b.View.AtRest() || b.View.Waiting() {
			t.Fatal("an open lease rests")
		}
		b.ok(verb(rota.VerbFail, l))
		if b.View.AtRest() {
			t.Fatal("backoff rests")
		}
	})
}

func TestTombstones(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 5 {
		b.submit(fmt.Sprint("j", i))
		b.ok(cancelOp(fmt.Sprint("j", i)))
	}
	for _, m := range []*Machine{b.Machine, b.twin} { // as an entry would at the cap
		m.Ledger.Gen++
		m.ended.evictTombs(3)
		m.settleHeader()
		m.Ledger.Settle()
	}
	b.sound()
	b.state("j1", rota.JobNone)
	b.state("j2", rota.JobCancelled)
	if b.Header.DroppedTombs != 2 {
		t.Fatalf("%d are counted as dropped", b.Header.DroppedTombs)
	}
	b.pass(1000)
}
