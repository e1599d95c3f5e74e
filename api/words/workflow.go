package words

import (
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

var (
	workflowStates  = newEnum("workflow state", rota.WorkflowState.String)
	failurePolicies = newEnum("failure policy", rota.FailurePolicy.String)
	nodeRuns        = newEnum("when a node runs", rota.NodeRun.String)
	gateTimeouts    = newEnum("what a gate does on its timeout", rota.GateTimeout.String)
	nodeStates      = newEnum("node state", rota.NodeState.String)
)

// WorkflowHeaderToWire converts a workflow without its nodes and edges.
func WorkflowHeaderToWire(s *rota.WorkflowSpec) *rotav1.WorkflowHeader {
	return &rotav1.WorkflowHeader{
		Id: string(s.ID), Queue: string(s.Queue), Tenant: string(s.Tenant),
		OnFailure: failurePolicies.text(s.OnFailure), Labels: s.Labels,
	}
}

// WorkflowHeaderFromWire is the inverse of WorkflowHeaderToWire.
func WorkflowHeaderFromWire(w *rotav1.WorkflowHeader) (rota.WorkflowSpec, error) {
	policy, err := failurePolicies.value(w.GetOnFailure())
	return rota.WorkflowSpec{
		ID: rota.WorkflowID(w.GetId()), Queue: rota.QueueName(w.GetQueue()), Tenant: rota.TenantID(w.GetTenant()),
		OnFailure: policy, Labels: w.GetLabels(),
	}, err
}

// NodeSpecToWire converts a node as submitted; the id of its template is omitted, because users cannot set it.
func NodeSpecToWire(n *rota.NodeSpec) *rotav1.NodeSpec {
	job := JobSpecToWire(&n.JobSpec)
	job.Id = ""
	w := &rotav1.NodeSpec{Id: n.ID, Parents: n.Parents, Job: job, Run: nodeRuns.text(n.Run)}
	if n.Gate != nil {
		w.Gate = &rotav1.Gate{TimeoutMs: millis.Of(n.Gate.Timeout), OnTimeout: gateTimeouts.text(n.Gate.OnTimeout)}
	}
	return w
}

// NodeSpecFromWire is the inverse of NodeSpecToWire; an unset priority becomes DefaultPriority, as for a job.
func NodeSpecFromWire(w *rotav1.NodeSpec) (n rota.NodeSpec, err error) {
	n = rota.NodeSpec{ID: w.GetId(), Parents: w.GetParents(), JobSpec: JobSpecFromWire(w.GetJob())}
	if n.Run, err = nodeRuns.value(w.GetRun()); err != nil {
		return n, err
	}
	if g := w.GetGate(); g != nil {
		n.Gate = &rota.Gate{Timeout: millis.Duration(g.GetTimeoutMs())}
		n.Gate.OnTimeout, err = gateTimeouts.value(g.GetOnTimeout())
	}
	return n, err
}

// GrowthToWire converts the children of a completion; nil becomes nil.
func GrowthToWire(g *rota.Growth) ([]byte, error) {
	if g == nil {
		return nil, nil
	}
	w := &rotav1.Children{Detached: g.Detached}
	for i := range g.Children {
		w.Nodes = append(w.Nodes, NodeSpecToWire(&g.Children[i]))
	}
	return proto.Marshal(w)
}

// GrowthFromWire is the inverse of GrowthToWire.
func GrowthFromWire(b []byte) (*rota.Growth, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var w rotav1.Children
	if n := len(b); n > limits.MaxChildrenBytes {
		return nil, rota.Refusef(rota.KindInvalid, "children",
			"children too long: got %d bytes, maximum %d; store large data elsewhere and name it "+
				"in payloads", n, limits.MaxChildrenBytes)
	}
	if err := proto.Unmarshal(b, &w); err != nil {
		return nil, rota.Refusef(rota.KindInvalid, "children", "children cannot be read: %v", err)
	}
	g := &rota.Growth{Detached: w.GetDetached()}
	for i, n := range w.GetNodes() {
		node, err := NodeSpecFromWire(n)
		if err != nil {
			return nil, peer.OfChild(i, n.GetId(), err)
		}
		g.Children = append(g.Children, node)
	}
	return g, nil
}

// SignalToWire converts a signal to a gate.
func SignalToWire(s *rota.Signal) *rotav1.SignalWorkflowRequest {
	return &rotav1.SignalWorkflowRequest{Workflow: string(s.Workflow), Node: s.Node, Id: s.ID, Payload: s.Payload,
		Refuse: s.Refuse}
}

// SignalFromWire is the inverse of SignalToWire.
func SignalFromWire(w *rotav1.SignalWorkflowRequest) rota.Signal {
	return rota.Signal{Workflow: rota.WorkflowID(w.GetWorkflow()), Node: w.GetNode(), ID: w.GetId(),
		Payload: w.GetPayload(), Refuse: w.GetRefuse()}
}

// SignalledToWire converts the outcome of a signal.
func SignalledToWire(s *rota.Signalled) *rotav1.WorkflowSignalled {
	return &rotav1.WorkflowSignalled{Workflow: string(s.Workflow), Node: s.Node, Id: s.ID, Existed: s.Existed,
		Index: uint64(s.Index)}
}

// SignalledFromWire is the inverse of SignalledToWire.
func SignalledFromWire(w *rotav1.WorkflowSignalled) (rota.Signalled, error) {
	return rota.Signalled{Workflow: rota.WorkflowID(w.GetWorkflow()), Node: w.GetNode(), ID: w.GetId(),
		Existed: w.GetExisted(), Index: rota.Index(w.GetIndex())}, nil
}

// EdgeToWire converts an edge.
func EdgeToWire(e *rota.Edge) *rotav1.Edge { return &rotav1.Edge{From: e.From, To: e.To} }

// EdgeFromWire is the inverse of EdgeToWire.
func EdgeFromWire(w *rotav1.Edge) rota.Edge { return rota.Edge{From: w.GetFrom(), To: w.GetTo()} }

// WorkflowSubmittedToWire converts the outcome of a submission.
func WorkflowSubmittedToWire(s *rota.WorkflowSubmitted) *rotav1.WorkflowSubmitted {
	return &rotav1.WorkflowSubmitted{
		Id: string(s.ID), State: workflowStates.text(s.State), Existed: s.Existed, Nodes: s.Nodes, Edges: s.Edges,
		Index: uint64(s.Index),
	}
}

// WorkflowSubmittedFromWire is the inverse of WorkflowSubmittedToWire.
func WorkflowSubmittedFromWire(w *rotav1.WorkflowSubmitted) (rota.WorkflowSubmitted, error) {
	state, err := workflowStates.value(w.GetState())
	return rota.WorkflowSubmitted{
		ID: rota.WorkflowID(w.GetId()), State: state, Existed: w.GetExisted(), Nodes: w.GetNodes(), Edges: w.GetEdges(),
		Index: rota.Index(w.GetIndex()),
	}, err
}

// WorkflowToWire converts a workflow without its nodes and critical path, which are sent separately
// (WorkflowNodeToWire).
func WorkflowToWire(f *rota.Workflow) *rotav1.Workflow {
	c := &f.Counts
	return &rotav1.Workflow{
		Id: string(f.ID), State: workflowStates.text(f.State), Queue: string(f.Queue), Tenant: string(f.Tenant),
		OnFailure: failurePolicies.text(f.OnFailure), Labels: f.Labels, NodeCount: f.NodeCount, EdgeCount: f.EdgeCount,
		Counts: &rotav1.NodeCounts{
			Blocked: c.Blocked, Delayed: c.Delayed, Queued: c.Queued, Assigned: c.Assigned, Running: c.Running,
			Completed: c.Completed, Dead: c.Dead, Expired: c.Expired, Cancelled: c.Cancelled, Skipped: c.Skipped,
			Waiting: c.Waiting,
		},
		Progress: f.Progress, Runs: f.Runs, Ending: workflowStates.text(f.Ending), FailedNode: clean(f.FailedNode),
		Reason: reasons.text(f.Reason), SubmittedMs: int64(f.Submitted.Date),
		SubmittedClockMs: int64(f.Submitted.Clock), FinishedMs: int64(f.Finished.Date),
		FinishedClockMs: int64(f.Finished.Clock),
		CriticalPathMs:  millis.Of(f.CriticalPathLength), RemainingMs: millis.Of(f.Remaining),
	}
}

// WorkflowFromWire is the inverse of WorkflowToWire.
func WorkflowFromWire(w *rotav1.Workflow) (f rota.Workflow, err error) {
	c := w.GetCounts()
	f = rota.Workflow{
		ID: rota.WorkflowID(w.GetId()), Queue: rota.QueueName(w.GetQueue()), Tenant: rota.TenantID(w.GetTenant()),
		Labels: w.GetLabels(), NodeCount: w.GetNodeCount(), EdgeCount: w.GetEdgeCount(),
		Counts: rota.NodeCounts{
			JobCounts: rota.JobCounts{
				Blocked: c.GetBlocked(), Delayed: c.GetDelayed(), Queued: c.GetQueued(), Assigned: c.GetAssigned(),
				Running: c.GetRunning(), Completed: c.GetCompleted(), Dead: c.GetDead(), Expired: c.GetExpired(),
				Cancelled: c.GetCancelled(),
			},
			Skipped: c.GetSkipped(), Waiting: c.GetWaiting(),
		},
		Progress: w.GetProgress(), Runs: w.GetRuns(), FailedNode: w.GetFailedNode(),
		Submitted:          moment(w.GetSubmittedMs(), w.GetSubmittedClockMs()),
		Finished:           moment(w.GetFinishedMs(), w.GetFinishedClockMs()),
		CriticalPathLength: millis.Duration(w.GetCriticalPathMs()), Remaining: millis.Duration(w.GetRemainingMs()),
	}
	if f.State, err = workflowStates.value(w.GetState()); err != nil {
		return f, err
	}
	if f.OnFailure, err = failurePolicies.value(w.GetOnFailure()); err != nil {
		return f, err
	}
	if f.Ending, err = workflowStates.value(w.GetEnding()); err != nil {
		return f, err
	}
	f.Reason, err = reasons.value(w.GetReason())
	return f, err
}

// NodeNumbers maps each node's id to its position in its workflow's list. The wire refers to nodes by it: otherwise a
// node with a hundred thousand parents would not fit in a message.
type NodeNumbers map[string]uint32

// NumberNodes numbers nodes by their positions.
func NumberNodes(nodes []rota.WorkflowNode) NodeNumbers {
	n := make(NodeNumbers, len(nodes))
	for i := range nodes {
		n[nodes[i].ID] = uint32(i)
	}
	return n
}

// ToWire returns the numbers of nodes. A node that is not in the list is an internal error.
func (n NodeNumbers) ToWire(ids []string) ([]uint32, error) {
	numbers := make([]uint32, len(ids))
	for i, id := range ids {
		number, ok := n[id]
		if !ok {
			return nil,
				rota.Refusef(rota.KindInternal, "nodes", "node %q is not among the workflow's nodes", shown(id))
		}
		numbers[i] = number
	}
	return numbers, nil
}

// NodesOf returns the ids of numbered nodes: the inverse of NodeNumbers.ToWire.
func NodesOf(numbers []uint32, nodes []rota.WorkflowNode) ([]string, error) {
	ids := make([]string, len(numbers))
	for i, number := range numbers {
		if int64(number) >= int64(len(nodes)) {
			return nil,
				rota.Refusef(rota.KindInternal, "nodes", "node %d does not exist: the workflow has %d nodes", number,
					len(nodes))
		}
		ids[i] = nodes[number].ID
	}
	return ids, nil
}

// WorkflowNodeToWire converts a node; the id of its job follows from its own.
func WorkflowNodeToWire(n *rota.WorkflowNode, numbers NodeNumbers) (*rotav1.WorkflowNode, error) {
	parents, err := numbers.ToWire(n.Parents)
	grownBy := uint32(0)
	if n.GrownBy != "" && err == nil {
		var by []uint32
		if by, err = numbers.ToWire([]string{n.GrownBy}); err == nil {
			grownBy = by[0] + 1
		}
	}
	return &rotav1.WorkflowNode{
		GrownBy: grownBy, Joins: n.Joins, Run: nodeRuns.text(n.Run),
		Id: n.ID, Type: string(n.Type), State: nodeStates.text(n.State), Parents: parents, Worker: string(n.Worker),
		Attempt: n.Attempt, AssignedIndex: uint64(n.AssignedIndex), FinishedIndex: uint64(n.FinishedIndex),
		AssignedMs: int64(n.Assigned.Date), AssignedClockMs: int64(n.Assigned.Clock),
		FinishedMs: int64(n.Finished.Date), FinishedClockMs: int64(n.Finished.Clock), Reason: reasons.text(n.Reason),
		WaitingMs: int64(n.Waiting.Date), WaitingClockMs: int64(n.Waiting.Clock), DurationMs: millis.Of(n.Duration),
	}, err
}

// WorkflowNodesFromWire reads the whole list of a workflow's nodes.
func WorkflowNodesFromWire(w []*rotav1.WorkflowNode, workflow rota.WorkflowID) ([]rota.WorkflowNode, error) {
	nodes, err := tryEach(w, func(w *rotav1.WorkflowNode) (rota.WorkflowNode, error) {
		return workflowNodeFromWire(w, workflow)
	})
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		if nodes[i].Parents, err = NodesOf(w[i].GetParents(), nodes); err != nil {
			return nil, err
		}
		if by := w[i].GetGrownBy(); by > 0 {
			grower, err := NodesOf([]uint32{by - 1}, nodes)
			if err != nil {
				return nil, err
			}
			nodes[i].GrownBy = grower[0]
		}
	}
	return nodes, nil
}

