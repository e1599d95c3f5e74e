package cluster

import (
	"context"
	"testing"

	"github.com/rotasched/rota"
)

// TestCrowd fills a queue: the first rejection goes through the log, the next thousand do not; repeated submissions are
// answered, and once there is room, jobs are accepted again.
func TestCrowd(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n, other := b.loyal(), b.follower()
	if _, err := n.SetQueue(within(t, ample), rota.DefaultQueue, "",
		[]rota.Setting{{Key: "queue_cap", Value: "10"}}); err != nil {
		t.Fatal(err)
	}
	first := specs("first", 10)
	submitAll(t, n, first)
	refused := func(at *Node, jobs []rota.JobSpec) {
		t.Helper()
		outcomes, err := at.Submit(within(t, ample), jobs)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outcomes {
			if o.Err == nil || rota.KindOf(o.Err) != rota.KindExhausted || rota.ErrorOf(o.Err).Subject != "queue" ||
				rota.ErrorOf(o.Err).RetryAfter == 0 {
				t.Fatalf("job %s: %+v", o.ID, o)
			}
		}
	}
	refused(n, specs("late", 1))
	ops := func() uint64 { return freeze(&n.replica).Operations() }
	before := ops()
	for range 5 {
		refused(n, specs("later", 100))
		refused(other, specs("latest", 100))
	}
	if grown := ops() - before; grown >= 500 {
		t.Errorf("%d operations were applied while a thousand submissions were refused", grown)
	}

	// Among rejected ones: a known job at its place. The cap applies to an urgent one too.
	mixed := append(specs("more", 2), first[3], specs("more-yet", 1)[0], specs("urgent", 1)[0])
	mixed[4].Priority = 0
	outcomes, err := other.Submit(within(t, ample), mixed)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if (o.Err != nil) != (i != 2) || o.Existed != (i == 2) || o.ID != mixed[i].ID {
			t.Errorf("submission %d: %+v", i, o)
		}
	}

	h := newHand(t, n, "w", 20)
	h.do(rota.VerbComplete, h.take(10)...)
	b.eventually("there is room again", func() bool {
		outcomes, err := other.Submit(context.Background(), specs("again", 1))
		return err == nil && outcomes[0].Err == nil
	})
	if l := n.terms.leading(); l != nil && l.queues.seen.Load() {
		t.Error("the leader continues looking")
	}
	b.sound()
}
