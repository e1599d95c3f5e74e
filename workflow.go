package rota

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// WorkflowID names a workflow. It has the same alphabet as every id.
type WorkflowID string

// WorkflowState is the state of a workflow (SPEC §11).
type WorkflowState uint8

// The workflow states. WorkflowOpen is a workflow whose nodes are still arriving: only its submitter sees it, and none
// of its nodes run.
const (
	WorkflowNone WorkflowState = iota
	WorkflowOpen
	WorkflowRunning
	WorkflowCompleted
	WorkflowFailed
	WorkflowCancelled
)

var workflowStateNames = []string{"NONE", "OPEN", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"}

// String names the state in capitals.
func (s WorkflowState) String() string { return nameOf(workflowStateNames, int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s WorkflowState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *WorkflowState) UnmarshalText(text []byte) error {
	v, err := valueOf(workflowStateNames, "workflow state", text)
	*s = WorkflowState(v)
	return err
}

// Terminal reports whether the workflow has ended. Only an operator's retry leaves such a state.
func (s WorkflowState) Terminal() bool { return s >= WorkflowCompleted }

// FailurePolicy determines what happens to the other nodes if a node does not complete (SPEC §11.3).
type FailurePolicy uint8

// The failure policies: FailFast cancels the nodes that are not running, Continue skips only the node's descendants.
const (
	FailureFailFast FailurePolicy = iota
	FailureContinue
)

var failurePolicyNames = []string{"fail_fast", "continue"}

// String returns the policy's name in SPEC §11.3.
func (p FailurePolicy) String() string { return nameOf(failurePolicyNames, int(p)) }

// MarshalText implements encoding.TextMarshaler.
func (p FailurePolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *FailurePolicy) UnmarshalText(text []byte) error {
	v, err := valueOf(failurePolicyNames, "failure policy", text)
	*p = FailurePolicy(v)
	return err
}

// WorkflowSpec is the definition of a workflow, given at submission. It never changes afterwards.
type WorkflowSpec struct {
	// ID is the idempotency key; the client library generates one if it is empty.
	ID WorkflowID `json:"id"`
	// Queue is the queue of all nodes that set no queue; empty means DefaultQueue.
	Queue QueueName `json:"queue,omitempty"`
	// Tenant is the tenant of all nodes; empty means DefaultTenant.
	Tenant TenantID `json:"tenant,omitempty"`
	// OnFailure determines what happens to the other nodes if a node does not complete.
	OnFailure FailurePolicy `json:"on_failure"`
	// Labels are set by the submitter, at most MaxLabels.
	Labels map[string]string `json:"labels,omitempty"`
	// Nodes are in the submitter's order, which breaks ties among ready nodes.
	Nodes []NodeSpec `json:"nodes"`
	// Edges are further edges in addition to the nodes' Parents. A repeated edge counts once.
	Edges []Edge `json:"edges,omitempty"`
}

// NodeRun determines how the parents of a node must end for it to run (SPEC §11.8).
type NodeRun uint8

// When a node runs: RunOnSuccess once all parents have COMPLETED, RunOnFailure once all have ended and at least one did
// not complete, RunAlways once all have ended. The last two also run while the workflow is failing. RunAlways also runs
// while it is being cancelled.
const (
	RunOnSuccess NodeRun = iota
	RunOnFailure
	RunAlways
)

var nodeRunNames = []string{"on_success", "on_failure", "always"}

// String names it as SPEC §11.8 does.
func (r NodeRun) String() string { return nameOf(nodeRunNames, int(r)) }

// MarshalText implements encoding.TextMarshaler.
func (r NodeRun) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *NodeRun) UnmarshalText(text []byte) error {
	v, err := valueOf(nodeRunNames, "run", text)
	*r = NodeRun(v)
	return err
}

// Check rejects a value that is not a NodeRun, and for a gate any other than RunOnSuccess.
func (r NodeRun) Check(gate *Gate) error {
	switch {
	case r > RunAlways:
		return Refusef(KindInvalid, "run", "run must be on_success, on_failure or always, got %d", r)
	case gate != nil && r != RunOnSuccess:
		return Refusef(KindInvalid, "run", "run must be on_success for a gate, got %s: put a job before or after it", r)
	}
	return nil
}

// NodeSpec is a node of a workflow: a template of a job, as NewNodeSpec starts it. Its JSON is flat. The id and the
// tenant of the JobSpec must be empty: the job's id is NodeJobID(workflow, node).
type NodeSpec struct {
	// ID is the node's id within the workflow: see CheckNodeID.
	ID string `json:"id"`
	// Parents are the ids of the nodes that must end, as Run requires, before this node starts.
	Parents []string `json:"parents,omitempty"`
	// Run is how its parents must end for the node to run; a gate runs on success.
	Run NodeRun `json:"run,omitzero"`
	// Gate makes the node a gate, which is not a job: all of its JobSpec except queue, priority and labels must be
	// empty.
	Gate *Gate `json:"gate,omitempty"`
	// An empty Queue of the JobSpec means the workflow's queue.
	JobSpec
}

// NewNodeSpec returns a node with the default priority and with its workflow's queue and tenant. NewJobSpec differs: it
// sets DefaultQueue, whatever the workflow's queue is.
func NewNodeSpec(id string, typ JobType, payload []byte, parents ...string) NodeSpec {
	return NodeSpec{ID: id, Parents: parents, JobSpec: JobSpec{Type: typ, Priority: DefaultPriority, Payload: payload}}
}

// Edge means that To starts only when From has completed.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// NodeJobID returns the id of a node's job: the workflow's id, a slash, the node's id. No submitted job can have such
// an id, as the alphabet of ids has no slash.
func NodeJobID(w WorkflowID, node string) JobID { return JobID(string(w) + "/" + node) }

// SplitNodeJobID is the inverse of NodeJobID; ok is false for any other job's id.
func SplitNodeJobID(id JobID) (w WorkflowID, node string, ok bool) {
	a, b, ok := strings.Cut(string(id), "/")
	return WorkflowID(a), b, ok
}

// NodeState is the state of a node of a workflow: its job's state, or NodeSkipped.
type NodeState uint8

// NodeSkipped is the state of a node that never ran because of how its ancestors ended. Its job is CANCELLED with the
// reason PARENT_FAILED, or NOT_NEEDED if it was to run on a failure that did not occur. NodeWaiting is the state of a
// gate whose parents have completed and that waits for its signal or its timeout; its job state is BLOCKED.
const (
	NodeSkipped = NodeState(JobCancelled) + 1
	NodeWaiting = NodeSkipped + 1
)

// String names the state in capitals.
func (s NodeState) String() string {
	switch s {
	case NodeSkipped:
		return "SKIPPED"
	case NodeWaiting:
		return "WAITING"
	default:
		return JobState(s).String()
	}
}

// MarshalText implements encoding.TextMarshaler.
func (s NodeState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *NodeState) UnmarshalText(text []byte) error {
	switch string(text) {
	case "SKIPPED":
		*s = NodeSkipped
	case "WAITING":
		*s = NodeWaiting
	default:
		var j JobState
		err := j.UnmarshalText(text)
		*s = NodeState(j)
		return err
	}
	return nil
}

// Workflow is all data about a workflow at one index.
type Workflow struct {
	ID        WorkflowID        `json:"id"`
	State     WorkflowState     `json:"state"`
	Queue     QueueName         `json:"queue"`
	Tenant    TenantID          `json:"tenant"`
	OnFailure FailurePolicy     `json:"on_failure"`
	Labels    map[string]string `json:"labels,omitempty"`
	NodeCount int64             `json:"node_count"`
	EdgeCount int64             `json:"edge_count"`
	// Counts are the numbers of nodes by state.
	Counts NodeCounts `json:"counts"`
	// Progress is the percentage of nodes that have COMPLETED, rounded down.
	Progress int32 `json:"progress"`
	// Runs counts the submission and every retry.
	Runs int32 `json:"runs"`
	// Ending is the state of a RUNNING workflow once its running nodes have ended; NONE while it may complete.
	Ending WorkflowState `json:"ending,omitempty"`
	// FailedNode is the first node that did not complete in this run. Reason is why it did not.
	FailedNode string `json:"failed_node,omitempty"`
	Reason     Reason `json:"reason,omitempty"`
	Submitted  Moment `json:"submitted"`
	Finished   Moment `json:"finished"`
	// CriticalPath has the nodes of the longest chain by duration, from a root to a leaf; among equal chains, the one
	// with the most nodes. Durations of nodes that have not run are estimates. CriticalPathLength is its length.
	// Remaining estimates the time left. It is the longest remaining chain, or the sum of all remaining durations
	// divided by the number of nodes that run now, whichever is more. It excludes waits of gates. All three are
	// set only by reads with nodes.
	CriticalPath       []string      `json:"critical_path,omitempty"`
	CriticalPathLength time.Duration `json:"critical_path_ms"`
	Remaining          time.Duration `json:"remaining_ms"`
	// Nodes are in topological order; set by reads with nodes.
	Nodes []WorkflowNode `json:"nodes,omitempty"`
}

// NodeCounts counts a workflow's nodes by state.
type NodeCounts struct {
	JobCounts
	Skipped int64 `json:"skipped"`
	// Waiting counts gates whose parents have completed; Blocked does not include them.
	Waiting int64 `json:"waiting"`
}

// WorkflowNode is a node as `workflow show` prints it.
type WorkflowNode struct {
	ID      string    `json:"id"`
	Job     JobID     `json:"job"`
	Type    JobType   `json:"type"`
	State   NodeState `json:"state"`
	Parents []string  `json:"parents"`
	// GrownBy is the node whose completion added this one; empty for a submitted node.
	GrownBy string `json:"grown_by,omitempty"`
	// Joins reports that nodes that wait for GrownBy also wait for this node.
	Joins bool `json:"joins,omitempty"`
	// Worker is the worker of the last attempt. Attempt is that attempt's number. The indexes are those of the entries
	// that assigned it and ended the node.
	Worker        WorkerID `json:"worker,omitempty"`
	Attempt       int32    `json:"attempt"`
	AssignedIndex Index    `json:"assigned_index,omitempty"`
	FinishedIndex Index    `json:"finished_index,omitempty"`
	// Assigned and Finished are when the node was assigned and when it ended.
	Assigned Moment `json:"assigned"`
	Finished Moment `json:"finished"`
	// Waiting is when a gate began to wait for its signal; zero before that and for other nodes.
	Waiting Moment `json:"waiting"`
	Reason  Reason `json:"reason,omitempty"`
	// Run is how its parents must end for the node to run.
	Run NodeRun `json:"run,omitzero"`
	// Duration is how long the node ran or should run. For an open gate it is the wait until the state last changed;
	// use Waiting for its age.
	Duration time.Duration `json:"duration_ms"`
}

// WorkflowSubmitted is the outcome of a submission.
type WorkflowSubmitted struct {
	ID    WorkflowID    `json:"id"`
	State WorkflowState `json:"state"`
	// Existed reports that the id was already known. This submission then changed nothing.
	Existed bool  `json:"existed,omitempty"`
	Nodes   int64 `json:"nodes"`
	Edges   int64 `json:"edges"`
	// Index is the index of the entry that committed it.
	Index Index `json:"index"`
}

// WorkflowFilter selects workflows; zero fields select all.
type WorkflowFilter struct {
	State  WorkflowState
	Queue  QueueName
	Tenant TenantID
	// Limit is as in JobFilter.
	Limit int
	// Cursor is the NextCursor of the page before; the list continues after that page.
	Cursor string
}

// WorkflowPage is one page of workflows in id order, without their nodes.
type WorkflowPage struct {
	Workflows  []Workflow `json:"workflows"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// ParentOutput is the output of a parent, as passed to a node of a workflow (SPEC §11.2). A parent that did not
// complete has no output.
type ParentOutput struct {
	Node string `json:"node"`
	Job  JobID  `json:"job"`
	// State is how the parent ended.
	State        JobState `json:"state"`
	Output       Blob     `json:"output,omitempty"`
	OutputDigest Hex      `json:"output_digest,omitempty"`
}

// Growth is the set of nodes that a node of a workflow adds to it on completion, all or nothing (SPEC §23.2).
type Growth struct {
	// Children are at most MaxChildren nodes. Their parents are the completing node or earlier children; a child that
	// names no parent is a child of the completing node. An empty queue means the workflow's queue.
	Children []NodeSpec `json:"children"`
	// Detached means that no node waits for the children. Otherwise nodes that wait for the completing node also wait
	// for the children that have no children of their own.
	Detached bool `json:"detached,omitempty"`
}

// CheckShape checks the children without any state; node is the completing node.
func (g *Growth) CheckShape(node string) error {
	if n := len(g.Children); n == 0 || n > MaxChildren {
		return Refusef(KindInvalid, "children", "children: got %d, want 1 to %d", n, MaxChildren)
	}
	before := map[string]bool{node: true}
	for i := range g.Children {
		n := &g.Children[i]
		if err := n.checkChild(before); err != nil {
			return ofChild(i, n.ID, err)
		}
		before[n.ID] = true
	}
	return nil
}

// checkChild is CheckTemplate for a child: its parents must be in before, it sets no tenant, and its queue may be
// empty.
func (n *NodeSpec) checkChild(before map[string]bool) error {
	if err := CheckNodeID("id", n.ID); err != nil {
		return err
	}
	if before[n.ID] {
		return Refusef(KindInvalid, "id", "the id is used by an earlier node: give each node its own id")
	}
	for i, id := range n.Parents {
		if !before[id] {
			return Refusef(KindInvalid, fmt.Sprintf("parents[%d]", i),
				"%q is neither the completing node nor an earlier child", shorten(id))
		}
	}
	if n.Tenant != "" {
		return Refusef(KindInvalid, "tenant", "tenant: got %.80q; omit it, a node has its workflow's tenant", n.Tenant)
	}
	whole := *n
	if whole.Queue == "" {
		whole.Queue = DefaultQueue
	}
	whole.Tenant = DefaultTenant
	return whole.CheckTemplate(MaxPayloadBytes)
}

// ofChild adds the child's name to a refusal.
func ofChild(place int, id string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	return Refusef(e.Kind, fmt.Sprintf("children[%d].%s", place, e.Subject), "child %q: %s", shorten(id), e.Text)
}

// GateType is the job type of gates: no worker ever runs one.
const GateType JobType = "gate"

// Gate makes a node of a workflow a gate (SPEC §23.1): it has no job, and after its parents have completed it waits for
// a signal or a timeout.
type Gate struct {
	// Timeout is how long the gate waits after its parents have completed, at most MaxGateTimeout; 0 means forever.
	Timeout time.Duration `json:"timeout_ms,omitempty"`
	// OnTimeout is what happens to the gate at its timeout.
	OnTimeout GateTimeout `json:"on_timeout,omitempty"`
}

// GateTimeout determines how a gate ends that got no signal in time.
type GateTimeout uint8

// The gate ends EXPIRED, or COMPLETED with an empty output.
const (
	GateExpires GateTimeout = iota
	GateCompletes
)

var gateTimeoutNames = []string{"expire", "complete"}

// String returns the name that SPEC §23.1 uses.
func (t GateTimeout) String() string { return nameOf(gateTimeoutNames, int(t)) }

// MarshalText implements encoding.TextMarshaler.
func (t GateTimeout) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *GateTimeout) UnmarshalText(text []byte) error {
	v, err := valueOf(gateTimeoutNames, "on_timeout", text)
	*t = GateTimeout(v)
	return err
}

// CheckGate rejects a gate whose fields are out of range. It also rejects a template that sets anything other than id,
// queue, tenant, priority and labels, as a gate is not a job.
func (s *JobSpec) CheckGate(g *Gate) error {
	if s.Type != GateType {
		return Refusef(KindInvalid, "type", "type: got %q; a gate has no type, omit it", shorten(string(s.Type)))
	}
	if g.Timeout < 0 || g.Timeout > MaxGateTimeout {
		return Refusef(KindInvalid, "gate.timeout_ms", "timeout_ms must be between 0 (forever) and %d (a year), got %s",
			MaxGateTimeout.Milliseconds(), quoted("timeout_ms", g.Timeout.Milliseconds()))
	}
	if g.OnTimeout > GateCompletes {
		return NotOneOf("gate.on_timeout", g.OnTimeout.String(), gateTimeoutNames...)
	}
	bare := &JobSpec{ID: s.ID, Queue: s.Queue, Type: s.Type, Tenant: s.Tenant, Priority: s.Priority, Labels: s.Labels,
		Minted: s.Minted}
	if how := s.Difference(bare); how != "" || len(s.Headers) > 0 {
		how = cmp.Or(how, "it has headers")
		return Refusef(KindInvalid, "gate", "a gate may only have id, parents, queue, priority and labels: %s", how)
	}
	return nil
}

// CheckTemplate checks the template of the node's job, or of a gate, which may have no type.
func (n *NodeSpec) CheckTemplate(payloadMax int64) error {
	s := n.JobSpec
	if n.Gate != nil && s.Type == "" {
		s.Type = GateType
	}
	if err := n.Run.Check(n.Gate); err != nil {
		return err
	}
	if err := s.CheckTemplate(payloadMax); err != nil || n.Gate == nil {
		return err
	}
	return s.CheckGate(n.Gate)
}

// Signal completes a waiting gate, or ends it DEAD.
type Signal struct {
	// Workflow and Node name the gate.
	Workflow WorkflowID `json:"workflow"`
	Node     string     `json:"node"`
	// ID is the idempotency key; the client library generates one if it is empty.
	ID string `json:"id"`
	// Payload becomes the gate's output, at most MaxSignalBytes. With Refuse, it is the reason.
	Payload Blob `json:"payload,omitempty"`
	// Refuse ends the gate DEAD instead of COMPLETED.
	Refuse bool `json:"refuse,omitempty"`
}

// CheckShape checks the signal without any state.
func (s *Signal) CheckShape() error {
	if err := CheckID("workflow", s.Workflow); err != nil {
		return err
	}
	if err := CheckNodeID("node", s.Node); err != nil {
		return err
	}
	if err := CheckID("id", s.ID); err != nil {
		return err
	}
	if n := len(s.Payload); n > MaxSignalBytes {
		return Refusef(KindInvalid, "payload",
			"payload too long: got %d bytes, maximum %d; store large data elsewhere and send its name", n,
			MaxSignalBytes)
	}
	return nil
}

// Signalled is the outcome of a signal.
type Signalled struct {
	Workflow WorkflowID `json:"workflow"`
	Node     string     `json:"node"`
	ID       string     `json:"id"`
	// Existed reports that the same signal was accepted before.
	Existed bool `json:"existed,omitempty"`
	// Index is the index of the entry that accepted it.
	Index Index `json:"index"`
}
