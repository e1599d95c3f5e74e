package workflow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

const (
	// graphNodes is how many nodes are drawn one a line.
	graphNodes = 60
	// graphName and graphParents cut what would make lines too long for a terminal.
	graphName    = 40
	graphParent  = 24
	graphParents = 3
)

// nodeLook is how a node's state looks in the terminal and in Graphviz.
type nodeLook struct {
	symbol string
	// ansi is the terminal's colour, fill Graphviz's.
	ansi, fill string
}

var nodeLooks = map[rota.NodeState]nodeLook{
	rota.NodeState(rota.JobCompleted): {"✔", "32", "#c8e6c9"},
	rota.NodeState(rota.JobRunning):   {"▶", "1;36", "#90caf9"},
	rota.NodeState(rota.JobAssigned):  {"▷", "36", "#bbdefb"},
	rota.NodeState(rota.JobQueued):    {"◆", "33", "#fff59d"},
	rota.NodeState(rota.JobDelayed):   {"◇", "33", "#fff9c4"},
	rota.NodeState(rota.JobBlocked):   {"○", "90", "#eeeeee"},
	rota.NodeState(rota.JobDead):      {"✖", "1;31", "#ef9a9a"},
	rota.NodeState(rota.JobExpired):   {"✗", "31", "#ffab91"},
	rota.NodeState(rota.JobCancelled): {"⊘", "35", "#e1bee7"},
	rota.NodeWaiting:                  {"◈", "1;33", "#ffe082"},
	rota.NodeSkipped:                  {"–", "90", "#f8bbd0"},
}

func lookOf(s rota.NodeState) nodeLook {
	if look, ok := nodeLooks[s]; ok {
		return look
	}
	return nodeLook{"?", "0", "#ffffff"}
}

func (a Commands) graph() *cobra.Command {
	var dot bool
	cmd := &cobra.Command{
		Use:   "graph ID [--dot]",
		Short: "Draw a workflow's graph: in the terminal, or for Graphviz",
		Long: `Draw a workflow's graph in the terminal: its nodes by depth, each with its state, run time (~:
expected) and parents. +n means n added nodes that are waited for too, * the critical path. More
than 60 nodes are summed up by depth. NO_COLOR turns colours off.`,
		Example: "  rota workflow graph nightly-7\n  rota workflow graph nightly-7 --dot | dot -Tsvg > nightly-7.svg",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			w, err := a.whole(ctx, c, args[0])
			if err != nil {
				return err
			}
			if dot {
				return WriteDot(a.Stdout, &w)
			}
			return a.PrintOne(w, []string{string(w.ID)}, func(bool) string {
				if len(w.Nodes) > graphNodes {
					a.Talk("%d nodes are too many to draw here; for a picture: rota workflow graph %s --dot | dot -Tsvg > graph.svg",
						len(w.Nodes), w.ID)
				}
				return GraphText(&w, a.Colours())
			})
		})),
	}
	cmd.Flags().BoolVar(&dot, "dot", false, "write it in Graphviz's language")
	return a.Reads(cmd)
}

// GraphText draws a graph for people.
func GraphText(w *rota.Workflow, colours bool) string {
	joints := jointsOf(w.Nodes)
	layers := joints.layers()
	text := fmt.Sprintf("%s  %s  %s  %s", cli.Clean(string(w.ID)), w.State, progressBar(w),
		cli.Counted(w.NodeCount, "node", ""))
	if left := leftText(w); w.State == rota.WorkflowRunning && left != "" {
		text += ", left: about " + left
	}
	if len(w.Nodes) > graphNodes {
		return text + "\n\n" + layersText(w, layers)
	}
	d := &graphDrawing{w: w, joints: joints, layers: layers, colours: colours, critical: map[string]bool{}}
	for _, id := range criticalPath(w) {
		d.critical[id] = true
	}
	return text + "\n\n" + d.draw()
}

