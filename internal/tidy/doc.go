// Package tidy checks the repository's structure: its tests read the repository itself and fail when a rule of
// docs/architecture.md is broken. They are part of `go test ./...`.
//
// Each check is a function over sources that returns a list of faults, so that every check is also tested on a small
// planted violation (plant_test.go): a check that was never seen to fail proves nothing.
//
// A failing check names file, line, rule and remedy. The lists of exceptions (sizes in size.go) may only shrink: an
// exception that is no longer needed fails as well.
//
// The package never changes a file, except deps.txt under `-update`, and is never imported by another.
package tidy
