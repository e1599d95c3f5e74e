package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
)

func TestTurnOfTheOldest(t *testing.T) {
	t.Parallel()
	t.Run("runs_the_lowest_priority_under_a_stream_of_higher_ones", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "oldest_every", "20", "aging_factor", "1h"))
		if n := stream(b, 60); n != 20 {
			t.Fatalf("the job was placed by assignment %d", n)
		}
	})
	t.Run("off_it_runs_never", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "oldest_every", "0", "aging_factor", "1h"))
		if n := stream(b, 200); n != 0 {
			t.Fatalf("the job was placed by assignment %d", n)
		}
	})
	t.Run("reaches_into_queues_that_others_outweigh", func(t *testing.T) {
		t.Parallel()
		for every, want := range map[string]rota.JobState{"20": rota.JobAssigned, "0": rota.JobQueued} {
			b := newBench(t)
			b.every = 20
			b.ok(queueOp("default", "weight", "1000000"))
			b.ok(queueOp("light", "oldest_every", every))
			b.worker("w", 1, func(w *rota.WorkerSpec) { w.Queues = append(w.Queues, "light") })
			b.submit("first") // the busy queue's count is ahead from here on
			b.submit("l0", func(s *rota.JobSpec) { s.Queue = "light" })
			b.submit("l1", func(s *rota.JobSpec) { s.Queue = "light" })
			for i := range 22 {
				b.now++
				b.submit(fmt.Sprint("d", i))
				for id, l := range b.match() {
					if id != "l1" {
						b.ok(verb(rota.VerbComplete, l))
					}
				}
			}
			j := b.state("l1", want)
			if want == rota.JobAssigned && j.Lease.Decision.Reasoning.Rule != rota.ReasoningByTurnOfTheOldest {
				t.Fatalf("lease %+v", j.Lease)
			}
		}
	})
	t.Run("holds_the_worker_at_once_if_only_room_is_lacking", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "oldest_every", "5", "hold_after", "24h", "lease_ms", "3600000", "ack_timeout",
			"3600000"))
		if after := slip(b, 60_000); after == 0 || after > 10_000 {
			t.Fatalf("the wide job was placed after %d ms", after)
		}
		if rule := b.JobTable.Get("wide"); b.leasing.leases.Get(string(
			rule.Lease[:])).Decision.Reasoning.Rule != rota.ReasoningByTurnOfTheOldest {
			t.Fatal("it was not its turn")
		}
		if n := b.fleet.workers.Get("w").SinceTurn; n != 0 {
			t.Fatalf("%d leases counted since", n)
		}
	})
	t.Run("counts_what_one_entry_gives_beyond_a_turn", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 100
		b.worker("w", 100)
		for i := range 130 {
			b.submit(fmt.Sprint("j", i))
		}
		first := inOrder(b.match())
		if n := b.fleet.workers.Get("w").SinceTurn; len(first) != 100 || n != 100 {
			t.Fatalf("%d leases, %d counted", len(first), n)
		}
		for i, want := range []uint64{81, 62, 43, 24, 5, 6} {
			b.ok(verb(rota.VerbComplete, first[i]))
			if b.match(); b.fleet.workers.Get("w").SinceTurn != want {
				t.Fatalf("%d leases counted after turn %d", b.fleet.workers.Get("w").SinceTurn, i)
			}
		}
	})
	t.Run("takes_no_paused_or_unfitting_job", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "oldest_every", "1"))
		b.ok(queueOp("paused", "paused", "on", "oldest_every", "1"))
		b.worker("w", 1, func(w *rota.WorkerSpec) { w.Queues = append(w.Queues, "paused") })
		b.submit("gpu", func(s *rota.JobSpec) { s.Requires = []string{"gpu"} })
		b.submit("paused", func(s *rota.JobSpec) { s.Queue = "paused" })
		b.now++
		b.submit("low", func(s *rota.JobSpec) { s.Priority = 10 })
		b.now++
		b.submit("high", func(s *rota.JobSpec) { s.Priority = 0 })
		if l := b.match(); len(l) != 1 || l["low"].Job == "" {
			t.Fatalf("placed %v", l)
		}
	})
}
