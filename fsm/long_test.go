package fsm

import "testing"

// long excludes a test that takes seconds of a core from make check, which should take a minute and a half. make test
// runs it.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("not run with -short: it takes seconds of a core; make test runs it")
	}
}
