package workflow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/millis"
)

const (
	// showNodes is how many nodes `workflow show` tells one by one.
	showNodes = 50
	// showFailed is how many that did not complete it names where it sums up.
	showFailed = 10
	// barCells is the length of a bar of progress.
	barCells = 30
)

func (a Commands) show() *cobra.Command {
	return a.Reads(&cobra.Command{
		Use:   "show ID",
		Short: "Show one workflow with its nodes, progress and critical path",
		Long: `Show one workflow with its nodes, progress, critical path and remaining time. More than 50 nodes
are summed up by type; -o wide and -o json show all.`,
		Example: "  rota workflow show nightly-7\n  rota workflow show nightly-7 -o json | jq '.nodes[] | select(.state==\"DEAD\")'",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			w, err := a.whole(ctx, c, args[0])
			if err != nil {
				return err
			}
			return a.Print(ctx, c, w)
		})),
	})
}

// whole reads a workflow with its nodes.
func (a Commands) whole(ctx context.Context, c *client.Client, arg string) (rota.Workflow, error) {
	id, err := workflowID(arg)
	if err != nil {
		return rota.Workflow{}, err
	}
	w, err := c.WorkflowGraph(ctx, id, a.Fresh()...)
	if err == nil {
		a.Seen()
	}
	if w.Nodes == nil {
		w.Nodes = []rota.WorkflowNode{}
	}
	for i := range w.Nodes {
		if w.Nodes[i].Parents == nil {
			w.Nodes[i].Parents = []string{}
		}
	}
	return w, err
}

// Print prints one workflow, with its nodes where they were read.
func (a Commands) Print(ctx context.Context, c *client.Client, w rota.Workflow) error {
	now := rota.Clock(0)
	if w.State == rota.WorkflowRunning && (a.Output == "table" || a.Output == "wide") {
		if s, err := c.Status(ctx); err == nil {
			now = s.Clock
		}
	}
	return a.PrintOne(w, []string{string(w.ID)}, func(wide bool) string { return Table(&w, now, wide) })
}

// Table is a workflow for people; now is the cluster clock, 0 where it is
// not known.
func Table(w *rota.Workflow, now rota.Clock, wide bool) string {
	facts := []cli.Fact{
		{Name: "workflow", Value: w.ID}, {Name: "state", Value: w.State}, {Name: "will be", Value: endingText(w)},
		{Name: "failed node", Value: w.FailedNode},
		{Name: "reason", Value: cli.ReasonText(w.Reason)}, {Name: "progress", Value: progressBar(w)},
		{Name: "nodes", Value: countsText(w)},
		{Name: "queue", Value: w.Queue}, {Name: "tenant", Value: w.Tenant}, {Name: "on failure", Value: w.OnFailure},
		{Name: "labels", Value: cli.LabelsText(w.Labels)}, {Name: "submitted", Value: w.Submitted.Date},
		{Name: "finished", Value: w.Finished.Date}, {Name: "took", Value: cli.Between(w.Submitted, w.Finished)},
	}
	if wide {
		facts = append(facts, cli.Fact{Name: "edges", Value: w.EdgeCount})
	}
	if w.Runs > 1 {
		facts = append(facts, cli.Fact{Name: "runs", Value: w.Runs})
	}
	if w.State == rota.WorkflowRunning {
		if now > w.Submitted.Clock {
			facts = append(facts, cli.Fact{Name: "running for",
				Value: cli.About(millis.Duration(int64(now - w.Submitted.Clock)))})
		}
		facts = append(facts, cli.Fact{Name: "waits for", Value: gatesText(w)},
			cli.Fact{Name: "about left", Value: leftText(w)})
	}
	facts = append(facts, cli.Fact{Name: "critical path", Value: criticalText(w, wide)})
	text := cli.RenderFacts(facts)
	switch {
	case len(w.Nodes) == 0:
		return text
	case wide || len(w.Nodes) <= showNodes:
		return text + "\n" + cli.RenderList(nodeColumns(), w.Nodes, wide)
	default:
		return text + "\n" + summedUp(w)
	}
}

// endingText returns what a running workflow will be.
func endingText(w *rota.Workflow) string {
	if w.State.Terminal() || w.Ending == rota.WorkflowNone {
		return ""
	}
	return w.Ending.String() + ", when the running nodes have ended"
}

// gatesText returns the open gates of a workflow that was read with nodes, and since when each waits; "" for none.
func gatesText(w *rota.Workflow) string {
	const most = 5
	var open []string
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if n.State != rota.NodeWaiting {
			continue
		}
		open = append(open, fmt.Sprintf("a signal at %s since %s", n.ID, n.Waiting.Date))
	}
	if len(open) > most {
		open = append(open[:most], fmt.Sprintf("%d more", len(open)-most))
	}
	return strings.Join(open, "; ")
}

