// Package foresight answers what would have happened under another policy: a discrete-event driver
// over fsm.Machine, the very code that decides in a cluster.
//
// Time is virtual, workers are virtual, and the driver's chores are the leader's in the leader's order.
// It never reads a clock, starts no goroutine, and decides nothing itself: the same input gives the same
// bytes.
package foresight
