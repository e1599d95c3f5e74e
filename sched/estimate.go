package sched

import "github.com/rotasched/rota"

// PlanNode is a node of a workflow as estimates see it.
type PlanNode struct {
	// Parents are the numbers of its parents, each less than its own.
	Parents []uint32
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
	// RemainingMs is the time to the end: the longest chain of what is left, or what
	// is left over the nodes that run now, whichever is more.
	RemainingMs int64
}

// Estimate plans a workflow whose nodes stand in the order of their numbers. A node
// that has not run is expected to take what its submitter expects (expected_ms); else
// the mean of the completed nodes of its type in this workflow; else what it
// simulates; else the mean of all that completed; else nothing. O(nodes + edges).
func Estimate(nodes []PlanNode) Plan {
	p := Plan{DurationMs: make([]int64, len(nodes))}
	means := meansOf(nodes)
	rest := make([]int64, len(nodes))
	sum, leased := int64(0), int64(0)
	for i := range nodes {
		n := &nodes[i]
		p.DurationMs[i] = n.TookMs
		if n.over() {
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
		if n := &nodes[i]; n.State == rota.NodeState(rota.JobCompleted) {
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
	if len(nodes) == 0 {
		return nil, 0
	}
	// until[i] is the longest chain that ends with i; before[i] is what stands before it
	// there, i itself at a root.
	until, before, inner := make([]span, len(nodes)), make([]uint32, len(nodes)), make([]bool, len(nodes))
	for i := range nodes {
		before[i] = uint32(i)
		var longest span
		for _, parent := range nodes[i].Parents {
			inner[parent] = true
			if until[parent].beyond(longest) {
				longest, before[i] = until[parent], parent
			}
		}
		until[i] = span{longest.ms + ms[i], longest.nodes + 1}
	}
	var last uint32
	var longest span
	for i := range nodes {
		if !inner[i] && until[i].beyond(longest) {
			last, longest = uint32(i), until[i]
		}
	}
	chain = make([]uint32, longest.nodes)
	for at, left := last, longest.nodes; left > 0; at = before[at] {
		left--
		chain[left] = at
	}
	return chain, longest.ms
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
