package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
)

func TestNode(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	t.Run("works off jobs that any node took, through any node", func(t *testing.T) {
		f := b.follower()
		h := newHand(t, f, "w1", 200)
		submitAll(t, f, specs("a", 100))
		leases := h.take(100)
		h.do(rota.VerbAck, leases...)
		submitAll(t, b.leader(), specs("b", 100))
		leases = append(leases, h.take(100)...)
		for _, a := range h.do(rota.VerbComplete, leases...) {
			if a.Err != nil || a.JobState != rota.JobCompleted {
				t.Fatalf("complete: %v, %s", a.Err, a.JobState)
			}
		}
		for _, id := range b.ids() {
			job, _, err := b.node(id).Job(within(t, ample), "a-00000", peer.ReadOptions{})
			if err != nil || job.State != rota.JobCompleted {
				t.Fatalf("%s: job is %s, %v", id, job.State, err)
			}
		}
	})
	t.Run("answers a repeated submission with the first outcome", func(t *testing.T) {
		again, err := b.follower().Submit(within(t, ample), specs("a", 1))
		if err != nil || !again[0].Existed || again[0].State != rota.JobCompleted {
			t.Fatalf("got %+v, %v", again, err)
		}
	})
	t.Run("answers a repeated completion with the first outcome and refuses a stranger's", func(t *testing.T) {
		h, stranger := newHand(t, b.leader(), "w2", 1), newHand(t, b.leader(), "w3", 1)
		stranger.s.Close()
		if _, err := b.leader().DrainWorker(within(t, ample), "w3"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.leader().DrainWorker(within(t, ample), "w1"); err != nil {
			t.Fatal(err)
		}
		submitAll(t, b.leader(), specs("c", 1))
		leases := h.take(1)
		if a := stranger.do(rota.VerbComplete, leases...)[0]; a.Err == nil || a.Err.Kind != rota.KindStale {
			t.Fatalf("a stranger's completion: %v", a.Err)
		}
		for range 2 {
			if a := h.do(rota.VerbComplete, leases...)[0]; a.Err != nil {
				t.Fatalf("the rightful completion: %v", a.Err)
			}
		}
	})
	t.Run("gives a beat the clock after a later entry", func(t *testing.T) {
		h := newHand(t, b.follower(), "w4", 1)
		last := rota.Clock(0)
		for range 3 {
			beaten, err := h.s.Beat(within(t, ample), 0)
			if err != nil || beaten.Clock < last {
				t.Fatalf("clock %d after %d, %v", beaten.Clock, last, err)
			}
			last = beaten.Clock
		}
	})
	t.Run("holds equal digests and no violation on all nodes", func(t *testing.T) {
		v, err := b.follower().Verify(within(t, ample))
		if err != nil || !v.Equal || len(v.Nodes) != 3 {
			t.Fatalf("%+v, %v", v, err)
		}
	})
	t.Run("refuses internal operations from another node", func(t *testing.T) {
		if fsm.Forwardable(&fsmpb.Op{Op: &fsmpb.Op_Sweep{}}) || fsm.Forwardable(&fsmpb.Op{Op: &fsmpb.Op_Round{}}) ||
			fsm.Forwardable(&fsmpb.Op{Op: &fsmpb.Op_Reach{}}) ||
			fsm.Forwardable(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{}}) ||
			fsm.Forwardable(&fsmpb.Op{Op: &fsmpb.Op_SetMode{SetMode: &fsmpb.SetMode{Auto: true}}}) ||
			fsm.Forwardable(&fsmpb.Op{Op: &fsmpb.Op_SetNode{}}) {
			t.Fatal("an internal operation has a wire form")
		}
	})
}

func TestNode_failover(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	old := b.leader()
	h := newHand(t, b.follower(), "w1", 50)
	submitAll(t, old, specs("x", 50))
	leases := h.take(50)
	h.do(rota.VerbAck, leases...) // the election may take longer than a lease waits for this

	var wait sync.WaitGroup
	wait.Go(func() { submitAll(t, b.node(h.n.cfg.Node), specs("y", 200)) }) // waits until the election is over
	b.stop(old.cfg.Node)
	wait.Wait()
	if l := b.leader(); l == old {
		t.Fatal("the stopped node leads")
	}
	for _, a := range h.do(rota.VerbComplete, leases...) {
		if a.Err != nil {
			t.Fatalf("a lease did not survive the failover: %v", a.Err)
		}
	}
	if more := h.take(50); len(more) < 50 {
		t.Fatalf("%d leases after the failover", len(more))
	}
	b.start(old.cfg.Node)
	b.awaitReady(old.cfg.Node)
	if v, err := b.node(old.cfg.Node).Verify(within(t, ample)); err != nil || !v.Equal {
		t.Fatalf("%+v, %v", v, err)
	}
}

func TestNode_reconnectingElsewhereGivesOpenLeasesBack(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	h := newHand(t, b.leader(), "w1", 10)
	submitAll(t, b.leader(), specs("x", 10))
	first := h.take(10)
	session := h.s.Session()
	h.s.Close()
	h.connect(b.follower())
	if h.s.Session() != session {
		t.Fatalf("session %d became %d", session, h.s.Session())
	}
	again := h.take(10)
	if len(again) != len(first) {
		t.Fatalf("%d leases came back of %d", len(again), len(first))
	}
	other, err := b.leader().OpenWorker(within(t, ample), rota.WorkerSpec{ID: "w1", Queues: []rota.QueueName{"default"},
		Slots: 1}, []byte("another secret, of another process"), false, nil, peer.WorkerLink{})
	if rota.KindOf(err) != rota.KindConflict {
		t.Fatalf("another secret got %v, %v", other, err)
	}
}

