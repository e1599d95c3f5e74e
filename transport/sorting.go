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
// of gRPC or HTTP. So one port serves both, with the same checks. A TLS client that offers http/1.1, as browsers and
// curl do, gets HTTP, whichever protocol was agreed; HTTP also answers gRPC calls, more slowly. Any other HTTP/2
// connection belongs to gRPC or HTTP by the content type of its first request (openHTTP2), one of HTTP/1.1 to HTTP.
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
	stop := s.endAtDrain(own)
	sort := s.sortSecure
	if s.tls == nil {
		sort = s.sortPlain
	}
	conn, info, err := sort(own)
	stop()
	if err != nil {
		return nil, nil, err
	}
	if info == nil {
		return s.toWeb(capped, own, conn)
	}
	return conn, *info, nil
}

// endAtDrain gives a connection that is not sorted when the server drains a moment for a request that is on its way. A
// client without one learns that none was served. The returned function ends that.
func (s *sorter) endAtDrain(conn net.Conn) func() {
	done := make(chan struct{})
	stop := context.AfterFunc(s.server.draining, func() {
		defer close(done)
		_ = conn.SetReadDeadline(time.Now().Add(lastWrite))
	})
	return func() {
		if !stop() { // sorted in the same moment
			<-done
			_ = conn.SetReadDeadline(time.Time{})
		}
	}
}

// sortSecure returns an encrypted connection. Without info it belongs to HTTP.
func (s *sorter) sortSecure(own *cappedConn) (net.Conn, *edgeInfo, error) {
	secure := tls.Server(own, s.tls)
	if err := secure.Handshake(); err != nil {
		_ = secure.Close()
		return nil, nil, err
	}
	state := secure.ConnectionState()
	conn := trust(secure, s.tls.VerifyConnection, state, s.server.untrusted)
	info := &edgeInfo{TLSInfo: credentials.TLSInfo{State: state,
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, seat: own.seat}
	s.server.options.identify(info)
	if state.NegotiatedProtocol != "h2" || own.web {
		return &knownConn{conn, *info}, nil, nil
	}
	if info.node != "" {
		return conn, info, nil // other nodes are trusted
	}
	begun, err := openHTTP2(conn)
	if err != nil {
		_ = conn.Close()
		return nil, nil, io.EOF // the client knows why
	}
	if !begun.grpc {
		return &knownConn{begun.toHTTP(), *info}, nil, nil
	}
	info.flight = s.server.inflight.follow(begun.toGRPC())
	return info.flight, info, nil
}

// sortPlain returns an unencrypted connection. Without info it belongs to HTTP. The preface of HTTP/2 begins with PRI,
// which is not a method of HTTP/1.1.
func (s *sorter) sortPlain(own *cappedConn) (net.Conn, *edgeInfo, error) {
	first := make([]byte, 3)
	if _, err := io.ReadFull(own, first); err != nil {
		_ = own.Close()
		return nil, nil, io.EOF // it sent nothing: nothing to log
	}
	conn := &begunConn{Conn: own, first: first}
	if string(first) != "PRI" {
		return conn, nil, nil
	}
	begun, err := openHTTP2(conn)
	if err != nil {
		_ = own.Close()
		return nil, nil, io.EOF // the client knows why
	}
	if !begun.grpc {
		return begun.toHTTP(), nil, nil
	}
	flight := s.server.inflight.follow(begun.toGRPC())
	return flight, &edgeInfo{TLSInfo: credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{
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
	if c.first = c.first[n:]; len(c.first) == 0 {
		c.first = nil // its memory is free
	}
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
