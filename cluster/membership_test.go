package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// TestFounding_oneThatFoundedFirstTakesTheOthersIn: n1 saw all three, wrote the first configuration and was restarted,
// before the others had seen each other. It then has state, so they no longer found; without them it has no majority
// and never leads; so it has to vouch for them.
func TestFounding_oneThatFoundedFirstTakesTheOthersIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	founders := make(map[rota.NodeID]string)
	var servers []raft.Server
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		d, err := raftstore.OpenDataDir(b.addrs[id].Data, id, "test", false)
		if err != nil {
			t.Fatal(err)
		}
		founders[id] = d.Identity()
		servers = append(servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(b.addrs[id].Raft)})
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	foundAlone(t, b.addrs["n1"], founders, servers)
	b.startPlanned()
	if got := len(b.leader().membership.servers()); got != 3 {
		t.Fatalf("the cluster has %d members", got)
	}
}

// foundAlone writes the files that a founder writes before its raft starts.
func foundAlone(t *testing.T, c Config, founders map[rota.NodeID]string, servers []raft.Server) {
	t.Helper()
	d, err := raftstore.OpenDataDir(c.Data, c.Node, c.Cluster, false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.SetFounders(founders); err != nil {
		t.Fatal(err)
	}
	stores, err := raftstore.Open(c.Data, raftstore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	snapshots, err := raft.NewFileSnapshotStore(c.Data, 3, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	_, trans := raft.NewInmemTransport(raft.ServerAddress(c.Raft))
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(c.Node)
	if err := raft.BootstrapCluster(config, stores.Log, stores.Stable, snapshots, trans,
		raft.Configuration{Servers: servers}); err != nil {
		t.Fatal(err)
	}
	if err := stores.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFounding_oneIsLate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
	}
	var all sync.WaitGroup
	all.Go(func() { b.start("n1") })
	all.Go(func() { b.start("n2") })
	// n3 is stopped while it waits, and starts again.
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	b.mu.Lock()
	cfg := b.addrs["n3"]
	b.mu.Unlock()
	cfg.BootstrapExpect = 4 // it does not agree at first
	if n, err := Start(ctx, cfg, &directPeers{b: b, self: "n3"}); err == nil {
		_ = n.Stop(ctx)
		t.Error("a node that expects four founded with three")
	}
	all.Go(func() { b.start("n3") })
	all.Wait()
	for _, id := range b.ids() {
		b.awaitReady(id)
	}
}

// takenOut starts one more node, which is removed once it serves.
func (b *bench) takenOut(id rota.NodeID) *Node {
	b.t.Helper()
	b.plan(id, 0)
	b.start(id)
	b.awaitReady(id)
	if err := b.loyal().RemovePeer(within(b.t, ample), id); err != nil {
		b.t.Fatal(err)
	}
	n := b.node(id)
	b.waits(n, n.cfg.Timing.Heartbeat) // it may have to miss its leader to learn this
	return n
}

func TestRemoved_nodeThatGossipsOnWritesNothing(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	removed := b.takenOut("n4")
	n := b.loyal()
	l := n.terms.leading()
	b.eventually("the removed node is not a member", func() bool { return len(n.membership.servers()) == 3 })
	b.eventually("the cluster rests", func() bool { return !n.leaderChores.sweepNeeded(l) })
	m, alive := n.membership.member("n4")
	if !alive {
		t.Fatal("it is no longer in gossip")
	}
	before := n.raft.LastIndex()
	for range 3 {
		if n.membership.recorded(l, m) {
			t.Fatal("a removed node was recorded")
		}
	}
	m.ID, m.Identity = "n2", strings.Repeat("ab", 16)
	if n.membership.recorded(l, m) {
		t.Error("a foreign data directory was recorded")
	}
	if after := n.raft.LastIndex(); after != before {
		t.Errorf("%d entries about it were written", after-before)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_, leader := removed.raft.LeaderWithID()
			t.Logf("the removed node: ready is %v, leader %q, raft %s, member list %+v", removed.Ready(), leader,
				removed.raft.State(), removed.membership.aliveMembers())
		}
	})
	b.eventually("it knows", func() bool {
		kind := rota.KindOf(removed.Ready())
		return kind == rota.KindDenied || kind == rota.KindConflict
	})
	if err := n.Recorded("n4", removed.data.Identity()); rota.KindOf(err) != rota.KindDenied {
		t.Errorf("its calls are accepted: %v", err)
	}
}

func TestRemoval_thatALeaderBeganIsFinished(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	l := b.loyal().terms.leading()
	f := b.follower().cfg.Node
	r := l.propose(within(t, ample), []*fsmpb.Op{{Op: &fsmpb.Op_SetNode{
		SetNode: &fsmpb.SetNode{Id: string(f), Removed: true}}}}, true)
	if r.err != nil {
		t.Fatal(r.err)
	}
	b.eventually("it is out of the configuration", func() bool { return len(b.leader().membership.servers()) == 2 })
}

func TestLeave(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.leader()
	if err := n.Leave(within(t, ample)); err != nil {
		t.Fatal(err)
	}
	<-n.Left()
	b.stop(n.cfg.Node)
	b.eventually("two are left", func() bool { return len(b.leader().membership.servers()) == 2 })
	submitAll(t, b.leader(), specs("x", 1))
}

