package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/rotasched/rota"
)

// trustEvery is how often the certificate of an open connection is checked again: a connection with an invalid one is
// cut off within twice that time.
const trustEvery = 10 * time.Second

// verdict checks a peer by its presented certificate; nil accepts it.
type verdict func(tls.ConnectionState) error

// trusted checks a peer's certificate: its dates, and with judge also whether its authority was revoked.
func trusted(judge verdict, state tls.ConnectionState) error {
	leaf := state.PeerCertificates[0]
	if now := time.Now(); now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate of %q expired at %s", leaf.Subject.CommonName,
			leaf.NotAfter.Format(time.RFC3339))
	}
	if judge != nil {
		return judge(state)
	}
	return nil
}

// identify returns the id of the node whose certificate a connection presented (SECURITY §1.4).
type identify func(tls.ConnectionState) (rota.NodeID, error)

// is returns a verdict that accepts only this node.
func (of identify) is(meant rota.NodeID) verdict {
	return func(state tls.ConnectionState) error {
		if of == nil {
			return rota.Refusef(rota.KindDenied, "certificate",
				"node certificates cannot be checked: NodeOf is not set")
		}
		id, err := of(state)
		if err == nil && id != meant {
			err = rota.Refusef(rota.KindDenied, "certificate", "called node %s, but node %s answered", meant, id)
		}
		return err
	}
}

// edgeInfo is what a node has learned in the handshake about a connection's other end.
type edgeInfo struct {
	credentials.TLSInfo
	// node is the node whose certificate was presented; bad is the reason that it does not belong to a node.
	node rota.NodeID
	bad  error
	// seat is the connection's seat in the listener.
	seat *seat
	// flight counts its messages; nil for a node's.
	flight *inflightConn
	// client is the principal of a client's certificate, empty if none was presented.
	client rota.Principal
	// local marks a connection on the node's own socket; stranger is the reason that its other end may not call there.
	local    bool
	stranger error
}

// identify fills in the owner of the certificate that a connection's other end has presented.
func (o *Options) identify(info *edgeInfo) {
	if len(info.State.PeerCertificates) == 0 {
		return
	}
	if o.NodeOf != nil {
		info.node, info.bad = o.NodeOf(info.State)
	}
	if o.ClientOf != nil && info.node == "" {
		if role, name, err := o.ClientOf(info.State); err == nil {
			info.client = rota.CertPrincipal(role, name)
		}
	}
}

// knownConn is an HTTP connection with the credentials that its other end has presented.
type knownConn struct {
	net.Conn
	shown edgeInfo
}

// NetConn returns the underlying connection.
func (c *knownConn) NetConn() net.Conn { return c.Conn }

// trustedConn is a connection that ends when its peer's certificate does. gRPC checks a certificate only once, and a
// stream may last for weeks.
type trustedConn struct {
	net.Conn
	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

// trust watches a connection whose peer presented a certificate.
func trust(conn net.Conn, judge verdict, state tls.ConnectionState, ended func(error)) net.Conn {
	if len(state.PeerCertificates) == 0 {
		return conn
	}
	c := &trustedConn{Conn: conn}
	c.mu.Lock()
	defer c.mu.Unlock()
	expires := state.PeerCertificates[0].NotAfter
	next := func() time.Duration { return min(trustEvery, max(0, time.Until(expires))+time.Millisecond) }
	c.timer = time.AfterFunc(next(), func() {
		if err := trusted(judge, state); err != nil {
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

// NetConn returns the underlying connection.
func (c *trustedConn) NetConn() net.Conn { return c.Conn }

func (c *trustedConn) Close() error {
	c.mu.Lock()
	c.over = true
	c.timer.Stop()
	c.mu.Unlock()
	return c.Conn.Close()
}

// trustingCreds are the credentials of the dialling side: they watch the other node's certificate.
type trustingCreds struct {
	credentials.TransportCredentials
	judge verdict
	ended func(error)
}

// ClientHandshake implements credentials.TransportCredentials.
func (t trustingCreds) ClientHandshake(ctx context.Context, authority string,
	raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.TransportCredentials.ClientHandshake(ctx, authority, raw)
	secure, ok := info.(credentials.TLSInfo)
	if err != nil || !ok {
		return conn, info, err
	}
	if err := t.judge(secure.State); err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return trust(conn, t.judge, secure.State, t.ended), info, nil
}

// Clone implements credentials.TransportCredentials.
func (t trustingCreds) Clone() credentials.TransportCredentials {
	t.TransportCredentials = t.TransportCredentials.Clone()
	return t
}
