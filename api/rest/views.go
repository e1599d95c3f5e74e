package rest

import "github.com/rotasched/rota"

// Lanes are the first lanes of a queue in an order: groups of pending jobs that rounds treat as one.
type Lanes struct {
	Queue rota.QueueName `json:"queue"`
	// LanesTotal counts all lanes, ThrottledTotal those from which rounds do not draw. Both need the right to read all
	// of the queue.
	LanesTotal     int64 `json:"lanes_total,omitempty"`
	ThrottledTotal int64 `json:"throttled_total,omitempty"`
	// Lanes are in the requested order.
	Lanes []Lane `json:"lanes"`
}

// Lane is a lane: the pending jobs of one tenant with one set of requirements.
type Lane struct {
	Tenant rota.TenantID `json:"tenant"`
	Type   rota.JobType  `json:"type"`
	Domain string        `json:"domain,omitempty"`
	Keys   []string      `json:"keys,omitempty"`
	Jobs   int64         `json:"jobs"`
	// OldestWaitMs is how long the oldest of its jobs has waited.
	OldestWaitMs int64 `json:"oldest_wait_ms"`
	// Oldest is that job.
	Oldest rota.JobID `json:"oldest"`
	// Head is the first job of the lane, Priority is that job's priority.
	Head     rota.JobID `json:"head"`
	Priority int32      `json:"priority"`
	// Throttled reports that rounds do not draw from it.
	Throttled bool `json:"throttled,omitempty"`
	// Reasons are why no job of the lane is placed; empty if a worker has room and the lane waits for its turn.
	Reasons []rota.Why `json:"reasons"`
}

// Views are how each node sees each other node.
type Views struct {
	Nodes []NodeViews `json:"nodes"`
}

// NodeViews are how a node sees the others.
type NodeViews struct {
	Node rota.NodeID `json:"node"`
	// Error is why the node's views are missing.
	Error string     `json:"error,omitempty"`
	Views []NodeView `json:"views"`
}

// NodeView is how a node sees another node.
type NodeView struct {
	Node rota.NodeID `json:"node"`
	// Gossip is ALIVE, GONE (for a node that left or died) or UNKNOWN.
	Gossip string `json:"gossip"`
	// AnsweredMsAgo is how long ago the other node answered a call; left out if it never did.
	AnsweredMsAgo *int64 `json:"answered_ms_ago,omitempty"`
	// RaftMsAgo is the time since raft last received a message from the other node; followers receive only their
	// leader's.
	RaftMsAgo *int64 `json:"raft_ms_ago,omitempty"`
	// Error is why its last call failed.
	Error string `json:"error,omitempty"`
}

// Webhooks is a list of webhooks by name.
type Webhooks struct {
	Webhooks   []rota.Webhook `json:"webhooks"`
	NextCursor string         `json:"next_cursor,omitempty"`
}

// WebhookPause disables a webhook.
type WebhookPause struct {
	// Reason is shown to readers of the webhook.
	Reason string `json:"reason,omitempty"`
}

// Round is a matching decision for one queue, computed again on its state.
type Round struct {
	Epoch uint64 `json:"epoch"`
	// Height is the index of that state, Index that of the entry with the round.
	Height rota.Index     `json:"height"`
	Index  rota.Index     `json:"index"`
	Queue  rota.QueueName `json:"queue"`
	Seed   rota.Hex       `json:"seed"`
	// Proved reports that the log has exactly the round that was computed again.
	Proved bool `json:"proved"`
	// Candidates are the drawn jobs, by rank, and those placed before the draw: on a worker kept for them, or as the
	// oldest job.
	Candidates []Candidate `json:"candidates"`
	// Workers are those that had room when the round began, in its order, at most 100 of Room. Callers need the right
	// to see workers.
	Workers []rota.WorkerID `json:"workers,omitempty"`
	Room    int             `json:"room"`
	// Logged are the pairs in the log, if they differ from the computed ones. LoggedText and ComputedText show both
	// rounds from the first difference.
	Logged       []Candidate `json:"logged,omitempty"`
	LoggedText   string      `json:"logged_text,omitempty"`
	ComputedText string      `json:"computed_text,omitempty"`
}

// Candidate is a job that a round drew.
type Candidate struct {
	Job   rota.JobID `json:"job"`
	Rank  int32      `json:"rank"`
	Score rota.Score `json:"score"`
	// Worker is the assigned worker, Reasoning the rule by which it was chosen; none if no worker had room.
	Worker      rota.WorkerID   `json:"worker,omitempty"`
	Reasoning   *rota.Reasoning `json:"reasoning,omitempty"`
	Interleaved bool            `json:"interleaved,omitempty"`
}
