package rota

import (
	"strings"
	"time"
)

// WorkflowID names a workflow, with the alphabet of every id.
type WorkflowID string

// WorkflowState is where a workflow stands (SPEC §11).
type WorkflowState uint8

// The workflow states. WorkflowOpen is one whose nodes are still arriving: nobody
// but its submitter sees it, and none of it runs.
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

// Terminal reports whether the workflow is over; only an operator's retry leaves such a
// state.
func (s WorkflowState) Terminal() bool { return s >= WorkflowCompleted }

// FailurePolicy is what a node that does not complete means for the others
// (SPEC §11.3).
type FailurePolicy uint8

// The failure policies: FailFast cancels what is not running, Continue skips the
// node's descendants alone.
const (
	FailureFailFast FailurePolicy = iota
	FailureContinue
)

var failurePolicyNames = []string{"fail_fast", "continue"}

// String names the policy as SPEC §11.3 does.
func (p FailurePolicy) String() string { return nameOf(failurePolicyNames, int(p)) }

// MarshalText implements encoding.TextMarshaler.
func (p FailurePolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *FailurePolicy) UnmarshalText(text []byte) error {
	v, err := valueOf(failurePolicyNames, "failure policy", text)
	*p = FailurePolicy(v)
	return err
}

// WorkflowSpec is a workflow as it is submitted. It never changes afterwards.
type WorkflowSpec struct {
	// ID is the idempotency key; the client library sets one where it is empty.
	ID WorkflowID `json:"id"`
	// Queue of the nodes that name none; empty means DefaultQueue.
	Queue QueueName `json:"queue,omitempty"`
	// Tenant of all nodes; empty means DefaultTenant.
	Tenant TenantID `json:"tenant,omitempty"`
	// OnFailure is what happens to the others when a node does not complete.
	OnFailure FailurePolicy `json:"on_failure"`
	// Labels are the submitter's own, at most MaxLabels.
	Labels map[string]string `json:"labels,omitempty"`
	// Nodes in the submitter's order, by which ties among ready ones are broken.
	Nodes []NodeSpec `json:"nodes"`
	// Edges beside those of the nodes' Parents. A repeated edge counts once.
	Edges []Edge `json:"edges,omitempty"`
}

// NodeRun is what the parents of a node must have come to for it to run (SPEC §11.8).
type NodeRun uint8

// When a node runs: once all parents have COMPLETED; once all have ended and one did not complete; or once all have
// ended, however. The last two also run in a workflow that is failing, the last one in one that is being cancelled.
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

// Check refuses what is not a NodeRun, and any but RunOnSuccess of a gate.
func (r NodeRun) Check(gate *Gate) error {
	switch {
	case r > RunAlways:
		return Refusef(KindInvalid, "run", "run must be on_success, on_failure or always, got %d", r)
	case gate != nil && r != RunOnSuccess:
		return Refusef(KindInvalid, "run", "run must be on_success for a gate, got %s: put a job before or after it", r)
	}
	return nil
}

// NodeSpec is a node of a workflow: a template of a job, as NewNodeSpec starts it. Its
// JSON is flat. Leave the id and the tenant of the JobSpec empty: the
// job's id is NodeJobID(workflow, node).
type NodeSpec struct {
	// ID within the workflow: see CheckNodeID.
	ID string `json:"id"`
	// Parents are ids of nodes that must complete, or end as Run says, before this one starts.
	Parents []string `json:"parents,omitempty"`
	// Run says what its parents must have come to for the node to run; a gate runs on success.
	Run NodeRun `json:"run,omitzero"`
	// Gate makes the node a gate, which is no job: leave all of its JobSpec empty but for
	// queue, priority and labels.
	Gate *Gate `json:"gate,omitempty"`
	// JobSpec's Queue is the workflow's where it is empty.
	JobSpec
}

// NewNodeSpec starts a node with the default priority, of its workflow's queue and
// tenant. A JobSpec of NewJobSpec names DefaultQueue instead, whatever the workflow's.
func NewNodeSpec(id string, typ JobType, payload []byte, parents ...string) NodeSpec {
	return NodeSpec{ID: id, Parents: parents, JobSpec: JobSpec{Type: typ, Priority: DefaultPriority, Payload: payload}}
}

// Edge means that To starts only when From has completed.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// NodeJobID is the id of a node's job: the workflow, a slash, the node. No
// submitted job can have such an id, as its alphabet has no slash.
func NodeJobID(w WorkflowID, node string) JobID { return JobID(string(w) + "/" + node) }

// SplitNodeJobID is the inverse of NodeJobID; ok is false for any other job's id.
func SplitNodeJobID(id JobID) (w WorkflowID, node string, ok bool) {
	a, b, ok := strings.Cut(string(id), "/")
	return WorkflowID(a), b, ok
}

// NodeState is where a node of a workflow stands: its job's state, or
// NodeSkipped.
type NodeState uint8

// NodeSkipped is a node that never ran, as an ancestor of it did not complete. Its
// job is CANCELLED, for the reason PARENT_FAILED, or NOT_NEEDED where it was to run on a failure that did not come. NodeWaiting is a gate whose parents have
// completed, and that waits for its signal or its time: as a job it is BLOCKED.
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

