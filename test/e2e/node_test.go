package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// node is one `rota server`, started once or several times on one directory.
type node struct {
	*process // the running one, or the last

	id, dir                  string
	api, raft, admin, gossip string
	// flags are those beside id, directory and addresses.
	flags []string
	// starts counts, for the names in logs.
	starts int
}

// arguments is the command line of the node.
func (n *node) arguments() []string {
	return append([]string{"server", "--node", n.id, "--data", n.dir, "--api", n.api, "--raft", n.raft,
		"--admin", n.admin, "--gossip", n.gossip}, n.flags...)
}

// start starts the node's process; it may not be ready yet.
func (n *node) start(t testing.TB) {
	t.Helper()
	n.starts++
	n.process = launch(t, fmt.Sprintf("%s, start %d", n.id, n.starts), nil, n.arguments()...)
}

// newNode makes a node with free ports and a directory of its own.
func newNode(t testing.TB, id string, flags ...string) *node {
	t.Helper()
	n := &node{id: id, dir: filepath.Join(t.TempDir(), id), flags: flags}
	n.takePorts(t)
	return n
}

func (n *node) takePorts(t testing.TB) {
	t.Helper()
	for _, addr := range []*string{&n.api, &n.raft, &n.admin, &n.gossip} {
		*addr = freeAddress(t)
	}
}

// health asks /readyz: nil when the node serves.
func (n *node) health() error {
	asking := http.Client{Timeout: time.Second}
	answer, err := asking.Get("http://" + n.admin + "/readyz")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// awaitReady waits until the node serves.
func (n *node) awaitReady(t testing.TB) {
	t.Helper()
	eventually(t, 45*time.Second, n.id+" is ready", func() error {
		if !n.running() {
			t.Fatalf("%s ended with exit code %d while it started", n.id, n.code)
		}
		return n.health()
	})
}

// refused starts the node and expects it to end by itself with a text on
// stderr that holds every part.
func (n *node) refused(t testing.TB, parts ...string) {
	t.Helper()
	n.start(t)
	if code := n.end(t, 30*time.Second); code == 0 {
		t.Errorf("%s was started and ended with exit code 0, a refusal is wanted", n.id)
	}
	contains(t, "the refusal", n.stderr.String(), parts...)
}

// Ports are taken below those that the system gives to outgoing connections: a
// node that is down for a while keeps its own.
const (
	portLeast = 10_000
	portMost  = 30_000
)

var ports struct {
	sync.Mutex
	next int
}

// freeAddress gives a loopback address whose port is free for TCP and UDP.
func freeAddress(t testing.TB) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = portLeast + rand.IntN(portMost-portLeast)
	}
	for range portMost - portLeast {
		if ports.next++; ports.next >= portMost {
			ports.next = portLeast
		}
		addr := fmt.Sprintf("127.0.0.1:%d", ports.next)
		tcp, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		udp, err := net.ListenPacket("udp", addr)
		_ = tcp.Close()
		if err != nil {
			continue
		}
		_ = udp.Close()
		return addr
	}
	t.Fatal("no port is free")
	return ""
}

// copyTree copies a data directory as `cp -r` does: new files, same bytes.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	check(t, os.CopyFS(to, os.DirFS(from)))
}
