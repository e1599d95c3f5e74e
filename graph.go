package rota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Graph is a workflow as stored in the log: its nodes are numbered in topological order, with ties in the order of
// submission, so that each parent has a smaller number.
type Graph struct {
	// Order[k] is the position in Nodes of the node with number k.
	Order []int
	// Parents[k] are the numbers of its parents, ascending, each once.
	Parents [][]uint32
	// Edges is the number of edges.
	Edges int
}

// Arrange checks a workflow and numbers its nodes (SPEC §11.1). It rejects duplicate ids, edges to missing nodes or to
// the same node, cycles (the error names their nodes), and workflows beyond the limits. It sets the queue and the
// tenant, in the workflow and in its nodes, if the submitter left them empty. It is O(nodes + edges), except for
// sorting each node's parents and the ready nodes.
func (w *WorkflowSpec) Arrange() (*Graph, error) {
	if err := w.checkFrame(); err != nil {
		return nil, err
	}
	if err := w.fillNodes(); err != nil {
		return nil, err
	}
	a := arranger{spec: w, at: make(map[string]uint32, len(w.Nodes))}
	for _, step := range []func() error{a.name, a.link, a.sort} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return a.number(), nil
}

// checkFrame checks the fields of a workflow other than its nodes.
func (w *WorkflowSpec) checkFrame() error {
	if w.Queue == "" {
		w.Queue = DefaultQueue
	}
	if w.Tenant == "" {
		w.Tenant = DefaultTenant
	}
	if err := CheckID("id", w.ID); err != nil {
		return err
	}
	if err := CheckID("queue", w.Queue); err != nil {
		return err
	}
	if err := CheckID("tenant", w.Tenant); err != nil {
		return err
	}
	if w.OnFailure > FailureContinue {
		return NotOneOf("on_failure", w.OnFailure.String(), failurePolicyNames...)
	}
	if err := checkLabelMap("labels", w.Labels); err != nil {
		return err
	}
	if n := len(w.Nodes); n == 0 || n > MaxWorkflowNodes {
		return Refusef(KindInvalid, "nodes", "nodes: got %d, want 1 to %d", n, MaxWorkflowNodes)
	}
	return nil
}

// fillNodes completes the nodes' templates and checks each.
func (w *WorkflowSpec) fillNodes() error {
	bytes := int64(0)
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if CheckNodeID("id", n.ID) != nil {
			return CheckNodeID(fmt.Sprintf("nodes[%d].id", i), n.ID)
		}
		if n.Queue == "" {
			n.Queue = w.Queue
		}
		if n.Tenant == "" {
			n.Tenant = w.Tenant
		}
		if n.Tenant != w.Tenant {
			return Refusef(KindInvalid, fmt.Sprintf("nodes[%d].tenant", i),
				"%s has tenant %q, and its workflow has tenant %q: omit the node's tenant",
				w.node(i), shorten(string(n.Tenant)), w.Tenant)
		}
		if err := n.CheckTemplate(MaxPayloadBytes); err != nil {
			return w.ofNode(i, err)
		}
		bytes += n.templateBytes() + int64(len(n.ID))
	}
	if bytes > MaxWorkflowBytes {
		return Refusef(KindInvalid, "nodes",
			"nodes too long: got %d bytes in all, maximum %d; store large data elsewhere and name it in payloads",
			bytes, MaxWorkflowBytes)
	}
	return nil
}

// node returns a description of a node for messages, by its id and its position.
func (w *WorkflowSpec) node(i int) string {
	return fmt.Sprintf("node %q (nodes[%d])", shorten(w.Nodes[i].ID), i)
}

// ofNode adds to an error the node whose template was refused.
func (w *WorkflowSpec) ofNode(i int, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	return Refusef(e.Kind, fmt.Sprintf("nodes[%d].%s", i, e.Subject), "%s: %s", w.node(i), e.Text)
}

// arranger numbers the nodes of one workflow. Until the last step nodes are identified by their positions.
type arranger struct {
	spec *WorkflowSpec
	at   map[string]uint32
	// parents and children of a node, ascending, each once.
	parents, children adjacency
	// order are the places in topological order.
	order []uint32
}

// adjacency holds lists of positions: the list of i is list[from[i]:from[i+1]].
type adjacency struct{ from, list []uint32 }