// Workflow is everything that is known of a workflow at one index.
type Workflow struct {
	ID        WorkflowID        `json:"id"`
	State     WorkflowState     `json:"state"`
	Queue     QueueName         `json:"queue"`
	Tenant    TenantID          `json:"tenant"`
	OnFailure FailurePolicy     `json:"on_failure"`
	Labels    map[string]string `json:"labels,omitempty"`
	NodeCount int64             `json:"node_count"`
	EdgeCount int64             `json:"edge_count"`
	// Counts are the nodes by state.
	Counts NodeCounts `json:"counts"`
	// Progress is how many of a hundred nodes have COMPLETED, rounded down.
	Progress int32 `json:"progress"`
	// Runs counts the submission and every retry.
	Runs int32 `json:"runs"`
	// Ending is what a RUNNING workflow will be when what runs has ended; NONE as
	// long as it may complete.
	Ending WorkflowState `json:"ending,omitempty"`
	// FailedNode is the first node that did not complete in this run, Reason why.
	FailedNode string `json:"failed_node,omitempty"`
	Reason     Reason `json:"reason,omitempty"`
	Submitted  Moment `json:"submitted"`
	Finished   Moment `json:"finished"`
	// CriticalPath are the nodes of the longest chain by duration, of equals that of
	// the most nodes, from a root to a leaf: measured where a node has run, estimated
	// where it has not; CriticalPathLength is its length. Remaining estimates the work
	// that is left: the longest chain of it, or its sum over the nodes that run at a time,
	// whichever is more. The time that gates wait is not in it: no one knows when a signal
	// comes. Set by reads with nodes.
	CriticalPath       []string      `json:"critical_path,omitempty"`
	CriticalPathLength time.Duration `json:"critical_path_ms"`
	Remaining          time.Duration `json:"remaining_ms"`
	// Nodes in topological order; set by reads with nodes.
	Nodes []WorkflowNode `json:"nodes,omitempty"`
}

// NodeCounts counts a workflow's nodes by state.
type NodeCounts struct {
	JobCounts
	Skipped int64 `json:"skipped"`
	// Waiting are gates whose parents have completed; they are not among Blocked.
	Waiting int64 `json:"waiting"`
}

// WorkflowNode is a node as `workflow show` prints it.
type WorkflowNode struct {
	ID      string    `json:"id"`
	Job     JobID     `json:"job"`
	Type    JobType   `json:"type"`
	State   NodeState `json:"state"`
	Parents []string  `json:"parents"`
	// GrownBy is the node whose completion added this one, empty of one that was submitted.
	GrownBy string `json:"grown_by,omitempty"`
	// Joins reports that whoever waits for GrownBy waits for this node, too.
	Joins bool `json:"joins,omitempty"`
	// Worker of the last attempt, its number, and where in the log it was assigned
	// and the node ended.
	Worker        WorkerID `json:"worker,omitempty"`
	Attempt       int32    `json:"attempt"`
	AssignedIndex Index    `json:"assigned_index,omitempty"`
	FinishedIndex Index    `json:"finished_index,omitempty"`
	// Assigned and Finished are when that was.
	Assigned Moment `json:"assigned"`
	Finished Moment `json:"finished"`
	// Waiting is when a gate began to wait for its signal; zero for other nodes, and before.
	Waiting Moment `json:"waiting"`
	Reason  Reason `json:"reason,omitempty"`
	// Run is what its parents must have come to for it to run.
	Run NodeRun `json:"run,omitzero"`
	// Duration is how long it ran, or how long it is expected to run. That of an open gate is
	// how long it had waited when the state last changed: Waiting gives its age now.
	Duration time.Duration `json:"duration_ms"`
}

// WorkflowSubmitted is the outcome of a submission.
type WorkflowSubmitted struct {
	ID    WorkflowID    `json:"id"`
	State WorkflowState `json:"state"`
	// Existed reports that the id was known before: the first submission stands.
	Existed bool  `json:"existed,omitempty"`
	Nodes   int64 `json:"nodes"`
	Edges   int64 `json:"edges"`
	// Index of the entry that committed it.
	Index Index `json:"index"`
}

// WorkflowFilter selects workflows; zero fields select all.
type WorkflowFilter struct {
	State  WorkflowState
	Queue  QueueName
	Tenant TenantID
	// Limit is that of a JobFilter.
	Limit int
	// Cursor is the NextCursor of the page before; the list continues after that page.
	Cursor string
}

// WorkflowPage is one page of workflows in id order, without their nodes.
type WorkflowPage struct {
	Workflows  []Workflow `json:"workflows"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// ParentOutput is what a node of a workflow sees of a parent (SPEC §11.2). A parent that did not complete has no output.
type ParentOutput struct {
	Node string `json:"node"`
	Job  JobID  `json:"job"`
	// State is how the parent ended.
	State        JobState `json:"state"`
	Output       Blob     `json:"output,omitempty"`
	OutputDigest Hex      `json:"output_digest,omitempty"`
}
