package stream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rotasched/rota"
)

// peerConn is a connection registered with its layer, with metered reads.
type peerConn struct {
	net.Conn
	layer   *Layer
	dialled bool
	// meant is the node that was dialled; empty accepts any.
	meant rota.NodeID
	node  string // the peer's id, once established; guarded by layer.mu
	// again receives a value when the peer must be judged again.
	again chan struct{}

	meter frameMeter // used by one reader at a time, as raft reads
	// answered reports that something was written since a snapshot began: its body is over, and raft does not use the
	// connection again.
	answered atomic.Bool
	once     sync.Once
	// ended is closed together with the connection.
	ended chan struct{}
}

// Read implements net.Conn.
func (c *peerConn) Read(p []byte) (int, error) {
	if c.meter.streaming && c.answered.Load() {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	before := c.meter.streaming
	if bad := c.meter.feed(p[:n]); bad != nil {
		c.layer.count(func(counts *Counts) { counts.Oversized++ })
		c.layer.refused(c.RemoteAddr().String(), Hello{}, bad)
		return 0, errors.Join(bad, c.Close())
	}
	if c.meter.streaming && !before {
		c.answered.Store(false)
	}
	return n, err
}

// Write implements net.Conn.
func (c *peerConn) Write(p []byte) (int, error) {
	c.answered.Store(true)
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *peerConn) Close() (err error) {
	c.once.Do(func() {
		close(c.ended)
		c.layer.forget(c)
		err = c.Conn.Close()
	})
	return err
}

// trackOutbound registers a dialled connection, unless the layer is closed.
func (s *Layer) trackOutbound(conn *peerConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shut {
		s.outbound[conn] = struct{}{}
	}
	return !s.shut
}

// establish moves a connection from the handshake list to the inbound list. A node with too many connections loses its
// oldest, which a broken network may have left behind; if there are too many in total, the new one is rejected.
func (s *Layer) establish(conn *peerConn, peer Hello) error {
	s.mu.Lock()
	i := slices.Index(s.greeting, conn)
	if i < 0 || s.shut { // dropped in the meantime
		s.mu.Unlock()
		return fmt.Errorf("%w: given up during the handshake", errCrowded)
	}
	s.greeting = slices.Delete(s.greeting, i, i+1)
	conn.node = string(peer.Node)
	conn.meter.from = conn.node
	var oldest *peerConn
	same := 0
	for _, other := range s.inbound {
		if other.node != conn.node {
			continue
		}
		if same++; oldest == nil {
			oldest = other
		}
	}
	if same < s.opts.MaxPerNode {
		oldest = nil
	}
	if oldest == nil && len(s.inbound) >= s.opts.MaxInbound {
		s.mu.Unlock()
		return fmt.Errorf("%w: %d are served already", errCrowded, s.opts.MaxInbound)
	}
	if oldest != nil {
		s.counts.Crowded++
	}
	s.inbound = append(s.inbound, conn)
	s.counts.Accepted++
	s.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return nil
}

// forget removes a connection from the layer's lists.
func (s *Layer) forget(conn *peerConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.outbound, conn)
	same := func(other *peerConn) bool { return other == conn }
	s.greeting = slices.DeleteFunc(s.greeting, same)
	s.inbound = slices.DeleteFunc(s.inbound, same)
}

func isUnspecified(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsUnspecified()
}
