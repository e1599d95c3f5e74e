package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/peer"
)

// startSmallLogs starts three nodes that keep hardly any log, so that one that was away briefly must be sent a
// snapshot.
func startSmallLogs(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	for i := range 3 {
		id := rota.NodeID(fmt.Sprintf("n%d", i+1))
		b.plan(id, 3)
		c := b.addrs[id]
		c.AuditRetention = 1
		c.Timing.SnapshotThreshold, c.Timing.TrailingLogs, c.Timing.SnapshotInterval = 32, 8, 50*time.Millisecond
		b.addrs[id] = c
	}
	b.startPlanned()
	return b
}

// TestInstall_workersOfTheNodeMissNothing: a follower with a worker and a waiter falls behind until it is sent a
// snapshot: there are no events for the time in between.
func TestInstall_workersOfTheNodeMissNothing(t *testing.T) {
	t.Parallel()
	b := startSmallLogs(t)
	f := b.follower()
	h := newHand(t, f, "w1", 4)
	gone := newHand(t, f, "w2", 1)
	b.eventually("both are known", func() bool { return statusOf(b.leader(), "w2") == rota.WorkerActive })
	if _, err := b.leader().DrainWorker(within(t, ample), "w2"); err != nil {
		t.Fatal(err)
	}
	submitAll(t, b.leader(), specs("held", 4))
	held := h.take(4)
	h.do(rota.VerbAck, held...)
	waited := make(chan error, 1)
	ended := make(chan rota.Job, 4)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	go func() {
		waited <- f.AwaitJobs(ctx, []rota.JobID{"held-00000", "held-00001"},
			func(j rota.Job) error { ended <- j; return nil })
	}()
	b.eventually("somebody waits", func() bool {
		f.replica.Hub.Mu.Lock()
		defer f.replica.Hub.Mu.Unlock()
		return len(f.replica.Hub.Jobs) == 2
	})

	b.isolate(f.cfg.Node)
	n := b.leader()
	// The worker's confirmation for one cancelled job got through, the other is still awaited.
	stopped, cancelled := held[0].Lease, held[1].Lease
	if _, err := n.Cancel(within(t, ample), []rota.JobID{stopped.Job, cancelled.Job}); err != nil {
		t.Fatal(err)
	}
	if o, _, err := n.proposer.proposeOne(within(t, ample), entry.LeaseCommandOp(&peer.LeaseCommand{
		Verb: rota.VerbDecline, Lease: stopped.ID, Job: stopped.Job, Worker: "w1", Session: h.s.Session()})); err != nil ||
		o.GetKind() != 0 {
		t.Fatal(o, err)
	}
	// Another process takes over the other worker's session meanwhile.
	if _, err := n.OpenWorker(within(t, ample), rota.WorkerSpec{ID: "w2", Queues: []rota.QueueName{"default"},
		Slots: 1},
		[]byte("the secret of another process"), true, nil, peer.WorkerLink{}); err != nil {
		t.Fatal(err)
	}
	b.eventually("the follower's log is gone", func() bool {
		submitAll(t, n, specs(fmt.Sprintf("more-%d", n.replica.Applied.Load()), 20))
		first, err := n.stores.Log.FirstIndex()
		return err == nil && first > f.raft.LastIndex()+8
	})
	b.heal(f.cfg.Node)
	b.eventually("the follower has caught up",
		func() bool { return f.replica.Applied.Load() >= n.replica.Applied.Load() })

	ends, stops, open := false, false, map[rota.JobID]bool{}
	for !ends || !stops || len(open) < 2 {
		notices, err := noticesOf(within(t, ample), h.s)
		if err != nil {
			t.Fatalf("the end was sent: %v, the revocation: %v, %d open leases: %v", ends, stops, len(open), err)
		}
		for _, x := range notices {
			ends = ends || x.Ended != nil && x.Ended.Lease == stopped.ID
			stops = stops || x.Revoked != nil && x.Revoked.Lease == cancelled.ID &&
				x.Revoked.Reason == rota.ReasonCancelledByUser
			if x.Assigned != nil {
				open[x.Assigned.Lease.Job] = true
			}
		}
	}
	if open[stopped.Job] || open[cancelled.Job] {
		t.Error("a lease that ended, or is revoked, is listed as open")
	}
	for _, a := range h.do(rota.VerbDecline, held[1]) {
		if a.Err != nil {
			t.Errorf("the worker could not confirm that it stopped: %v", a.Err)
		}
	}
	for err := error(nil); rota.KindOf(err) != rota.KindStale; {
		if _, err = noticesOf(within(t, ample), gone.s); err != nil && rota.KindOf(err) != rota.KindStale {
			t.Fatalf("a session that was taken over: %v", err)
		}
	}
	for _, a := range h.do(rota.VerbComplete, held[2:]...) {
		if a.Err != nil {
			t.Errorf("a lease did not survive: %v", a.Err)
		}
	}
	if err := <-waited; err != nil || len(ended) != 2 {
		t.Errorf("the waiter saw %d jobs end, %v", len(ended), err)
	}
	if v, err := f.Verify(within(t, ample)); err != nil || !v.Equal {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAwaitJobs_ofAJobThatEndsTwice(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	for i := range 30 {
		id := rota.JobID(fmt.Sprintf("r%d-00000", i))
		submitAll(t, n, specs(fmt.Sprintf("r%d", i), 1))
		waited := make(chan error, 1)
		go func() {
			waited <- n.AwaitJobs(within(t, ample), []rota.JobID{id, id}, func(rota.Job) error { return nil })
		}()
		for range 3 {
			if _, err := n.Cancel(within(t, ample), []rota.JobID{id}); err != nil {
				t.Fatal(err)
			}
			_, _ = n.Retry(within(t, ample), retriesOf(id))
		}
		_, _ = n.Cancel(within(t, ample), []rota.JobID{id})
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
	}
	n.replica.Hub.Mu.Lock()
	defer n.replica.Hub.Mu.Unlock()
	if len(n.replica.Hub.Jobs) > 0 {
		t.Errorf("%d jobs still have waiting calls, want none", len(n.replica.Hub.Jobs))
	}
}

func TestNotices_theEndIsToldThoughNoticesCameWithIt(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	h := newHand(t, n, "w1", 2)
	submitAll(t, n, specs("x", 2))
	h.take(2)
	if err := h.s.Bye(within(t, ample)); err != nil { // ends the session, then both leases: one notification
		t.Fatal(err)
	}
	var err error
	for err == nil {
		_, err = noticesOf(within(t, ample), h.s)
	}
	if rota.KindOf(err) != rota.KindStale {
		t.Fatalf("the session ended with %v", err)
	}
	other := newHand(t, n, "w2", 1)
	old := other.s
	other.connect(n) // the old stream is still there
	for err = nil; err == nil; {
		_, err = noticesOf(within(t, ample), old)
	}
	if rota.KindOf(err) != rota.KindUnavailable {
		t.Fatalf("the old stream ended with %v", err)
	}
}
