package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// breakDisk makes every write to an open file fail from now on.
func breakDisk(t *testing.T, path string) {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	readable, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer readable.Close()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("the descriptor of %s cannot be found: %v", path, err)
	}
	broken := 0
	for _, fd := range fds {
		var number int
		if open, err := os.Readlink("/proc/self/fd/" + fd.Name()); err != nil || open != path {
			continue
		}
		if _, err := fmt.Sscan(fd.Name(), &number); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Dup3(int(readable.Fd()), number, syscall.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		broken++
	}
	if broken == 0 {
		t.Fatalf("%s is not open", path)
	}
}

// TestAhead_noSnapshotOnceTheDiskFailed: raft counts an entry that its machine received as applied, even if the machine
// rejected it: a snapshot then would be of an earlier state than its index.
func TestAhead_noSnapshotOnceTheDiskFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fatal = true
	b.plan("n1", 1)
	b.startPlanned()
	n := b.leader()
	submitAll(t, n, specs("before", 1))
	if err := n.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	breakDisk(t, logFile(t, n.cfg.Data))
	if outcomes, err := n.Submit(within(t, time.Second), specs("lost", 1)); err == nil {
		t.Errorf("a job was acknowledged that is on no disk: %+v", outcomes)
	}
	if _, err := (adapter{n}).Snapshot(); err == nil {
		t.Error("a snapshot was taken after an entry that could not be applied")
	}
}