// leftText returns the work that is left of a workflow, without the time that its gates wait; "" for none.
func leftText(w *rota.Workflow) string {
	text := cli.About(w.Remaining)
	if text == "" {
		return ""
	}
	if slices.ContainsFunc(w.Nodes, func(n rota.WorkflowNode) bool {
		return n.Type == rota.GateType && !nodeOver(&n)
	}) {
		text += " of work, without the time that gates wait"
	}
	return text
}

// nodeOver reports whether a node will not run any more.
func nodeOver(n *rota.WorkflowNode) bool {
	return n.State == rota.NodeSkipped || rota.JobState(n.State).Terminal()
}

// progressBar shows how many of the nodes have completed.
func progressBar(w *rota.Workflow) string {
	full := int(w.Progress) * barCells / 100
	return fmt.Sprintf("%s%s %d%%", strings.Repeat("█", full), strings.Repeat("░", max(0, barCells-full)), w.Progress)
}

// stateCounts returns the nodes by state in the order of a node's life, empty states
// left out.
func stateCounts(c rota.NodeCounts) []struct {
	State rota.NodeState
	Nodes int64
} {
	type count = struct {
		State rota.NodeState
		Nodes int64
	}
	all := []count{
		{rota.NodeState(rota.JobCompleted), c.Completed}, {rota.NodeState(rota.JobRunning), c.Running},
		{rota.NodeState(rota.JobAssigned), c.Assigned}, {rota.NodeState(rota.JobQueued), c.Queued},
		{rota.NodeState(rota.JobDelayed), c.Delayed}, {rota.NodeWaiting, c.Waiting},
		{rota.NodeState(rota.JobBlocked), c.Blocked},
		{rota.NodeState(rota.JobDead), c.Dead}, {rota.NodeState(rota.JobExpired), c.Expired},
		{rota.NodeState(rota.JobCancelled), c.Cancelled}, {rota.NodeSkipped, c.Skipped},
	}
	return slices.DeleteFunc(all, func(n count) bool { return n.Nodes == 0 })
}

func countsText(w *rota.Workflow) string {
	var parts []string
	for _, n := range stateCounts(w.Counts) {
		parts = append(parts, fmt.Sprintf("%d %s", n.Nodes, n.State))
	}
	return fmt.Sprintf("%d: %s", w.NodeCount, strings.Join(parts, ", "))
}

// criticalPath returns the longest chain; none where it is the longest of nothing, as
// long as no node's duration is known.
func criticalPath(w *rota.Workflow) []string {
	if w.CriticalPathLength == 0 {
		return nil
	}
	return w.CriticalPath
}

// criticalText returns the longest chain: its length, and its nodes where they are few.
func criticalText(w *rota.Workflow, wide bool) string {
	const most = 6
	path := criticalPath(w)
	if len(path) == 0 {
		return ""
	}
	shown := path
	if len(path) > most && !wide {
		shown = append(slices.Clone(path[:most/2]), fmt.Sprintf("… %d more …", len(path)-most))
		shown = append(shown, path[len(path)-most/2:]...)
	}
	return fmt.Sprintf("%s over %s: %s", cli.About(w.CriticalPathLength), cli.Counted(int64(len(path)), "node", ""),
		strings.Join(shown, " → "))
}

func nodeColumns() []cli.Column[rota.WorkflowNode] {
	return []cli.Column[rota.WorkflowNode]{
		{Head: "NODE", Most: 48, Cell: func(n rota.WorkflowNode) any { return n.ID }},
		{Head: "STATE", Cell: func(n rota.WorkflowNode) any { return n.State }},
		{Head: "TYPE", Most: 20, Cell: func(n rota.WorkflowNode) any { return n.Type }},
		{Head: "TRY", Cell: func(n rota.WorkflowNode) any { return nodeTry(&n) }},
		{Head: "WORKER", Most: 16, Cell: func(n rota.WorkflowNode) any { return n.Worker }},
		{Head: "STARTED", Wide: true, Cell: func(n rota.WorkflowNode) any { return n.Assigned.Date }},
		{Head: "TOOK", Cell: func(n rota.WorkflowNode) any { return nodeTook(&n) }},
		{Head: "ASSIGNED AT", Wide: true, Cell: func(n rota.WorkflowNode) any { return indexText(n.AssignedIndex) }},
		{Head: "FINISHED AT", Wide: true, Cell: func(n rota.WorkflowNode) any { return indexText(n.FinishedIndex) }},
		{Head: "REASON", Cell: func(n rota.WorkflowNode) any { return failureText(n.Reason) }},
		{Head: "PARENTS", Most: 40, Cell: func(n rota.WorkflowNode) any { return parentsText(n.Parents) }},
		{Head: "ADDED BY", Wide: true, Most: 40, Cell: func(n rota.WorkflowNode) any { return n.GrownBy }},
	}
}

