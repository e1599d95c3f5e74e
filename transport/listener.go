package transport

import (
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota/internal/logs"
)

// limitListener caps open connections, and those of one address at half of all. One
// too many is closed at once, so that its client goes to another node; the simpler
// way, to leave it unaccepted, would let the client hang.
func limitListener(lis net.Listener, most int, log *slog.Logger) net.Listener {
	return &cappedListener{Listener: lis, open: newLimiter(most), log: log}
}

type cappedListener struct {
	net.Listener
	open   *limiter
	log    *slog.Logger
	warned logs.Limiter
}

func (l *cappedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := addressOf(conn.RemoteAddr())
		free, full := l.open.enter(from)
		if free != nil {
			return &cappedConn{Conn: conn, free: free}, nil
		}
		_ = conn.Close()
		switch {
		case full && l.warned.Allow(""):
			l.log.Warn("connection refused: as many as are allowed are open", "limit", l.open.most)
		case !full && l.warned.Allow(from):
			l.log.Warn("connection refused: one address has as many open as it may", "address", from, "limit", l.open.each)
		}
	}
}

type cappedConn struct {
	net.Conn
	free func()
	// left says that another holds the connection now (sorting.go).
	left atomic.Bool
}

// SetDeadline does nothing once another holds the connection.
func (c *cappedConn) SetDeadline(t time.Time) error {
	if c.left.Load() {
		return nil
	}
	return c.Conn.SetDeadline(t)
}

func (c *cappedConn) Close() error {
	c.free()
	return c.Conn.Close()
}
