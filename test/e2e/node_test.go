package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// node is one `rota server`, started once or several times on one directory.
type node struct {
	*rig.Node
	*process // the running one, or the last
}

// start starts the node's process; it may not be ready yet.
func (n *node) start(t testing.TB) {
	t.Helper()
	check(t, n.Start())
	n.process = watched(t, n.Life(), n.Args())
}

// newNode makes a node with free ports and a directory of its own.
func newNode(t testing.TB, id string, flags ...string) *node {
	t.Helper()
	one, err := rig.NewNode(id, t.TempDir(), rotaBinary)
	check(t, err)
	one.Flags = flags
	return &node{Node: one}
}

// freeAddress returns a loopback address whose port is free for TCP and UDP.
func freeAddress(t testing.TB) string {
	t.Helper()
	addr, err := rig.FreeAddr()
	check(t, err)
	return addr
}

func (n *node) takePorts(t testing.TB) {
	t.Helper()
	var err error
	n.Addrs, err = rig.FreeAddrs()
	check(t, err)
}

// awaitReady waits until the node serves.
func (n *node) awaitReady(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
	defer cancel()
	check(t, n.AwaitReady(ctx))
}

// refused starts the node and expects it to end by itself with a text on
// stderr that holds every part.
func (n *node) refused(t testing.TB, parts ...string) {
	t.Helper()
	n.start(t)
	if code := n.end(t, 30*time.Second); code == 0 {
		t.Errorf("%s was started and ended with exit code 0, want a refusal", n.ID)
	}
	contains(t, "the refusal", n.Stderr.String(), parts...)
}

// copyTree copies a data directory as `cp -r` does: new files, same bytes.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	_ = os.Remove(filepath.Join(from, "rota.sock")) // not a file: it stays where a node was killed
	check(t, os.CopyFS(to, os.DirFS(from)))
}
