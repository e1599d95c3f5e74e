package fsm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
)

// naiveBatch is a second implementation of a batch: it recounts the jobs that it accepted each time.
type naiveBatch struct {
	size           int64
	jobs           map[string]rota.JobState
	sealed, called bool
}

// naiveBatches follow the events of jobs, and record the batches opened and sealed, and the jobs accepted.
type naiveBatches map[string]*naiveBatch

func (n naiveBatches) take(batch, job string) {
	b := n[batch]
	b.jobs[job] = rota.JobQueued
	b.sealed = b.sealed || int64(len(b.jobs)) == b.size
}

// live counts the jobs of a batch that have not ended.
func (b *naiveBatch) live() (n int64) {
	for _, s := range b.jobs {
		if !s.Terminal() {
			n++
		}
	}
	return n
}

// settle is the end of an entry: it returns the batches whose callbacks it submits.
func (n naiveBatches) settle() (called int) {
	for _, b := range n {
		if b.sealed && !b.called && b.live() == 0 {
			b.called = true
			called++
		}
	}
	return called
}

// follow records the changes of jobs in an entry.
func (n naiveBatches) follow(b *bench, events []rota.Event) {
	for _, e := range events {
		for _, x := range n {
			if _, mine := x.jobs[string(e.Job)]; mine {
				x.jobs[string(e.Job)] = b.View.JobState(e.Job)
			}
		}
	}
}

func (n naiveBatches) compare(b *bench) {
	for id, x := range n {
		var want rota.BatchCounts
		want.Total, want.Live = int64(len(x.jobs)), x.live()
		for _, s := range x.jobs {
			if of := want.Of(s); of != nil {
				*of++
			}
		}
		got := b.batch(id)
		if got.BatchCounts != want || (got.State == rota.BatchFinished) != x.called ||
			(got.State != rota.BatchOpen) != x.sealed {
			b.t.Fatalf("batch %s is %s and counts %+v; want %+v, sealed %v, called %v as in the model", id, got.State,
				got.BatchCounts, want, x.sealed, x.called)
		}
		if known := b.View.JobState(rota.CallbackID(rota.BatchID(id))) != rota.JobNone; known != x.called {
			b.t.Fatalf("that the callback of %s is known is %v", id, known)
		}
	}
}

// TestBatchModel compares random lives of batches with the naive implementation.
func TestBatchModel(t *testing.T) {
	t.Parallel()
	long(t)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 24))
		b := newBench(t)
		b.every = 9
		b.ok(queueOp("default", "attempt_max", "2", "backoff_base_ms", "1", "audit_window", "1h"))
		b.worker("w", 3)
		n := naiveBatches{}
		for range 150 {
			batch, job := fmt.Sprint("b", r.IntN(4)), fmt.Sprint("j", r.IntN(12))
			x := n[batch]
			var a Applied
			switch r.IntN(8) {
			case 0:
				size := int64(r.IntN(4))
				if a = b.entry(batchOp(batch, size)); x == nil {
					n[batch] = &naiveBatch{size: size, jobs: map[string]rota.JobState{}}
				} else if ok := entry.OutcomeError(a.Outcomes[0]) == nil; ok != (size == x.size) {
					t.Fatal(a.Outcomes)
				}
			case 1, 2:
				known := b.View.JobState(rota.JobID(job)) != rota.JobNone
				a = b.entry(submitOp(member(job, batch, func(s *rota.JobSpec) {
					s.TTL, s.RetryOnInvalidProof = time.Duration(r.IntN(3)/2)*3*time.Second, r.IntN(2) == 0
				})))
				took := entry.OutcomeError(a.Outcomes[0]) == nil && !a.Outcomes[0].GetExisted()
				if took != (!known && x != nil && !x.sealed) {
					t.Fatalf("seed %d: job %s of batch %s is answered %v", seed, job, batch, a.Outcomes)
				}
				if took {
					n.take(batch, job)
				}
			case 3:
				if a = b.entry(entry.SealOp(rota.BatchID(batch))); x != nil {
					x.sealed = true
				}
			case 4:
				a = b.entry(cancelOp(job))
			case 5:
				a = b.entry(retryOp(job))
			case 6:
				for _, l := range inOrder(b.match()) {
					v := []rota.LeaseVerb{rota.VerbComplete, rota.VerbFail}[r.IntN(2)]
					a = b.entry(verb(v, l))
					if n.follow(b, a.Events); callbacks(a.Events) != n.settle() {
						t.Fatalf("seed %d: %v", seed, a.Events)
					}
				}
				a = b.entry(sweepOp())
			case 7:
				b.now += rota.Clock(r.IntN(1_000))
				if r.IntN(20) == 0 {
					b.lead()
				}
				a = b.entry(sweepOp())
			}
			n.follow(b, a.Events)
			if got := callbacks(a.Events); got != n.settle() {
				t.Fatalf("seed %d: %d callbacks in %v", seed, got, a.Events)
			}
			n.compare(b)
		}
		b.restored()
	}
}
