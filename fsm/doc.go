// Package fsm is the state machine: an entry goes in, results and events come out, and every node that applied the same
// entries holds the same state to the bit (SPEC §2).
//
// Machine.Apply is the only way to change anything. It opens the envelope, moves the clock, runs each operation through
// one switch (machine.go) and settles the digest. Each verb is in its own file and uses no other verb. Below the verbs
// are the parts, each of which owns tables and the data derived from them, the rows in copy-on-write trees, and the
// codec. DESIGN.md lists the layers.
//
// A verb first validates, without changing anything, then mutates, which cannot fail. A refusal is a result; a broken
// invariant stops the process.
//
// The package never reads a clock, draws randomness, does I/O, starts a goroutine, takes a lock, uses a float, ranges
// over a map, or knows Raft. Its caller serialises access.
package fsm
