package check

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rotasched/rota"
)

// checkHistory requires every node to show the same ended jobs (SPEC §10.5).
func checkHistory(v *view) (found []Anomaly) {
	listed := 0
	for i := range v.Shown {
		n := &v.Shown[i]
		if n.Error != "" {
			found = append(found, Anomaly{IDs: []string{n.Node},
				Text: fmt.Sprintf("node %s did not show its history: %s", n.Node,
					n.Error)})
		}
		for _, text := range n.Differs {
			found = append(found, Anomaly{IDs: []string{n.Node}, Text: fmt.Sprintf("node %s %s", n.Node, text)})
		}
		if n.Listed != v.Shown[0].Listed {
			found = append(found, Anomaly{IDs: []string{n.Node},
				Text: fmt.Sprintf("node %s lists %d ended jobs, node %s lists %d",
					n.Node, n.Listed, v.Shown[0].Node, v.Shown[0].Listed)})
		}
		listed = max(listed, n.Listed)
	}
	if len(v.Shown) < v.Nodes {
		found = append(found, Anomaly{Text: fmt.Sprintf("the history of %d nodes was read, of %d it should",
			len(v.Shown),
			v.Nodes)})
	}
	v.figures["history_jobs"], v.figures["history_nodes"] = listed, len(v.Shown)
	return found
}

const (
	// maxRuns and maxOdd bound the parts that are kept of a stream that differs.
	maxRuns = 1_000
	maxOdd  = 20
)

// Draw selects some of the ids, the same in each run.
func Draw(r *rand.Rand, from map[string]string, n int) []string {
	ids := make([]string, 0, len(from))
	for id := range from {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	r.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
	return ids[:min(n, len(ids))]
}

// TextOf returns all of a job except where it was read from.
func TextOf(job rota.Job) string {
	job.Archived = false
	text, err := json.Marshal(job)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Differences describes jobs that a node shows differently from the first.
func Differences(how string, first, node map[string]string) (found []string) {
	for _, id := range Draw(rand.New(rand.NewPCG(1, 1)), first, len(first)) {
		if text, there := node[id]; !there {
			found = append(found, fmt.Sprintf("%s no job %s", how, id))
		} else if text != first[id] {
			found = append(found, fmt.Sprintf("%s job %s as %s, and the first node as %s", how, id, text, first[id]))
		}
		if len(found) >= maxOdd {
			return found
		}
	}
	for _, id := range Draw(rand.New(rand.NewPCG(1, 1)), node, len(node)) {
		if _, there := first[id]; !there && len(found) < maxOdd {
			found = append(found, fmt.Sprintf("%s job %s, which the first node does not", how, id))
		}
	}
	return found
}