func (a *adjacency) of(i uint32) []uint32 { return a.list[a.from[i]:a.from[i+1]] }

// group makes lists of pairs: keys[i] gets values[i], in the order of the pairs.
func group(n int, keys, values []uint32) adjacency {
	a := adjacency{make([]uint32, n+1), make([]uint32, len(keys))}
	for _, k := range keys {
		a.from[k+1]++
	}
	for i := range n {
		a.from[i+1] += a.from[i]
	}
	next := slices.Clone(a.from)
	for i, k := range keys {
		a.list[next[k]] = values[i]
		next[k]++
	}
	return a
}

// name files the nodes' ids.
func (a *arranger) name() error {
	for i := range a.spec.Nodes {
		id := a.spec.Nodes[i].ID
		if first, twice := a.at[id]; twice {
			return Refusef(KindInvalid, fmt.Sprintf("nodes[%d].id", i),
				"nodes[%d] and nodes[%d] have the same id %q: give each node its own id", first, i, id)
		}
		a.at[id] = uint32(i)
	}
	return nil
}

// link resolves the edges, given in the nodes and separately.
func (a *arranger) link() error {
	told := len(a.spec.Edges)
	for i := range a.spec.Nodes {
		told += len(a.spec.Nodes[i].Parents)
	}
	from, to := make([]uint32, 0, told), make([]uint32, 0, told)
	for i := range a.spec.Nodes {
		for j, id := range a.spec.Nodes[i].Parents {
			parent, known := a.at[id]
			if !known {
				return Refusef(KindInvalid, fmt.Sprintf("nodes[%d].parents[%d]", i, j),
					"%s has the parent %q, which is not a node of the workflow", a.spec.node(i), shorten(id))
			}
			from, to = append(from, parent), append(to, uint32(i))
		}
	}
	for i, e := range a.spec.Edges {
		parent, known := a.at[e.From]
		child, knownTo := a.at[e.To]
		switch {
		case !known:
			return a.unknownEnd(i, "from", e.From, e)
		case !knownTo:
			return a.unknownEnd(i, "to", e.To, e)
		}
		from, to = append(from, parent), append(to, child)
	}
	for i := range from {
		if from[i] == to[i] {
			n := int(from[i])
			return Refusef(KindInvalid, fmt.Sprintf("nodes[%d].parents", n), "%s is its own parent: remove that edge",
				a.spec.node(n))
		}
	}
	return a.once(from, to)
}

func (a *arranger) unknownEnd(i int, end, id string, e Edge) error {
	return Refusef(KindInvalid, fmt.Sprintf("edges[%d].%s", i, end),
		"edges[%d] goes from %q to %q, and %q is not a node of the workflow",
		i, shorten(e.From), shorten(e.To), shorten(id))
}

// once sorts the parents of each node and removes duplicates.
func (a *arranger) once(from, to []uint32) error {
	n := len(a.spec.Nodes)
	all := group(n, to, from)
	from, to = from[:0], to[:0]
	a.parents.from = make([]uint32, n+1)
	for i := range n {
		list := all.of(uint32(i))
		slices.Sort(list)
		for j, parent := range list {
			if j == 0 || parent != list[j-1] {
				from, to = append(from, parent), append(to, uint32(i))
			}
		}
		a.parents.from[i+1] = uint32(len(from))
	}
	if len(from) > MaxWorkflowEdges {
		return TooMany("edges", len(from), MaxWorkflowEdges)
	}
	a.parents.list = from
	a.children = group(n, from, to)
	return nil
}

// sort finds the topological order: of the nodes whose parents are all placed, the one with the smallest position
// always comes next.
func (a *arranger) sort() error {
	n := uint32(len(a.spec.Nodes))
	waiting := make([]uint32, n)
	a.order = make([]uint32, 0, n)
	ready := make(placeHeap, 0, n)
	for i := range n {
		if waiting[i] = uint32(len(a.parents.of(i))); waiting[i] == 0 {
			ready.push(i)
		}
	}
	for len(ready) > 0 {
		i := ready.pop()
		a.order = append(a.order, i)
		for _, child := range a.children.of(i) {
			if waiting[child]--; waiting[child] == 0 {
				ready.push(child)
			}
		}
	}
	if len(a.order) == int(n) {
		return nil
	}
	cycle := a.cycle(waiting)
	return Refusef(KindInvalid, "edges", "the workflow has a cycle: %s; remove one of its edges", a.show(cycle))
}

