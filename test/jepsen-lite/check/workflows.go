package check

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
)

// readFlows files the operations on workflows. A node's job was never submitted by itself: for the checkers of jobs it
// may have been, at any time since its workflow was.
func (v *view) readFlows() {
	v.flows, v.gates = make(map[string][]*Op), make(map[string]*NodeFacts)
	for i := range v.Ops {
		if op := &v.Ops[i]; op.Flow != "" {
			v.flows[op.Flow] = append(v.flows[op.Flow], op)
		}
	}
	for i := range v.Flows {
		f := &v.Flows[i]
		if !asked(v.flows[f.ID], OpFlowSubmit) {
			continue
		}
		v.readNodes(f.ID, f.Nodes)
	}
}

// readNodes makes nodes, and the nodes that they grow, count as jobs.
func (v *view) readNodes(flow string, nodes []NodeFacts) {
	for i := range nodes {
		n := &nodes[i]
		job := string(rota.NodeJobID(rota.WorkflowID(flow), n.ID))
		v.jobs[job] = append(v.jobs[job], &Op{Process: "workflow", Func: OpSubmit, Job: job,
			Invoke: v.flows[flow][0].Invoke, Return: never, Outcome: Unknown})
		if n.Gate {
			v.gates[job] = n
		}
		v.readNodes(flow, n.Grows)
	}
}

// asked reports whether an operation was requested of a workflow and may have been accepted.
func asked(ops []*Op, what string) bool {
	return slices.ContainsFunc(ops, func(op *Op) bool { return op.Func == what && op.Outcome != Refused })
}

// flowLife is the life of a workflow according to the events.
type flowLife struct {
	facts   *FlowFacts
	started int
	running bool
	state   string
	nodes   map[string]*nodeLife
	// order lists its nodes in the order in which it got them.
	order  []string
	faults []string
}

// nodeLife is the life of a node according to the events: how it ended last, in which run, and how often it completed.
type nodeLife struct {
	*NodeFacts
	grown     bool
	parents   []string
	end       string
	reason    string
	completed int
	run       int
}

// checkWorkflows checks every workflow's events against its graph, and its final state against its events (SPEC §11).
func checkWorkflows(v *view) (found []Anomaly) {
	lives := make(map[string]*flowLife, len(v.Flows))
	for i := range v.Flows {
		f := &v.Flows[i]
		l := &flowLife{facts: f, nodes: make(map[string]*nodeLife, len(f.Nodes))}
		for k := range f.Nodes {
			l.adds(&f.Nodes[k], f.Nodes[k].Parents)
		}
		lives[f.ID] = l
	}
	if len(v.Flows) > 0 && len(v.Events) >= EventsRetained {
		v.undecided = append(v.undecided, "workflows: the oldest events are no longer retained")
		return nil
	}
	for i := range v.Events {
		e := &v.Events[i]
		if e.Flow == "" {
			continue
		}
		if l := lives[e.Flow]; l != nil {
			if !v.outlived(e) {
				l.told(e)
			}
		} else {
			found = append(found, Anomaly{IDs: []string{e.Flow},
				Text: fmt.Sprintf("event %s (%s) is of workflow %s, which was "+
					"never submitted", e.ID, e.Kind, e.Flow)})
		}
	}
	final := make(map[string]*FinalFlow, len(v.FinalFlows))
	for i := range v.FinalFlows {
		final[v.FinalFlows[i].ID] = &v.FinalFlows[i]
	}
	runs, ended := 0, make(map[string]int)
	for i := range v.Flows {
		id := v.Flows[i].ID
		l := lives[id]
		for _, text := range append(l.faults, l.judge(v.flows[id], final[id])...) {
			found = append(found, Anomaly{IDs: []string{id}, Text: "workflow " + id + ": " + text})
		}
		runs += l.started
		if l.started > 0 {
			ended[l.state]++
		}
	}
	if len(v.Flows) > 0 {
		v.figures["workflows"], v.figures["workflow_runs"], v.figures["workflows_ended"] = len(v.Flows), runs, ended
	}
	return found
}

// adds adds a node.
func (l *flowLife) adds(n *NodeFacts, parents []string) {
	l.nodes[n.ID] = &nodeLife{NodeFacts: n, parents: slices.Clone(parents)}
	l.order = append(l.order, n.ID)
}

// grows adds the nodes that a node brings as it completes: every node that waits for it also waits for those of the new
// ones that have no children, unless they are detached (SPEC §23.2).
func (l *flowLife) grows(e *SeenEvent, n *nodeLife) {
	if n.grown || len(n.Grows) == 0 || int(e.Count) != len(n.Grows) {
		l.say("event %s reports that node %s grows %d nodes, it brings %d (done before: %t)", e.ID, n.ID, e.Count,
			len(n.Grows), n.grown)
		return
	}
	n.grown = true
	parent := make(map[string]bool)
	for i := range n.Grows {
		for _, p := range n.Grows[i].Parents {
			parent[p] = true
		}
	}
	waits := slices.Clone(l.order)
	for i := range n.Grows {
		g := &n.Grows[i]
		parents := g.Parents
		if len(parents) == 0 {
			parents = []string{n.ID}
		}
		l.adds(g, parents)
		for _, id := range waits {
			if w := l.nodes[id]; !n.Detached && !parent[g.ID] && slices.Contains(w.parents, n.ID) {
				w.parents = append(w.parents, g.ID)
			}
		}
	}
}

