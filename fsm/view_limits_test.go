package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// TestQueueWords_tellTiersAndUsage checks that a queue's public form counts its QUEUED jobs by tier and reports how
// full it and its workers are, through snapshots too: the bench's twin goes through some.
func TestQueueWords_tellTiersAndUsage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "queue_cap", "40"))
	for i := range 11 {
		b.submit(fmt.Sprintf("j%02d", i), func(s *rota.JobSpec) { s.Priority = int32(i) })
	}
	q, ok := b.View.Queue("default")
	if want := []int64{1, 3, 3, 2, 2}; !ok || !slices.Equal(q.Tiers, want) || q.UsagePermille != 275 ||
		q.LeaseUsagePermille != 0 {
		t.Fatalf("tiers %v, %d permille full, workers %d", q.Tiers, q.UsagePermille, q.LeaseUsagePermille)
	}
	b.ok(registerOp("w1", 8, "s", false))
	b.match()
	q, _ = b.View.Queue("default")
	if q.Assigned != 8 || q.LeaseUsagePermille != 1000 || q.Tiers[0]+q.Tiers[1]+q.Tiers[2]+q.Tiers[3]+q.Tiers[4] != 3 {
		t.Fatalf("%+v", q)
	}
	frozen := b.twin
	if twin, _ := frozen.View.Queue("default"); !slices.Equal(twin.Tiers, q.Tiers) {
		t.Fatalf("the twin counts %v, want %v", twin.Tiers, q.Tiers)
	}
	if w, _ := b.View.Worker("w1"); w.Load != "Busy" || w.Health != 1000 {
		t.Fatalf("%+v", w)
	}
}

// TestLoadOf checks that a worker with more open leases than it runs at once is Overloaded, one without leases Idle.
func TestLoadOf(t *testing.T) {
	t.Parallel()
	spec := &rota.WorkerSpec{Slots: 2, Prefetch: 2}
	for open, want := range map[int32]string{0: "Idle", 1: "Busy", 2: "Busy", 3: "Overloaded"} {
		if got := loadOf(&state.WorkerRow{Spec: spec, Open: open}); got != want {
			t.Errorf("%d open: got %s, want %s", open, got, want)
		}
	}
}
