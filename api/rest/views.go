package rest

import "github.com/rotasched/rota"

// Lanes are the first lanes of a queue in an order: jobs that wait and that rounds look at as one.
type Lanes struct {
	Queue rota.QueueName `json:"queue"`
	// LanesTotal and ThrottledTotal count all lanes, and those that rounds do not draw from; they
	// are left out for who may not read all of the queue.
	LanesTotal     int64 `json:"lanes_total,omitempty"`
	ThrottledTotal int64 `json:"throttled_total,omitempty"`
	// Lanes are in the order that was asked for: the largest first, or those whose oldest jobs have waited longest.
	Lanes []Lane `json:"lanes"`
}

// Lane is a lane: jobs of one tenant, with one set of requirements, that wait.
type Lane struct {
	Tenant rota.TenantID `json:"tenant"`
	Type   rota.JobType  `json:"type"`
	Domain string        `json:"domain,omitempty"`
	Keys   []string      `json:"keys,omitempty"`
	Jobs   int64         `json:"jobs"`
	// OldestWaitMs is for how long the oldest of its jobs has waited.
	OldestWaitMs int64 `json:"oldest_wait_ms"`
	// Oldest is that job.
	Oldest rota.JobID `json:"oldest"`
	// Head is the job that comes first in the lane, Priority is that job's.
	Head     rota.JobID `json:"head"`
	Priority int32      `json:"priority"`
	// Throttled says that rounds do not draw from it.
	Throttled bool `json:"throttled,omitempty"`
	// Reasons are why nothing of it is placed; none where a worker has room, and it waits for its turn.
	Reasons []rota.Why `json:"reasons"`
}

// Views are what each node finds of each other one.
type Views struct {
	Nodes []NodeViews `json:"nodes"`
}

// NodeViews are what a node finds of the others.
type NodeViews struct {
	Node rota.NodeID `json:"node"`
	// Error is why the node does not say it.
	Error string     `json:"error,omitempty"`
	Views []NodeView `json:"views"`
}

// NodeView is what a node finds of another one.
type NodeView struct {
	Node rota.NodeID `json:"node"`
	// Gossip is ALIVE, GONE of one that left or died, or UNKNOWN.
	Gossip string `json:"gossip"`
	// AnsweredMsAgo is how long ago it answered a call; left out where it never did.
	AnsweredMsAgo *int64 `json:"answered_ms_ago,omitempty"`
	// RaftMsAgo is how long ago raft heard of it: a leader hears of all others, another node of
	// its leader alone.
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
	// Reason is shown to whoever reads it.
	Reason string `json:"reason,omitempty"`
}

// Round is a matching decision for one queue, computed again on the state that it was made on.
type Round struct {
	Epoch uint64 `json:"epoch"`
	// Height is the index of that state, Index that of the entry which has the round.
	Height rota.Index     `json:"height"`
	Index  rota.Index     `json:"index"`
	Queue  rota.QueueName `json:"queue"`
	Seed   rota.Hex       `json:"seed"`
	// Proved says that the log has what was computed again, to the bit.
	Proved bool `json:"proved"`
	// Candidates are the jobs that it drew, by rank, and those that were placed before its draw: by a
	// worker kept for them, or by the turn of the oldest.
	Candidates []Candidate `json:"candidates"`
	// Workers are those that had room as it began, in its order, at most 100 of Room; left out for
	// who may not see how workers do.
	Workers []rota.WorkerID `json:"workers,omitempty"`
	Room    int             `json:"room"`
	// Logged are the pairs of the log where they are not those that were computed again; LoggedText
	// and ComputedText show both rounds from where they differ.
	Logged       []Candidate `json:"logged,omitempty"`
	LoggedText   string      `json:"logged_text,omitempty"`
	ComputedText string      `json:"computed_text,omitempty"`
}

// Candidate is a job that a round drew.
type Candidate struct {
	Job   rota.JobID `json:"job"`
	Rank  int32      `json:"rank"`
	Score rota.Score `json:"score"`
	// Worker is the one that it got, Reasoning the rule by which; none where nobody had room.
	Worker      rota.WorkerID   `json:"worker,omitempty"`
	Reasoning   *rota.Reasoning `json:"reasoning,omitempty"`
	Interleaved bool            `json:"interleaved,omitempty"`
}
