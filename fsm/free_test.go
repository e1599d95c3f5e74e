package fsm

import (
	"testing"

	"github.com/rotasched/rota"
)

// TestRetryWaitsForTheOldWorker cancels running work and retries it at once: the worker may not know yet, so no other
// worker gets the job before its view of the lease is over (SPEC §3.11).
func TestRetryWaitsForTheOldWorker(t *testing.T) {
	t.Parallel()
	t.Run("job", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		l := b.leased("j", "w")
		b.ok(cancelOp("j"))
		b.ok(retryOp("j"))
		if j := b.state("j", rota.JobDelayed); j.Due.Clock != l.AckBy.Clock {
			t.Fatalf("free at %d, its lease ends at %d", j.Due.Clock, l.AckBy.Clock)
		}
		b.whyNames("j", "NOT_YET_DUE", "the worker of its cancelled lease may not have heard of it; due at ")
		b.ok(retryOp("j")) // the same again
		b.pass(l.AckBy.Clock - b.View.Head().Clock)
		b.state("j", rota.JobQueued)
	})
	t.Run("acknowledged", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 1)
		l := b.acked("j")
		b.ok(cancelOp("j"))
		b.ok(retryOp("j"))
		if j := b.state("j", rota.JobDelayed); j.Due.Clock != l.Deadline.Clock {
			t.Fatalf("free at %d, its lease ends at %d", j.Due.Clock, l.Deadline.Clock)
		}
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		l := b.leased("j", "w")
		for range 3 { // the first worker still does not know
			b.ok(cancelOp("j"))
			b.ok(retryOp("j"))
			if j := b.state("j", rota.JobDelayed); j.Due.Clock != l.AckBy.Clock {
				t.Fatalf("free at %d, its lease ends at %d", j.Due.Clock, l.AckBy.Clock)
			}
		}
	})
	t.Run("node, twice", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 10)
		d := newDAG("wf", [][]uint32{nil})
		b.run(d)
		l := b.match()["wf/n0"]
		for run := range int32(3) {
			b.ok(d.cancel())
			b.ok(d.retry("", run+1))
			if j := b.state("wf/n0", rota.JobDelayed); j.Due.Clock != l.AckBy.Clock {
				t.Fatalf("free at %d, its lease ends at %d", j.Due.Clock, l.AckBy.Clock)
			}
		}
	})
	t.Run("waiting", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j") // no worker ever had it
		b.ok(cancelOp("j"))
		b.ok(retryOp("j"))
		b.state("j", rota.JobQueued)
	})
	t.Run("node of a workflow", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 10)
		d := newDAG("wf", [][]uint32{nil})
		b.run(d)
		l := b.match()["wf/n0"]
		b.ok(d.cancel())
		b.ok(d.retry("", 1))
		if j := b.state("wf/n0", rota.JobDelayed); j.Due.Clock != l.AckBy.Clock {
			t.Fatalf("free at %d, its lease ends at %d", j.Due.Clock, l.AckBy.Clock)
		}
		b.whyNames("wf/n0", "NOT_YET_DUE", "the worker of its cancelled lease may not have heard of it; due at ")
		b.pass(l.AckBy.Clock - b.View.Head().Clock)
		b.state("wf/n0", rota.JobQueued)
	})
}
