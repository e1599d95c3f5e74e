package peer

import "github.com/rotasched/rota"

// ReadOptions sets how fresh a read must be (SPEC §13.2). The zero value is linearizable.
type ReadOptions struct {
	// Stale reads the asked node's own state without waiting.
	Stale bool
	// MinIndex waits until the node has applied this index, without asking the leader.
	MinIndex rota.Index
}

// Inspection is a node's report on itself to another node.
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
	// DiskLevel is 0 if its disk has room, 1 if it is too full for new jobs, 2 if it is too full to start any.
	DiskLevel uint8
	// DiskRoom is how many bytes may be written before the next level.
	DiskRoom uint64
	// DifferedAt is where its state was last found to be wrong, RightUntil up to where it was right then (SPEC §2.5); 0
	// if it never was wrong, or nothing is known.
	DifferedAt, RightUntil rota.Index
	// Term is its Raft term, read after LastLogIndex; 0 from a binary that does not report it.
	Term uint64
	// Cut is its last loss of applied entries, the zero value for none.
	Cut LogCut
	// Autopilot and Health are a leader's judgement of the voters and of each node; empty from other nodes.
	Autopilot rota.Autopilot
	Health    []NodeHealth
	// Views holds its view of each other node.
	Views []NodeView
}

// LogCut records that a leader replaced the entries From to To, which a node had applied; Term is the term that the
// first of them had there, AtMs the time of the loss in Unix milliseconds (SPEC §2.5).
type LogCut struct {
	From, To, Term uint64
	AtMs           int64
}

// NodeView is a node's view of another one.
type NodeView struct {
	ID rota.NodeID
	// Gossip is ALIVE, GONE for one that left or died, or UNKNOWN.
	Gossip string
	// AnsweredMs is how long ago it answered a call, RaftMs how long ago Raft received a message from it: a leader
	// receives from all, another node from its leader. -1 is never.
	AnsweredMs, RaftMs int64
	// Error is why its last call failed, "" if it did not.
	Error string
}

// NodeViews holds a node's views of the others, or why it does not report them.
type NodeViews struct {
	ID    rota.NodeID
	Views []NodeView
	Error string
}

// NodeHealth is a leader's judgement of a node.
type NodeHealth struct {
	ID rota.NodeID
	rota.NodeHealth
}

// NodeAddress is the address at which a node answers other nodes.
type NodeAddress struct {
	ID  rota.NodeID
	API string
}

// Unrecorded is the subject of the refusal of a node that the state does not record.
const Unrecorded = "unrecorded"

// Introduction is a starting node's report on itself to a running node, before it takes part in anything.
type Introduction struct {
	Node     rota.NodeID
	Identity string
	Starts   uint64
	// Fresh means that its data directory holds no Raft state.
	Fresh bool
	// RulesVersion is the newest version of the rules that its binary knows.
	RulesVersion uint32
	// Term and LastLogIndex are the end of its log; Term is 0 from a binary that does not report it.
	Term         uint64
	LastLogIndex rota.Index
}
