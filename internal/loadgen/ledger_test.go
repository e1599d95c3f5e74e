package loadgen

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	ms := func(list ...int64) []int64 {
		for i := range list {
			list[i] *= 1e6
		}
		return list
	}
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(i+1) * 1e6
	}
	for _, c := range []struct {
		sorted []int64
		q      float64
		want   float64
	}{
		{nil, 0.5, 0}, {ms(7), 0.5, 7}, {ms(7), 0.99, 7}, {ms(1, 2), 0.5, 1}, {ms(1, 2), 0.51, 2},
		{ms(1, 2, 3), 0.5, 2}, {hundred, 0.99, 99}, {hundred, 0.5, 50}, {hundred, 1, 100}, {hundred, 0, 1},
		{[]int64{1_234_567}, 0.5, 1.235},
	} {
		if got := quantile(c.sorted, c.q); got != c.want {
			t.Errorf("quantile %g of %d values is %g, want %g", c.q, len(c.sorted), got, c.want)
		}
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	l := newLedger("run", 4)
	for i := range 3 {
		l.plan(i, l.Now())
		l.accept(i)
		l.accept(i)
	}
	l.start(l.id(0))
	l.complete(l.id(0))
	l.stop(l.id(0))
	l.start(l.id(1))
	l.start(l.id(1)) // two workers at once
	l.stop(l.id(1))
	l.stop(l.id(1))
	l.complete(l.id(1))
	l.complete(l.id(1)) // completed twice
	l.start("run-0000009")
	l.start("other-0000001")
	if l.accepted.Load() != 3 || l.completed.Load() != 2 || l.strangers.Load() != 2 {
		t.Errorf("accepted %d, completed %d, strangers %d", l.accepted.Load(), l.completed.Load(),
			l.strangers.Load())
	}
	if got := l.duplicated(); got != 2 {
		t.Errorf("duplicated %d, want an overlap and a second completion", got)
	}
	if open := l.open(10); len(open) != 1 || open[0] != 2 {
		t.Errorf("open %v, want job 2: accepted and not completed", open)
	}
	if !l.settle(2) || l.settle(2) || l.completed.Load() != 3 || len(l.open(10)) != 0 {
		t.Error("a completion reported by the cluster is not counted once")
	}
	l.complete(l.id(2)) // the worker's own report comes late
	if l.completed.Load() != 3 || l.duplicated() != 2 {
		t.Errorf("late report: completed %d, duplicated %d", l.completed.Load(), l.duplicated())
	}
	if spans := l.spans(planned, finished, nil); len(spans) != 3 || spans[0] > spans[2] {
		t.Errorf("spans %v", spans)
	}
}

// flaky refuses each job's first submission, then the call, then accepts it.
type flaky struct {
	mu    sync.Mutex
	tries map[rota.JobID]int
	most  int
}

func (f *flaky) Submit(_ context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.most = max(f.most, len(jobs))
	outcomes := make([]rota.Submitted, len(jobs))
	for i, j := range jobs {
		f.tries[j.ID]++
		outcomes[i] = rota.Submitted{ID: j.ID, State: rota.JobQueued}
		switch f.tries[j.ID] {
		case 1:
			outcomes[i].Err = &rota.Error{Kind: rota.KindExhausted, Text: "full", RetryAfter: time.Microsecond}
		case 2:
			return nil, &rota.Error{Kind: rota.KindUnavailable, Text: "no leader", RetryAfter: time.Microsecond}
		}
	}
	return outcomes, nil
}

// A lease that was lost after its handler had returned without error is declined: that does not complete the job.
func TestWorkers_countsCompletionsAlone(t *testing.T) {
	t.Parallel()
	l := newLedger("run", 3)
	c := &pool{ledger: l}
	for i, e := range []client.HandlerEvent{
		{Verb: rota.VerbDecline}, {Verb: rota.VerbComplete, Err: errors.New("stale")}, {Verb: rota.VerbComplete},
	} {
		l.plan(i, l.Now())
		l.accept(i)
		e.Job = l.id(i)
		c.reported(e)
	}
	if n := l.completed.Load(); n != 1 || !l.jobs[2].settled.Load() {
		t.Errorf("%d jobs are counted as completed", n)
	}
}

func TestProducers(t *testing.T) {
	t.Parallel()
	t.Run("try_until_accepted", func(t *testing.T) {
		t.Parallel()
		ledger, to := newLedger("run", 25), &flaky{tries: map[rota.JobID]int{}}
		p := &producers{to: to, ledger: ledger, count: 3, batch: 10,
			spec: func(i int) rota.JobSpec { return rota.JobSpec{ID: ledger.id(i)} }}
		if err := p.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ledger.accepted.Load() != 25 || ledger.errors.Load() == 0 || to.most > 10 {
			t.Errorf("accepted %d, errors %d, largest call %d", ledger.accepted.Load(), ledger.errors.Load(), to.most)
		}
	})
	t.Run("open_loop_counts_from_the_schedule", func(t *testing.T) {
		t.Parallel()
		ledger, to := newLedger("run", 5), &flaky{tries: map[rota.JobID]int{}}
		p := &producers{to: to, ledger: ledger, count: 1, batch: 2,
			at:   func(i int) time.Duration { return time.Duration(i) * time.Millisecond },
			spec: func(i int) rota.JobSpec { return rota.JobSpec{ID: ledger.id(i)} }}
		if err := p.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range ledger.jobs {
			if got, want := ledger.jobs[i].planned.Load(), int64(i)*1e6+1; got != want {
				t.Errorf("job %d is planned at %d, want %d", i, got, want)
			}
		}
	})
	t.Run("stop_at_what_time_does_not_mend", func(t *testing.T) {
		t.Parallel()
		ledger := newLedger("run", 1)
		p := &producers{to: refuser{}, ledger: ledger, count: 1, batch: 1,
			spec: func(i int) rota.JobSpec { return rota.JobSpec{ID: ledger.id(i)} }}
		if err := p.run(t.Context()); rota.KindOf(err) != rota.KindNotFound {
			t.Errorf("got %v", err)
		}
	})
}

type refuser struct{}

func (refuser) Submit(_ context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error) {
	return []rota.Submitted{{ID: jobs[0].ID, Err: rota.Refusef(rota.KindNotFound, "queue", "no such queue")}}, nil
}
