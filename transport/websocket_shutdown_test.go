package transport

import (
	"context"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestWebSocket_comesWhileTheServerGoes has consumers knock while the server ends:
// Serve waits for all that it took, and takes none after it stopped waiting.
func TestWebSocket_comesWhileTheServerGoes(t *testing.T) {
	t.Parallel()
	for try := range 100 {
		server, err := NewServer(Options{Self: "n1", ReadyEvery: -1, Core: &fakeCore{events: func(ctx context.Context, _ rota.EventFilter,
			_ func(peer.EventBatch) error) error {
			<-ctx.Done()
			return ctx.Err()
		}}})
		if err != nil {
			t.Fatal(err)
		}
		lis := bufconn.Listen(1 << 16)
		served := make(chan error, 1)
		go func() { served <- server.Serve(lis) }()
		var knocks sync.WaitGroup
		for range 8 {
			conn, err := lis.DialContext(bounded(t))
			if err != nil {
				t.Fatal(err)
			}
			knocks.Go(func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, "GET "+eventsPath+"?follow=1 HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\n"+
					"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
				_, _ = conn.Read(make([]byte, 1))
			})
		}
		for range try * 20 { // close a little later each time
			runtime.Gosched()
		}
		server.Close()
		if err := <-served; err != nil {
			t.Fatal(err)
		}
		_ = lis.Close()
		knocks.Wait()
	}
}

// TestHTTP_aBodyThatNeverComes has a caller promise a body and fall silent: it holds
// no connection longer than one that says nothing at all.
func TestHTTP_aBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := NewServer(Options{Self: "n1", ReadyEvery: -1, Core: &fakeCore{}})
	if err != nil {
		t.Fatal(err)
	}
	if server.http.ReadTimeout != 0 { // the test is not to last as long
		server.http.ReadTimeout /= 100
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	defer func() {
		server.Close()
		<-served
	}()
	conn, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: node\r\nContent-Length: 1000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if answer, err := io.ReadAll(conn); err != nil {
		t.Errorf("the connection stays open after %q: %v", answer, err)
	}
}
