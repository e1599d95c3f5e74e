package client

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota/api/words"
)

// leadShunned is how long a leader that failed a submission is avoided even if another node names it: that node may
// reach the leader where this client cannot, and would name it again.
const leadShunned = 15 * time.Second

// maxLead is how long the leader may take if another node named it. A paused leader does not answer and closes no
// connection; its followers notice within a second and then know the next leader.
const maxLead = 3 * time.Second

// lead is the node that submissions go to: the leader, once a node that had to forward a submission named it and it is
// among the client's addresses. This saves a hop. All other calls, and submissions while no leader is known, go to the
// present node. Correctness does not depend on this: each node forwards what it receives.
type lead struct {
	mu      sync.Mutex
	node    *node
	shunned map[*node]time.Time
}

// toLead returns the leader, or else the present node, and how long it may take.
func (c *Client) toLead() (n *node, most time.Duration) {
	c.lead.mu.Lock()
	defer c.lead.mu.Unlock()
	if c.lead.node != nil {
		return c.lead.node, maxLead
	}
	return c.present(), maxAnswer
}

// note records the leader, if it is among the nodes, that a forwarding node named.
func (l *lead) note(nodes []*node, trailer metadata.MD) {
	named := trailer.Get(words.LeaderKey)
	if len(named) != 1 {
		return
	}
	at := slices.IndexFunc(nodes, func(n *node) bool { return n.address == named[0] })
	if at < 0 {
		return // reached by other names, for example through a tunnel
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := nodes[at]; time.Since(l.shunned[n]) >= leadShunned {
		delete(l.shunned, n)
		l.node = n
	}
}

// lost records that a node failed.
func (l *lead) lost(failed *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node != failed {
		return
	}
	l.node = nil
	if l.shunned == nil {
		l.shunned = make(map[*node]time.Time)
	}
	l.shunned[failed] = time.Now()
}
