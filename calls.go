package rota

// What callers ask of a node, and what they are told, in words that neither
// the protocol nor the state machine owns.

// ReadOptions says how fresh a read must be (SPEC §13.2). The zero value is
// linearizable.
type ReadOptions struct {
	// Stale reads the asked node's own state at once.
	Stale bool
	// MinIndex waits until the node has applied so much, without asking the leader.
	MinIndex Index
}

// ReadAt says what a read saw.
type ReadAt struct {
	Index Index `json:"index"`
	// AgeMs is how long ago this node last applied anything; −1 if never.
	AgeMs int64 `json:"age_ms"`
}

// Submitted is the outcome for one submitted job.
type Submitted struct {
	ID    JobID    `json:"id"`
	State JobState `json:"state"`
	// Existed says that the id was known before: the first submission stands.
	Existed bool `json:"existed,omitempty"`
	// Index of the entry that decided it.
	Index Index  `json:"index"`
	Err   *Error `json:"-"`
}

// JobOutcome is the outcome of a cancel or a retry.
type JobOutcome struct {
	ID    JobID
	State JobState
	Index Index
	Err   *Error
}

// JobFilter selects jobs; zero fields select all.
type JobFilter struct {
	Queue  QueueName
	State  JobState
	Tenant TenantID
	Type   JobType
	// Limit is at most MaxPage; 0 means 100.
	Limit int
	// Cursor continues after a page: its NextCursor.
	Cursor string
}

// JobPage is one page of jobs in id order, live before terminal ones.
type JobPage struct {
	Jobs       []Job  `json:"jobs"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// Queue is a queue with its policy and counters.
type Queue struct {
	Name   QueueName   `json:"name"`
	Policy QueuePolicy `json:"policy"`
	// Pending = Blocked + Delayed + Queued, what queue_cap bounds.
	Pending  int64 `json:"pending"`
	Blocked  int64 `json:"blocked"`
	Delayed  int64 `json:"delayed"`
	Queued   int64 `json:"queued"`
	Assigned int64 `json:"assigned"`
	Running  int64 `json:"running"`
	// Totals since the cluster began.
	SubmittedTotal uint64 `json:"submitted_total"`
	AssignedTotal  uint64 `json:"assigned_total"`
	CompletedTotal uint64 `json:"completed_total"`
	DeadTotal      uint64 `json:"dead_total"`
	ExpiredTotal   uint64 `json:"expired_total"`
	CancelledTotal uint64 `json:"cancelled_total"`
	// Lanes with pending jobs, and the workers that serve the queue.
	Lanes   int64 `json:"lanes"`
	Workers int64 `json:"workers"`
	// OldestWaitMs is how long the oldest QUEUED job has waited.
	OldestWaitMs int64 `json:"oldest_wait_ms"`
}

// NodeStatus is one node as `cluster status` shows it.
type NodeStatus struct {
	ID      NodeID `json:"id"`
	API     string `json:"api"`
	Raft    string `json:"raft"`
	State   string `json:"state"` // LEADER, FOLLOWER, CANDIDATE, UNREACHABLE, STARTING
	Voter   bool   `json:"voter"`
	Version string `json:"version"`
	// AppliedIndex and Digest are of one moment on that node.
	AppliedIndex Index  `json:"applied_index"`
	Digest       Digest `json:"digest"`
	Healthy      bool   `json:"healthy"`
	// Problems say what is wrong, each with what to do.
	Problems []string `json:"problems"`
}

// ClusterStatus is the whole cluster as one node sees it.
type ClusterStatus struct {
	ClusterID    ClusterID    `json:"cluster_id"`
	Leader       NodeID       `json:"leader"`
	Term         uint64       `json:"term"`
	AppliedIndex Index        `json:"applied_index"`
	Clock        Clock        `json:"clock_ms"`
	Date         Date         `json:"date_ms"`
	Mode         ClusterMode  `json:"mode"`
	Jobs         JobCounts    `json:"jobs"`
	Workers      int64        `json:"workers"`
	Nodes        []NodeStatus `json:"nodes"`
}

// JobCounts counts jobs by state; terminal ones since the cluster began.
type JobCounts struct {
	Blocked   int64 `json:"blocked"`
	Delayed   int64 `json:"delayed"`
	Queued    int64 `json:"queued"`
	Assigned  int64 `json:"assigned"`
	Running   int64 `json:"running"`
	Completed int64 `json:"completed"`
	Dead      int64 `json:"dead"`
	Expired   int64 `json:"expired"`
	Cancelled int64 `json:"cancelled"`
}

// NodeVerdict is one node's part of `operator verify`.
type NodeVerdict struct {
	ID         NodeID   `json:"id"`
	Index      Index    `json:"index"`
	Digest     Digest   `json:"digest"`
	Violations []string `json:"violations"`
	// Error says why the node could not be asked; such a node is not equal.
	Error string `json:"error,omitempty"`
}

// Verdict is what `operator verify` answers: every node's invariants walked
// and its digest at one common index.
type Verdict struct {
	Index Index         `json:"index"`
	Nodes []NodeVerdict `json:"nodes"`
	Equal bool          `json:"equal"`
}

// RaftPeer is one server of the Raft configuration.
type RaftPeer struct {
	ID      NodeID `json:"id"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
	Leader  bool   `json:"leader"`
}

// SnapshotInfo describes a snapshot or backup file.
type SnapshotInfo struct {
	ClusterID    ClusterID `json:"cluster_id"`
	Incarnation  uint64    `json:"incarnation"`
	Index        Index     `json:"index"`
	Term         uint64    `json:"term"`
	Clock        Clock     `json:"clock_ms"`
	Date         Date      `json:"date_ms"`
	Digest       Digest    `json:"digest"`
	RulesVersion uint32    `json:"rules_version"`
	Format       uint32    `json:"format"`
	Records      uint64    `json:"records"`
	Bytes        int64     `json:"bytes"`
}

// Beat is a worker's sign of life on its way to the leader (SPEC §3.9).
type Beat struct {
	Worker  WorkerID
	Session Session
}

// BeatAnswer tells the clock after the first entry stamped after the beats
// reached the leader. Refused lists, by position, sessions no longer live.
type BeatAnswer struct {
	Clock   Clock
	Refused []int32
}

// Inspection is a node's word on itself to another node.
type Inspection struct {
	Status    NodeStatus
	ClusterID ClusterID
	// WallMs is the node's own wall clock, Unix milliseconds.
	WallMs int64
	// Digests answer the asked indexes; nil where not (or no longer) known.
	Digests []*Digest
	// LastLogIndex is the last entry in the node's log.
	LastLogIndex Index
}

// NodeAddress says where a node answers other nodes.
type NodeAddress struct {
	ID  NodeID
	API string
}

// Introduction is what a starting node says of itself to a node that is up,
// before it takes part in anything.
type Introduction struct {
	Node     NodeID
	Identity string
	Starts   uint64
	// Fresh says that its data directory holds no Raft state.
	Fresh bool
}