func workflowNodeFromWire(w *rotav1.WorkflowNode, workflow rota.WorkflowID) (n rota.WorkflowNode, err error) {
	n = rota.WorkflowNode{
		ID: w.GetId(), Job: rota.NodeJobID(workflow, w.GetId()), Type: rota.JobType(w.GetType()),
		Worker: rota.WorkerID(w.GetWorker()), Attempt: w.GetAttempt(), AssignedIndex: rota.Index(w.GetAssignedIndex()),
		Joins:         w.GetJoins(),
		FinishedIndex: rota.Index(w.GetFinishedIndex()), Assigned: moment(w.GetAssignedMs(), w.GetAssignedClockMs()),
		Finished: moment(w.GetFinishedMs(), w.GetFinishedClockMs()),
		Waiting:  moment(w.GetWaitingMs(), w.GetWaitingClockMs()), Duration: millis.Duration(w.GetDurationMs()),
	}
	if n.State, err = nodeStates.value(w.GetState()); err != nil {
		return n, err
	}
	if n.Run, err = nodeRuns.value(w.GetRun()); err != nil {
		return n, err
	}
	n.Reason, err = reasons.value(w.GetReason())
	return n, err
}

// WorkflowFilterToWire returns the request for one page.
func WorkflowFilterToWire(f *rota.WorkflowFilter, opt peer.ReadOptions) *rotav1.ListWorkflowsRequest {
	return &rotav1.ListWorkflowsRequest{
		State: workflowStates.text(f.State), Queue: string(f.Queue), Tenant: string(f.Tenant),
		Limit: limitToWire(f.Limit), Cursor: f.Cursor, Read: ReadToWire(opt),
	}
}

