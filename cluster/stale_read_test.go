package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/internal/peer"
)

// TestRead_ofADeposedLeaderThatNoticedNothing: the leader is cut off from the other voters and continues to consider
// itself leader for seconds; only a non-voter still answers it, which hashicorp/raft's VerifyLeader counts. The others
// elect another leader and acknowledge a job. A linearizable read at the old one includes it, or fails.
func TestRead_ofADeposedLeaderThatNoticedNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var mu sync.Mutex
	apart := false
	side := func(id rota.NodeID) bool { return id == "n1" || id == "n4" }
	plan := func(id rota.NodeID, expect int, patience time.Duration) {
		b.plan(id, expect)
		c := b.addrs[id]
		c.Timing.Heartbeat, c.Timing.Election, c.Timing.LeaderLease = patience, patience, patience
		c.watchEvery = time.Hour // the leader never sees that n4 has caught up, and gives it no vote
		c.admitted = func(peer rota.NodeID) error {
			mu.Lock()
			defer mu.Unlock()
			if apart && side(id) != side(peer) {
				return errors.New("cut off by the test")
			}
			return nil
		}
		b.addrs[id] = c
	}
	// Longer than all the following steps may take: however slow the machine, the old leader has no reason to step
	// down.
	const forLong, notLong = 2 * time.Minute, 1200 * time.Millisecond
	plan("n1", 3, forLong)
	plan("n2", 3, notLong)
	plan("n3", 3, notLong)
	b.startPlanned()
	// patient sets how long the two that stay together wait for their leader: forever until they are separated, as a
	// busy machine may delay n1 while n4 starts.
	patient := func(so time.Duration) {
		for _, id := range []rota.NodeID{"n2", "n3"} {
			b.waits(b.node(id), so)
		}
	}
	b.leadBy("n1")
	old := b.node("n1")
	b.eventually("n1 leads", func() bool { return old.terms.leading() != nil && old.Ready() == nil })
	patient(forLong)
	submitAll(t, old, specs("early", 1))
	plan("n4", 0, forLong)
	b.start("n4")
	b.awaitReady("n4")

	mu.Lock()
	apart = true
	mu.Unlock()
	b.mu.Lock()
	b.cut["n1"], b.cut["n4"] = true, true
	b.mu.Unlock()
	for _, id := range b.ids() {
		b.wires[id].cut()
	}
	patient(notLong)
	var other *Node
	b.eventually("another node leads", func() bool {
		i := slices.IndexFunc([]rota.NodeID{"n2", "n3"},
			func(id rota.NodeID) bool { return b.node(id).terms.leading() != nil })
		if i >= 0 {
			other = b.node([]rota.NodeID{"n2", "n3"}[i])
		}
		return i >= 0
	})
	submitAll(t, other, specs("late", 1))
	believes := old.terms.leading() != nil && old.raft.State() == raft.Leader
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_, at, err := old.Job(ctx, "late-00000", peer.ReadOptions{})
	switch rota.KindOf(err) {
	case rota.KindNone, rota.KindUnavailable:
	default:
		t.Errorf("a linearizable read at index %d misses a write that was acknowledged before it: %v", at.Index, err)
	}
	if !believes {
		t.Error("the old leader noticed: the test proves nothing")
	}
}

// TestRead_onAFollowerThatLags: a follower whose machine is paused is asked for writes that the leader has
// acknowledged. The read waits until the follower has applied them.
func TestRead_onAFollowerThatLags(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.loyal()
	leader, follower := b.leader(), b.follower()
	for i := range 10 {
		follower.replica.Mu.RLock() // reads can take it, applying cannot
		before := follower.replica.Applied.Load()
		id := fmt.Sprint("lag", i)
		submitAll(t, leader, specs(id, 1))
		told := make(chan rota.Index, 1)
		go func() {
			at, err := follower.replica.Fresh(within(t, ample), peer.ReadOptions{})
			if err != nil {
				t.Error(err)
			}
			told <- at.Index
		}()
		var err error
		for range 3 { // the last of them no earlier than the reader's own
			_, _, e := leader.proposer.proposeOne(within(t, ample), replica.BarrierOp())
			err = errors.Join(err, e)
		}
		select {
		case at := <-told:
			t.Errorf("a read returned at index %d, but a job answered before it is not applied there", at)
			told <- at
		default:
		}
		if now := follower.replica.Applied.Load(); now > before+1 {
			t.Errorf("the follower must stop at %d, it is at %d", before, now)
		}
		follower.replica.Mu.RUnlock()
		if at := <-told; err != nil || uint64(at) <= before {
			t.Fatalf("the read is of index %d, the follower was at %d (%v)", at, before, err)
		}
		if _, _, err := follower.Job(within(t, ample), rota.JobID(id+"-00000"), peer.ReadOptions{}); err != nil {
			t.Error(err)
		}
	}
}
