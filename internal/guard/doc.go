// Package guard watches over a worker's process and all that it starts (SPEC §16.7).
//
// [Guard.Run] is the guard's side: it starts this very command again as its child, the
// worker, and when that dies it ends what is left of it. [Over] is the worker's side: it
// finds the pipe that leads to the guard.
//
// The package never calls the cluster itself, and never tells of a worker's end before
// every process that the worker left has ended.
package guard
