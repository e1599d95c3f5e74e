package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// TestTLS_onePort checks that clients that offer h2, http/1.1, both, or nothing reach their protocol on one port, and
// that a gRPC call of a client that offers both is still answered.
func TestTLS_onePort(t *testing.T) {
	t.Parallel()
	certificate, roots := certify(t)
	b := setup(t, func(o *Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
		o.Hosts.Names = []string{"n1.rota"}
	})
	for _, c := range []struct {
		offers []string
		major  int
	}{{[]string{"h2", "http/1.1"}, 2}, {[]string{"http/1.1", "h2"}, 2}, {[]string{"http/1.1"}, 1}, {nil, 1}} {
		config := &tls.Config{RootCAs: roots, ServerName: "n1.rota", NextProtos: c.offers}
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: len(c.offers) == 2,
			DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := b.lis.DialContext(ctx)
				if err != nil {
					return nil, err
				}
				secure := tls.Client(conn, config)
				err = secure.HandshakeContext(ctx)
				return secure, err
			}}
		t.Cleanup(transport.CloseIdleConnections)
		for _, path := range []string{"/v1/whoami", "/v1/jobs/a"} { // one after the other on a connection
			r, err := http.NewRequestWithContext(bounded(t), http.MethodGet, "https://n1.rota"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatalf("%v, %s: %v", c.offers, path, err)
			}
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK || answer.ProtoMajor != c.major {
				t.Errorf("%v, %s: HTTP/%d, %s %s", c.offers, path, answer.ProtoMajor, answer.Status, text)
			}
		}
		r, err := http.NewRequestWithContext(bounded(t), http.MethodGet, "https://n1.rota/v1/whoami", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Baggage", strings.Repeat("b", 24<<10))
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%v, long headers: %v", c.offers, err)
		}
		_ = answer.Body.Close()
		if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge ||
			kind != rest.ProblemType {
			t.Errorf("%v, long headers: %s of %s", c.offers, answer.Status, kind)
		}
	}
	for _, offers := range [][]string{{"h2"}, {"h2", "http/1.1"}} {
		conn, err := grpc.NewClient("passthrough:///n1.rota",
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, NextProtos: offers})),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return b.lis.DialContext(ctx)
			}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		jobs := rotav1.NewJobsClient(conn)
		got, err := jobs.Get(bounded(t), &rotav1.GetJobRequest{Id: "a"})
		if err != nil || got.GetJob().GetSpec().GetId() != "a" {
			t.Errorf("gRPC offering %v: %v, %v", offers, got, err)
		}
		stream, err := jobs.Wait(bounded(t), &rotav1.WaitJobsRequest{Ids: []string{"a", "b"}})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := stream.Recv(); err != nil {
				t.Errorf("a stream of gRPC offering %v: %v", offers, err)
			}
		}
		denied := metadata.AppendToOutgoingContext(bounded(t), tokenHeader, "Bearer none")
		_, err = jobs.Get(denied, &rotav1.GetJobRequest{Id: "a"})
		if e := words.FromStatus(err); e.Kind != rota.KindUnauthenticated || e.Text == "" {
			t.Errorf("gRPC offering %v with a bad credential: %+v", offers, e)
		}
	}
}

// TestHTTP_halfSent checks that endless bodies are counted until they are cut off, and bounded together.
func TestHTTP_halfSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(o *Options) { o.InflightBytes = 1 << 20 })
		var conns []net.Conn
		var sent sync.WaitGroup
		for i := range 40 {
			conn, err := b.lis.DialContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			sent.Go(func() {
				_, _ = fmt.Fprintf(conn,
					"POST /v1/jobs HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n%s",
					strings.Repeat(" ", 100_000+i))
			})
		}
		sent.Wait()
		synctest.Wait()
		if held := b.server.inflight.held.Load(); held > 1<<20 || held == 0 {
			t.Errorf("%d bytes are held, at most %d may be", held, 1<<20)
		}
		time.Sleep(webBody + 20*time.Second)
		synctest.Wait()
		if held := b.server.inflight.held.Load(); held != 0 {
			t.Errorf("%d bytes are held after their time", held)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
}
