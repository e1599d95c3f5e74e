package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// trustEvery is how often the certificate behind an open connection is judged anew:
// what no longer counts is cut off within twice that.
const trustEvery = 10 * time.Second

// trusted judges a peer's certificate as its handshake did: by its dates, and by
// config.VerifyConnection, where an authority that was taken back shows.
func trusted(config *tls.Config, state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	leaf := state.PeerCertificates[0]
	if now := time.Now(); now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate of %q expired at %s", leaf.Subject.CommonName, leaf.NotAfter.Format(time.RFC3339))
	}
	if config.VerifyConnection != nil {
		return config.VerifyConnection(state)
	}
	return nil
}

// trustedConn is a connection that ends when its peer's certificate does. gRPC
// itself looks at a certificate once, and a stream may last for weeks.
type trustedConn struct {
	net.Conn
	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

// trust watches over a connection where its peer showed a certificate.
func trust(conn net.Conn, config *tls.Config, state tls.ConnectionState, ended func(error)) net.Conn {
	if len(state.PeerCertificates) == 0 {
		return conn
	}
	c := &trustedConn{Conn: conn}
	c.mu.Lock()
	defer c.mu.Unlock()
	expires := state.PeerCertificates[0].NotAfter
	next := func() time.Duration { return min(trustEvery, max(0, time.Until(expires))+time.Millisecond) }
	c.timer = time.AfterFunc(next(), func() {
		if err := trusted(config, state); err != nil {
			ended(err)
			_ = c.Close()
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.over {
			c.timer.Reset(next())
		}
	})
	return c
}

func (c *trustedConn) Close() error {
	c.mu.Lock()
	c.over = true
	c.timer.Stop()
	c.mu.Unlock()
	return c.Conn.Close()
}

// trustingCreds are the dialling side's: the other node's certificate is watched.
type trustingCreds struct {
	credentials.TransportCredentials
	config *tls.Config
	ended  func(error)
}

// ClientHandshake implements credentials.TransportCredentials.
func (t trustingCreds) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if secure, ok := info.(credentials.TLSInfo); err == nil && ok {
		conn = trust(conn, t.config, secure.State, t.ended)
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (t trustingCreds) Clone() credentials.TransportCredentials {
	t.TransportCredentials = t.TransportCredentials.Clone()
	return t
}