func (l *flowLife) say(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// told processes the next event.
func (l *flowLife) told(e *SeenEvent) {
	switch e.Kind {
	case "workflowCancelled": // the end of each node has its own event
		return
	case "workflowStarted":
		if l.running || l.state == "COMPLETED" {
			l.say("event %s begins it, though it is running or COMPLETED", e.ID)
		}
		l.started, l.running, l.state = l.started+1, true, ""
		return
	case "workflowFinished":
		if !l.running {
			l.say("event %s finishes it, though it is not running", e.ID)
		}
		l.running, l.state = false, e.State
		return
	}
	_, name, _ := rota.SplitNodeJobID(rota.JobID(e.Job))
	n := l.nodes[name]
	if n == nil {
		l.say("event %s (%s) is of node %q, which it has not", e.ID, e.Kind, name)
		return
	}
	if !l.running && e.Kind != "assignmentDropped" {
		l.say("event %s (%s) is of node %s while it is not running", e.ID, e.Kind, name)
	}
	switch e.Kind {
	case "jobDelayed", "jobEnqueued", "jobAssigned", "jobRunning", "jobCompleted":
		for _, p := range n.parents {
			if l.nodes[p].end != "COMPLETED" {
				l.say("event %s (%s) is of node %s before its parent %s completed", e.ID, e.Kind, name, p)
			}
		}
		if n.completed > 0 {
			l.say("event %s (%s) is of node %s, which has completed", e.ID, e.Kind, name)
		}
		n.end = ""
	}
	n.run = l.started
	switch e.Kind {
	case "workflowGrown":
		l.grows(e, n)
	case "jobCompleted":
		n.end, n.completed = "COMPLETED", n.completed+1
	case "jobDead":
		n.end, n.reason = "DEAD", e.Reason
	case "jobExpired":
		n.end, n.reason = "EXPIRED", e.Reason
	case "jobCancelled":
		if n.end, n.reason = "CANCELLED", e.Reason; e.Reason == "PARENT_FAILED" {
			n.end = "SKIPPED"
		}
	}
}

// judge compares the history of a workflow with its operations and with its final state.
func (l *flowLife) judge(ops []*Op, final *FinalFlow) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	acked := slices.ContainsFunc(ops, func(op *Op) bool { return op.Func == OpFlowSubmit && op.Outcome == OK })
	switch {
	case l.started == 0 && final == nil && acked:
		say("it was acknowledged, and it never was")
	case l.started == 0 && final != nil:
		say("it is shown without an event of its beginning")
	case l.started > 0 && !asked(ops, OpFlowSubmit):
		say("it was refused, and it ran")
	case l.started > 0 && final == nil:
		say("it ran, and it is not shown at the end")
	}
	if l.started == 0 || final == nil {
		return faults
	}
	retries := 0
	for _, op := range ops {
		if op.Func == OpFlowRetry && op.Outcome != Refused {
			retries++
		}
	}
	switch {
	case l.running || !slices.Contains([]string{"COMPLETED", "FAILED", "CANCELLED"}, final.State):
		say("it has not come to its end: it is %s", final.State)
	case l.state != final.State || int(final.Runs) != l.started:
		say("its events say %s after %d runs, it is shown %s after %d", l.state, l.started, final.State, final.Runs)
	case l.started > 1+retries:
		say("it ran %d times, and was run again %d times at most", l.started, retries)
	case final.State == "CANCELLED" && !asked(ops, OpFlowCancel):
		say("it is CANCELLED without a request to cancel")
	}
	partly := slices.ContainsFunc(ops, func(op *Op) bool {
		return op.Func == OpFlowRetry && op.Did != "" && op.Outcome != Refused
	})
	return append(faults, l.judgeNodes(final, asked(ops, OpFlowCancel), partly)...)
}

// judgeNodes requires each node to have ended, and a cause for the end. Where the workflow was run again from one node,
// the nodes that this one does not need keep their earlier end.
func (l *flowLife) judgeNodes(final *FinalFlow, cancelled, partly bool) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	all, failed := true, false
	for _, name := range l.order {
		n := l.nodes[name]
		if n.end == "COMPLETED" && len(n.Grows) > 0 && !n.grown && final.State == "COMPLETED" {
			say("node %s completed, and its %d children are not there", name, len(n.Grows))
		}
		all = all && n.end == "COMPLETED"
		kept := partly && n.run < l.started && n.end != "COMPLETED"
		failed = failed || kept || n.end == "DEAD" || n.end == "EXPIRED" || n.reason == "CANCELLED" ||
			n.reason == "CANCELLED_BY_HANDLER"
		if n.end != final.Nodes[name] {
			say("the events say that node %s is %q, it is shown as %q", name, n.end, final.Nodes[name])
		}
		lost := slices.ContainsFunc(n.parents, func(p string) bool { return l.nodes[p].end != "COMPLETED" })
		switch {
		case n.end == "SKIPPED" && !kept && (!lost || l.facts.OnFailure != "continue"):
			say("node %s was skipped, its parents have all completed (on_failure %s)", name, l.facts.OnFailure)
		case n.end == "CANCELLED" && n.reason == "WORKFLOW_FAILED" && l.facts.OnFailure != "fail_fast":
			say("node %s was cancelled since another failed, though on_failure is %s", name, l.facts.OnFailure)
		case n.end == "CANCELLED" && n.reason == "WORKFLOW_CANCELLED" && !cancelled:
			say("node %s was cancelled with it without a request to cancel", name)
		}
	}
	switch {
	case len(final.Nodes) != len(l.order):
		say("%d nodes are shown, %d were submitted or grown", len(final.Nodes), len(l.order))
	case all != (final.State == "COMPLETED"):
		say("it is %s, all its nodes COMPLETED: %v", final.State, all)
	case final.State == "FAILED" && !failed:
		say("it is FAILED, and no node of it has failed")
	}
	return faults
}
