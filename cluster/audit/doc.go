// Package audit is the past that can be replayed: the older snapshots that a node keeps for
// it, and the proof that every logged round is what the state at its height decides. A node,
// a stopped node's data directory and a backup are audited by the same replay.
//
// The package never writes to what it audits, and never changes a state that is served.
package audit
