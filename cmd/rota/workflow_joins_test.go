package main

import (
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli/workflow"
)

// grownWorkflow has a node that added three others, of which b counts only inside the group, and the last added two
// more; d is detached.
func grownWorkflow() rota.Workflow {
	done := rota.NodeState(rota.JobCompleted)
	return rota.Workflow{ID: "g", State: rota.WorkflowRunning, NodeCount: 9, Progress: 50,
		CriticalPath:       []string{"list", "b", "c", "cb", "sum", "mail"},
		CriticalPathLength: time.Second, Nodes: []rota.WorkflowNode{
			{ID: "list", Type: "t", State: done},
			{ID: "sum", Type: "t", State: rota.NodeState(rota.JobBlocked), Parents: []string{"list"}},
			{ID: "mail", Type: "t", State: rota.NodeState(rota.JobBlocked), Parents: []string{"sum"}},
			{ID: "a", Type: "t", State: done, Parents: []string{"list"}, GrownBy: "list", Joins: true},
			{ID: "b", Type: "t", State: done, Parents: []string{"list"}, GrownBy: "list"},
			{ID: "c", Type: "t", State: done, Parents: []string{"b"}, GrownBy: "list", Joins: true},
			{ID: "ca", Type: "t", State: done, Parents: []string{"c"}, GrownBy: "c", Joins: true},
			{ID: "cb", Type: "t", State: done, Parents: []string{"c"}, GrownBy: "c", Joins: true},
			{ID: "d", Type: "t", State: done, Parents: []string{"cb"}, GrownBy: "cb"},
		}}
}

// A node's joins come before the nodes that depend on it, and are named.
func TestGraph_grown(t *testing.T) {
	t.Parallel()
	w := grownWorkflow()
	const want = `g  RUNNING  ███████████████░░░░░░░░░░░░░░░ 50%  9 nodes

  0 ─ ✔*list  0s
  1 ┬ ✔ a     0s    ← list
    └ ✔*b     0s    ← list
  2 ─ ✔*c     0s    ← b
  3 ┬ ✔ ca    0s    ← c
    └ ✔*cb    0s    ← c
  4 ┬ ○*sum         ← list+4
    └ ✔ d     0s    ← cb
  5 ─ ○*mail        ← sum

○ BLOCKED   ✔ COMPLETED   +n and the n nodes that join it   * critical path, 1s
`
	if got := workflow.GraphText(&w, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var dot strings.Builder
	if err := workflow.WriteDot(&dot, &w); err != nil {
		t.Fatal(err)
	}
	const bold = ` [penwidth=3, color="#212121"]`
	for _, line := range []string{`"join list" [shape=point`, `"join c" [shape=point`, `"a" -> "join list";`,
		`"join c" -> "join list"` + bold, `"ca" -> "join c";`,
		`"cb" -> "join c"` + bold, `"join list" -> "sum"` + bold, `"list" -> "sum";`, `"list" -> "a";`,
		`"b" -> "c"` + bold, `"sum" -> "mail"` + bold, `"cb" -> "d";`} {
		if strings.Count(dot.String(), "  "+line) != 1 {
			t.Errorf("%q does not occur exactly once:\n%s", line, dot.String())
		}
	}
	if n := strings.Count(dot.String(), " -> "); n != 13 {
		t.Errorf("got %d edges, want 13:\n%s", n, dot.String())
	}
}
