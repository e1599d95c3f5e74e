package transport

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota/internal/logs"
)

// CapListener caps open connections, and those of one address at half of all. When there is one too many, the
// connection idle for longest is closed: holding connections open cannot keep others out. A connection is idle until a
// call is admitted on it. If none is idle, the new one is closed at once, so that its client tries another node. A
// connection on which no call was admitted ends after grace; 0 leaves that to the server.
func CapListener(lis net.Listener, most int, grace time.Duration, log *slog.Logger) net.Listener {
	return &cappedListener{Listener: lis, open: newLimiter(most), grace: grace, log: log, resting: list.New()}
}

type cappedListener struct {
	net.Listener
	open   *limiter
	grace  time.Duration
	log    *slog.Logger
	warned logs.Limiter

	mu sync.Mutex
	// resting holds the seats of idle connections, the one that became idle first in front.
	resting *list.List
}

// Accept implements net.Listener.
func (l *cappedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := addressOf(conn.RemoteAddr())
		free, full := l.open.enter(from)
		if free == nil && l.giveWay(from, full) {
			free, full = l.open.enter(from)
		}
		if free != nil {
			return &cappedConn{Conn: conn, seat: l.seat(conn, from, free)}, nil
		}
		switch {
		case full && l.warned.Allow(""):
			l.log.Warn("connection refused: as many as are allowed are open", "limit", l.open.most)
		case !full && l.warned.Allow(from):
			l.log.Warn("connection refused: one address has as many open as it may", "address", from, "limit",
				l.open.each)
		}
		_ = conn.Close()
	}
}

// giveWay ends the connection idle for longest, of one address or of any, and reports whether there was one.
func (l *cappedListener) giveWay(from string, ofAny bool) bool {
	l.mu.Lock()
	at := l.resting.Front()
	for at != nil && !ofAny && at.Value.(*seat).from != from {
		at = at.Next()
	}
	l.mu.Unlock()
	if at == nil {
		return false
	}
	at.Value.(*seat).end()
	return true
}

func (l *cappedListener) seat(conn net.Conn, from string, free func()) *seat {
	s := &seat{listener: l, conn: conn, from: from, free: free}
	if l.grace > 0 {
		s.grace = time.AfterFunc(l.grace, s.end)
	}
	s.rest()
	return s
}

// seat is a connection's place among those that a listener allows; nil for a connection without a cap.
type seat struct {
	listener *cappedListener
	conn     net.Conn
	from     string
	free     func()
	grace    *time.Timer
	// kept reports that an admitted call keeps the connection.
	kept atomic.Bool

	// place is the seat's position among idle connections, calls counts calls in progress; the listener's lock guards
	// both.
	place *list.Element
	calls int
	left  bool
}

// rest makes the connection idle, so that it may be closed for others, if no call is in progress on it.
func (s *seat) rest() {
	if s == nil {
		return
	}
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	if s.calls = max(0, s.calls-1); s.calls == 0 && s.place == nil && !s.left {
		s.place = s.listener.resting.PushBack(s)
	}
}

// admit keeps the connection, because a call was admitted on it.
func (s *seat) admit() {
	if s == nil {
		return
	}
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	s.calls++
	s.occupy()
	if s.grace != nil {
		s.grace.Stop()
	}
}

// keep keeps the connection for good: it carries many calls.
func (s *seat) keep() {
	if s != nil && !s.kept.Load() && !s.kept.Swap(true) {
		s.admit()
	}
}

// occupy removes the seat from the idle ones.
func (s *seat) occupy() {
	if s.place != nil {
		s.listener.resting.Remove(s.place)
		s.place = nil
	}
}

// leave frees the seat, once.
func (s *seat) leave() {
	if s == nil {
		return
	}
	s.listener.mu.Lock()
	s.occupy()
	s.left = true
	s.listener.mu.Unlock()
	if s.grace != nil {
		s.grace.Stop()
	}
	s.free()
}

// end closes the underlying connection, regardless of its current owner.
func (s *seat) end() {
	s.leave()
	_ = s.conn.Close()
}

// cappedConn is a connection with its seat.
type cappedConn struct {
	net.Conn
	seat *seat
	// left reports that another owner holds the connection, web that its client speaks HTTP (sorting.go).
	left atomic.Bool
	web  bool
}

// SetDeadline does nothing once another owner holds the connection.
func (c *cappedConn) SetDeadline(t time.Time) error {
	if c.left.Load() {
		return nil
	}
	return c.Conn.SetDeadline(t)
}

func (c *cappedConn) Close() error {
	c.seat.leave()
	return c.Conn.Close()
}

// seatKey is the context key of the seat of a request's connection.
type seatKey struct{}

// withSeat is an http.Server's ConnContext.
func withSeat(ctx context.Context, conn net.Conn) context.Context {
	for {
		switch c := conn.(type) {
		case *cappedConn:
			return context.WithValue(ctx, seatKey{}, c.seat)
		case interface{ NetConn() net.Conn }: // encrypted, or of one of our own types
			conn = c.NetConn()
		default:
			return ctx
		}
	}
}

// seatOf returns the seat of a request's connection.
func seatOf(ctx context.Context) *seat {
	s, _ := ctx.Value(seatKey{}).(*seat)
	return s
}
