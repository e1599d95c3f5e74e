package cluster

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// TestForward_joinsWorkersCommands: while some calls to the leader are in progress, further commands of a follower's
// workers share the next one. Each caller gets its own answer, and one that gave up withdraws its command.
func TestForward_joinsWorkersCommands(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
	}
	b.startPlanned()
	b.loyal() // the follower stays one
	follower := b.follower()
	const count = maxForwards + 9
	w := newHand(t, follower, "w1", count)
	submitAll(t, follower, specs("joined", count))
	leases := w.take(count)
	w.do(rota.VerbAck, leases...) // the rest may take longer than a lease waits for this

	var mu sync.Mutex
	var calls []int
	var once sync.Once
	gate := make(chan struct{})
	release := func() { once.Do(func() { close(gate) }) }
	t.Cleanup(release)
	b.onForward(func(_ rota.NodeID, c *fsmpb.Commands) error {
		if c.GetOps()[0].GetLease() == nil {
			return nil
		}
		<-gate
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, len(c.GetOps()))
		return nil
	})
	lies := func(flying, waiting int) func() bool {
		return func() bool {
			follower.proposer.batcher.mu.Lock()
			defer follower.proposer.batcher.mu.Unlock()
			return follower.proposer.batcher.inFlight == flying && len(follower.proposer.batcher.waiting) == waiting
		}
	}
	complete := func(ctx context.Context, a rota.Assignment) (peer.LeaseAnswer, error) {
		answers, err := w.s.Do(ctx, []peer.LeaseCommand{{Verb: rota.VerbComplete, Lease: a.Lease.ID, Job: a.Lease.Job,
			Ordinal: 1}})
		if err != nil {
			return peer.LeaseAnswer{}, err
		}
		return answers[0], nil
	}
	var all sync.WaitGroup
	begin := func(some []rota.Assignment) {
		for _, a := range some {
			all.Go(func() {
				if answer, err := complete(within(t, ample), a); err != nil || answer.Err != nil {
					t.Errorf("job %s: %v, %v", a.Lease.Job, err, answer.Err)
				}
			})
		}
	}
	begin(leases[:maxForwards])
	b.eventually("the first calls", lies(maxForwards, 0))
	gone, leave := context.WithCancel(within(t, ample))
	left := make(chan error, 1)
	go func() {
		_, err := complete(gone, leases[maxForwards])
		left <- err
	}()
	b.eventually("one that waits", lies(maxForwards, 1))
	begin(leases[maxForwards+1:])
	b.eventually("all that wait", lies(maxForwards, count-maxForwards))
	leave()
	if err := <-left; rota.KindOf(err) != rota.KindUnavailable {
		t.Fatalf("who gave up got %v", err)
	}
	if !lies(maxForwards, count-maxForwards-1)() {
		t.Fatal("the command of a caller that gave up still waits")
	}
	release()
	all.Wait()
	b.eventually("no call in progress", lies(0, 0))
	together := 0
	for _, k := range calls {
		together += k
	}
	slices.Sort(calls) // the last may arrive before the first have passed the gate
	if want := count - maxForwards - 1; together != count-1 || len(calls) != maxForwards+1 ||
		calls[len(calls)-1] != want {
		t.Fatalf("calls had %v commands, want %d with one and then %d in one", calls, maxForwards, want)
	}
	for i, a := range leases {
		job, _, err := follower.Job(within(t, ample), a.Lease.Job, peer.ReadOptions{})
		if done := i != maxForwards; err != nil || (job.State == rota.JobCompleted) != done {
			t.Errorf("job %s is %s, asked for a completed one: %v: %v", a.Lease.Job, job.State, done, err)
		}
	}
}
