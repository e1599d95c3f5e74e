package peer

import "github.com/rotasched/rota"

// ReadOptions says how fresh a read must be (SPEC §13.2). The zero value is
// linearizable.
type ReadOptions struct {
	// Stale reads the asked node's own state at once.
	Stale bool
	// MinIndex waits until the node has applied so much, without asking the leader.
	MinIndex rota.Index
}

// Inspection is a node's word on itself to another node.
type Inspection struct {
	Status    rota.NodeStatus
	ClusterID rota.ClusterID
	// Identity is that of its data directory.
	Identity string
	// WallMs is the node's own wall clock, Unix milliseconds.
	WallMs int64
	// Digests answer the asked indexes; nil where not (or no longer) known.
	Digests []*rota.Digest
	// LastLogIndex is the last entry in the node's log.
	LastLogIndex rota.Index
	// DiskLevel is 0 where its disk has room, 1 where it is too full for new jobs, 2
	// where it is too full to start any.
	DiskLevel uint8
	// DiskRoom is how many bytes may be written before the next level.
	DiskRoom uint64
	// DifferedAt is where its state was last found to be wrong, RightUntil up to where
	// it was right then (SPEC §2.5); 0 where it never was, or nothing is known.
	DifferedAt, RightUntil rota.Index
	// Term is its raft's, read after LastLogIndex; 0 of a binary that does not say.
	Term uint64
	// Cut is its last loss of applied entries, the zero value for none.
	Cut LogCut
	// Autopilot and Health are what a leader makes of the voters and of each node; empty of
	// others.
	Autopilot rota.Autopilot
	Health    []NodeHealth
	// Views are what it finds of each other node.
	Views []NodeView
}

// LogCut says that a leader replaced the entries From to To, which a node had applied; Term is that of the first of
// them there, AtMs when, Unix milliseconds (SPEC §2.5).
type LogCut struct {
	From, To, Term uint64
	AtMs           int64
}

// NodeView is what a node finds of another one.
type NodeView struct {
	ID rota.NodeID
	// Gossip is ALIVE, GONE of one that left or died, or UNKNOWN.
	Gossip string
	// AnsweredMs is how long ago it answered a call, RaftMs how long ago raft heard of it: a leader
	// hears of all, another node of its leader. -1 is never.
	AnsweredMs, RaftMs int64
	// Error is why its last call failed, "" where it did not.
	Error string
}

// NodeViews are a node's views of the others, or why it does not say them.
type NodeViews struct {
	ID    rota.NodeID
	Views []NodeView
	Error string
}

// NodeHealth is how a leader finds a node.
type NodeHealth struct {
	ID rota.NodeID
	rota.NodeHealth
}

// NodeAddress says where a node answers other nodes.
type NodeAddress struct {
	ID  rota.NodeID
	API string
}

// Unrecorded is the subject of the refusal of a node that the state does not record.
const Unrecorded = "unrecorded"

// Introduction is what a starting node says of itself to a node that is up,
// before it takes part in anything.
type Introduction struct {
	Node     rota.NodeID
	Identity string
	Starts   uint64
	// Fresh says that its data directory holds no Raft state.
	Fresh bool
	// RulesVersion is the newest version of the rules that its binary knows.
	RulesVersion uint32
	// Term and LastLogIndex are how far its log has come; Term is 0 of a binary that does not say.
	Term         uint64
	LastLogIndex rota.Index
}
