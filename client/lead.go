package client

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota/api/words"
)

// leadShunned is how long a leader that failed a submission is not gone to on another
// node's word: that node may reach it where this client cannot, and would name it again.
const leadShunned = 15 * time.Second

// leadMost is how long the leader may take where another node named it. One that is
// paused answers nobody, and closes nothing; its followers notice in a second, and know the
// next one.
const leadMost = 3 * time.Second

// lead is where submissions go: to the leader, once a node that had to forward one named
// it and it is among the client's addresses, so that a job is not carried twice. All other
// calls, and submissions while no leader is known, go to the present node. Nothing rests
// on this: each node forwards what comes to it.
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
		return c.lead.node, leadMost
	}
	return c.present(), answerMost
}

// note takes the leader, among the nodes, that a node which forwarded a submission names.
func (l *lead) note(nodes []*node, trailer metadata.MD) {
	named := trailer.Get(words.LeaderKey)
	if len(named) != 1 {
		return
	}
	at := slices.IndexFunc(nodes, func(n *node) bool { return n.address == named[0] })
	if at < 0 {
		return // reached by other names: through a tunnel, say
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := nodes[at]; time.Since(l.shunned[n]) >= leadShunned {
		delete(l.shunned, n)
		l.node = n
	}
}

// lost notes that a node failed.
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
