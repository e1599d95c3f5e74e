package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

// handling makes a worker handle only some types.
func handling(types ...rota.JobType) func(*rota.WorkerSpec) {
	return func(w *rota.WorkerSpec) { w.Types = types }
}

// TestTypesHandled checks SPEC §16.2: a worker gets jobs of the types that it registered.
func TestTypesHandled(t *testing.T) {
	t.Parallel()
	t.Run("a_job_of_a_type_that_nobody_handles_waits_and_disturbs_nobody", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 2, handling("shout", "echo"))
		for i := range 20 {
			b.submit(fmt.Sprint("unknown", i), typed("unknown"), priority(0))
		}
		b.submit("known", typed("echo"), priority(10))
		if l := b.match(); len(l) != 1 || l["known"].Worker != "w" {
			t.Fatalf("placed %v", l)
		} else {
			b.ok(verb(rota.VerbComplete, l["known"]))
		}
		b.mismatch("unknown0", "w", "TYPE_NOT_HANDLED")
		b.whyNames("unknown0", "TYPE_NOT_HANDLED", "of type unknown")
		x, _ := b.View.Why("unknown0", 100)
		if len(x.Reasons) != 1 || x.Reasons[0].Workers != 1 || len(x.WouldRun) != 1 {
			t.Fatalf("explained as %+v", x)
		}
		b.pass(31_000) // no hold is granted if room would not help
		if b.placement.holds.Len() != 0 {
			t.Fatal("a worker is kept for a job that it does not handle")
		}
		b.worker("any", 1)
		if l := b.match(); len(l) != 1 || inOrder(l)[0].Worker != "any" {
			t.Fatalf("placed %v", l)
		}
	})
	t.Run("open_leases_stay_with_who_registers_with_fewer", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 4, handling("b", "a", "b"))
		if w, _ := b.View.Worker("w"); !slices.Equal(w.Types, []rota.JobType{"a", "b"}) {
			t.Fatalf("types %v", w.Types)
		}
		l := b.acked("j", typed("b"))
		b.worker("w", 4, handling("a"))
		if a, open := b.View.Assignment(l.ID); !open || a.Lease.Revoked != rota.ReasonNone {
			t.Fatalf("the lease is %+v", a)
		}
		b.submit("k", typed("b"))
		b.mismatch("k", "w", "TYPE_NOT_HANDLED")
		b.ok(verb(rota.VerbComplete, l))
		b.worker("w", 4)
		if len(b.match()) != 1 {
			t.Fatal("without types it does not handle every type again")
		}
	})
	t.Run("are_refused_where_they_are_none_or_too_many", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.refuses(rota.KindInvalid, "types[1]", registerOp("w", 1, "s", false, handling("a", "no type")))
		many := make([]rota.JobType, rota.MaxTypesHandled+1)
		for i := range many {
			many[i] = rota.JobType(fmt.Sprint("t", i))
		}
		b.refuses(rota.KindInvalid, "types", registerOp("w", 1, "s", false, handling(many...)))
		b.ok(registerOp("w", 1, "s", false, handling(many[1:]...)))
	})
}
