// Package tree is the ordered copy-on-write tree that holds the state machine's rows: iteration is in key order, and a
// copy takes constant time and never stops a change.
//
// The package never reads a clock, draws randomness, does I/O, starts a goroutine or takes a lock. Its caller
// serialises changes; copies may be read concurrently.
package tree
