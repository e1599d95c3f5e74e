// Package cluster is a node: hashicorp/raft and its stores, gossip, leadership,
// the leader's chores (match, sweep, reconcile, dates, members), proposing,
// reads, and the hub that wakes whoever waits for something to be applied.
//
// # What lies on the disk
//
// Package raftstore keeps what raft remembers, in a data directory that belongs to one node
// of one cluster and is locked by one process. Beside raft's files lies the archive, with
// ended jobs and events (package snapshot).
//
// # What goes over the wire
//
// Package gossip finds nodes; it suggests and never decides. Package stream carries raft's
// connections. Everything else between nodes goes through Peers.
//
// # What happens to a wrong state
//
// A node whose digest is not the majority's drops its state and rebuilds it from
// another node's and its own log, which is never touched (ADR 15, package rebuild). That
// package also looks for damage that nobody reads, the watchdog for what does not return.
//
// # What happens on a full disk
//
// New work is refused before (gate_disk.go). The failing write ends the process
// with a text that says so: raft would step down, win again, and burn terms
// meanwhile. The other nodes elect a leader and go on; the node joins them again
// when it is started with space.
//
// The package never speaks gRPC: it never imports api or transport, and reaches
// other nodes only through raft's connections, gossip, and the Peers given to it.
package cluster