// nodeTry counts tries from 1; a node that was never assigned has none.
func nodeTry(n *rota.WorkflowNode) any {
	if n.Worker == "" {
		return nil
	}
	return n.Attempt + 1
}

// parentsText names parents; a node may have as many as there are others.
func parentsText(parents []string) string {
	const most = 20
	if len(parents) <= most {
		return strings.Join(parents, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(parents[:most], " "), len(parents)-most)
}

// nodeTook returns how long an ended node ran; what another is expected to take is
// no fact, and marked so.
func nodeTook(n *rota.WorkflowNode) string {
	switch {
	case n.State == rota.NodeState(rota.JobCompleted):
		return cli.Or(cli.About(n.Duration), "0s")
	case nodeOver(n) || n.Type == rota.GateType:
		return ""
	default:
		return cli.Prefixed("~", cli.About(n.Duration))
	}
}

func indexText(i rota.Index) any {
	if i == 0 {
		return nil
	}
	return uint64(i)
}

// failureText leaves out the reason that says nothing.
func failureText(r rota.Reason) string {
	if r == rota.ReasonDone {
		return ""
	}
	return cli.ReasonText(r)
}

// typeSum is what a large workflow's nodes of one type are doing.
type typeSum struct {
	typ                                              rota.JobType
	nodes, completed, running, waiting, failed, rest int64
	ended                                            int64
	took                                             time.Duration
}

// summedUp tells of many nodes by type, in the order of the graph, and names those
// that failed.
func summedUp(w *rota.Workflow) string {
	var sums []*typeSum
	byType := map[rota.JobType]*typeSum{}
	var failed []rota.WorkflowNode
	for i := range w.Nodes {
		n := &w.Nodes[i]
		s := byType[n.Type]
		if s == nil {
			s = &typeSum{typ: n.Type}
			byType[n.Type], sums = s, append(sums, s)
		}
		s.add(n)
		if n.State == rota.NodeState(rota.JobDead) || n.State == rota.NodeState(rota.JobExpired) {
			failed = append(failed, *n)
		}
	}
	const most = 30
	text := cli.RenderList([]cli.Column[*typeSum]{
		{Head: "TYPE", Most: 40, Cell: func(s *typeSum) any { return s.typ }},
		{Head: "NODES", Cell: func(s *typeSum) any { return s.nodes }},
		{Head: "COMPLETED", Cell: func(s *typeSum) any { return s.completed }},
		{Head: "RUNNING", Cell: func(s *typeSum) any { return s.running }},
		{Head: "WAITING", Cell: func(s *typeSum) any { return s.waiting }},
		{Head: "FAILED", Cell: func(s *typeSum) any { return s.failed }},
		{Head: "NOT RUN", Cell: func(s *typeSum) any { return s.rest }},
		{Head: "TOOK EACH", Cell: func(s *typeSum) any { return s.mean() }},
	}, sums[:min(most, len(sums))], false)
	if len(sums) > most {
		text += fmt.Sprintf("and %d more types\n", len(sums)-most)
	}
	if len(failed) > 0 {
		slices.SortStableFunc(failed, func(a, b rota.WorkflowNode) int {
			return cmp.Compare(a.FinishedIndex, b.FinishedIndex)
		})
		text += "\n" + cli.RenderList(nodeColumns(), failed[:min(showFailed, len(failed))], false)
		if len(failed) > showFailed {
			text += fmt.Sprintf("and %d more that failed\n", len(failed)-showFailed)
		}
	}
	return text + fmt.Sprintf("\n%d nodes: -o wide lists each\n", len(w.Nodes))
}

func (s *typeSum) add(n *rota.WorkflowNode) {
	s.nodes++
	switch state := rota.JobState(n.State); {
	case state == rota.JobCompleted:
		s.completed++
		s.ended++
		s.took += n.Duration
	case state.Leased():
		s.running++
	case state == rota.JobDead || state == rota.JobExpired:
		s.failed++
	case n.State == rota.NodeSkipped || state == rota.JobCancelled:
		s.rest++
	default:
		s.waiting++
	}
}

func (s *typeSum) mean() string {
	if s.ended == 0 {
		return ""
	}
	return cli.Or(cli.About(s.took/time.Duration(s.ended)), "0s")
}
