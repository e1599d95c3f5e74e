package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
)

// stream keeps one worker of one slot busy with jobs that all rank before the job "low", and returns the number of the
// assignment that placed it, 0 if none did.
func stream(b *bench, most int) int {
	b.t.Helper()
	b.every = 20
	b.worker("w", 1)
	b.submit("low", func(s *rota.JobSpec) { s.Priority = 10 })
	placed := 0
	for i := range most {
		b.now++
		b.submit(fmt.Sprint("high", i), func(s *rota.JobSpec) { s.Priority = 0 })
		for id, l := range b.match() {
			placed++
			b.ok(verb(rota.VerbComplete, l))
			if id == "low" {
				return placed
			}
		}
	}
	return 0
}

func TestInterleave(t *testing.T) {
	t.Parallel()
	t.Run("gives_the_oldest_every_20th_assignment", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "oldest_every", "0", "starvation_interleave", "20"))
		if n := stream(b, 50); n != 20 {
			t.Fatalf("assignment %d went to the oldest", n)
		}
		for i := range 20 { // one more is pending than is placed
			if n := b.QueueTable.Get("default").SinceInterleave; n != uint64(i) {
				t.Fatalf("%d assignments counted after %d", n, i)
			}
			b.submit(fmt.Sprint("next", i))
			for _, l := range b.match() {
				b.ok(verb(rota.VerbComplete, l))
			}
		}
	})
	t.Run("off_it_gives_none", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "oldest_every", "0"))
		if n := stream(b, 100); n != 0 {
			t.Fatalf("assignment %d went to the oldest", n)
		}
	})
	t.Run("passes_over_what_fits_nobody_and_fair_share", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "oldest_every", "0", "starvation_interleave", "2"))
		b.worker("w", 3)
		b.submit("gpu", func(s *rota.JobSpec) { s.Requires = []string{"gpu"} })
		b.submit("a0", func(s *rota.JobSpec) { s.Tenant = "a" })
		if len(b.match()) != 1 {
			t.Fatal("not placed")
		}
		b.now += 10
		b.submit("a1", func(s *rota.JobSpec) { s.Tenant = "a" })
		b.now += 10
		b.submit("b1", func(s *rota.JobSpec) { s.Tenant = "b" })
		order := inOrder(b.match())
		if len(order) != 2 || order[0].Job != "a1" || order[1].Job != "b1" {
			t.Fatalf("placed %v", order)
		}
		if n := b.QueueTable.Get("default").SinceInterleave; n != 1 {
			t.Fatalf("%d assignments counted", n)
		}
	})
}
