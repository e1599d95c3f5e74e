package server

import (
	"strings"
	"testing"
)

func TestReachable(t *testing.T) {
	t.Parallel()
	if got, err := Reachable("n1:6471"); err != nil || got != "n1:6471" {
		t.Errorf("a name: %q, %v", got, err)
	}
	got, err := Reachable("0.0.0.0:6471")
	if err != nil || strings.HasPrefix(got, "0.0.0.0") || !strings.HasSuffix(got, ":6471") {
		t.Errorf("all addresses: %q, %v", got, err)
	}
	for _, bad := range []string{"", "x", "x:", "1.2.3.4"} {
		if got, err := Reachable(bad); err == nil {
			t.Errorf("%q is taken as %q", bad, got)
		}
	}
}
