package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// cluster is three nodes under load.
type cluster struct {
	t     *testing.T
	nodes []*node
	load  *load
	all   *client.Client
	flows int
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
	for i := range 3 {
		c.nodes = append(c.nodes, newNode(t, fmt.Sprintf("n%d", i+1)))
	}
	for _, n := range c.nodes {
		n.Flags = append(c.joins(n), "--bootstrap-expect", "3")
		n.start()
	}
	for _, n := range c.nodes {
		n.serves()
	}
	c.all = dial(t, c.nodes...)
	for _, n := range c.nodes {
		n.account = c.account
	}
	c.load = startLoad(t, c.nodes)
	c.load.flows()
	return c
}

// account returns the leader, and the workers' leases.
func (c *cluster) account() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := c.all.Status(ctx)
	workers, other := client.Collect(c.all.Workers(ctx))
	text := fmt.Sprintf("%s leads (%v, %v), %d jobs accepted", s.Leader, err, other, c.load.Count())
	for _, w := range workers {
		text += fmt.Sprintf("\n%+v", w)
	}
	return text
}

func (c *cluster) joins(except *node) (flags []string) {
	for _, n := range c.nodes {
		if n != except {
			flags = append(flags, "--join", n.Gossip)
		}
	}
	return flags
}

// leader waits for a leader in a term that the nodes agree on.
func (c *cluster) leader() (leader *node) {
	c.t.Helper()
	eventually(c.t, 30*time.Second, "there is a leader", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s, err := c.all.Status(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(c.nodes, func(n *node) bool { return n.ID == string(s.Leader) })
		if at < 0 {
			return fmt.Errorf("it is %q", s.Leader)
		}
		leader = c.nodes[at]
		return nil
	})
	return leader
}

// inRole returns a node that has the role now.
func (c *cluster) inRole(r role) *node {
	c.t.Helper()
	leader := c.leader()
	if r == leads {
		return leader
	}
	return c.nodes[(slices.Index(c.nodes, leader)+1)%len(c.nodes)]
}

// dies makes one node die at a point and checks what it left.
func (c *cluster) dies(p point, r role) {
	c.t.Helper()
	began := time.Now()
	n := c.inRole(r)
	n.arm(p)
	if p.reach != nil {
		p.reach(c, n, r)
	}
	if exited := n.exited(); len(p.roles) == 1 {
		c.load.producers.Go(func() { c.keeps(n, r, exited) })
	}
	n.diesAt(p)
	c.comesBack(n)
	c.t.Logf("%-24s %-9s %s died, %.1f s", p.name, r, n.ID, time.Since(began).Seconds())
}

// keeps keeps a node in its role until it is dead, if no other node passes the point: on a busy machine a leader may
// have been deposed since it was chosen.
func (c *cluster) keeps(n *node, r role, dead <-chan struct{}) {
	for {
		select {
		case <-dead:
			return
		case <-c.t.Context().Done():
			return
		case <-time.After(time.Second):
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
		s, err := c.all.Status(ctx)
		if err == nil && s.Leader != "" && (string(s.Leader) == n.ID) != (r == leads) {
			to := rota.NodeID("") // whichever is most advanced
			if r == leads {
				to = rota.NodeID(n.ID)
			}
			_, _ = c.all.TransferLeadership(ctx, to)
		}
		cancel()
	}
}

// comesBack audits a dead node's files, starts it, and waits until all is well.
func (c *cluster) comesBack(n *node) {
	c.t.Helper()
	n.audit()
	n.start()
	n.serves()
	c.load.flows()
	c.verified()
}

// verified waits until all three answer with one digest and violate nothing.
func (c *cluster) verified() {
	c.t.Helper()
	eventually(c.t, 40*time.Second, "all digests are equal", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		v, err := c.all.Verify(ctx)
		if err != nil {
			return err
		}
		for _, n := range v.Nodes {
			if len(n.Violations) > 0 {
				c.t.Fatalf("node %s violates invariants: %v", n.ID, n.Violations)
			}
		}
		if !v.Equal || len(v.Nodes) != len(c.nodes) {
			return fmt.Errorf("%+v", v)
		}
		return nil
	})
}

// healthy waits until no node has a problem.
func (c *cluster) healthy() {
	c.t.Helper()
	eventually(c.t, 40*time.Second, "all nodes are healthy", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s, err := c.all.Status(ctx)
		if err != nil {
			return err
		}
		for _, n := range s.Nodes {
			if !n.Healthy || !n.Voter {
				return fmt.Errorf("%s: %v", n.ID, n.Problems)
			}
		}
		return nil
	})
}

