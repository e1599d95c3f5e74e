package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
)

// TestAddressTakenOver has a fresh node answer where a dead one did: it is not the dead
// one, so that with the third node gone as well there is no majority. hashicorp/raft by
// itself counts its word for the dead node's.
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

// TestDialMeant: only the node that is meant is spoken to.
func TestDialMeant(t *testing.T) {
	t.Parallel()
	a, other := newTestLayer(t, testHello("a"), StreamOptions{}), newTestLayer(t, testHello("b"), StreamOptions{})
	address := raft.ServerAddress(other.BoundAddr().String())
	conn, err := a.Dial(meant("b", address), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	_, err = a.Dial(meant("c", address), 5*time.Second)
	if err == nil || !strings.Contains(err.Error(), "it is node b, node c is meant") {
		t.Errorf("another node than the one meant: %v", err)
	}
	if c := a.Counts(); c.Denied != 1 {
		t.Errorf("%+v", c)
	}
}
