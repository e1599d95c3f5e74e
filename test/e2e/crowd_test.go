package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// TestIdleConnections: a node that may open 400 files answers at both ports while 420 idle connections are open to each
// (SECURITY §2.7).
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
		t.Errorf("/healthz returns %q, %v", body, err)
	}
	c.rota(t, "job", "submit", "--type", "work", "--id", "j1").want(t, 0)
}

// TestFewFiles: a node that could not keep its ports separate does not start, and prints its limit of open files.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	n := &node{}
	var err error
	n.Node, err = rig.NewNode("n1", t.TempDir(), "sh", "-c", `ulimit -n 200 && exec "$0" "$@"`, rotaBinary)
	check(t, err)
	n.Flags = []string{"--bootstrap-expect", "1"}
	n.refused(t, "200 files", "ulimit -n")
}

// TestHalfSentMessages: 600 messages of a megabyte that are almost complete use at most --inflight-bytes of a node's
// memory, and others are served meanwhile (SECURITY §2.9).
func TestHalfSentMessages(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "--inflight-bytes", "33554432")
	before := peak(t, c.all[0])
	half := append([]byte{0, 0, 0x10, 0, 0}, make([]byte, 1<<20-1)...)
	var arrived sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 60 {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		calls := &http.Transport{Protocols: &protocols}
		t.Cleanup(calls.CloseIdleConnections)
		for range 10 {
			read, write := io.Pipe()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.all[0].API+"/rota.v1.Jobs/Submit",
				read)
			check(t, err)
			req.Header.Set("Content-Type", "application/grpc")
			req.Header.Set("Te", "trailers")
			arrived.Go(func() { _, _ = write.Write(half) }) // until it is sent, or its connection closed
			go func() {
				if answer, err := calls.RoundTrip(req); err == nil {
					_ = answer.Body.Close()
				}
				_ = read.Close()
			}()
		}
	}
	arrived.Wait()
	c.rota(t, "job", "submit", "--type", "work", "--id", "j1").want(t, 0)
	if kb := peak(t, c.all[0]) - before; kb >= 160<<10 { // garbage is as much again, and more
		t.Errorf("the node used %d MiB more, want less than 160", kb>>10)
	} else {
		t.Logf("the node took %d MiB more", kb>>10)
	}
}
