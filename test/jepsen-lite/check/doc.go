// Package check holds what a run leaves behind, its history, and judges it: one file for
// each promise, each shown to bite in its test. It also writes the report that people
// read.
//
//   - history.go and history_events.go are what is remembered;
//   - checker.go lists the promises;
//   - verdict.go sums up, report*.go is what people see.
//
// It never calls a cluster, never breaks anything, and never invents an outcome that the
// history does not hold.
package check
