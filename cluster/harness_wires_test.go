package cluster

import (
	"context"
	"net"
	"sync"
)

// wires are the raft connections of one node, which a test can cut.
type wires struct {
	mu    sync.Mutex
	conns []net.Conn
}

// lay makes a node use them.
func (w *wires) lay(c *Config) {
	c.Environment.Listen = func(address string) (net.Listener, error) {
		listener, err := net.Listen("tcp", address)
		return wiredListener{listener, w}, err
	}
	c.Environment.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		return w.add(conn), err
	}
}

func (w *wires) add(conn net.Conn) net.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if conn != nil {
		w.conns = append(w.conns, conn)
	}
	return conn
}

// cut closes every connection made so far, including those in their handshake: one may have been admitted before.
func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
}

type wiredListener struct {
	net.Listener
	wires *wires
}

func (l wiredListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return l.wires.add(conn), err
}
