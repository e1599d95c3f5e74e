package sched

import "github.com/rotasched/rota"

// PlanNode is a node of a workflow as estimates see it.
type PlanNode struct {
	// Parents are the numbers of its parents, each less than its own.
	Parents []uint32
	// GrownBy is one more than the number of the node whose completion added this one, 0 of
	// one that was submitted; Joins says that whoever waits for that one waits for this one too
	// (SPEC §23.2).
	GrownBy uint32
	Joins   bool
	Type    rota.JobType
	State   rota.NodeState
	// TookMs is how long its last attempt ran, or has run so far; 0 of one that
	// never did.
	TookMs int64
	// ExpectedMs and SimulateMs are what its submitter says of its duration; 0 says
	// nothing.
	ExpectedMs int64
	SimulateMs int64
}

// over reports whether the node will not run any more.
func (n *PlanNode) over() bool {
	return n.State == rota.NodeSkipped || rota.JobState(n.State).Terminal()
}

// leased reports whether an attempt of it is running.
func (n *PlanNode) leased() bool { return rota.JobState(n.State).Leased() }

// Plan is what a workflow is expected to take.
type Plan struct {
	// DurationMs of each node: how long it ran, or how long it is expected to run.
	DurationMs []int64
	// Critical are the numbers of the longest chain by duration, of equals that of the
	// most nodes, from a root to a leaf; CriticalMs is its length.
	Critical   []uint32
	CriticalMs int64
	// RemainingMs is the work that is left: the longest chain of it, or its sum over the
	// nodes that run now, whichever is more. Gates add nothing to it.
	RemainingMs int64
}

// Estimate plans a workflow whose nodes stand in the order of their numbers. A node
// that has not run is expected to take what its submitter expects (expected_ms); else
// the mean of the completed nodes of its type in this workflow; else what it
// simulates; else the mean of all that completed; else nothing. A gate waits for a
// signal, which is no work: it is expected to take nothing, and its wait is in no mean.
// O(nodes + edges).
func Estimate(nodes []PlanNode) Plan {
	p := Plan{DurationMs: make([]int64, len(nodes))}
	means := meansOf(nodes)
	rest := make([]int64, len(nodes))
	sum, leased := int64(0), int64(0)
	for i := range nodes {
		n := &nodes[i]
		p.DurationMs[i] = n.TookMs
		if n.over() || n.Type == rota.GateType {
			continue
		}
		expected := means.expect(n)
		p.DurationMs[i], rest[i] = expected, expected
		if n.leased() {
			leased++
			p.DurationMs[i], rest[i] = max(expected, n.TookMs), max(0, expected-n.TookMs)
		}
		sum += rest[i]
	}
	p.Critical, p.CriticalMs = longestChain(nodes, p.DurationMs)
	_, p.RemainingMs = longestChain(nodes, rest)
	leased = max(leased, 1)
	p.RemainingMs = max(p.RemainingMs, (sum+leased-1)/leased)
	return p
}

// means are what completed nodes took, by type and of all.
type means struct {
	byType map[rota.JobType]mean
	all    mean
}

type mean struct{ sum, n int64 }

func (m mean) with(ms int64) mean { return mean{m.sum + ms, m.n + 1} }

func meansOf(nodes []PlanNode) means {
	m := means{byType: map[rota.JobType]mean{}}
	for i := range nodes {
		if n := &nodes[i]; n.State == rota.NodeState(rota.JobCompleted) && n.Type != rota.GateType {
			m.all = m.all.with(n.TookMs)
			m.byType[n.Type] = m.byType[n.Type].with(n.TookMs)
		}
	}
	return m
}

func (m *means) expect(n *PlanNode) int64 {
	ofType := m.byType[n.Type]
	switch {
	case n.ExpectedMs > 0:
		return n.ExpectedMs
	case ofType.n > 0:
		return ofType.sum / ofType.n
	case n.SimulateMs > 0:
		return n.SimulateMs
	case m.all.n > 0:
		return m.all.sum / m.all.n
	}
	return 0
}