// graphDrawing draws a small graph, a line a node.
type graphDrawing struct {
	w        *rota.Workflow
	joints   *joints
	layers   [][]int
	colours  bool
	critical map[string]bool
}

func (d *graphDrawing) draw() string {
	var rows [][]string // the cells after the symbol
	widths := make([]int, 3)
	for i := range d.w.Nodes {
		cells := d.cells(&d.w.Nodes[i])
		for k := range widths {
			widths[k] = max(widths[k], text.StringWidthWithoutEscSequences(cells[k]))
		}
		rows = append(rows, cells)
	}
	var out strings.Builder
	for depth, layer := range d.layers {
		for k, i := range layer {
			number := ""
			if k == 0 {
				number = fmt.Sprint(depth)
			}
			n := &d.w.Nodes[i]
			mark := " "
			if d.critical[n.ID] {
				mark = "*"
			}
			line := lookOf(n.State).symbol + mark
			for c, width := range widths {
				line += text.Pad(rows[i][c], width+2, ' ')
			}
			parents := d.parents(n, depth)
			out.WriteString(strings.TrimRight(fmt.Sprintf("%3s %s %s%s", number, bracket(k, len(layer)),
				d.colour(line, n), parents), " ") + "\n")
		}
	}
	out.WriteString("\n" + d.legend() + "\n")
	return out.String()
}

// bracket joins the lines of one depth.
func bracket(place, of int) string {
	switch {
	case of == 1:
		return "─"
	case place == 0:
		return "┬"
	case place == of-1:
		return "└"
	default:
		return "├"
	}
}

// cells are a node's name, its time and where it is or why it is not.
func (d *graphDrawing) cells(n *rota.WorkflowNode) []string {
	where := string(n.Worker)
	if n.State == rota.NodeState(rota.JobQueued) || n.State == rota.NodeState(rota.JobDelayed) ||
		n.State == rota.NodeState(rota.JobBlocked) {
		where = ""
	}
	if reason := failureText(n.Reason); reason != "" && n.State != rota.NodeState(rota.JobCompleted) {
		where = reason
	}
	return []string{ending(n.ID, graphName), nodeTook(n), cli.Clean(text.Snip(where, 20, "…"))}
}

// parents names a node's parents: few one by one, a whole layer as such.
func (d *graphDrawing) parents(n *rota.WorkflowNode, depth int) string {
	if len(n.Parents) == 0 {
		return ""
	}
	if above := d.layers[depth-1]; len(n.Parents) > graphParents && len(n.Parents) == len(above) &&
		!slices.ContainsFunc(above, func(i int) bool {
			return !slices.Contains(n.Parents, d.w.Nodes[i].ID) || d.joints.with(n, d.w.Nodes[i].ID) > 0
		}) {
		return fmt.Sprintf("← all %d of %d", len(above), depth-1)
	}
	most := graphParents
	if len(n.Parents) == most+1 {
		most++ // "and 1 more" is no shorter
	}
	var names []string
	for _, p := range n.Parents[:min(most, len(n.Parents))] {
		name := ending(p, graphParent)
		if joined := d.joints.with(n, p); joined > 0 {
			name += fmt.Sprintf("+%d", joined)
		}
		names = append(names, name)
	}
	shown := "← " + strings.Join(names, " ")
	if more := len(n.Parents) - most; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown
}

// ending keeps the end of a long id: that is where ids of many nodes differ.
func ending(id string, most int) string {
	runes := []rune(cli.Clean(id))
	if len(runes) <= most {
		return string(runes)
	}
	return "…" + string(runes[len(runes)-most+1:])
}

// colour colours a node's part of a line, without the blanks at its end.
func (d *graphDrawing) colour(line string, n *rota.WorkflowNode) string {
	if !d.colours {
		return line
	}
	code := lookOf(n.State).ansi
	if d.critical[n.ID] && !strings.HasPrefix(code, "1;") {
		code = "1;" + code
	}
	bare := strings.TrimRight(line, " ")
	return "\x1b[" + code + "m" + bare + "\x1b[0m" + line[len(bare):]
}