// settle ends the load and the nodes, and audits all their files.
func (c *cluster) settle() {
	c.t.Helper()
	c.load.settle(c.all)
	c.verified()
	c.healthy()
	for _, n := range c.nodes {
		n.stop()
		n.audit()
	}
}

// transfer transfers leadership until the node is dead, for which all nodes vote: to the node itself if it is to be a
// candidate, otherwise, or if it leads, to a third one. Once is not enough: a follower that hears of the new leader
// before it is asked for its vote never votes.
func transfer(c *cluster, n *node, r role) {
	dead := n.exited()
	c.load.producers.Go(func() { // the node that would answer may be dead by then
		for {
			c.handOver(n, r)
			select {
			case <-dead:
				return
			case <-c.t.Context().Done():
				return
			case <-time.After(2 * time.Second):
			}
		}
	})
}

func (c *cluster) handOver(n *node, r role) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	s, err := c.all.Status(ctx)
	if err != nil {
		return // the next try finds a leader
	}
	to := n.ID
	switch {
	case r == candidate && to == string(s.Leader): // elected before the order: it leads already
		to = ""
	case r == follows:
		for _, other := range c.nodes {
			if other != n && other.ID != string(s.Leader) {
				to = other.ID
			}
		}
	}
	_, _ = c.all.TransferLeadership(ctx, rota.NodeID(to))
}

// submitWorkflow submits a workflow through the node until it is acknowledged, and its jobs are counted among the
// load's.
func submitWorkflow(c *cluster, n *node, _ role) {
	c.flows++
	spec := rota.WorkflowSpec{ID: rota.WorkflowID(fmt.Sprintf("flow-%d", c.flows)), Nodes: []rota.NodeSpec{
		rota.NewNodeSpec("a", "load", nil), rota.NewNodeSpec("b", "load", nil, "a"), rota.NewNodeSpec("c", "load", nil,
			"a")}}
	jobs := make([]rota.JobID, 0, len(spec.Nodes))
	for _, node := range spec.Nodes {
		jobs = append(jobs, rota.NodeJobID(spec.ID, node.ID))
	}
	user, l := dial(c.t, n), c.load
	l.producers.Go(func() {
		l.Answered(l.submitting, maxCall, func(ctx context.Context) error {
			_, err := user.SubmitWorkflow(ctx, spec)
			return err
		}, jobs...)
	})
}

// callsForRebuild makes a stopped node believe that its state is wrong from its first entry on, as it does when its
// digest differs from a majority's.
func (n *node) callsForRebuild() {
	n.t.Helper()
	path := filepath.Join(n.Dir, "node.json")
	data, err := os.ReadFile(path)
	check(n.t, err)
	var record map[string]any
	exact := json.NewDecoder(bytes.NewReader(data))
	exact.UseNumber() // moments in nanoseconds do not fit floats
	check(n.t, exact.Decode(&record))
	delete(record, "sum")
	record["rebuild"] = map[string]any{"open": true, "at": 1, "agreed": 1, "ended": 0}
	data, err = json.Marshal(record)
	check(n.t, err)
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) // its last field, over everything before it
	data = fmt.Appendf(data[:len(data)-1], `,"sum":"%08x"}`, sum)
	check(n.t, os.WriteFile(path, data, 0o600))
}

// awaitSnapshot waits until a node has a snapshot to start from: one that died repeatedly since it was created may have
// finished none.
func (c *cluster) awaitSnapshot(n *node) {
	c.t.Helper()
	eventually(c.t, 30*time.Second, n.ID+" has a snapshot", func() error {
		whole, err := filepath.Glob(filepath.Join(n.Dir, "snapshots", "*[0-9]"))
		if err == nil && len(whole) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
}

// isMember reports whether the cluster counts a node as its own.
func (c *cluster) isMember(id string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	peers, err := c.all.Peers(ctx)
	return slices.ContainsFunc(peers, func(p rota.RaftPeer) bool { return string(p.ID) == id }), err
}

// welcomes starts one more node and waits until it is a member.
func (c *cluster) welcomes(id string) *node {
	c.t.Helper()
	n := newNode(c.t, id)
	n.Flags = c.joins(nil)
	n.start()
	n.serves()
	c.becomesMember(n, true)
	return n
}

func (c *cluster) becomesMember(n *node, want bool) {
	c.t.Helper()
	eventually(c.t, 30*time.Second, fmt.Sprintf("%s is a member: %v", n.ID, want), func() error {
		is, err := c.isMember(n.ID)
		if err == nil && is != want {
			err = errors.New("it is not so")
		}
		return err
	})
}
