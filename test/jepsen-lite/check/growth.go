package check

import (
	"fmt"
	"strings"
)

// Weight is the resource use of a node at a moment: files (connections are files) and goroutines.
type Weight struct {
	At         int64  `json:"at"`
	Node       string `json:"node"`
	Files      int64  `json:"files"`
	Goroutines int64  `json:"goroutines"`
}

// The number of resources that a run's users may hold of a node at its end and not at its beginning. A leak grows with
// each fault or call, of which a run has many more.
const (
	// maxUsers is the number of connections of users: of workloads, watchers and the harness itself, at most two each
	// while one replaces the other.
	maxUsers = 60
	// peerConnections is the number of another node's: raft and forwarded calls, both ways, with raft's pool of three,
	// and gossip.
	peerConnections = 12
	// perConnection is the number of goroutines of one: gRPC's reader, writer and keepalive on either end, and a
	// stream's handler with its own reader and sender.
	perConnection = 6
)

// checkGrowth compares the resources of nodes before the load with those when it is over and the cluster has healed.
func checkGrowth(v *view) (found []Anomaly) {
	first, last := make(map[string]Weight), make(map[string]Weight)
	var nodes []string
	for _, w := range v.Weights {
		if _, known := first[w.Node]; !known {
			first[w.Node] = w
			nodes = append(nodes, w.Node)
			continue
		}
		last[w.Node] = w
	}
	connections := int64(maxUsers + len(v.hands()) + v.Nodes*peerConnections)
	files, goroutines := int64(0), int64(0)
	for _, node := range nodes {
		a := first[node]
		b, known := last[node]
		if !known {
			v.undecided = append(v.undecided, "growth: node "+node+" was weighed once only")
			continue
		}
		files, goroutines = max(files, b.Files-a.Files), max(goroutines, b.Goroutines-a.Goroutines)
		if b.Files-a.Files > connections {
			found = append(found, Anomaly{IDs: []string{node}, At: b.At, Text: fmt.Sprintf(
				"node %s held %d files before the run and %d after it: %d more are explained", node, a.Files, b.Files,
				connections)})
		}
		if b.Goroutines-a.Goroutines > connections*perConnection {
			found = append(found, Anomaly{IDs: []string{node}, At: b.At, Text: fmt.Sprintf(
				"node %s had %d goroutines before the run and %d after it: %d more are explained", node, a.Goroutines,
				b.Goroutines, connections*perConnection)})
		}
	}
	if len(nodes) < v.Nodes {
		v.undecided = append(v.undecided, fmt.Sprintf("growth: %d nodes were weighed, of %d", len(nodes), v.Nodes))
	}
	v.figures["files_grown_most"], v.figures["goroutines_grown_most"] = files, goroutines
	return found
}

// hands returns the workers' places.
func (v *view) hands() (names []string) {
	for name := range v.lives {
		if strings.HasPrefix(name, "w") {
			names = append(names, name)
		}
	}
	return names
}
