// Package fsm is the state machine: an entry goes in, results and events come
// out, and every node that was fed the same entries holds the same state to the
// bit (SPEC §2).
//
// Machine.Apply is the one way to change anything. It opens the envelope,
// moves the clock, runs each operation through one switch (machine.go) and
// settles the digest. Each verb stands in a file of its own and knows no other
// verb; beneath them lie the parts, each of which owns tables and what is derived of
// them, the rows in copy-on-write trees, and the codec. DESIGN.md has the layers.
//
// A verb first validates, without touching anything, then mutates, which cannot
// fail. A refusal is a result; a broken invariant stops the process.
//
// The package never reads a clock, draws chance, does I/O, starts a goroutine,
// takes a lock, uses a float, ranges over a map, or knows Raft. Its caller
// serialises access.
package fsm