// legend explains the symbols that stand above.
func (d *graphDrawing) legend() string {
	var parts []string
	for s := rota.NodeState(rota.JobBlocked); s <= rota.NodeWaiting; s++ {
		if slices.ContainsFunc(d.w.Nodes, func(n rota.WorkflowNode) bool { return n.State == s }) {
			part := lookOf(s).symbol + " " + s.String()
			if d.colours {
				part = "\x1b[" + lookOf(s).ansi + "m" + part + "\x1b[0m"
			}
			parts = append(parts, part)
		}
	}
	if slices.ContainsFunc(d.w.Nodes, func(n rota.WorkflowNode) bool {
		return slices.ContainsFunc(n.Parents, func(p string) bool { return d.joints.with(&n, p) > 0 })
	}) {
		parts = append(parts, "+n and the n nodes that join it")
	}
	if len(d.critical) > 0 {
		parts = append(parts, "* critical path"+cli.Prefixed(", ", cli.About(d.w.CriticalPathLength)))
	}
	return strings.Join(parts, "   ")
}

// layersText sums a large graph up by depth.
func layersText(w *rota.Workflow, layers [][]int) string {
	type layer struct {
		depth, nodes  int
		states, types string
	}
	var rows []layer
	for depth, nodes := range layers {
		var counts rota.NodeCounts
		var types []string
		for _, i := range nodes {
			n := &w.Nodes[i]
			Count(&counts, n.State)
			if t := string(n.Type); !slices.Contains(types, t) && len(types) < 1000 {
				types = append(types, t)
			}
		}
		var states []string
		for _, s := range stateCounts(counts) {
			states = append(states, fmt.Sprintf("%s %d %s", lookOf(s.State).symbol, s.Nodes, s.State))
		}
		shown := strings.Join(types[:min(3, len(types))], " ")
		if len(types) > 3 {
			shown += fmt.Sprintf(" and %d more", len(types)-3)
		}
		rows = append(rows, layer{depth, len(nodes), strings.Join(states, "  "), shown})
	}
	const most = 200
	out := cli.RenderList([]cli.Column[layer]{
		{Head: "DEPTH", Cell: func(l layer) any { return l.depth }},
		{Head: "NODES", Cell: func(l layer) any { return l.nodes }},
		{Head: "STATES", Cell: func(l layer) any { return l.states }},
		{Head: "TYPES", Most: 60, Cell: func(l layer) any { return l.types }},
	}, rows[:min(most, len(rows))], false)
	if len(rows) > most {
		out += fmt.Sprintf("and %d more depths\n", len(rows)-most)
	}
	if len(criticalPath(w)) > 0 {
		out += "\ncritical path: " + cli.Clean(criticalText(w, false)) + "\n"
	}
	return out
}

// Count adds one node to its state.
func Count(c *rota.NodeCounts, s rota.NodeState) {
	switch rota.JobState(s) {
	case rota.JobState(rota.NodeWaiting):
		c.Waiting++
	case rota.JobBlocked:
		c.Blocked++
	case rota.JobDelayed:
		c.Delayed++
	case rota.JobQueued:
		c.Queued++
	case rota.JobAssigned:
		c.Assigned++
	case rota.JobRunning:
		c.Running++
	case rota.JobCompleted:
		c.Completed++
	case rota.JobDead:
		c.Dead++
	case rota.JobExpired:
		c.Expired++
	case rota.JobCancelled:
		c.Cancelled++
	default:
		c.Skipped++
	}
}

// dotQuote makes a quoted string of Graphviz: a backslash begins an escape there,
// and control characters would end the line or worse.
func dotQuote(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range cli.Clean(strings.ToValidUTF8(s, string(utf8.RuneError))) {
		if r == '"' || r == '\\' {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	out.WriteByte('"')
	return out.String()
}
