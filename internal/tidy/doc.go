// Package tidy is the guard of the house: its tests read the repository itself
// and fail when a rule of docs/architecture.md is broken. They are part of
// `go test ./...`.
//
// Each check is a function over sources that gives a list of faults, so that
// every one is also tested on a small planted violation (plant_test.go): a
// checker never seen to fail is no checker.
//
// A check that fails names file, line, rule and remedy. The lists of exceptions
// (sizes in size.go) may only shrink: an exception that is no longer needed fails
// as well.
//
// The package never changes a file, but for deps.txt under `-update`, and is
// never imported by another.
package tidy