// TestLeave_thatWasDoneAlready: the answer to a node's first call was lost: removed from the configuration, it no
// longer knows a leader.
func TestLeave_thatWasDoneAlready(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.takenOut("n4")
	b.eventually("it hears of no leader", func() bool { _, ok := n.Leader(); return !ok })
	if err := n.Leave(within(t, ample)); err != nil {
		t.Fatal(err)
	}
	<-n.Left()
}

// TestLeave_beforeItHasJoined: a node that does not know the voters yet is not the only voter. Whether it is in the log
// or only in gossip, it is not added after it left.
func TestLeave_beforeItHasJoined(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{true, false} {
		t.Run(fmt.Sprintf("recorded=%v", recorded), func(t *testing.T) {
			t.Parallel()
			b := startBench(t, 3)
			leader := b.loyal()
			known := func() (removed, known bool) {
				leader.replica.Mu.RLock()
				defer leader.replica.Mu.RUnlock()
				of, known := leader.replica.Machine.Node("n4")
				return of.Removed, known
			}
			b.plan("n4", 0)
			b.mu.Lock()
			b.isolated["n4"] = true // gossip and calls get through, raft's connections do not
			b.deaf[leader.cfg.Node] = !recorded
			b.mu.Unlock()
			b.start("n4")
			n := b.node("n4")
			if len(n.membership.servers()) != 0 {
				t.Fatalf("it knows %v", n.membership.servers())
			}
			if recorded {
				b.eventually("the log knows of it", func() bool { _, known := known(); return known })
			} else {
				b.eventually("gossip reports it to the leader, and others to it", func() bool {
					_, alive := leader.membership.member("n4")
					return alive && len(n.membership.others()) > 0
				})
				if _, known := known(); known {
					t.Fatal("it was recorded before it confirmed its identity")
				}
			}
			b.mu.Lock()
			b.deaf[leader.cfg.Node] = false
			b.mu.Unlock()
			if err := n.Leave(within(t, ample)); err != nil {
				t.Fatal(err)
			}
			<-n.Left()
			if removed, _ := known(); !removed {
				t.Error("its id may come back")
			}
			leader.membership.reconcileOnce(leader.terms.leading()) // while it still answers for itself
			b.eventually("three are left", func() bool { return len(leader.membership.servers()) == 3 })
		})
	}
}

// TestLeave_refusals tests nodes that have nothing to leave.
func TestLeave_refusals(t *testing.T) {
	t.Parallel()
	alone := startBench(t, 1).leader()
	if err := alone.Leave(within(t, ample)); rota.KindOf(err) != rota.KindConflict ||
		!strings.Contains(err.Error(), "only voter") {
		t.Errorf("the only voter left: %v", err)
	}
	b := startBench(t, 3)
	leader := b.leader()
	var refusal *rota.Error
	if err := leader.RemoveHere(within(t, ample), "n9"); !errors.As(err, &refusal) ||
		refusal.Kind != rota.KindNotFound ||
		refusal.Subject == fault.SubjectRemoved {
		t.Errorf("an unknown node was removed: %v", err)
	}
	gone := b.follower().cfg.Node
	if err := b.leader().RemovePeer(within(t, ample), gone); err != nil {
		t.Fatal(err)
	}
	if err := b.leader().RemoveHere(within(t, ample), gone); !errors.As(err, &refusal) ||
		refusal.Kind != rota.KindNotFound || refusal.Subject != fault.SubjectRemoved {
		t.Errorf("removed again: %v", err)
	}
}

func TestNode_withoutAMajorityOfDigestsAllStop(t *testing.T) {
	t.Parallel()
	b := startBench(t, 2)
	b.fatal = true
	f := b.follower()
	f.replica.Mu.Lock()
	planted := &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "planted"}}}
	_, err := f.replica.Machine.Apply(f.replica.Machine.Head().Index, f.replica.Machine.Head().Term,
		mustSeal(t, &fsmpb.Entry{Ops: []*fsmpb.Op{planted}}))
	f.replica.Mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	b.eventually("both stop", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		_, _ = b.leader().Submit(ctx, specs("y", 1))
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.fatals) == 2
	})
}

func TestMatch_sameDecisionIsNotProposedAgainAtOnce(t *testing.T) {
	t.Parallel()
	round := func(job string) []*fsmpb.Round {
		return []*fsmpb.Round{{}, {Pairs: []*fsmpb.Pair{{Job: job, Worker: "w"}}}}
	}
	if !samePairs(round("a"), round("a")) || samePairs(round("a"), round("b")) || samePairs(nil, round("a")) {
		t.Error("decisions are compared wrongly")
	}
}

// TestJoin_saysWhatItWaitsFor: a node that is not admitted reports it, and names the node that rejects its gossip,
// which has another cluster's name.
func TestJoin_saysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	b.plan("n2", 3)
	b.mu.Lock()
	cfg := b.addrs["n2"]
	b.mu.Unlock()
	cfg.Cluster = "another"
	ctx, cancel := context.WithTimeout(t.Context(), ample)
	defer cancel()
	var first, last string
	cfg.Starting = func(text string) {
		if first == "" {
			first = text
		}
		if last = text; strings.Contains(text, "--cluster") {
			cancel()
		}
	}
	if _, err := Start(ctx, cfg, &directPeers{b: b, self: "n2"}); err == nil {
		t.Fatal("it was admitted")
	}
	const waits = "waiting for other nodes: 1 of --bootstrap-expect 3 are here"
	if want := waits + "; " + b.addrs["n1"].Gossip +
		" refused this node's gossip: is --cluster the same, and the gossip key?"; first != waits || last != want {
		t.Errorf("first %q, last %q; want %q", first, last, want)
	}
}
