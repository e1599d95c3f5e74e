// Package explain answers why a job waits or was placed as it was, now and in the past, when it may start, and whether a
// round of the log can be computed again.
//
// The package never changes the state: it reads the replica, or a past state that it replays in a copy.
package explain