// cycle finds a cycle among the nodes that would wait forever. Each of them has a parent that would too, so a walk from
// parent to parent reaches a cycle. Of all cycles through its first node, cycle returns a shortest one. Finding the
// shortest of all would need a search from each node.
func (a *arranger) cycle(waiting []uint32) []uint32 {
	walked := make([]bool, len(waiting))
	at := uint32(slices.IndexFunc(waiting, func(n uint32) bool { return n > 0 }))
	stuck := func(i uint32) bool { return waiting[i] > 0 }
	for !walked[at] {
		walked[at] = true
		parents := a.parents.of(at)
		at = parents[slices.IndexFunc(parents, stuck)]
	}
	clear(walked)
	before := make([]uint32, len(waiting))
	for queue := []uint32{at}; len(queue) > 0; queue = queue[1:] {
		for _, child := range a.children.of(queue[0]) {
			if child == at {
				return a.trace(before, queue[0], at)
			}
			if stuck(child) && !walked[child] {
				walked[child], before[child] = true, queue[0]
				queue = append(queue, child)
			}
		}
	}
	panic("rota: a node on a cycle has no way back to itself")
}

// trace returns the path from one position to another, given the predecessor of each.
func (a *arranger) trace(before []uint32, to, from uint32) []uint32 {
	way := []uint32{to}
	for ; to != from; way = append(way, to) {
		to = before[to]
	}
	slices.Reverse(way)
	return way
}

// cycleShown is the maximum number of nodes of a cycle that a message names.
const cycleShown = 20

func (a *arranger) show(cycle []uint32) string {
	var names []string
	for _, i := range cycle[:min(len(cycle), cycleShown)] {
		names = append(names, shorten(a.spec.Nodes[i].ID))
	}
	if len(cycle) > cycleShown {
		names = append(names, fmt.Sprintf("… (%d nodes)", len(cycle)))
	}
	return strings.Join(append(names, names[0]), " → ")
}

// number assigns numbers to the nodes, and identifies parents by them.
func (a *arranger) number() *Graph {
	n := len(a.order)
	g := &Graph{Order: make([]int, n), Parents: make([][]uint32, n), Edges: len(a.parents.list)}
	numberOf := make([]uint32, n)
	for number, place := range a.order {
		numberOf[place] = uint32(number)
	}
	arena := make([]uint32, 0, g.Edges)
	for number, place := range a.order {
		first := len(arena)
		for _, parent := range a.parents.of(place) {
			arena = append(arena, numberOf[parent])
		}
		g.Order[number] = int(place)
		g.Parents[number] = arena[first:len(arena):len(arena)]
		slices.Sort(g.Parents[number])
	}
	return g
}

// placeHeap gives the least place first.
type placeHeap []uint32

func (h *placeHeap) push(place uint32) {
	*h = append(*h, place)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up] <= s[i] {
			return
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

func (h *placeHeap) pop() uint32 {
	s := *h
	least, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		down := 2*i + 1
		if down+1 < last && s[down+1] < s[down] {
			down++
		}
		if down >= last || s[i] <= s[down] {
			return least
		}
		s[i], s[down] = s[down], s[i]
		i = down
	}
}

// templateBytes is the approximate size of a stored template, and never more: the state machine counts exact bytes, as
// its rows are encoded, but only when the nodes have arrived.
func (s *JobSpec) templateBytes() int64 {
	n := len(s.Payload) + len(s.ExpectedDigest) + len(s.Queue) + len(s.Type) + len(s.Zone) + len(s.Domain) + len(
		s.Worker)
	for _, list := range [...][]string{s.Requires, s.RegionsAllow, s.RegionsDeny, s.DataKeys, s.Keys} {
		for _, text := range list {
			n += 1 + len(text)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		n += 2 + len(k) + len(s.Labels[k])
	}
	for _, k := range slices.Sorted(maps.Keys(s.Limits)) {
		n += 2 + len(k)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Headers)) {
		n += 2 + len(k) + len(s.Headers[k])
	}
	return int64(n)
}
