package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// backwards are ids in another order than that of their submission.
var backwards = []string{"z", "f", "y", "b", "x", "a"}

// runsInOrder lets one worker of one slot complete all pending jobs, and returns their order.
func (b *bench) runsInOrder() (order []string) {
	b.t.Helper()
	for {
		leases := b.match()
		if len(leases) == 0 {
			return order
		}
		for id, l := range leases {
			order = append(order, string(id))
			b.ok(verb(rota.VerbComplete, l))
		}
	}
}

// TestFIFO checks SPEC §16.4: jobs that became QUEUED in one millisecond run in the order of their submission.
func TestFIFO(t *testing.T) {
	t.Parallel()
	one := func(t *testing.T, set ...string) *bench {
		b := newBench(t)
		b.ok(queueOp("default", append([]string{"ranking", "fifo", "backoff_base", "0"}, set...)...))
		b.worker("w", 1)
		return b
	}
	batch := func(b *bench, ids ...string) {
		ops := make([]*fsmpb.Op, len(ids))
		for i, id := range ids {
			ops[i] = submitOp(jobSpec(id))
		}
		b.entry(ops...)
	}
	for _, c := range []struct {
		name string
		set  []string
	}{
		{"ranks_by_submission", []string{"oldest_every", "0"}},
		{"ranks_by_submission_with_fair_share", []string{"oldest_every", "0", "fair_share", "on"}},
		{"turns_go_by_submission", []string{"oldest_every", "1"}},
		{"interleave_goes_by_submission", []string{"oldest_every", "0", "interleave", "1"}},
	} {
		for _, strategy := range []string{"shuffle", "affinity", "random"} {
			t.Run(c.name+"_"+strategy, func(t *testing.T) {
				t.Parallel()
				b := one(t, append(c.set, "strategy", strategy)...)
				batch(b, backwards...)
				if got := b.runsInOrder(); !slices.Equal(got, backwards) {
					t.Fatalf("ran %v, submitted %v", got, backwards)
				}
			})
		}
	}
	t.Run("failed_attempt_keeps_its_place", func(t *testing.T) {
		t.Parallel()
		b := one(t)
		batch(b, backwards...)
		for n := range 2 { // a third would cool the worker down
			l, ok := b.match()["z"]
			if !ok {
				t.Fatalf("attempt %d is not of the first one", n)
			}
			b.ok(verb(rota.VerbFail, l))
			b.pass(1)
		}
		if got := b.runsInOrder(); !slices.Equal(got, backwards) {
			t.Fatalf("ran %v, submitted %v", got, backwards)
		}
	})
	t.Run("change_of_ranking_keeps_the_order", func(t *testing.T) {
		t.Parallel()
		b := one(t, "ranking", "aging")
		batch(b, backwards...)
		b.ok(queueOp("default", "ranking", "fifo"))
		if got := b.runsInOrder(); !slices.Equal(got, backwards) {
			t.Fatalf("ran %v, submitted %v", got, backwards)
		}
	})
	t.Run("leases_of_one_round_are_in_order", func(t *testing.T) {
		t.Parallel()
		b := one(t)
		b.worker("w", 6)
		batch(b, backwards...)
		order := inOrder(b.match())
		for i, l := range order {
			if string(l.Job) != backwards[i] {
				t.Fatalf("lease %d is of %s, want %s", i, l.Job, backwards[i])
			}
		}
		if len(order) != len(backwards) {
			t.Fatal(fmt.Sprint(order))
		}
	})
}
