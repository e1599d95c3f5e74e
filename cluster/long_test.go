package cluster

import "testing"

// long excludes a test from make check because it takes seconds of a core. make test runs it.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("not run with -short: it takes seconds of a core; make test runs it")
	}
}