func TestNode_withoutQuorumCallsEndAtTheirDeadline(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	survivor := b.follower()
	var gone []rota.NodeID
	for _, id := range b.ids() {
		if id != survivor.cfg.Node {
			gone = append(gone, id)
			b.stop(id)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
	defer cancel()
	if _, err := survivor.Submit(ctx, specs("x", 1)); rota.KindOf(err) != rota.KindUnavailable ||
		rota.RetryAfterOf(err) == 0 {
		t.Fatalf("a write without a quorum: %v", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if _, _, err := survivor.Job(ctx, "x", peer.ReadOptions{}); rota.KindOf(err) != rota.KindUnavailable {
		t.Fatalf("a linearizable read without a quorum: %v", err)
	}
	if _, _, err := survivor.Jobs(context.Background(), rota.JobFilter{}, peer.ReadOptions{Stale: true}); err != nil {
		t.Fatalf("a stale read: %v", err)
	}
	b.start(gone[0])
	submitAll(t, survivor, specs("y", 10))
}

func TestNode_membership(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	b.plan("n4", 0)
	b.start("n4")
	voter := func(id rota.NodeID) bool {
		for _, s := range b.leader().membership.servers() {
			if rota.NodeID(s.ID) == id {
				return s.Suffrage == raft.Voter
			}
		}
		return false
	}
	b.eventually("n4 is recorded", func() bool { _, known := machineNode(b.leader(), "n4"); return known })
	b.eventually("n4 votes", func() bool { return voter("n4") })
	b.awaitReady("n4")

	if err := b.leader().RemovePeer(within(t, ample), "n4"); err != nil {
		t.Fatal(err)
	}
	b.stop("n4")
	if _, err := b.tryStart("n4"); rota.KindOf(err) != rota.KindConflict {
		t.Fatalf("a removed node started: %v", err)
	}
}

func machineNode(n *Node, id rota.NodeID) (fsm.Member, bool) {
	n.replica.Mu.RLock()
	defer n.replica.Mu.RUnlock()
	return n.replica.Machine.Node(id)
}

func TestNode_emptiedDirectoryOfAKnownIDIsRefused(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	f := b.follower().cfg.Node
	b.eventually("all nodes are recorded", func() bool { _, known := machineNode(b.leader(), f); return known })
	b.stop(f)
	if err := os.RemoveAll(b.addrs[f].Data); err != nil {
		t.Fatal(err)
	}
	_, err := b.tryStart(f)
	if rota.KindOf(err) != rota.KindConflict {
		t.Fatalf("an emptied directory of a known id started: %v", err)
	}
}

func TestNode_damagedEntryStopsTheNode(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	b.fatal = true
	n := b.leader()
	a := adapter{n}
	if _, ok := a.Apply(&raft.Log{Index: 1 << 40, Term: 1, Data: []byte("no entry")}).(error); !ok {
		t.Fatal("a damaged entry was applied")
	}
	if err := *n.fatalErr.Load(); err == nil {
		t.Fatal("the node continues")
	}
	if _, ok := a.Apply(&raft.Log{Index: 1<<40 + 1, Term: 1, Data: []byte("more")}).(error); !ok {
		t.Fatal("an entry was applied after one that could not be applied")
	}
}

func TestNode_restart(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	submitAll(t, b.leader(), specs("x", 100))
	if err := b.leader().raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	submitAll(t, b.leader(), specs("y", 100))
	before := b.leader().ClusterID()
	b.stop("n1")
	b.start("n1")
	b.awaitReady("n1")
	page, _, err := b.leader().Jobs(within(t, ample), rota.JobFilter{Limit: 1000}, peer.ReadOptions{})
	if err != nil || len(page.Jobs) != 200 || b.leader().ClusterID() != before {
		t.Fatalf("%d jobs of cluster %s after a restart of %s, %v", len(page.Jobs), b.leader().ClusterID(), before, err)
	}
}

func TestRestoreBackup(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	h := newHand(t, b.leader(), "w1", 5)
	submitAll(t, b.leader(), specs("x", 10))
	held := h.take(5)
	path := filepath.Join(t.TempDir(), "backup")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.leader().SaveSnapshot(within(t, ample), peer.ReadOptions{}, f), f.Close()); err != nil {
		t.Fatal(err)
	}

	r := newBench(t)
	r.plan("r1", 1)
	if _, err := recovery.RestoreBackup(recovery.RestoreOptions{Backup: snapshot.At(path), Data: r.addrs["r1"].Data,
		Node: "r1", Cluster: "test", Raft: r.addrs["r1"].Raft}); err != nil {
		t.Fatal(err)
	}
	r.start("r1")
	r.awaitReady("r1")
	if r.leader().ClusterID() == b.leader().ClusterID() {
		t.Fatal("a restored cluster has its old id")
	}
	again := newHand(t, r.leader(), "w2", 10)
	leases := again.take(10)
	for _, l := range leases {
		if held[0].Lease.Token.Compare(l.Lease.Token) >= 0 {
			t.Fatalf("token %s after a restore does not exceed %s", l.Lease.Token, held[0].Lease.Token)
		}
	}
	if faults := check(r.leader()); len(faults) > 0 {
		t.Fatal(faults)
	}
	if _, err := recovery.RestoreBackup(recovery.RestoreOptions{Backup: snapshot.At(path), Data: r.addrs["r1"].Data,
		Node: "r1", Cluster: "test"}); rota.KindOf(err) != rota.KindConflict {
		t.Fatalf("a backup was restored over a node's state: %v", err)
	}
}

func check(n *Node) []string {
	n.replica.Mu.RLock()
	defer n.replica.Mu.RUnlock()
	return n.replica.Machine.Check()
}
