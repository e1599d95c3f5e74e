// Package audit covers the past that can be replayed: the older snapshots that a node keeps for this, and the proof
// that every logged round is what the state at its height decides. The same replay audits a node, a stopped node's data
// directory and a backup.
//
// The package never writes to what it audits, and never changes a state that is served.
package audit
