package sched

import "github.com/rotasched/rota"

// PlanNode is a workflow node as used by estimates.
type PlanNode struct {
	// Parents are the numbers of its parents, each less than its own number.
	Parents []uint32
	// GrownBy is one more than the number of the node whose completion added this one, 0 for a submitted node. Joins
	// reports whether nodes that wait for that node wait for this one too (SPEC §23.2).
	GrownBy uint32
	Joins   bool
	Type    rota.JobType
	State   rota.NodeState
	// TookMs is how long its last attempt ran, or has run so far, in ms; 0 if it never ran.
	TookMs int64
	// ExpectedMs and SimulateMs are durations from its submitter, in ms; 0 means not given.
	ExpectedMs int64
	SimulateMs int64
}

// over reports whether the node will not run again.
func (n *PlanNode) over() bool {
	return n.State == rota.NodeSkipped || rota.JobState(n.State).Terminal()
}

// leased reports whether an attempt of the node is running.
func (n *PlanNode) leased() bool { return rota.JobState(n.State).Leased() }

// Plan is the expected duration of a workflow.
type Plan struct {
	// DurationMs is the duration of each node in ms: how long it ran, or how long it is expected to run.
	DurationMs []int64
	// Critical holds the node numbers of the longest chain by duration from a root to a leaf; ties go to the chain with
	// the most nodes. CriticalMs is its length in ms.
	Critical   []uint32
	CriticalMs int64
	// RemainingMs is the remaining work in ms: its longest chain, or its sum over the nodes that run now, whichever is
	// more. Gates add nothing to it.
	RemainingMs int64
}

// Estimate plans a workflow whose nodes are in the order of their numbers. The expected duration of a node that has not
// run is its submitter's value (expected_ms); else the mean of the completed nodes of its type in this workflow; else
// its simulated duration; else the mean of all completed nodes; else 0. A gate waits for a signal, which is not work:
// its expected duration is 0, and its wait is in no mean. O(nodes + edges).
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

// means holds the durations of completed nodes, by type and over all.
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

// longestChain returns the chain from a root to a leaf with the greatest sum of durations. Ties go to the chain with
// the most nodes, which is the depth of the graph if no duration is known; further ties to the one whose last node has
// the least number, and so on backwards.
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

// leavesOf returns, by the number of the node that grew them, the nodes that join it; nil if no node grew any.
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

// chains holds the longest chains that end with each node. In a workflow with grown nodes each node has two places: i
// is the end of node i, len(nodes)+i the end of that node and all nodes that join it.
type chains struct {
	nodes  []PlanNode
	leaves [][]uint32
	ms     []int64
	// until is the longest chain to a place, zero while unknown; end is the node that it ends with; before is the
	// node's predecessor in its chain, or the node itself at a root.
	until       []span
	before, end []uint32
	stack       []step
}

// step is a place whose chain is being calculated; next is the next place that it depends on.
type step struct {
	place uint32
	next  int
}

// after returns the k-th place that a place depends on.
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
	if c.leaves == nil || node.GrownBy == parent+1 { // the node that grew it needs only to be done
		return parent, true
	}
	return parent + n, true
}

// visit calculates the longest chain to a place, after those to all places that it depends on: an added node has a
// larger number than the nodes that wait for it.
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

// settle records the longest chain to a place, once those that it depends on are known.
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

// span is the length of a chain. The zero span means no node.
type span struct {
	ms    int64
	nodes int
}

// beyond orders chains by duration, then by number of nodes.
func (s span) beyond(t span) bool {
	if s.ms != t.ms {
		return s.ms > t.ms
	}
	return s.nodes > t.nodes
}
