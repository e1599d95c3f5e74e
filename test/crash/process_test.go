package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

var built struct {
	once sync.Once
	dir  string
	path string
}

// rotaBinary returns the rota with failpoints, built once, or taken from ROTA_CRASH_BINARY.
func rotaBinary(t *testing.T) string {
	built.once.Do(func() {
		if built.path = os.Getenv("ROTA_CRASH_BINARY"); built.path != "" {
			return
		}
		dir, err := os.MkdirTemp("", "rota-crash-")
		check(t, err)
		built.dir, built.path = dir, buildRota(t, dir, "-tags", "failpoints")
	})
	return built.path
}

func buildRota(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	path, err := rig.Build(dir, flags...)
	check(t, err)
	return path
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until f returns nil, and fails the test with its last error.
func eventually(t *testing.T, most time.Duration, what string, f func() error) {
	t.Helper()
	if err := rig.Within(most, f); err != nil {
		t.Fatalf("%s: not within %s: %v", what, most, err)
	}
}

// node is one `rota server`, started many times on one directory.
type node struct {
	*rig.Node
	t *testing.T
	// order is the file that arms a point.
	order string
	// account describes the cluster's state, for the text of a failure.
	account func() string
}

func newNode(t *testing.T, id string) *node {
	t.Helper()
	dir := t.TempDir()
	one, err := rig.NewNode(id, dir, rotaBinary(t))
	check(t, err)
	n := &node{Node: one, t: t, order: filepath.Join(dir, "failpoint"), account: func() string { return "" }}
	n.Env = rig.Bare("ROTA_FAILPOINT=@"+n.order, "ROTA_FAILPOINT_SNAPSHOTS=100")
	return n
}

// start starts the process; a point that was ordered before is armed in it.
func (n *node) start() {
	n.t.Helper()
	check(n.t, n.Start())
	life := n.Life()
	n.t.Cleanup(func() {
		life.Kill()
		if n.t.Failed() && life == n.Life() {
			n.t.Logf("output of %s: %s", n.ID, tail(n.said()))
		}
	})
}

// said returns the output of its last run.
func (n *node) said() string { return n.Life().Stderr.String() }

// exited returns a channel that is closed once it has ended.
func (n *node) exited() <-chan struct{} { return n.Life().Ended() }

func tail(text string) string {
	const most = 2000
	return text[max(0, len(text)-most):]
}

// arm makes the node die at a point. In a running node the order is in force when arm returns: an earlier call might
// make the node pass the point for the only time.
func (n *node) arm(p point) {
	n.t.Helper()
	half := n.order + ".half"
	check(n.t, os.WriteFile(half, fmt.Appendf(nil, "%s:%d\n", p.name, p.passing), 0o600))
	check(n.t, os.Rename(half, n.order))
	eventually(n.t, 30*time.Second, n.ID+" takes its order", func() error {
		if _, err := os.Stat(n.order); err == nil && n.Running() {
			return errors.New("it is still there")
		}
		return nil
	})
}

// diesAt waits for the death, and requires it to be at the point.
func (n *node) diesAt(p point) {
	n.t.Helper()
	select {
	case <-n.exited():
	case <-time.After(30 * time.Second):
		n.t.Fatalf("%s never died at %s: nothing passes that point; %s", n.ID, p.name, n.account())
	}
	status, ok := n.Life().State().Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL ||
		!strings.Contains(n.said(), "failpoint: "+p.name) {
		n.t.Fatalf("%s ended by itself (%s) before it came to %s:\n%s", n.ID, n.Life().State(), p.name, tail(n.said()))
	}
}

// stop sends SIGTERM, and the end must be clean.
func (n *node) stop() {
	n.t.Helper()
	if err := n.Life().Stop(30 * time.Second); err != nil {
		n.t.Error(err)
	}
}

// serves waits until the node is ready.
func (n *node) serves() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
	defer cancel()
	check(n.t, n.AwaitReady(ctx))
}

// audit replays the stopped node's log and recalculates every round.
func (n *node) audit() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	said, err := exec.CommandContext(ctx, rotaBinary(n.t), "operator", "audit", "--data", n.Dir).CombinedOutput()
	if err != nil {
		n.t.Errorf("the audit of what %s left: %v\n%s", n.ID, err, said)
	}
}
