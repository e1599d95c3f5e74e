package cluster

import (
	"slices"
	"sync"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
)

// membership is this node's place among the others: who it is, which it knows, and how nodes
// come and go.
type membership struct {
	n     *Node
	known knownCluster
	// left is closed when the node was asked to leave and has done so.
	left     chan struct{}
	leftOnce sync.Once
}

// otherVoters counts the voters beside this node.
func (mb *membership) otherVoters() int {
	count := 0
	for _, s := range mb.servers() {
		if s.Suffrage == raft.Voter && rota.NodeID(s.ID) != mb.n.cfg.Node {
			count++
		}
	}
	return count
}

// onlyVoter says whether no other node has a vote. One that is still on its way into a
// cluster knows of no voter at all.
func (mb *membership) onlyVoter() bool {
	servers := mb.servers()
	return mb.otherVoters() == 0 && slices.ContainsFunc(servers, func(s raft.Server) bool {
		return rota.NodeID(s.ID) == mb.n.cfg.Node && s.Suffrage == raft.Voter
	})
}

// servers tells raft's latest configuration.
func (mb *membership) servers() []raft.Server {
	f := mb.n.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// Left is closed once the node has left the cluster on an operator's word.
func (mb *membership) Left() <-chan struct{} { return mb.left }
