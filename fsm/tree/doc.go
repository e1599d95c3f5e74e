// Package tree is the ordered copy-on-write tree that the state machine keeps its rows in:
// a walk is in key order, and a copy costs a constant and never stops a change.
//
// The package never reads a clock, draws chance, does I/O, starts a goroutine or takes a
// lock. Its caller serialises changes; copies may be read beside them.
package tree
