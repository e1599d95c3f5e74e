package main

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli/worker"
	"github.com/rotasched/rota/internal/secret"
)

func TestPassed(t *testing.T) {
	t.Parallel()
	got := worker.Passed([]string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "LANG=C", "TZ=UTC", "TMPDIR=/t",
		"ROTA_TOKEN=rota_x", "ROTA_ADDR=a", "PATHS=1", "AWS_SECRET_ACCESS_KEY=k", "NAMED=1"}, []string{"NAMED"})
	want := []string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "LANG=C", "TZ=UTC", "TMPDIR=/t", "NAMED=1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q is passed, want %q", got, want)
	}
}

// A command sees the passed variables of its worker's environment, and not the rest.
func TestExecution_environment(t *testing.T) {
	t.Setenv("ROTA_TOKEN", "canary")
	t.Setenv("NAMED", "shown")
	e, _ := executing("env", "")
	e.Pass = []string{"NAMED"}
	output, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if text := string(output); strings.Contains(text, "canary") || !strings.Contains(text, "NAMED=shown") ||
		!strings.Contains(text, "PATH=") {
		t.Errorf("the command's environment is\n%s", text)
	}
}

// A process that hid itself is root's in /proc: no other user's process reads its environment.
func TestUndumpable(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has the bit")
	}
	if os.Getenv("UNDUMPABLE") != "" {
		if err := secret.Hide(); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("sh", "-c", "cat /proc/$PPID/environ").CombinedOutput()
		if err == nil || bytes.Contains(out, []byte("UNDUMPABLE")) {
			t.Errorf("a child reads its parent's environment: %v", err)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestUndumpable$", "-test.v")
	cmd.Env = append(os.Environ(), "UNDUMPABLE=1")
	if os.Geteuid() == 0 {
		unprivileged(t, cmd)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
