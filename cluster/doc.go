// Package cluster implements a node: hashicorp/raft and its stores, gossip, leadership, the leader's chores (match,
// sweep, reconcile, dates, members), proposing, reads, and the hub that wakes waiters when an entry is applied.
//
// # Data on disk
//
// Package raftstore stores raft's data, in a data directory that belongs to one node of one cluster and is locked by
// one process. Next to raft's files is the archive, with ended jobs and events (package snapshot).
//
// # Communication between nodes
//
// Package gossip finds nodes; it suggests and never decides. Package stream carries raft's connections. Everything else
// between nodes goes through Peers.
//
// # Wrong state
//
// A node whose digest differs from the majority's drops its state and rebuilds it from another node's state and its own
// log, which is never touched (ADR 15, package rebuild). That package also scans for damage in data that is rarely
// read; the watchdog detects calls that do not return.
//
// # Full disk
//
// New work is rejected before the disk is full (gate_disk.go). A write that fails ends the process with an error
// message: otherwise raft would step down, win again, and use up terms. The other nodes elect a leader and continue;
// the node joins them again when it is started with free space.
//
// The package never uses gRPC: it does not import api or transport, and reaches other nodes only through raft's
// connections, gossip, and the Peers given to it.
package cluster
