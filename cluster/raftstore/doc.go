// Package raftstore stores raft's data on a node's disk: the data directory, one bbolt file with the log, the term and
// the vote, and the snapshots.
//
// Raft keeps its promises by means of this data, so the package checks all of it before use. OpenDataDir rejects a
// foreign, copied or emptied directory, and Preflight a damaged one. The stores (Open) check every entry when they read
// it. They end the process at the first entry that does not match its checksum and at the first write that fails.
// Restarting on a sound disk is always correct; continuing never is.
//
// The package never retries a failed write and never guesses the content of a damaged entry.
package raftstore
