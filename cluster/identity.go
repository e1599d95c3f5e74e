package cluster

import (
	"fmt"
	"sync"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/stream"
)

// knownCluster is the cluster's id once it is known.
type knownCluster struct {
	mu sync.Mutex
	id rota.ClusterID
}

// ClusterID is empty until the cluster's first leader chose it.
func (n *Node) ClusterID() rota.ClusterID {
	n.known.mu.Lock()
	defer n.known.mu.Unlock()
	return n.known.id
}

// Name is the --cluster name.
func (n *Node) Name() string { return n.cfg.Cluster }

// ID is the node's id.
func (n *Node) ID() rota.NodeID { return n.cfg.Node }

// learnCluster writes the cluster's id down, once. A state of another cluster
// than the data directory's ends the process.
func (n *Node) learnCluster() {
	n.mu.RLock()
	id := n.machine.Head().ClusterID
	n.mu.RUnlock()
	n.known.mu.Lock()
	defer n.known.mu.Unlock()
	if id == "" || id == n.known.id {
		return
	}
	if err := n.data.SetClusterID(id); err != nil {
		n.fatal(err)
		return
	}
	n.known.id = id
	go func() { _ = n.gossip.UpdateMeta(func(m *gossip.Meta) { m.ClusterID = id }) }()
}

// hello is what this node says before the first byte of raft.
func (n *Node) hello() stream.Hello {
	return stream.Hello{ClusterName: n.cfg.Cluster, ClusterID: n.ClusterID(), Node: n.cfg.Node, Draft: rota.Draft,
		Identity: n.data.Identity()}
}

// admit refuses a removed node's raft connection, and one of a node whose id
// belongs to another data directory.
func (n *Node) admit(peer stream.Hello) error {
	if n.cfg.admitted != nil {
		if err := n.cfg.admitted(peer.Node); err != nil {
			return err
		}
	}
	if !n.peek() {
		return errStalled() // else connections would pile up for as long as it does
	}
	identity, _, removed, known := n.machine.Node(peer.Node)
	n.mu.RUnlock()
	switch {
	case removed:
		return fmt.Errorf("node %s was removed from this cluster", peer.Node)
	case known && identity != peer.Identity && !planted.sameIDRejoin():
		return fmt.Errorf("node id %s belongs to another data directory", peer.Node)
	}
	return nil
}

// refuseRemoved refuses a node that was removed from the cluster, be it this one.
func (n *Node) refuseRemoved(id rota.NodeID) error {
	n.mu.RLock()
	_, _, removed, _ := n.machine.Node(id)
	n.mu.RUnlock()
	if !removed {
		return nil
	}
	return errRemoved(id)
}

func errRemoved(id rota.NodeID) error {
	return rota.Refusef(rota.Denied, "node", "node %s was removed from the cluster: stop it, and use another one", id)
}

// Introduce judges a starting node: nil lets it start. Kind Conflict refuses it
// for good, Unavailable asks it to ask again, as this node does not know yet.
func (n *Node) Introduce(in rota.Introduction) error {
	if n.raft != nil && in.Fresh && n.ClusterID() == "" && in.Identity != "" && n.data.Founders()[in.Node] == in.Identity {
		return nil // founded together, and waited for: without it there may be no majority
	}
	if n.raft == nil || n.Ready() != nil {
		return &rota.Error{Kind: rota.Unavailable, Text: "this node has not caught up and cannot judge yet"}
	}
	if err := n.reading(); err != nil {
		return err
	}
	identity, starts, removed, known := n.machine.Node(in.Node)
	n.mu.RUnlock()
	if err := refuseOlder(in, n.rulesInForce()); err != nil {
		return err
	}
	switch {
	case !known, planted.sameIDRejoin() && !removed:
		return nil
	case removed:
		return rota.Refusef(rota.Conflict, "node", "node %s was removed from the cluster: start on an empty data directory "+
			"with a --node id that was never used", in.Node)
	case identity != in.Identity && in.Fresh:
		return rota.Refusef(rota.Conflict, "node", "node id %s is known to the cluster but this data directory is empty: what it "+
			"promised is forgotten. Put its old directory back, or remove it (rota operator raft remove-peer %s) and start "+
			"with a --node id that was never used", in.Node, in.Node)
	case identity != in.Identity:
		return rota.Refusef(rota.Conflict, "node", "node id %s belongs to another data directory of this cluster: start with "+
			"the right --data, or with a --node id that was never used on an empty one", in.Node)
	case in.Starts < starts:
		return rota.Refusef(rota.Conflict, "node", "this data directory of node %s is at start %d but the cluster saw start %d: "+
			"it is an old copy. Use the newest one, or join with a new --node id on an empty one", in.Node, in.Starts, starts)
	}
	return nil
}

// member finds an alive gossip member.
func (n *Node) member(id rota.NodeID) (gossip.Member, bool) {
	for _, m := range n.gossip.Members() {
		if m.ID == id && m.Alive {
			return m, true
		}
	}
	return gossip.Member{}, false
}

// raftAddress returns where gossip knows a node's raft.
func (n *Node) raftAddress(id rota.NodeID) (string, bool) {
	m, ok := n.member(id)
	return m.Raft, ok && m.Raft != ""
}

// Leader tells where the leader answers; ok is false while there is none, or it is this
// node itself.
func (n *Node) Leader() (leader rota.NodeAddress, ok bool) {
	_, id := n.raft.LeaderWithID()
	if id == "" || rota.NodeID(id) == n.cfg.Node {
		return rota.NodeAddress{}, false
	}
	return n.address(rota.NodeID(id))
}

// address tells where a node answers others; it is remembered past gossip's
// losing sight of the node.
func (n *Node) address(id rota.NodeID) (rota.NodeAddress, bool) {
	if m, ok := n.member(id); ok && m.API != "" {
		n.watch.remember(id, m.API)
		return rota.NodeAddress{ID: id, API: m.API}, true
	}
	api, ok := n.watch.remembered(id)
	return rota.NodeAddress{ID: id, API: api}, ok
}
