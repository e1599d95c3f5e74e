// Package guard watches a worker's process and all processes that it starts (SPEC §16.7).
//
// [Guard.Run] is the guard's side: it starts the same command again as its child, the worker, and when that dies it
// ends the remaining processes. [Over] is the worker's side: it finds the pipe to the guard.
//
// The package never calls the cluster itself, and never reports a worker's end before every process that the worker
// left has ended.
package guard
