package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
	"golang.org/x/sys/unix"
)

// TestServerHides: a server hides itself before it reads a key, and a crash of it writes no core; it still reads the
// files that metrics and profiles need. --dumpable leaves the process as it was.
func TestServerHides(t *testing.T) {
	args := os.Getenv("SERVER_HIDES")
	if args == "" {
		for _, args := range []string{"server", "server --dumpable"} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestServerHides$", "-test.v")
			cmd.Env = append(os.Environ(), "SERVER_HIDES="+args)
			if os.Geteuid() == 0 {
				unprivileged(t, cmd)
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", args, err, out)
			}
		}
		return
	}
	cores := unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &most); err != nil {
		t.Fatal(err)
	}
	cores.Cur, cores.Max = min(cores.Cur, most.Max), min(cores.Max, most.Max)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &cores); err != nil {
		t.Fatal(err)
	}
	// Without a node's id it ends before it reads any file.
	if code, _, stderr := runArgs(strings.Fields(args)...); code != cli.ExitUsage ||
		!strings.Contains(stderr, "--node is missing") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &most); err != nil {
		t.Fatal(err)
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = exec.Command("sh", "-c", "cat /proc/$PPID/environ").CombinedOutput()
	if args == "server --dumpable" {
		if dumpable != 1 || most != cores || err != nil {
			t.Errorf("--dumpable: dumpable is %d, cores have %v, another process sees it: %v", dumpable, most, err)
		}
		return
	}
	if dumpable != 0 || most != (unix.Rlimit{}) || err == nil {
		t.Errorf("dumpable is %d, cores have %v, another process sees it: %v", dumpable, most, err)
	}
	if _, err := os.ReadDir("/proc/self/fd"); err != nil {
		t.Errorf("it cannot count its open files: %v", err)
	}
	for _, name := range []string{"maps", "stat", "limits"} {
		if _, err := os.ReadFile("/proc/self/" + name); err != nil {
			t.Errorf("it cannot read its own %s: %v", name, err)
		}
	}
}
