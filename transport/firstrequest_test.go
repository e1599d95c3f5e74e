package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// slowConn sends one byte at a time, without holding up its caller: net/http writes under a lock.
type slowConn struct {
	net.Conn
	bytes chan byte
	end   context.Context
}

func slowly(end context.Context, conn net.Conn, every time.Duration) net.Conn {
	c := slowConn{conn, make(chan byte, 64<<10), end}
	go func() {
		for {
			select {
			case b := <-c.bytes:
				time.Sleep(every)
				_, _ = conn.Write([]byte{b})
			case <-end.Done():
				return
			}
		}
	}()
	return c
}

func (c slowConn) Write(p []byte) (int, error) {
	for _, b := range p {
		select {
		case c.bytes <- b:
		case <-c.end.Done():
			return 0, net.ErrClosed
		}
	}
	return len(p), nil
}

// pageOfHTTP2 speaks HTTP/2 alone to a server, without having asked whether it does.
func pageOfHTTP2(t *testing.T, dial func(context.Context) (net.Conn, error)) *page {
	t.Helper()
	calls := &http.Transport{Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	calls.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(calls.CloseIdleConnections)
	return &page{t: t, client: &http.Client{Transport: calls}, host: "node"}
}

// doors makes a core note by which server its calls came.
func (b *bundle) doors() func() string {
	var mu sync.Mutex
	var last string
	b.core.job = func(ctx context.Context, id rota.JobID, opt peer.ReadOptions) (rota.Job, rota.ReadAt, error) {
		c, _ := ctx.Value(access.CallerKey{}).(access.Caller)
		mu.Lock()
		defer mu.Unlock()
		_, last, _ = strings.Cut(c.Via, "/")
		return rota.Job{JobSpec: rota.JobSpec{ID: id}}, fakeAt(opt), nil
	}
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

// TestHTTP2_onePort checks that clients that speak HTTP/2 alone reach HTTP, the console and gRPC on one port, with and
// without TLS, and that gRPC calls come by gRPC's own server.
func TestHTTP2_onePort(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) {
			t.Parallel()
			certificate, roots := certify(t)
			b := setup(t, func(o *Options) {
				o.Console = func(w http.ResponseWriter, _ *http.Request, _ []string) { _, _ = io.WriteString(w, "<html>") }
				if secure {
					o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
				}
			})
			door := b.doors()
			dial := func(ctx context.Context) (net.Conn, error) {
				conn, err := b.lis.DialContext(ctx)
				if err != nil || !secure {
					return conn, err
				}
				config := &tls.Config{RootCAs: roots, ServerName: "n1.rota", NextProtos: []string{"h2"}}
				return tls.Client(conn, config), nil
			}
			web := pageOfHTTP2(t, dial)
			for range 3 { // on one connection
				put, text := web.call("PUT", "/v1/jobs/a", `{"type":"t","payload":"`+strings.Repeat("x", 200_000)+`"}`)
				if put.StatusCode != http.StatusCreated || put.ProtoMajor != 2 {
					t.Errorf("PUT: HTTP/%d, %s %s", put.ProtoMajor, put.Status, text)
				}
				get, text := web.call("GET", "/v1/jobs/a", "")
				if get.StatusCode != http.StatusOK || get.ProtoMajor != 2 || door() != "http" {
					t.Errorf("GET: HTTP/%d by %s, %s %s", get.ProtoMajor, door(), get.Status, text)
				}
			}
			if ui, text := web.call("GET", "/ui/", ""); ui.StatusCode != http.StatusOK || text != "<html>" {
				t.Errorf("console: %s %s", ui.Status, text)
			}
			for length, kind := range map[int]string{24 << 10: rest.ProblemType, 12 << 10: "application/json"} {
				long, text := web.call("GET", "/v1/jobs/a", "", "Baggage", strings.Repeat("b", length))
				if refused := long.StatusCode == http.StatusRequestHeaderFieldsTooLarge; refused != (length > maxHeaderBytes) ||
					long.Header.Get("Content-Type") != kind {
					t.Errorf("header of %d bytes: %s %s", length, long.Status, text)
				}
			}
			first := pageOfHTTP2(t, dial) // headers that are too long come first on a connection
			if long, text := first.call("GET", "/v1/jobs/a", "", "Baggage", strings.Repeat("b", 24<<10)); long.StatusCode !=
				http.StatusRequestHeaderFieldsTooLarge || long.Header.Get("Content-Type") != rest.ProblemType {
				t.Errorf("long headers first: %s %s", long.Status, text)
			}
			conn := grpcOn(t, dial)
			for range 3 {
				got, err := rotav1.NewJobsClient(conn).Get(bounded(t), &rotav1.GetJobRequest{Id: "a"})
				if err != nil || got.GetJob().GetSpec().GetId() != "a" || door() != "grpc" {
					t.Errorf("gRPC by %s: %v, %v", door(), got, err)
				}
			}
		})
	}
}

