package transport

import (
	"context"
	"io"
	"runtime"
	"sync"
	"testing"

	"google.golang.org/grpc/test/bufconn"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestWebSocket_comesWhileTheServerGoes connects consumers while the server ends: Serve waits for all that it accepted,
// and accepts none after it stopped waiting.
func TestWebSocket_comesWhileTheServerGoes(t *testing.T) {
	t.Parallel()
	for try := range 100 {
		server, err := NewServer(Options{Self: "n1", ReadyEvery: -1, Hosts: Hosts{Names: []string{"node"}},
			Core: &fakeCore{events: func(ctx context.Context, _ rota.EventFilter,
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
				_, _ = io.WriteString(conn, "GET "+eventsPath+
					"?follow=1 HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\n"+
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
