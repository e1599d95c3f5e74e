package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServer_slack: all threads of a server are woken late if that saves wake-ups, including those that the runtime
// made before main; for that it has restarted itself as the same process.
func TestServer_slack(t *testing.T) {
	t.Parallel()
	n := newNode(t, "n1", "--bootstrap-expect", "1")
	n.start(t)
	n.awaitReady(t)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", n.process.PID()))
	check(t, err)
	if len(threads) < 3 {
		t.Fatalf("%d threads", len(threads))
	}
	for _, thread := range threads {
		text, err := os.ReadFile("/proc/" + thread.Name() + "/timerslack_ns")
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		if errors.Is(err, fs.ErrPermission) {
			t.Skip("another process' slack is visible to processes that may set it")
		}
		check(t, err)
		if ns, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil ||
			time.Duration(ns) != 2*time.Millisecond {
			t.Errorf("thread %s may be woken %d ns late, %v", thread.Name(), ns, err)
		}
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", n.process.PID())); err != nil ||
		!strings.HasPrefix(string(name), "rota") {
		t.Errorf("the process is called %q, %v", name, err)
	}
}

// TestServer_endsWheneverTold: SIGTERM works at every moment of a start, even while the process restarts itself.
func TestServer_endsWheneverTold(t *testing.T) {
	t.Parallel()
	for at := range 20 {
		n := newNode(t, "n1", "--bootstrap-expect", "1")
		n.start(t)
		time.Sleep(time.Duration(at) * 5 * time.Millisecond)
		check(t, n.process.Signal(syscall.SIGTERM))
		if !n.process.Wait(20 * time.Second) {
			t.Fatalf("signalled %d ms after its start, it continues:\n%s", 5*at, n.process.Stderr.String())
		}
	}
}
