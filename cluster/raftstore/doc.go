// Package raftstore is what raft remembers on a node's disk: the data directory, the log,
// the term and the vote in one bbolt file, and the snapshots.
//
// Raft's promises are kept by what is remembered here, so all of it is distrusted first.
// OpenDataDir refuses a foreign, copied or emptied directory, and Preflight a damaged one.
// The stores (Open) check every entry as it is read, and stop the process at the first
// that does not match its checksum and at the first write that fails. A restart on a sound
// disk is always right; going on never is.
//
// The package never tries a failed write again, and never guesses what a damaged entry was.
package raftstore
