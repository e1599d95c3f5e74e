package sim

import (
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// auditFlow is the naive model of a workflow, built from its events, from the submitter's requests, and from SPEC §11
// as walks over all nodes.
type auditFlow struct {
	flow  *flow
	state rota.WorkflowState
	run   int32
	nodes []auditNode
	// was is the state before the run; failed means that a node of this run has failed.
	was    rota.WorkflowState
	failed bool
	// ending is the entry since which the workflow is ending, 0 if it is not.
	ending rota.Index
	// cancelled and from hold, by run, the accepted requests.
	cancelled map[int32]bool
	from      map[int32]string
	// growing holds, by node, the children that an entry's completions brought.
	growing map[string]*fsmpb.Growth
}

// auditNode is BLOCKED, QUEUED for released, or how it ended.
type auditNode struct {
	id      string
	parents []uint32
	state   rota.NodeState
	spec    *rota.JobSpec
	// gate means that it has no job: it waits for a signal once its parents have completed.
	gate bool
	// held means that a lease of it was cancelled: its next run waits until that lease would have ended (SPEC §3.11).
	held bool
	// by is one more than the node that grew it; joins means that every node waiting for that one waits for this one
	// too.
	by    int
	joins bool
}

const (
	nodeBlocked  = rota.NodeState(rota.JobBlocked)
	nodeReleased = rota.NodeState(rota.JobQueued)
	nodeDone     = rota.NodeState(rota.JobCompleted)
)

func (n *auditNode) over() bool { return n.state != nodeBlocked && n.state != nodeReleased }

func newAuditFlow(f *flow) *auditFlow {
	x := &auditFlow{flow: f, cancelled: map[int32]bool{}, from: map[int32]string{}}
	for k, at := range f.graph.Order {
		n := &f.spec.Nodes[at]
		x.nodes = append(x.nodes, auditNode{id: n.ID, parents: f.graph.Parents[k], state: nodeBlocked, spec: &n.JobSpec,
			gate: n.Gate != nil})
	}
	return x
}

// flowOps records the accepted operations of an entry on workflows.
func (a *auditor) flowOps(e *fsmpb.Entry, r *fsm.Applied) {
	for i, op := range e.GetOps() {
		o := r.Outcomes[i]
		if !OutcomeOK(o) || o.GetExisted() {
			continue
		}
		if l := op.GetLease(); l != nil {
			a.growing(l)
		}
		if op.GetOpenWorkflow() != nil || op.GetAddNodes() != nil {
			a.uploaded = r.Clock
		}
		if c := op.GetCancelWorkflow(); c != nil {
			x := a.flows[rota.WorkflowID(c.GetId())]
			x.cancelled[o.GetRuns()] = true
			x.begins(r.Index)
		}
		if again := op.GetRetryWorkflow(); again != nil {
			a.flows[rota.WorkflowID(again.GetId())].from[o.GetRuns()] = again.GetFrom()
		}
	}
}

// begins records that the workflow is ending.
func (x *auditFlow) begins(at rota.Index) {
	if x.ending == 0 {
		x.ending = at
	}
}

// flowEvent checks an event of a workflow against its model.
func (a *auditor) flowEvent(r *fsm.Applied, e *rota.Event) {
	id := rota.WorkflowID(e.Run)
	x := a.flows[id]
	if x == nil {
		f := a.w.flows.byID[id]
		if f == nil || e.Kind != rota.EventWorkflowStarted {
			a.failf("%s of workflow %s, which was never committed", e.Kind, id)
			return
		}
		x = newAuditFlow(f)
		a.flows[id], a.flowIDs = x, append(a.flowIDs, id)
	}
	switch e.Kind {
	case rota.EventWorkflowCancelled: // events report the nodes that it ends
	case rota.EventWorkflowGrown:
		a.grows(r, x, e)
	case rota.EventWorkflowStarted:
		a.flowStarted(r, x)
	case rota.EventWorkflowFinished:
		a.flowFinished(x, e)
	default:
		for i := range x.nodes {
			if n := &x.nodes[i]; n.id == e.Node && e.Job == rota.NodeJobID(id, n.id) {
				a.nodeEvent(r, x, n, e)
				return
			}
		}
		a.failf("%s of job %s names it as node %q of workflow %s, which has none", e.Kind, e.Job, e.Node, id)
	}
}

// isGate reports whether an event belongs to a gate, which has no lease.
func (a *auditor) isGate(e *rota.Event) bool {
	x := a.flows[rota.WorkflowID(e.Run)]
	return x != nil && slices.ContainsFunc(x.nodes, func(n auditNode) bool { return n.gate && n.id == e.Node })
}

func (a *auditor) flowStarted(r *fsm.Applied, x *auditFlow) {
	id := x.flow.spec.ID
	again := x.state == rota.WorkflowFailed || x.state == rota.WorkflowCancelled
	if x.state != rota.WorkflowNone && !again {
		a.failf("workflow %s was begun while it is %s", id, x.state)
	}
	redo := x.redo()
	x.run++
	a.FlowsRun++
	if again {
		a.FlowsRetried++
		if _, asked := x.from[x.run]; !asked {
			a.failf("workflow %s was begun for the %dth time without a request", id, x.run)
		}
	}
	x.was, x.state, x.failed, x.ending = x.state, rota.WorkflowRunning, false, 0
	if x.cancelled[x.run] { // in this very entry, before anything was withdrawn
		x.ending = r.Index
		return
	}
	for i := range x.nodes {
		n := &x.nodes[i]
		if !redo[i] {
			continue
		}
		job := rota.NodeJobID(id, n.id)
		n.state = nodeBlocked
		if n.spec.TTL > 0 {
			a.expires[job] = r.Clock + rota.Clock(n.spec.TTL.Milliseconds())
		}
		if j := a.jobs[job]; j != nil {
			j.terminal = false
		}
	}
}

// redo returns the nodes of the next run: all that did not complete, or, from a node, that one, its descendants, and
// the nodes that any of those wait for.
func (x *auditFlow) redo() []bool {
	from := x.from[x.run+1]
	again := make([]bool, len(x.nodes))
	for i, n := range x.nodes {
		again[i] = from == "" || n.id == from
	}
	for changed := true; changed; { // their descendants
		changed = false
		for i := range x.nodes {
			for p := range x.nodes {
				if !again[i] && again[p] && (x.waits(&x.nodes[i], p) || x.nodes[i].by == p+1) {
					again[i], changed = true, true
				}
			}
		}
	}
	for changed := true; changed; { // the nodes that those wait for
		changed = false
		for i := range x.nodes {
			again[i] = again[i] && x.nodes[i].state != nodeDone
			for p := range x.nodes {
				if again[i] && !again[p] && x.nodes[p].state != nodeDone && x.waits(&x.nodes[i], p) {
					again[p], changed = true, true
				}
			}
		}
	}
	return again
}

// ready reports whether all parents completed, and lost whether one ended otherwise.
func (x *auditFlow) ready(n *auditNode) (ready, lost bool) {
	ready = true
	for p := range x.nodes {
		if !x.waits(n, p) {
			continue
		}
		ready = ready && x.nodes[p].state == nodeDone
		lost = lost || x.nodes[p].over() && x.nodes[p].state != nodeDone
	}
	return ready, lost
}

func (a *auditor) nodeEvent(r *fsm.Applied, x *auditFlow, n *auditNode, e *rota.Event) {
	id := x.flow.spec.ID
	ready, lost := x.ready(n)
	if l := a.leases[e.Lease]; l != nil && l.outlives && e.Kind == rota.EventLeaseCancelled {
		return // its worker confirms after the node ended, and perhaps after the workflow
	}
	if x.state != rota.WorkflowRunning && e.Kind != rota.EventAssignmentDropped {
		a.failf("%s of node %s of workflow %s, which is %s", e.Kind, n.id, id, x.state)
	}
	switch e.Kind {
	case rota.EventGateSignalled:
		if !n.gate || n.over() || x.ending != 0 && x.ending < r.Index {
			a.failf("node %s of workflow %s (gate: %v), which is %s, took a signal", n.id, id, n.gate, n.state)
		}
	case rota.EventGateWaiting, rota.EventJobDelayed, rota.EventJobEnqueued, rota.EventJobAssigned,
		rota.EventJobRunning, rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired:
		if !ready {
			a.failf("%s of node %s of workflow %s before all its parents completed", e.Kind, n.id, id)
		}
		if n.over() {
			a.failf("%s of node %s of workflow %s, which is %s", e.Kind, n.id, id, n.state)
		}
	}
	switch e.Kind {
	case rota.EventGateWaiting, rota.EventJobDelayed, rota.EventJobEnqueued, rota.EventJobAssigned:
		if n.gate != (e.Kind == rota.EventGateWaiting) {
			a.failf("%s of node %s of workflow %s, which is a gate: %v", e.Kind, n.id, id, n.gate)
		}
		if x.ending != 0 && x.ending < r.Index {
			a.failf("%s of node %s of workflow %s, which has been coming to its end since entry %d", e.Kind, n.id, id,
				x.ending)
		}
		n.state = nodeReleased
	case rota.EventJobCompleted:
		n.state = nodeDone
	case rota.EventJobDead:
		x.fails(r.Index, n, rota.NodeState(rota.JobDead))
	case rota.EventJobExpired:
		x.fails(r.Index, n, rota.NodeState(rota.JobExpired))
	case rota.EventLeaseCancelled, rota.EventLeaseRevoked:
		n.held = true
	case rota.EventJobCancelled:
		a.nodeCancelled(r, x, n, e, lost)
	}
}

func (x *auditFlow) fails(at rota.Index, n *auditNode, as rota.NodeState) {
	n.state, x.failed = as, true
	if x.flow.spec.OnFailure == rota.FailureFailFast {
		x.begins(at)
	}
}

// nodeCancelled checks that each cancelled node has a reason (SPEC §11.3).
func (a *auditor) nodeCancelled(r *fsm.Applied, x *auditFlow, n *auditNode, e *rota.Event, lost bool) {
	id := x.flow.spec.ID
	fair := false
	switch e.Reason {
	case rota.ReasonParentFailed:
		fair = lost && n.state == nodeBlocked && x.flow.spec.OnFailure == rota.FailureContinue
		a.Skipped++
	case rota.ReasonWorkflowFailed:
		fair = x.failed && x.flow.spec.OnFailure == rota.FailureFailFast && !x.cancelled[x.run]
	case rota.ReasonWorkflowCancelled:
		fair = x.cancelled[x.run]
	case rota.ReasonCancelledByUser, rota.ReasonCancelledByHandler:
		fair = true
		x.fails(r.Index, n, rota.NodeState(rota.JobCancelled))
	}
	if !fair {
		a.failf("node %s of workflow %s (%s) was cancelled for %s", n.id, id, n.state, e.Reason)
	}
	if n.state = rota.NodeState(rota.JobCancelled); e.Reason == rota.ReasonParentFailed {
		n.state = rota.NodeSkipped
	}
}

func (a *auditor) flowFinished(x *auditFlow, e *rota.Event) {
	id := x.flow.spec.ID
	all := true
	for i := range x.nodes {
		n := &x.nodes[i]
		if !n.over() {
			a.failf("workflow %s finished, its node %s has not", id, n.id)
		}
		all = all && n.state == nodeDone
	}
	want := x.was
	switch {
	case all:
		want = rota.WorkflowCompleted
		a.FlowsCompleted++
	case x.cancelled[x.run]:
		want = rota.WorkflowCancelled
		a.FlowsCancelled++
	case x.failed:
		want = rota.WorkflowFailed
		a.FlowsFailed++
	}
	if x.state != rota.WorkflowRunning || !strings.HasPrefix(e.Payload, `{"state":"`+want.String()+`"`) {
		a.failf("workflow %s (%s) finished as %s, want %s", id, x.state, e.Payload, want)
	}
	x.state = want
}

// flowsSettled checks, after an entry, that everything due in it happened: these workflows are so small that each entry
// settles all. The exception is a node that ends at its release because its time to live is over: the end that it
// causes belongs to the next entry.
func (a *auditor) flowsSettled(r *fsm.Applied) {
	for _, id := range a.flowIDs {
		x := a.flows[id]
		a.grownAll(x)
		if x.state != rota.WorkflowRunning {
			continue
		}
		for i := range x.nodes {
			n := &x.nodes[i]
			ready, lost := x.ready(n)
			j := a.jobs[rota.NodeJobID(id, n.id)]
			leased := j != nil && !j.lease.IsZero()
			switch {
			case n.over():
			case x.ending != 0 && x.ending < r.Index && (!leased || x.cancelled[x.run]):
				a.failf("workflow %s has been coming to its end since entry %d, its node %s is %s (leased: %v)", id,
					x.ending, n.id, n.state, leased)
			case x.ending != 0 || n.state != nodeBlocked:
			case ready && n.spec.Delay == 0 && !n.held:
				a.failf("node %s of workflow %s still waits, though all its parents have completed", n.id, id)
			case lost && x.flow.spec.OnFailure == rota.FailureContinue:
				a.failf("node %s of workflow %s still waits for a parent that will not complete", n.id, id)
			}
		}
	}
}

// flowsFinal checks that acknowledged workflows have run to their end, that uncommitted ones left nothing, and that
// every node shows the state of the model.
func (a *auditor) flowsFinal() {
	vertices := 0
	for _, f := range a.w.flows.all {
		x := a.flows[f.spec.ID]
		switch {
		case x == nil && f.acked:
			a.failf("workflow %s was acknowledged, and never began", f.spec.ID)
		case x == nil:
			a.Lapsed++
		default:
			vertices += len(x.nodes)
		}
		for _, n := range a.w.nodes {
			a.flowShown(n, f, x)
		}
	}
	for _, n := range a.w.nodes {
		ended := len(a.places.live)
		for id, j := range a.jobs {
			ended += btoi(j.terminal && !a.faded(n, id))
		}
		if rows := n.machine.Freeze().Rows(); rows != vertices+ended+a.forgotten() {
			a.failf("node %s keeps %d rows, %d jobs have ended, the workflows have %d nodes, deleted numbers are %d ranges",
				n.name, rows, ended, vertices, a.forgotten())
		}
	}
}

// flowShown compares a node's view of a workflow with the model.
func (a *auditor) flowShown(n *node, f *flow, x *auditFlow) {
	v, ok := n.machine.WorkflowView(f.spec.ID)
	if x == nil {
		if ok {
			a.failf("node %s shows workflow %s, which was never committed", n.name, f.spec.ID)
		}
		return
	}
	if !ok {
		a.failf("node %s does not know workflow %s", n.name, f.spec.ID)
		return
	}
	shown := v.Words()
	if shown.State != x.state || shown.Runs != x.run || !x.state.Terminal() {
		a.failf("node %s shows workflow %s as %s in run %d, want %s in run %d as in the model", n.name, f.spec.ID,
			shown.State, shown.Runs, x.state, x.run)
	}
	for i := range x.nodes {
		want := &x.nodes[i]
		job := rota.NodeJobID(f.spec.ID, want.id)
		state := want.state
		if state == rota.NodeSkipped {
			state = rota.NodeState(rota.JobCancelled)
		}
		if shown.Nodes[i].State != want.state || n.machine.JobState(job) != rota.JobState(state) {
			a.failf("node %s shows node %s of workflow %s as %s (its job as %s), want %s as in the model", n.name,
				want.id, f.spec.ID, shown.Nodes[i].State, n.machine.JobState(job), want.state)
		}
	}
}