func grpcOn(t *testing.T, dial func(context.Context) (net.Conn, error)) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestHTTP2_slowly checks clients that send one byte at a time.
func TestHTTP2_slowly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		door := b.doors()
		dial := func(ctx context.Context) (net.Conn, error) {
			conn, err := b.lis.DialContext(ctx)
			if err != nil {
				return nil, err
			}
			return slowly(t.Context(), conn, 10*time.Millisecond), nil
		}
		got, err := rotav1.NewJobsClient(grpcOn(t, dial)).Get(bounded(t), &rotav1.GetJobRequest{Id: "a"})
		if err != nil || got.GetJob().GetSpec().GetId() != "a" || door() != "grpc" {
			t.Errorf("gRPC by %s: %v, %v", door(), got, err)
		}
		web := pageOfHTTP2(t, dial)
		for range 2 {
			answer, text := web.call("GET", "/v1/jobs/a", "")
			if answer.StatusCode != http.StatusOK || door() != "http" {
				t.Errorf("HTTP by %s: %s %s", door(), answer.Status, text)
			}
		}
		web.client.CloseIdleConnections()
	})
}

// written is what a client sends after the preface.
func written(f func(*http2.Framer)) []byte {
	var b bytes.Buffer
	b.WriteString(http2Preface)
	f(http2.NewFramer(&b, nil))
	return b.Bytes()
}

func headersOf(names ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(names); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: names[i], Value: names[i+1]})
	}
	return b.Bytes()
}

// TestHTTP2_garbage checks that a connection whose beginning is not understood is closed in its time with the reason,
// holds nothing meanwhile, and that others are served.
func TestHTTP2_garbage(t *testing.T) {
	for name, c := range map[string]struct {
		sends []byte
		// code is of the GOAWAY frame; with cut the connection is only closed. An idle one may get either.
		code http2.ErrCode
		cut  bool
		// idle is how long the connection may last.
		idle time.Duration
	}{
		"nothing after the preface": {sends: []byte(http2Preface), idle: handshakeTimeout},
		"half a preface":            {sends: []byte(http2Preface[:9]), idle: handshakeTimeout},
		"another version":           {sends: []byte("PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n"), cut: true},
		"settings alone":            {sends: written(func(f *http2.Framer) { _ = f.WriteSettings() }), idle: handshakeTimeout},
		"text":                      {sends: []byte(http2Preface + strings.Repeat("GET / HTTP/1.1\r\n", 9)), code: http2.ErrCodeFrameSize},
		"no settings": {sends: written(func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{}) }),
			code: http2.ErrCodeProtocol},
		"data first": {sends: written(func(f *http2.Framer) {
			_ = f.WriteSettings()
			_ = f.WriteData(1, false, []byte("x"))
		}), code: http2.ErrCodeProtocol},
		"no end of pings": {sends: written(func(f *http2.Framer) {
			_ = f.WriteSettings()
			for range openingBytes {
				_ = f.WritePing(false, [8]byte{})
			}
		}), code: http2.ErrCodeEnhanceYourCalm},
		"unknown frames": {sends: written(func(f *http2.Framer) {
			_ = f.WriteSettings()
			for range 5 {
				_ = f.WriteRawFrame(0xf0, 0, 0, make([]byte, 8<<10))
			}
		}), code: http2.ErrCodeEnhanceYourCalm},
		"bad compression": {sends: written(func(f *http2.Framer) {
			_ = f.WriteSettings()
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0x7f},
				EndHeaders: true})
		}), code: http2.ErrCodeCompression},
		"headers that do not end": {sends: written(func(f *http2.Framer) {
			_ = f.WriteSettings()
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headersOf(":method", "GET")})
		}), idle: handshakeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := setup(t)
				conn, err := b.lis.DialContext(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				began := time.Now()
				go func() { _, _ = conn.Write(c.sends) }()
				synctest.Wait()
				if _, err := b.jobs.Get(bounded(t), &rotav1.GetJobRequest{Id: "a"}); err != nil {
					t.Error(err)
				}
				code, ended := ending(conn)
				if took := time.Since(began); took > c.idle+time.Second {
					t.Errorf("it ended after %v", took)
				}
				if c.idle == 0 && ended == c.cut || code != c.code {
					t.Errorf("got reason %v (%v), want %v", code, ended, c.code)
				}
				if held := b.server.inflight.held.Load(); held != 0 {
					t.Errorf("%d bytes are held", held)
				}
			})
		})
	}
}