// longestChain returns the chain from a root to a leaf whose durations sum to the
// most; of equals the one with the most nodes, which is the depth of the graph where
// no duration is known; of those the one whose last node has the least number, and so
// backwards.
func longestChain(nodes []PlanNode, ms []int64) (chain []uint32, most int64) {
	n := uint32(len(nodes))
	c := chains{nodes: nodes, leaves: leavesOf(nodes), ms: ms}
	size := n
	if c.leaves != nil {
		size = 2 * n
	}
	c.until, c.before, c.end = make([]span, size), make([]uint32, n), make([]uint32, size)
	var last uint32
	var longest span
	for i := range n {
		if c.visit(i); c.until[i].beyond(longest) {
			last, longest = i, c.until[i]
		}
	}
	chain = make([]uint32, longest.nodes)
	for at, left := last, longest.nodes; left > 0; at = c.before[at] {
		left--
		chain[left] = at
	}
	return chain, longest.ms
}

// leavesOf returns, by the number of the node that grew them, the nodes that join it; nil where
// none grew any.
func leavesOf(nodes []PlanNode) (leaves [][]uint32) {
	for i := range nodes {
		if n := &nodes[i]; n.Joins {
			if leaves == nil {
				leaves = make([][]uint32, len(nodes))
			}
			leaves[n.GrownBy-1] = append(leaves[n.GrownBy-1], uint32(i))
		}
	}
	return leaves
}

// chains are the longest ones that end with each node. Where nodes have grown others there are two
// places for each: i is the end of node i, len(nodes)+i the end of all that joins it as well.
type chains struct {
	nodes  []PlanNode
	leaves [][]uint32
	ms     []int64
	// until is the longest chain to a place, zero where it is not known yet, end the node that
	// it ends with; before is what stands before a node in its chain, itself at a root.
	until       []span
	before, end []uint32
	stack       []step
}

// step is a place whose chain is being sought; next is what it is to wait for next.
type step struct {
	place uint32
	next  int
}

// after returns the k-th place that one waits for.
func (c *chains) after(place uint32, k int) (waits uint32, ok bool) {
	n := uint32(len(c.nodes))
	if place >= n {
		if k == 0 {
			return place - n, true
		}
		leaves := c.leaves[place-n]
		if k > len(leaves) {
			return 0, false
		}
		return leaves[k-1] + n, true
	}
	node := &c.nodes[place]
	if k >= len(node.Parents) {
		return 0, false
	}
	parent := node.Parents[k]
	if c.leaves == nil || node.GrownBy == parent+1 { // the one that grew it is no more than done
		return parent, true
	}
	return parent + n, true
}

// visit finds the longest chain to a place, and before to all that it waits for: what was added
// has larger numbers than what waits for it.
func (c *chains) visit(place uint32) {
	if c.until[place].nodes > 0 {
		return
	}
	c.stack = append(c.stack[:0], step{place: place})
	for len(c.stack) > 0 {
		top := &c.stack[len(c.stack)-1]
		at, ok := c.after(top.place, top.next)
		switch {
		case !ok:
			c.settle(top.place)
			c.stack = c.stack[:len(c.stack)-1]
		case c.until[at].nodes > 0:
			top.next++
		default:
			c.stack = append(c.stack, step{place: at})
		}
	}
}

// settle notes the longest chain to a place, as those are known that it waits for.
func (c *chains) settle(place uint32) {
	var longest span
	end := place
	for k := 0; ; k++ {
		at, ok := c.after(place, k)
		if !ok {
			break
		}
		if c.until[at].beyond(longest) {
			longest, end = c.until[at], c.end[at]
		}
	}
	if place < uint32(len(c.nodes)) {
		c.before[place], end = end, place
		longest = span{longest.ms + c.ms[place], longest.nodes + 1}
	}
	c.until[place], c.end[place] = longest, end
}

// span is how long a chain is. The zero span is that of no node.
type span struct {
	ms    int64
	nodes int
}

// beyond orders chains by duration, then by nodes.
func (s span) beyond(t span) bool {
	if s.ms != t.ms {
		return s.ms > t.ms
	}
	return s.nodes > t.nodes
}
