// Package explain answers why a job waits or was placed as it was, now and in the past, and when it may start. It also
// computes rounds of the log again.
//
// The package never changes the state: it reads the replica, or a past state that it replays in a copy.
package explain
