// Package workload is a run from its beginning to its end: the users that keep a cluster busy, one file each, the
// workers, and the questions that are asked once all faults have ended.
//
//   - workload.go lists the users;
//   - clients.go starts the workers, worker_process.go is the inside of one;
//   - run.go is the order of a run, liveness.go its last phase, ending.go the questions that every node,
//     and a newcomer, must answer identically after it.
//
// It never judges, and never invents an outcome that it did not see.
package workload
