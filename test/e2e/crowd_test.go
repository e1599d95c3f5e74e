package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// TestIdleConnections: a node that may open 400 files answers at both ports while 420 idle
// connections knock at each (SECURITY §2.7).
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no ulimit here")
	}
	c := newCluster(t, 0)
	n := &node{}
	var err error
	n.Node, err = rig.NewNode("n1", t.TempDir(), "sh", "-c", `ulimit -n 400 && exec "$0" "$@"`, rotaBinary)
	check(t, err)
	n.Flags = []string{"--bootstrap-expect", "1"}
	c.all = append(c.all, n)
	n.start(t)
	n.awaitReady(t)
	begins := map[string]string{
		n.API:   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", // and no call
		n.Admin: "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",                     // and nothing more
	}
	for range 420 {
		for addr, begin := range begins {
			conn, err := net.Dial("tcp", addr)
			check(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, begin) // it may have been closed already
		}
	}
	asking := http.Client{Timeout: 5 * time.Second}
	answer, err := asking.Get(fmt.Sprintf("http://%s/healthz", n.Admin))
	check(t, err)
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "ok\n" {
		t.Errorf("/healthz says %q, %v", body, err)
	}
	c.rota(t, "job", "submit", "--type", "work", "--id", "j1").want(t, 0)
}

// TestFewFiles: a node that could not keep its ports apart does not start, and says what it needs.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	n := &node{}
	var err error
	n.Node, err = rig.NewNode("n1", t.TempDir(), "sh", "-c", `ulimit -n 200 && exec "$0" "$@"`, rotaBinary)
	check(t, err)
	n.Flags = []string{"--bootstrap-expect", "1"}
	n.refused(t, "200 files", "ulimit -n")
}
