//go:build !testclock

package server

import "github.com/rotasched/rota/cluster"

// world is the environment of this binary's nodes: the real one. Only a build for tests of faults has another
// (testclock.go).
func world() cluster.Environment { return cluster.Environment{} }
