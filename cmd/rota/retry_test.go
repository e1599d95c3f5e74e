package main

import (
	"net"
	"strings"
	"testing"
)

// TestRefusedConnection: a command that cannot reach the cluster says so once, long
// before it gives up, and till when it tries.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := lis.Addr().String()
	lis.Close() // nobody listens there now
	for _, line := range [][]string{{"job", "list"}, {"job", "wait", "j"}, {"workflow", "wait", "w"}, {"events", "tail", "--follow"}} {
		t.Run(strings.Join(line, " "), func(t *testing.T) {
			t.Parallel()
			var out, talk strings.Builder
			run(append(line, "--addr", addr, "--timeout", "6s"), nil, strings.NewReader(""), &out, &talk)
			want := "cannot reach " + addr + ": connection refused; retrying until "
			if n := strings.Count(talk.String(), want); n != 1 {
				t.Errorf("said %d times: %q", n, talk.String())
			}
		})
	}
}
