// Package cluster is a node: hashicorp/raft and its stores, gossip, leadership,
// the leader's chores (match, sweep, reconcile, dates, members), proposing,
// reads, and the hub that wakes whoever waits for something to be applied.
//
// # What lies on the disk
//
// A data directory (DataDir) belongs to one node id of one cluster and is locked
// by one process. It holds node.json, the file LOCK, raft.db (log, term and vote,
// one bbolt file), and snapshots/ in the layout of raft's file store. Raft's
// promises are kept by what is remembered there, so the directory is distrusted
// first: OpenDataDir refuses a foreign, copied or emptied one, Preflight a damaged
// one, and the stores (Stores) stop the process at the first entry that does not
// match its checksum and at the first write that fails. A restart on a sound disk
// is always right; going on never is.
//
// # What goes over the wire
//
// Gossip (package gossip) finds nodes; it suggests and never decides. Raft's connections
// (package stream) begin with a handshake in which both sides show cluster, node and
// the identity of their data directory, and are metered afterwards, as raft
// decodes without bounds. Everything else between nodes goes through Peers.
//
// # What happens to a wrong state
//
// A node whose digest is not the majority's drops its state and rebuilds it from
// another node's and its own log, which is never touched (ADR 15, rebuild.go). The
// scrubber looks for damage that nobody reads, the watchdog for what does not return.
//
// # What happens on a full disk
//
// New work is refused before (watermark.go). The failing write ends the process
// with a text that says so: raft would step down, win again, and burn terms
// meanwhile. The other nodes elect a leader and go on; the node joins them again
// when it is started with space.
//
// The package never speaks gRPC: it never imports api or transport, and reaches
// other nodes only through raft's connections, gossip, and the Peers given to it.
package cluster
