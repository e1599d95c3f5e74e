// Package check holds the history that a run leaves behind, and judges it: one file for each promise, each proved to
// detect violations in its test. It also writes the report that people read.
//
//   - history.go and history_events.go define the history;
//   - checker.go lists the promises;
//   - verdict.go sums up, report*.go write the report.
//
// It never calls a cluster, never breaks anything, and never invents an outcome that the history does not hold.
package check
