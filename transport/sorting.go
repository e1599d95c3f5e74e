package transport

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// sorter runs first on every new connection: encryption and the proof of identity where TLS is on, then the detection
// of gRPC or HTTP. So one port serves both, with the same checks. Under TLS the client's protocols decide: a client
// that offers only h2 speaks gRPC. One that also offers http/1.1, as browsers and curl do, speaks HTTP, whichever of
// the two was agreed. Without TLS the first three bytes decide.
type sorter struct {
	tls    *tls.Config
	server *Server
	web    *connQueue
}

var _ credentials.TransportCredentials = (*sorter)(nil)

// newSorter returns a sorter that sends non-gRPC connections to a queue.
func newSorter(server *Server, web *connQueue) *sorter {
	config := server.options.TLS
	if config != nil {
		config = withProtocols(config)
	}
	return &sorter{tls: config, server: server, web: web}
}

// withProtocols returns a TLS configuration that offers both protocols, also in the configurations that it returns per
// client (for a certificate renewed meanwhile).
func withProtocols(config *tls.Config) *tls.Config {
	config = config.Clone()
	for _, p := range []string{"h2", "http/1.1"} {
		if !slices.Contains(config.NextProtos, p) {
			config.NextProtos = append(slices.Clone(config.NextProtos), p)
		}
	}
	forClient := config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if conn, ok := hello.Conn.(*cappedConn); ok {
			conn.web = slices.Contains(hello.SupportedProtos, "http/1.1")
		}
		if forClient == nil {
			return nil, nil
		}
		c, err := forClient(hello)
		if c != nil {
			c = withProtocols(c)
		}
		return c, err
	}
	return config
}

// ServerHandshake implements credentials.TransportCredentials. gRPC has set a
// deadline on raw, and closes it with an error.
func (s *sorter) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	capped, ok := raw.(*cappedConn)
	if !ok {
		capped = &cappedConn{Conn: raw}
	}
	// HTTP gets a connection of its own: gRPC still changes raw's deadlines after it has released it.
	own := &cappedConn{Conn: capped.Conn, seat: capped.seat}
	if conn, ok := own.Conn.(*net.UnixConn); ok {
		return s.greetLocal(own, conn)
	}
	if s.tls == nil {
		return s.sortPlain(capped, own)
	}
	secure := tls.Server(own, s.tls)
	if err := secure.Handshake(); err != nil {
		_ = secure.Close()
		return nil, nil, err
	}
	state := secure.ConnectionState()
	conn := trust(secure, s.tls.VerifyConnection, state, s.server.untrusted)
	info := edgeInfo{TLSInfo: credentials.TLSInfo{State: state,
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, seat: own.seat}
	s.server.options.identify(&info)
	if state.NegotiatedProtocol != "h2" || own.web {
		return s.toWeb(capped, own, &knownConn{conn, info})
	}
	if info.node != "" {
		return conn, info, nil // other nodes are trusted
	}
	info.flight = s.server.inflight.follow(conn)
	return info.flight, info, nil
}

// sortPlain examines the first bytes: gRPC's preface begins with PRI, which is not a method of HTTP/1.1.
func (s *sorter) sortPlain(capped, own *cappedConn) (net.Conn, credentials.AuthInfo, error) {
	first := make([]byte, 3)
	if _, err := io.ReadFull(own, first); err != nil {
		_ = own.Close()
		return nil, nil, io.EOF // it sent nothing: nothing to log
	}
	conn := &begunConn{Conn: own, first: first}
	if string(first) != "PRI" {
		return s.toWeb(capped, own, conn)
	}
	flight := s.server.inflight.follow(conn)
	return flight, edgeInfo{TLSInfo: credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{
		SecurityLevel: credentials.NoSecurity}}, seat: own.seat, flight: flight}, nil
}

func (s *sorter) toWeb(capped, own *cappedConn, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	capped.left.Store(true)
	_ = own.SetDeadline(time.Time{})
	s.web.push(conn)
	return nil, nil, credentials.ErrConnDispatched
}

// ClientHandshake implements credentials.TransportCredentials; a server dials no one.
func (s *sorter) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, net.ErrClosed
}

// Info implements credentials.TransportCredentials.
func (s *sorter) Info() credentials.ProtocolInfo {
	if s.tls == nil {
		return insecure.NewCredentials().Info()
	}
	return credentials.NewTLS(s.tls).Info()
}

// Clone implements credentials.TransportCredentials.
func (s *sorter) Clone() credentials.TransportCredentials { c := *s; return &c }

// OverrideServerName implements credentials.TransportCredentials.
func (s *sorter) OverrideServerName(string) error { return nil }

// NetConn returns the underlying connection.
func (c *begunConn) NetConn() net.Conn { return c.Conn }

// begunConn is a connection whose first bytes have been read already.
type begunConn struct {
	net.Conn
	first []byte
}

func (c *begunConn) Read(p []byte) (int, error) {
	if len(c.first) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.first)
	c.first = c.first[n:]
	return n, nil
}

// connQueue is a listener of connections that another one accepted.
type connQueue struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func newConnQueue() *connQueue {
	return &connQueue{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (q *connQueue) push(conn net.Conn) {
	select {
	case q.conns <- conn:
	case <-q.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (q *connQueue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, http.ErrServerClosed
	}
}

// Close implements net.Listener.
func (q *connQueue) Close() error {
	q.close.Do(func() { close(q.closed) })
	return nil
}

// Addr implements net.Listener.
func (q *connQueue) Addr() net.Addr { return &net.TCPAddr{} }
