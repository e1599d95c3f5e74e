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
			t.Errorf("%q is accepted as %q", bad, got)
		}
	}
}

// Port 0 stands for any free port, and is replaced by the port that was opened.
func TestOpenPorts_any(t *testing.T) {
	t.Parallel()
	ports := []Ports{{API: "127.0.0.1:0"}, {}}
	if moved, err := OpenPorts(ports); err != nil || len(moved) > 0 {
		t.Fatalf("%v, %v", moved, err)
	}
	seen := map[string]bool{}
	for _, p := range ports {
		for _, addr := range []string{p.API, p.Raft, p.Admin, p.Gossip} {
			if strings.HasSuffix(addr, ":0") || !strings.HasPrefix(addr, "127.0.0.1:") || seen[addr] {
				t.Errorf("%q among %+v", addr, ports)
			}
			seen[addr] = true
		}
	}
}
