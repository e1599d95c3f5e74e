package transport

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	caller "google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
)

// wired is an in-memory listener, and its dialer.
type wired struct {
	*connQueue
	t *testing.T
}

// dial returns the near end of a new connection from an address.
func (w wired) dial(from string) net.Conn {
	near, far := net.Pipe()
	w.t.Cleanup(func() { _ = near.Close() })
	w.push(addressed{far, from})
	return near
}

type addressed struct {
	net.Conn
	from string
}

func (a addressed) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(a.from), Port: 1}
}

// lasts returns how long the connection stays open from now on.
func lasts(conn net.Conn) time.Duration {
	since := time.Now()
	_, _ = io.Copy(io.Discard, conn)
	return time.Since(since)
}

func closed(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := conn.Read(make([]byte, 1))
	return err == io.EOF
}

// TestHTTP_aBodyThatNeverComes checks callers that fall silent: none holds a connection longer than it should take.
func TestHTTP_aBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, says string
		want       time.Duration
	}{
		{"nothing", "", webHeader},
		{"half_a_header", "GET / HTTP/1.1\r\nHost: n", webHeader},
		{"nothing_more", "GET / HTTP/1.1\r\nHost: n\r\n\r\n", webIdle},
		{"no_body", "POST / HTTP/1.1\r\nHost: n\r\nContent-Length: 1000\r\n\r\nx", webBody},
		{"no_chunk", "POST / HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked\r\n\r\n", webBody},
		{"half_a_body", "POST / HTTP/1.1\r\nHost: n\r\nContent-Length: 1048576\r\n\r\nx", webBody + 16*time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lis := wired{newConnQueue(), t}
				server := NewWebServer(Seated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
				})), &Hosts{Names: []string{"n"}}, log.New(io.Discard, "", 0))
				go func() { _ = server.Serve(CapListener(lis, 4, 0, slog.New(slog.DiscardHandler))) }()
				conn := lis.dial("10.0.0.1")
				if _, err := io.WriteString(conn, c.says); err != nil {
					t.Fatal(err)
				}
				if got := lasts(conn); got < c.want || got > c.want+time.Second {
					t.Errorf("open: got %s, want %s", got, c.want)
				}
				_ = server.Close()
				synctest.Wait()
			})
		})
	}
}

// TestListener_theOldestGivesWay checks that idle connections do not keep others out.
func TestListener_theOldestGivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lis := wired{newConnQueue(), t}
		capped := CapListener(lis, 4, connGrace, slog.New(slog.DiscardHandler))
		taken := make(chan *cappedConn, 16)
		go func() {
			for {
				conn, err := capped.Accept()
				if err != nil {
					return
				}
				taken <- conn.(*cappedConn)
			}
		}()
		busy := lis.dial("10.0.0.1")
		(<-taken).seat.keep()
		var idle []net.Conn
		for i := range 6 {
			conn := lis.dial(fmt.Sprint("10.0.0.", 2+i))
			idle = append(idle, conn)
			<-taken
		}
		for i, conn := range idle {
			if got := closed(conn); got != (i < 3) {
				t.Errorf("idle connection %d of 6: closed %v", i, got)
			}
		}
		second := lis.dial("10.0.0.1") // the address is at its half with this one
		seat := (<-taken).seat
		third := lis.dial("10.0.0.1")
		<-taken
		if !closed(second) || closed(third) || closed(busy) {
			t.Error("of one address not the idle connection was closed")
		}
		seat.leave() // counts once
		time.Sleep(connGrace + time.Second)
		synctest.Wait()
		if !closed(third) || closed(busy) {
			t.Error("after the grace the one without a call is open, or the one with a call is not")
		}
		open := capped.(*cappedListener)
		if open.open.open != 1 || open.resting.Len() != 0 {
			t.Errorf("%d are counted, %d rest", open.open.open, open.resting.Len())
		}
		_ = lis.Close()
	})
}

// TestListener_healthIsNoCall checks that a connection with only health calls ends, and one with another call stays.
func TestListener_healthIsNoCall(t *testing.T) {
	t.Parallel()
	for path, call := range methods {
		seat := &seat{listener: CapListener(nil, 1, 0, nil).(*cappedListener)}
		ctx := caller.NewContext(t.Context(), &caller.Peer{Addr: &net.TCPAddr{}, AuthInfo: edgeInfo{seat: seat}})
		_, _ = (&Server{options: Options{Core: &fakeCore{}}}).tap(ctx, &tap.Info{FullMethodName: path})
		if got := seat.kept.Load(); got == call.anybody && strings.HasPrefix(path, "/") {
			t.Errorf("%s: the connection stays %v", path, got)
		}
	}
}
