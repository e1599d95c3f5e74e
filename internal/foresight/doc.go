// Package foresight answers what would have happened under another policy: a discrete-event driver
// over fsm.Machine, the very code that decides in a cluster.
//
// Time is virtual, workers are virtual, and the driver's chores are the leader's in the leader's order.
// The package never reads a clock, starts a goroutine, or decides anything itself: equal input gives equal
// output, byte for byte.
package foresight
