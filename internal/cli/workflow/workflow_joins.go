package workflow

import (
	"slices"

	"github.com/rotasched/rota"
)

// joints are what a workflow's nodes wait for beside the parents that they name: whatever
// waits for a node that has grown others also waits for those that join it (SPEC §23.2).
type joints struct {
	nodes []rota.WorkflowNode
	at    map[string]int
	// joined counts, of a node, those that join it, and those that join these; awaited says that
	// some node waits for it and for them.
	joined  []int
	awaited []bool
}

func jointsOf(nodes []rota.WorkflowNode) *joints {
	j := &joints{nodes: nodes, at: make(map[string]int, len(nodes)), joined: make([]int, len(nodes)),
		awaited: make([]bool, len(nodes))}
	for i := range nodes {
		j.at[nodes[i].ID] = i
	}
	for i := range slices.Backward(nodes) { // what was added has larger numbers
		if nodes[i].Joins {
			j.joined[j.at[nodes[i].GrownBy]] += 1 + j.joined[i]
		}
	}
	for i := range nodes {
		n := &nodes[i]
		for _, p := range n.Parents {
			if p != n.GrownBy {
				j.awaited[j.at[p]] = true
			}
		}
	}
	for i := range nodes {
		if n := &nodes[i]; n.Joins && j.awaited[j.at[n.GrownBy]] {
			j.awaited[i] = true
		}
	}
	return j
}

// with returns how many nodes a node waits for with a parent that it names.
func (j *joints) with(n *rota.WorkflowNode, parent string) int {
	if parent == n.GrownBy {
		return 0
	}
	return j.joined[j.at[parent]]
}

// drawn reports whether a node has a point at which what joins it meets.
func (j *joints) drawn(i int) bool { return j.awaited[i] && j.joined[i] > 0 }

// point is the name of that point. It has a blank, which no node's id has.
func (j *joints) point(i int) string { return "join " + j.nodes[i].ID }

// end is where a node and all that joins it is over.
func (j *joints) end(i int) string {
	if j.drawn(i) {
		return j.point(i)
	}
	return j.nodes[i].ID
}

// edges calls yield for each edge from or to a point.
func (j *joints) edges(yield func(from, to string)) {
	for i := range j.nodes {
		n := &j.nodes[i]
		if by := j.at[n.GrownBy]; n.Joins && j.drawn(by) {
			yield(j.end(i), j.point(by))
		}
		for _, p := range n.Parents {
			if by := j.at[p]; p != n.GrownBy && j.drawn(by) {
				yield(j.point(by), n.ID)
			}
		}
	}
}

// way calls yield for the edges by which a step of the critical path goes: one, or those over
// points.
func (j *joints) way(from, to string, yield func(from, to string)) {
	n := &j.nodes[j.at[to]]
	at, last := j.at[from], from
	for !slices.Contains(n.Parents, j.nodes[at].ID) {
		if !j.nodes[at].Joins {
			return
		}
		at = j.at[j.nodes[at].GrownBy]
		yield(last, j.point(at))
		last = j.point(at)
	}
	yield(last, to)
}

// layers sorts nodes by depth: the longest way from a root, also through what joins a parent.
func (j *joints) layers() (layers [][]int) {
	size := len(j.nodes)
	after, waits, depth := make([][]int, 2*size), make([]int, 2*size), make([]int, 2*size)
	edge := func(from, to int) {
		after[from] = append(after[from], to)
		waits[to]++
	}
	for i := range j.nodes { // size+i is the end of all that joins i
		n := &j.nodes[i]
		edge(i, size+i)
		for _, p := range n.Parents {
			if p == n.GrownBy {
				edge(j.at[p], i)
			} else {
				edge(size+j.at[p], i)
			}
		}
		if n.Joins {
			edge(size+i, size+j.at[n.GrownBy])
		}
	}
	var free []int
	for i := range waits {
		if waits[i] == 0 {
			free = append(free, i)
		}
	}
	for len(free) > 0 {
		i := free[len(free)-1]
		free = free[:len(free)-1]
		for _, to := range after[i] {
			step := 1
			if to >= size {
				step = 0
			}
			depth[to] = max(depth[to], depth[i]+step)
			if waits[to]--; waits[to] == 0 {
				free = append(free, to)
			}
		}
	}
	for i := range size {
		for len(layers) <= depth[i] {
			layers = append(layers, nil)
		}
		layers[depth[i]] = append(layers[depth[i]], i)
	}
	return layers
}
