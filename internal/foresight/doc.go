// Package foresight simulates the effects of another policy: a discrete-event driver for fsm.Machine, the same code
// that decides in a cluster.
//
// Time and workers are virtual, and the driver does the leader's periodic tasks in the leader's order. The package
// never reads a clock, starts a goroutine, or decides anything itself: equal input gives equal output, byte for byte.
package foresight
