package transport

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// limitListener caps open connections. One too many is closed at once, so that
// its client goes to another node; the simpler way, to leave it unaccepted,
// would let the client hang.
func limitListener(lis net.Listener, most int, log *slog.Logger) net.Listener {
	return &cappedListener{Listener: lis, most: int64(most), log: log}
}

type cappedListener struct {
	net.Listener
	most   int64
	open   atomic.Int64
	log    *slog.Logger
	warned seldom
}

func (l *cappedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &cappedConn{Conn: conn, free: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		_ = conn.Close()
		if l.warned.allows("") {
			l.log.Warn("connection refused: as many as are allowed are open", "limit", l.most)
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
