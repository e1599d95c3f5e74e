package loadgen

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// A load that does not slow down gives up refused jobs, counts them, and loses none of the accepted ones.
func TestProducers_drop(t *testing.T) {
	t.Parallel()
	ledger, to := newLedger("run", 25), &flaky{tries: map[rota.JobID]int{}}
	for i := 0; i < 25; i += 5 {
		to.tries[ledger.id(i)] = 2 // these were refused before
	}
	p := &producers{to: to, ledger: ledger, count: 3, batch: 10, drop: true,
		spec: func(i int) rota.JobSpec { return rota.JobSpec{ID: ledger.id(i)} }}
	if err := p.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ledger.accepted.Load() != 5 || ledger.refused.Load() != 20 || ledger.hintless.Load() != 0 {
		t.Errorf("accepted %d, refused %d, of them without a delay %d: want 5, 20 and 0", ledger.accepted.Load(),
			ledger.refused.Load(), ledger.hintless.Load())
	}
	ledger.refuse(3, 0)
	if ledger.refused.Load() != 23 || ledger.hintless.Load() != 3 {
		t.Errorf("refused %d, without a delay %d", ledger.refused.Load(), ledger.hintless.Load())
	}
}

// full has room for the first jobs only.
type full struct{ room map[rota.JobID]bool }

func (f *full) Submit(_ context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error) {
	outcomes := make([]rota.Submitted, len(jobs))
	for i, j := range jobs {
		outcomes[i] = rota.Submitted{ID: j.ID, State: rota.JobQueued}
		if !f.room[j.ID] {
			outcomes[i].Err = &rota.Error{Kind: rota.KindExhausted, Text: "queue full", RetryAfter: time.Microsecond}
		}
	}
	return outcomes, nil
}

// A run that waits for room without success ends with the refusal, and still counts the accepted jobs.
func TestProducers_patience(t *testing.T) {
	t.Parallel()
	ledger := newLedger("run", 5)
	to := &full{room: map[rota.JobID]bool{ledger.id(0): true, ledger.id(1): true}}
	p := &producers{to: to, ledger: ledger, count: 1, batch: 5, patience: time.Millisecond,
		spec: func(i int) rota.JobSpec { return rota.JobSpec{ID: ledger.id(i)} }}
	err := p.run(t.Context())
	if rota.KindOf(err) != rota.KindExhausted || !strings.Contains(err.Error(), "no room for") ||
		!strings.Contains(err.Error(), "queue full") {
		t.Errorf("it ends with %v", err)
	}
	if ledger.accepted.Load() != 2 {
		t.Errorf("accepted %d, want 2", ledger.accepted.Load())
	}
}

// A second handler of a job is counted, even if the first has ended.
func TestLedger_reruns(t *testing.T) {
	t.Parallel()
	l := newLedger("run", 2)
	for range 2 {
		l.start(l.id(0))
		l.stop(l.id(0))
	}
	l.start(l.id(1))
	if l.reruns.Load() != 1 || l.overlaps.Load() != 0 {
		t.Errorf("%d reruns, %d overlaps: want 1 and 0", l.reruns.Load(), l.overlaps.Load())
	}
}

// Every queue is served, however they are divided, and no worker serves more than its limit.
func TestWorkersQueues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ queues, workers int }{{1, 1}, {3, 4}, {256, 1}, {257, 2}, {1_000, 4}, {1_000, 7},
		{1_000, 10_000}} {
		plan := Workers{Queues: queueNames("q", c.queues), Count: c.workers}
		served := map[rota.QueueName]bool{}
		for i := range c.workers {
			own := plan.queuesOf(i)
			if len(own) > rota.MaxQueuesPerWorker {
				t.Fatalf("%d queues, %d workers: worker %d serves %d", c.queues, c.workers, i, len(own))
			}
			for _, q := range own {
				served[q] = true
			}
		}
		if len(served) != c.queues {
			t.Errorf("%d queues, %d workers: %d are served", c.queues, c.workers, len(served))
		}
	}
}

// Jobs are spread in turn over queues and tenants; one of each is the plain case.
func TestBenchSpecs(t *testing.T) {
	t.Parallel()
	one := (&Filling{Tenants: 1, Payload: 3}).specs(queueNames("q", 1))(4, "a")
	if one.ID != "a" || one.Queue != "q" || one.Tenant != rota.DefaultTenant || one.Unique != nil ||
		len(one.Keys) > 0 || string(one.Payload) != "abc" {
		t.Errorf("%+v", one)
	}
	several := (&Filling{Tenants: 3, Keys: 2}).specs(queueNames("q", 2))
	var got []string
	for i := range 6 {
		s := several(i, "a")
		if want := fmt.Sprint("bench:", i%2); s.Unique == nil || s.Unique.Key != "a" || len(s.Keys) != 1 ||
			s.Keys[0] != want {
			t.Errorf("job %d has unique key %+v and keys %q, want %s", i, s.Unique, s.Keys, want)
		}
		got = append(got, string(s.Queue)+"/"+string(s.Tenant))
	}
	want := []string{"q/default", "q-1/bench-1", "q/bench-2", "q-1/default", "q/bench-1", "q-1/bench-2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
