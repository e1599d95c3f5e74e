package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/rotasched/rota/internal/cli"
)

// deaf returns an address without a listener until the test ends: a socket that does not listen holds its port.
func deaf(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}

// TestLastCause: the message about a failed connection is its cause.
func TestLastCause(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial tcp 127.0.0.1:1: connect: connection refused":                                               "connection refused",
		"tls: failed: x509: certificate has expired or is not yet valid: current time 2026 is after 2025": "certificate has expired or is not yet valid: current time 2026 is after 2025",
		"refused": "refused",
	} {
		if got := strings.TrimSpace(cli.LastCause(text)); got != want {
			t.Errorf("%q of %q, want %q", got, text, want)
		}
	}
}

// TestRefusedConnection: a command that cannot reach the cluster prints so once, long before it gives up, with the time
// until which it tries.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	addr := deaf(t)
	for _, line := range [][]string{{"job", "list"}, {"job", "wait", "j"}, {"workflow", "wait", "w"},
		{"events", "tail", "--follow"}} {
		t.Run(strings.Join(line, " "), func(t *testing.T) {
			t.Parallel()
			var out, talk strings.Builder
			run(append(line, "--addr", addr, "--timeout", "6s"), nil, strings.NewReader(""), &out, &talk)
			want := "cannot reach " + addr + ": connection refused; retrying until "
			if n := strings.Count(talk.String(), want); n != 1 {
				t.Errorf("printed %d times: %q", n, talk.String())
			}
		})
	}
}
