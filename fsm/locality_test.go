package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

func TestHoldsData(t *testing.T) {
	t.Parallel()
	w := &state.WorkerRow{}
	for i := range limits.MaxDataHeld {
		if !w.HoldsData([]string{fmt.Sprint("k", i)}) {
			t.Fatalf("key %d is known", i)
		}
	}
	old := w.Held
	if w.HoldsData(nil) || w.HoldsData([]string{"k255", "k128"}) {
		t.Fatal("one of the newer half was moved")
	}
	if !w.HoldsData([]string{"k200", "k0"}) || w.Held[limits.MaxDataHeld-1] != "k0" ||
		len(w.Held) != limits.MaxDataHeld {
		t.Fatalf("held %v", w.Held)
	}
	if !w.HoldsData([]string{"new", "newer", "new"}) || len(w.Held) != limits.MaxDataHeld ||
		!slices.Equal(w.Held[limits.MaxDataHeld-3:], []string{"k0", "new", "newer"}) || w.Held[0] != "k3" {
		t.Fatalf("held %v", w.Held)
	}
	if old[0] != "k0" || old[255] != "k255" || len(old) != limits.MaxDataHeld {
		t.Fatal("the list of an older copy of the row changed")
	}
}

func keyed(keys ...string) func(*rota.JobSpec) {
	return func(s *rota.JobSpec) { s.DataKeys = keys }
}

// TestDataKeysHeld checks that a job goes to the worker that holds most of its data: the worker that last completed
// jobs with these data keys.
func TestDataKeysHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "strategy", "affinity", "oldest_every", "0"))
	b.worker("a", 1)
	b.ok(verb(rota.VerbComplete, b.acked("j1", keyed("x", "y"))))
	b.ok(verb(rota.VerbFail, b.acked("j2", keyed("failed"))))
	if got := b.fleet.workers.Get("a").Held; !slices.Equal(got, []string{"x", "y"}) {
		t.Fatalf("a holds %q", got)
	}
	b.worker("z", 9)
	b.worker("b", 9)
	rounds := b.placement.registry.supply.Data("a")
	if !slices.Equal(rounds, []string{"x", "y"}) {
		t.Fatalf("rounds see a hold %q", rounds)
	}
	b.submit("j3", keyed("y", "q", "x"))
	b.lands("j3", "a", rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: 2})
	b.pass(1000)
	b.ok(verb(rota.VerbComplete, b.lease("j3")))
	if got := b.fleet.workers.Get("a").Held; !slices.Equal(got, []string{"x", "y", "q"}) {
		t.Fatalf("a holds %q", got)
	}
	// A state restored from a snapshot makes the same decision.
	b.submit("j4", keyed("q"))
	b.twin = b.restored()
	b.lands("j4", "a", rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: 1})
	// A worker that registers its id again with another spec keeps its data keys.
	b.ok(verb(rota.VerbComplete, b.lease("j4")))
	b.worker("a", 2)
	b.submit("j5", keyed("q"))
	b.lands("j5", "a", rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: 1})
}

// lands checks that the only pending job goes to the given worker, and by which rule.
func (b *bench) lands(job rota.JobID, worker rota.WorkerID, why rota.Reasoning) {
	b.t.Helper()
	l, placed := b.match()[job]
	if !placed || l.Worker != worker || l.Decision.Reasoning != why {
		b.t.Fatalf("job %s goes to worker %s by %+v; want %s by %+v", job, l.Worker, l.Decision.Reasoning, worker, why)
	}
}

// lease returns a job's open lease.
func (b *bench) lease(job rota.JobID) rota.Lease {
	b.t.Helper()
	j, ok := b.View.Job(job)
	if !ok || j.Lease == nil {
		b.t.Fatalf("job %s has no lease", job)
	}
	return *j.Lease
}

// BenchmarkHoldsData completes jobs with a different data key each, on a worker whose list of keys is full.
func BenchmarkHoldsData(b *testing.B) {
	s := sched.NewSupply()
	w := &state.WorkerRow{Spec: &rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{"q"}, Slots: 1}}
	s.Put(sched.WorkerEntry{Spec: w.Spec, Active: true})
	keys := make([]string, 4*limits.MaxDataHeld)
	for i := range keys {
		keys[i] = fmt.Sprint("s3://bucket/object-", i)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if n++; w.HoldsData(keys[n%len(keys) : n%len(keys)+1]) {
			s.SetData("w", w.Held)
		}
	}
}
