package fsm

import "testing"

// long leaves a test out of make check, which is to take a minute and a half: it takes seconds of a core. make test runs it.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("not run with -short: it takes seconds of a core; make test runs it")
	}
}
