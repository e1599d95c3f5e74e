package main

import "fmt"

// checkHistory wants every node to show the same ended jobs (SPEC §10.5).
func checkHistory(v *view) (found []Anomaly) {
	listed := 0
	for i := range v.Shown {
		n := &v.Shown[i]
		if n.Error != "" {
			found = append(found, Anomaly{IDs: []string{n.Node}, Text: fmt.Sprintf("node %s did not show its history: %s", n.Node,
				n.Error)})
		}
		for _, text := range n.Differs {
			found = append(found, Anomaly{IDs: []string{n.Node}, Text: fmt.Sprintf("node %s %s", n.Node, text)})
		}
		if n.Listed != v.Shown[0].Listed {
			found = append(found, Anomaly{IDs: []string{n.Node}, Text: fmt.Sprintf("node %s lists %d ended jobs, node %s lists %d",
				n.Node, n.Listed, v.Shown[0].Node, v.Shown[0].Listed)})
		}
		listed = max(listed, n.Listed)
	}
	if len(v.Shown) < v.Nodes {
		found = append(found, Anomaly{Text: fmt.Sprintf("the history of %d nodes was read, of %d it should", len(v.Shown),
			v.Nodes)})
	}
	v.figures["history_jobs"], v.figures["history_nodes"] = listed, len(v.Shown)
	return found
}