// ending reads a connection to its end, and returns the reason if one was sent.
func ending(conn net.Conn) (code http2.ErrCode, given bool) {
	f := http2.NewFramer(io.Discard, conn)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return code, given
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			code, given = away.ErrCode, away.LastStreamID == 0
		}
	}
}

// TestHTTP2_drain checks that a draining server does not wait for a client that has sent no request.
func TestHTTP2_drain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		for _, sends := range []string{"", "PR", http2Preface} {
			conn, err := b.lis.DialContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := io.WriteString(conn, sends); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		began := time.Now()
		if err := b.server.Drain(bounded(t)); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("draining took %v", took)
		}
	})
}

// TestAcklessConn checks that the first acknowledgement of settings alone is removed, however the bytes are split.
func TestAcklessConn(t *testing.T) {
	t.Parallel()
	frame := func(f func(*http2.Framer)) []byte { return written(f)[len(http2Preface):] }
	before := frame(func(f *http2.Framer) {
		_ = f.WriteWindowUpdate(0, 9)
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headersOf("a", "b"), EndHeaders: true})
		_ = f.WriteData(1, false, bytes.Repeat([]byte{0, 0, 0, 4, 1, 0, 0, 0, 0}, 100)) // looks like one
	})
	ack := frame(func(f *http2.Framer) { _ = f.WriteSettingsAck() })
	says := bytes.Join([][]byte{before, ack, before, ack}, nil)
	want := bytes.Join([][]byte{before, before, ack}, nil)
	for name, from := range map[string]io.Reader{"at once": bytes.NewReader(says),
		"in bytes": iotest.OneByteReader(bytes.NewReader(says)), "in halves": iotest.HalfReader(bytes.NewReader(says)),
		"with the end": iotest.DataErrReader(bytes.NewReader(says))} {
		got, err := io.ReadAll(iotest.OneByteReader(&acklessConn{Conn: readConn{Reader: from}}))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %d bytes, want %d: %v", name, len(got), len(want), err)
		}
		if _, err := (&acklessConn{Conn: readConn{Reader: bytes.NewReader(ack[:3])}}).Read(make([]byte, 9)); !errors.Is(err,
			io.EOF) {
			t.Errorf("cut off: %v", err)
		}
	}
}

type readConn struct {
	net.Conn
	io.Reader
}

func (c readConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// TestIsGRPC checks the content types of gRPC.
func TestIsGRPC(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{"application/grpc": true, "application/grpc+proto": true,
		"Application/GRPC;x=y": true, "application/grpc-web": false, "application/json": false, "": false} {
		if isGRPC(kind) != want {
			t.Errorf("%q: got %v", kind, !want)
		}
	}
}

// FuzzOpenHTTP2 opens connections that begin with anything: what is kept is bounded, and is what was sent except for an
// acknowledgement.
func FuzzOpenHTTP2(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(written(func(f *http2.Framer) {
		_ = f.WriteSettings()
		_ = f.WriteSettingsAck()
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true,
			BlockFragment: headersOf(":method", "POST", "content-type", "application/grpc")})
	})[len(http2Preface):])
	f.Fuzz(func(t *testing.T, sends []byte) {
		sends = append([]byte(http2Preface), sends...)
		o, err := openHTTP2(&discardConn{readConn{Reader: bytes.NewReader(sends)}})
		if err != nil {
			return
		}
		kept := o.seen.Len()
		if o.acked {
			kept += frameHead
		} else if !bytes.HasPrefix(sends, o.seen.Bytes()) {
			t.Error("other bytes are kept")
		}
		if kept > len(sends) || kept > openingBytes+openingFrame+2*frameHead {
			t.Errorf("%d bytes are kept of %d", kept, len(sends))
		}
	})
}

type discardConn struct{ readConn }

func (*discardConn) Write(p []byte) (int, error)      { return len(p), nil }
func (*discardConn) SetWriteDeadline(time.Time) error { return nil }
