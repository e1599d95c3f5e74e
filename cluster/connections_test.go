package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/stream"
	"github.com/rotasched/rota/internal/peer"
)

// TestAddressTakenOver: a fresh node answers at a dead one's address. It is not the dead one, so with the third node
// gone too there is no majority. hashicorp/raft by itself counts its answers as the dead node's.
func TestAddressTakenOver(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	submitAll(t, b.leader(), specs("before", 5))
	leader := b.loyal()
	for _, id := range b.ids() {
		if at, _ := b.node(id).raft.LeaderWithID(); string(at) != leader.cfg.Raft {
			t.Errorf("%s knows the leader at %q, it is at %s", id, at, leader.cfg.Raft)
		}
	}
	var others []rota.NodeID
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		if id != leader.cfg.Node {
			others = append(others, id)
		}
	}
	dead := b.addrs[others[0]]
	b.stop(dead.Node)
	b.plan("n4", 0)
	b.mu.Lock()
	fresh := b.addrs["n4"]
	fresh.Raft = dead.Raft
	b.addrs["n4"] = fresh
	b.mu.Unlock()
	b.start("n4")
	b.eventually("the leader has met the wrong node", func() bool { return leader.stream.Counts().Denied > 0 })
	submitAll(t, b.leader(), specs("between", 5))
	b.stop(others[1])
	outcomes, err := leader.Submit(within(t, 4*time.Second), specs("alone", 1))
	if err == nil && len(outcomes) == 1 && outcomes[0].Err == nil {
		t.Fatal("one node of three, with a stranger at a dead node's address, acknowledged a job")
	}
	b.start(others[1])
	b.awaitReady(others[1])
	submitAll(t, b.leader(), specs("after", 5))
	b.stop("n4")
	b.start(dead.Node)
	b.awaitReady(dead.Node)
}

// TestCommitNews: the leader notifies followers of a commit by itself: here raft would do so only with the next entry,
// or after a minute.
func TestCommitNews(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		c := b.addrs[id]
		c.Timing.Commit = time.Minute
		b.addrs[id] = c
	}
	b.startPlanned()
	leader := b.leader()
	jobs := specs("informed", 1)
	submitAll(t, leader, jobs)
	for _, id := range b.ids() {
		n := b.node(id)
		b.eventually("the job at "+string(id), func() bool {
			_, _, err := n.Job(t.Context(), jobs[0].ID, peer.ReadOptions{Stale: true})
			return err == nil
		})
	}
	// The next entry, a sweep's, would also have notified them, only later: so the leader's counter is checked too.
	counted := prometheus.NewRegistry()
	counted.MustRegister(leader.measures.CommitMessages)
	said := func() float64 {
		families, err := counted.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("%d families, %v", len(families), err)
		}
		return families[0].GetMetric()[0].GetCounter().GetValue()
	}
	before, round := said(), 0
	b.eventually("a message that only reports a commit", func() bool {
		round++
		submitAll(t, leader, specs(fmt.Sprintf("more%d", round), 1))
		return said() > before
	})
}

// TestRPCGuard_aCapturedMemberEndsNothing: an attacker with a member's credentials sends to a cluster: term, leader and
// work are unaffected.
func TestRPCGuard_aCapturedMemberEndsNothing(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	leader, victim := b.loyal(), b.follower()
	var captured *Node // the third: its id and identity, used by another process
	for _, id := range b.ids() {
		if n := b.node(id); n != leader && n != victim {
			captured = n
		}
	}
	submitAll(t, leader, specs("before", 10))
	term := leader.raft.CurrentTerm()
	layer, err := stream.NewLayer("127.0.0.1:0", "", captured.membership.hello, stream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	evil := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: layer, MaxPool: 1,
		Timeout: 5 * time.Second,
		Logger:  hclog.NewNullLogger()})
	defer evil.Close()
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(captured.ID()),
		Addr: []byte(captured.cfg.Raft)}
	for _, n := range []*Node{leader, victim} {
		id, target := raft.ServerID(n.ID()), raft.ServerAddress(n.cfg.Raft)
		say := map[string]error{
			"entries": evil.AppendEntries(id, target, &raft.AppendEntriesRequest{RPCHeader: header,
				Term: math.MaxUint64},
				&raft.AppendEntriesResponse{}),
			"vote": evil.RequestVote(id, target, &raft.RequestVoteRequest{RPCHeader: header, Term: math.MaxUint64,
				LastLogIndex: math.MaxUint64, LastLogTerm: math.MaxUint64, LeadershipTransfer: true},
				&raft.RequestVoteResponse{}),
			"kind": evil.AppendEntries(id, target, &raft.AppendEntriesRequest{RPCHeader: header, Term: term,
				Entries: []*raft.Log{{Index: 1, Term: term, Type: 99}}}, &raft.AppendEntriesResponse{}),
			"configuration": evil.AppendEntries(id, target, &raft.AppendEntriesRequest{RPCHeader: header, Term: term,
				Entries: []*raft.Log{{Index: 1, Term: term, Type: raft.LogConfiguration, Data: []byte("junk")}}},
				&raft.AppendEntriesResponse{}),
			"snapshot": evil.InstallSnapshot(id, target, &raft.InstallSnapshotRequest{RPCHeader: header,
				SnapshotVersion: 1, Term: term,
				LastLogIndex: math.MaxUint64, LastLogTerm: term, Size: math.MaxInt64}, &raft.InstallSnapshotResponse{},
				io.LimitReader(bytes.NewReader(make([]byte, 8<<20)), 8<<20)),
		}
		for range 300 {
			if err := evil.TimeoutNow(id, target, &raft.TimeoutNowRequest{RPCHeader: header},
				&raft.TimeoutNowResponse{}); err == nil {
				say["handover"] = err
				break
			}
			say["handover"] = errors.New("refused each time")
		}
		for what, err := range say {
			if err == nil {
				t.Errorf("%s: %s was accepted", n.ID(), what)
			}
		}
		if n.stream.Counts().Guarded < 300 {
			t.Errorf("%s counts %+v", n.ID(), n.stream.Counts())
		}
	}
	submitAll(t, leader, specs("after", 10))
	if now := leader.raft.CurrentTerm(); now > term+100 {
		t.Errorf("term went from %d to %d", term, now)
	}
	for _, id := range b.ids() {
		if n := b.node(id); n.raft.CurrentTerm() > term+100 {
			t.Errorf("%s is in term %d", id, n.raft.CurrentTerm())
		}
	}
}