// WorkflowFilterFromWire is the inverse of WorkflowFilterToWire.
func WorkflowFilterFromWire(w *rotav1.ListWorkflowsRequest) (rota.WorkflowFilter, peer.ReadOptions, error) {
	state, err := workflowStates.value(w.GetState())
	return rota.WorkflowFilter{
		State: state, Queue: rota.QueueName(w.GetQueue()), Tenant: rota.TenantID(w.GetTenant()),
		Limit: int(w.GetLimit()), Cursor: w.GetCursor(),
	}, ReadFromWire(w.GetRead()), err
}

// WorkflowPageToWire converts one page and the state that the read saw.
func WorkflowPageToWire(p *rota.WorkflowPage, at rota.ReadAt) *rotav1.ListWorkflowsResponse {
	return &rotav1.ListWorkflowsResponse{Workflows: each(p.Workflows, WorkflowToWire), NextCursor: p.NextCursor,
		At: ReadAtToWire(at)}
}

// WorkflowPageFromWire is the inverse of WorkflowPageToWire.
func WorkflowPageFromWire(w *rotav1.ListWorkflowsResponse) (rota.WorkflowPage, rota.ReadAt, error) {
	workflows, err := tryEach(w.GetWorkflows(), WorkflowFromWire)
	return rota.WorkflowPage{Workflows: workflows, NextCursor: w.GetNextCursor()}, ReadAtFromWire(w.GetAt()), err
}

// ParentOutputToWire converts a parent's output.
func ParentOutputToWire(p *rota.ParentOutput) *rotav1.ParentOutput {
	return &rotav1.ParentOutput{Node: p.Node, Job: string(p.Job), Output: p.Output, OutputDigest: p.OutputDigest,
		State: jobStates.text(p.State)}
}

// ParentOutputFromWire is the inverse of ParentOutputToWire.
func ParentOutputFromWire(w *rotav1.ParentOutput) (rota.ParentOutput, error) {
	state, err := jobStates.value(w.GetState())
	return rota.ParentOutput{State: state, Node: w.GetNode(), Job: rota.JobID(w.GetJob()), Output: w.GetOutput(),
		OutputDigest: w.GetOutputDigest()}, err
}
