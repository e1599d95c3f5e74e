package cluster

import (
	"crypto/sha256"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// connection reads a worker's newest connection from a node's replica.
func connectionOf(n *Node, id rota.WorkerID) (connection uint64, broken bool) {
	n.replica.Mu.RLock()
	defer n.replica.Mu.RUnlock()
	_, connection, broken = n.replica.Machine.Connection(id)
	return connection, broken
}

// A stream ends at a follower: it notifies the leader until the state shows it. Another connection, at another node,
// clears that; while the worker has one, no end is reported.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	follower := b.follower()
	h := &hand{t: t, id: "w", secret: sha256.Sum256([]byte("w")), slots: 1,
		link: peer.WorkerLink{Connection: 7, Grace: true}}
	h.connect(follower)
	h.s.Close()
	b.eventually("the state shows that the stream ended", func() bool {
		connection, broken := connectionOf(b.leader(), "w")
		return connection == 8 && broken
	})
	h.connect(b.leader())
	if connection, broken := connectionOf(b.leader(), "w"); connection != 9 || broken {
		t.Fatalf("connection %d, broken: %v", connection, broken)
	}
	// The worker moves from this node to the other before it sends anything.
	left := h.s
	h.connect(follower)
	left.Close()
	b.eventually("the old stream's end is forgotten", func() bool {
		n := b.leader()
		n.replica.Hub.Mu.Lock()
		defer n.replica.Hub.Mu.Unlock()
		return len(n.replica.Hub.Broken) == 0
	})
	if connection, broken := connectionOf(b.leader(), "w"); connection != 10 || broken {
		t.Fatalf("connection %d, broken: %v", connection, broken)
	}
}
