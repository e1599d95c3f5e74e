package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// TestStop_underLoad hands leadership around and stops nodes while entries are in flight: each call is answered, and no
// node hangs. hashicorp/raft's pipelined replication does hang when a follower's answer ends it.
func TestStop_underLoad(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var load sync.WaitGroup
	for i, id := range b.ids() {
		n := b.node(id)
		for j := range 4 {
			load.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					call, done := context.WithTimeout(ctx, 5*time.Second)
					_, err := n.Submit(call, specs(fmt.Sprintf("l%d-%d-%d", i, j, k), 5))
					done()
					var known *rota.Error
					if err != nil && (!errors.As(err, &known) || known.Kind != rota.KindUnavailable) {
						t.Errorf("a submission ended with %v", err)
					}
				}
			})
		}
	}
	for range 6 {
		applied := b.leader().replica.Applied.Load()
		b.eventually("the log moves on", func() bool { return b.leader().replica.Applied.Load() > applied+50 })
		_, _ = b.leader().TransferLeadership(within(t, 10*time.Second), "")
	}
	for _, id := range b.ids() {
		b.stop(id)
	}
	cancel()
	load.Wait()
}

func TestPropose_intoALeadershipThatIsOver(t *testing.T) {
	t.Parallel()
	for range 50 {
		l := (&Node{}).wire().terms.newLeadership(3, 10_000)
		l.end()
		close(l.landed) // no loop reads the queue now
		barrier := []*fsmpb.Op{replica.BarrierOp()}
		if r := l.propose(context.Background(), barrier, true); !errors.Is(r.err, errNotLeader) {
			t.Fatalf("got %v", r.err)
		}
	}
}

func TestPropose_callersAreToldUnavailable(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	over := n.terms.newLeadership(1, 1)
	over.end()
	close(over.landed)
	open := n.terms.lead.Swap(over)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	gone, end := context.WithCancel(ctx)
	end()
	for range 50 {
		if _, err := n.Submit(gone, specs("x", 1)); rota.KindOf(err) != rota.KindUnavailable {
			t.Fatalf("a submission abandoned while leadership ends: %v", err)
		}
	}
	_, err := n.Submit(ctx, specs("x", 1))
	if rota.KindOf(err) != rota.KindUnavailable || rota.RetryAfterOf(err) == 0 {
		t.Errorf("a submission while leadership ends: %v", err)
	}
	if err := n.RemovePeer(ctx, "n9"); rota.KindOf(err) != rota.KindUnavailable &&
		rota.KindOf(err) != rota.KindNotFound {
		t.Errorf("a removal while leadership ends: %v", err)
	}
	n.terms.lead.Store(open)
}
