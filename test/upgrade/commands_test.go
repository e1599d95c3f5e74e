package upgrade

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// command runs a binary as an operator does, and returns its output and exit code.
func command(t testing.TB, binary string, args ...string) (said string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = rig.Bare()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("rota %v: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// verify compares the states of all nodes at one index.
func verify(t testing.TB, binary, api string) {
	t.Helper()
	if said, code := command(t, binary, "operator", "verify", "--addr", api); code != 0 {
		t.Errorf("operator verify ends with %d: %s", code, said)
	}
}

// audit replays the log of a stopped node.
func audit(t testing.TB, binary, dir string) {
	t.Helper()
	if said, code := command(t, binary, "operator", "audit", "--data", dir); code != 0 {
		t.Errorf("operator audit of %s ends with %d: %s", dir, code, said)
	}
}
