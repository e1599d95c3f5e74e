package virtualnet

import (
	"sync"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
)

// lateID is a node's cluster id for objects that are created before the node.
type lateID struct {
	mu   sync.Mutex
	node *cluster.Node
}

func (l *lateID) set(n *cluster.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.node = n
}

func (l *lateID) get() rota.ClusterID {
	l.mu.Lock()
	n := l.node
	l.mu.Unlock()
	if n == nil {
		return ""
	}
	return n.ClusterID()
}
