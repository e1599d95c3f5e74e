package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/limits"
)

// submitOf returns a submission of a size, in jobs.
func submitOf(size int) *rotav1.SubmitRequest {
	const each = 250_000
	m := &rotav1.SubmitRequest{}
	for ; size > 0; size -= each {
		m.Jobs = append(m.Jobs, &rotav1.JobSpec{Id: fmt.Sprint("j", size), Type: "t", Queue: "q",
			Payload: make([]byte, min(size, each))})
	}
	return m
}

// TestGzip checks that gRPC calls and streams may be compressed, also on connections that HTTP serves, and that messages
// that are too large once decompressed are refused and counted nowhere.
func TestGzip(t *testing.T) {
	t.Parallel()
	certificate, roots := certify(t)
	plain := setup(t)
	relayed := setup(t, func(o *Options) { o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}} })
	both, err := grpc.NewClient("passthrough:///n1.rota", grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return relayed.lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = both.Close() })
	for name, c := range map[string]struct {
		b    *bundle
		conn *grpc.ClientConn
	}{"gRPC": {plain, plain.conn}, "HTTP": {relayed, both}} {
		var got int
		c.b.core.submit = func(_ context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error) {
			got = len(jobs) * len(jobs[0].Payload)
			return make([]rota.Submitted, len(jobs)), nil
		}
		jobs := rotav1.NewJobsClient(c.conn)
		if _, err := jobs.Submit(bounded(t), submitOf(500_000), grpc.UseCompressor(gzip.Name)); err != nil || got != 500_000 {
			t.Errorf("%s: %d bytes, %v", name, got, err)
		}
		stream, err := jobs.Wait(bounded(t), &rotav1.WaitJobsRequest{Ids: []string{"a", "b"}}, grpc.UseCompressor(gzip.Name))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := stream.Recv(); err != nil {
				t.Errorf("%s, stream: %v", name, err)
			}
		}
		for size, want := range map[int]codes.Code{limits.MaxMessageBytes + 1: codes.InvalidArgument,
			maxNodeMessageBytes: codes.ResourceExhausted, 8 * maxNodeMessageBytes: codes.ResourceExhausted} {
			_, err := jobs.Submit(bounded(t), submitOf(size), grpc.UseCompressor(gzip.Name))
			if status.Code(err) != want {
				t.Errorf("%s, %d bytes: got %v, want %s", name, size, err, want)
			}
		}
		if _, err := jobs.Get(bounded(t), &rotav1.GetJobRequest{Id: "a"}, grpc.UseCompressor(gzip.Name)); err != nil {
			t.Errorf("%s, afterwards: %v", name, err)
		}
	}
}

// TestGzip_counts checks that a compressed message counts as what it needs decompressed, until it is answered, and that
// connections end that exceed the bytes in flight.
func TestGzip_counts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size, calls = 900_000, 20
		b := setup(t, func(o *Options) { o.InflightBytes = calls * size })
		answer := make(chan struct{})
		b.core.submit = func(ctx context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error) {
			select {
			case <-answer:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return make([]rota.Submitted, len(jobs)), nil
		}
		done := make(chan error, calls)
		submit := func(n int) {
			for range n {
				go func() {
					_, err := b.jobs.Submit(bounded(t), submitOf(size), grpc.UseCompressor(gzip.Name))
					done <- err
				}()
			}
			synctest.Wait()
		}
		submit(3)
		if held := b.server.inflight.held.Load(); held < 3*size || held > 4*size {
			t.Errorf("%d bytes are held, want 3 times %d", held, size)
		}
		close(answer)
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if held := b.server.inflight.held.Load(); held != 0 {
			t.Errorf("%d bytes are held after the answers", held)
		}
		answer = make(chan struct{})
		submit(calls) // more than half of all bytes on one connection
		for range calls {
			if err := <-done; status.Code(err) != codes.Unavailable {
				t.Errorf("got %v", err)
			}
		}
		if held := b.server.inflight.held.Load(); held != 0 {
			t.Errorf("%d bytes are held after the connection's end", held)
		}
	})
}

// TestGzip_turns checks that decompression is bounded in number, also after data that is not gzip's.
func TestGzip_turns(t *testing.T) {
	t.Parallel()
	g := &boundedGzip{encoding.GetCompressor(gzip.Name).(*boundedGzip).Compressor, make(chan struct{}, 1)}
	if _, err := g.Decompress(bytes.NewReader([]byte("not gzip's"))); err == nil {
		t.Error("it is accepted")
	}
	var packed bytes.Buffer
	w, err := g.Compress(&packed)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("x"))
	_ = w.Close()
	first, err := g.Decompress(bytes.NewReader(packed.Bytes()))
	if err != nil || len(g.turns) != 1 {
		t.Fatalf("%d turns, %v", len(g.turns), err)
	}
	for range 2 {
		_ = first.(*gzipTurn).Close()
	}
	if len(g.turns) != 0 {
		t.Error("the turn does not end")
	}
}
