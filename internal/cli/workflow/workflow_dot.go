package workflow

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/rotasched/rota"
)

// WriteDot writes a workflow in Graphviz's language: nodes filled by state, the
// critical path bold, a legend of the states that occur.
func WriteDot(to io.Writer, w *rota.Workflow) error {
	out := bufio.NewWriterSize(to, 64<<10)
	title := fmt.Sprintf("%s  %s  %d%%", w.ID, w.State, w.Progress)
	fmt.Fprintf(out, "digraph %s {\n", dotQuote(string(w.ID)))
	fmt.Fprintf(out, "  label=%s; labelloc=t; rankdir=TB;\n", dotQuote(title))
	fmt.Fprint(out, "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11];\n")
	fmt.Fprint(out, "  edge [color=\"#757575\"];\n")
	path, joints := criticalPath(w), jointsOf(w.Nodes)
	critical := make(map[string]bool, len(path))
	steps := make(map[[2]string]bool, len(path))
	for i, id := range path {
		critical[id] = true
		if i > 0 {
			joints.way(path[i-1], id, func(from, to string) { steps[[2]string{from, to}] = true })
		}
	}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		fmt.Fprintf(out, "  %s [label=%s, fillcolor=\"%s\", tooltip=%s", dotQuote(n.ID), dotLabel(n),
			lookOf(n.State).fill, dotQuote(dotTip(n)))
		if critical[n.ID] {
			fmt.Fprint(out, ", penwidth=3")
		}
		fmt.Fprint(out, "];\n")
	}
	for i := range w.Nodes {
		if joints.drawn(i) { // where what was added meets
			fmt.Fprintf(out, "  %s [shape=point, label=\"\", tooltip=%s];\n", dotQuote(joints.point(i)),
				dotQuote("what joins "+w.Nodes[i].ID))
		}
	}
	edge := func(from, to string) {
		fmt.Fprintf(out, "  %s -> %s", dotQuote(from), dotQuote(to))
		if steps[[2]string{from, to}] {
			fmt.Fprint(out, " [penwidth=3, color=\"#212121\"]")
		}
		fmt.Fprint(out, ";\n")
	}
	for i := range w.Nodes {
		for _, p := range w.Nodes[i].Parents {
			edge(p, w.Nodes[i].ID)
		}
	}
	joints.edges(edge)
	dotLegend(out, w, len(path) > 0)
	fmt.Fprint(out, "}\n")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write graph: %w", err)
	}
	return nil
}

// dotLabel is what stands in a node's box: its id, its type where that says more,
// and its time.
func dotLabel(n *rota.WorkflowNode) string {
	lines := []string{n.ID}
	if string(n.Type) != n.ID {
		lines = append(lines, string(n.Type))
	}
	if took := nodeTook(n); took != "" {
		lines = append(lines, took)
	}
	for i, line := range lines {
		quoted := dotQuote(line)
		lines[i] = quoted[1 : len(quoted)-1]
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}

// dotTip is what a picture in a browser tells of a node.
func dotTip(n *rota.WorkflowNode) string {
	tip := n.State.String()
	if n.Worker != "" {
		tip += " on " + string(n.Worker)
	}
	if reason := failureText(n.Reason); reason != "" {
		tip += ", " + reason
	}
	return tip
}

// dotLegend explains the colours. Its nodes' ids have a blank, which no node's has.
func dotLegend(out io.Writer, w *rota.Workflow, path bool) {
	fmt.Fprint(out, "  subgraph \"cluster legend\" {\n    label=\"state\"; fontname=\"Helvetica\"; fontsize=10; color=\"#bdbdbd\";\n")
	fmt.Fprint(out, "    node [fontsize=9, height=0.2, margin=\"0.08,0.03\"];\n")
	present := map[rota.NodeState]bool{}
	for i := range w.Nodes {
		present[w.Nodes[i].State] = true
	}
	for s := rota.NodeState(rota.JobBlocked); s <= rota.NodeWaiting; s++ {
		if present[s] {
			fmt.Fprintf(out, "    %s [label=\"%s\", fillcolor=\"%s\"];\n", dotQuote("legend "+s.String()), s,
				lookOf(s).fill)
		}
	}
	if path {
		fmt.Fprint(out, "    \"legend critical\" [label=\"critical path\", fillcolor=\"#ffffff\", penwidth=3];\n")
	}
	fmt.Fprint(out, "  }\n")
}
