package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/logs"
)

const (
	handshakeTimeout = 5 * time.Second
	inboundMax       = 64
	perNodeMax       = 16
	frameMax         = 40 << 20
	// keepAlive detects a peer whose machine disappeared without closing the connection.
	keepAlive = 15 * time.Second
)

// Layer carries raft's connections. Before raft's first byte both sides know that the other belongs to the cluster and
// is admitted: hashicorp/raft itself does not check the sender, and decodes without bounds.
type Layer struct {
	hello    func() Hello
	opts     Options
	listener net.Listener
	addr     layerAddr
	ready    chan net.Conn
	closed   chan struct{}
	done     sync.WaitGroup
	// dialling ends when the layer closes, and with it each pending dial.
	dialling context.Context
	endDials context.CancelFunc
	lines    logs.Limiter

	mu       sync.Mutex // guards the fields below
	shut     bool
	greeting []*peerConn // inbound, during the handshake, oldest first
	inbound  []*peerConn // inbound, oldest first
	outbound map[*peerConn]struct{}
	counts   Counts
}

// layerAddr is the advertised address, a name or an IP with a port.
type layerAddr string

// Network implements net.Addr.
func (a layerAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a layerAddr) String() string { return string(a) }

// NewLayer listens on bind. Other nodes use the address advertise; empty means the bound address. hello returns this
// node's hello; it is called for each connection, since the cluster id may become known later.
func NewLayer(bind string, advertise raft.ServerAddress, hello func() Hello,
	opts Options) (*Layer, error) {
	if (opts.ServerTLS == nil) != (opts.ClientTLS == nil) || (opts.ServerTLS == nil) != (opts.NodeOf == nil) {
		return nil, errors.New("stream layer: ServerTLS, ClientTLS and NodeOf go together")
	}
	opts = opts.withDefaults()
	listener, err := opts.Listen(bind)
	if err != nil {
		return nil, fmt.Errorf("listen for raft: %w", err)
	}
	addr := layerAddr(advertise)
	if addr == "" {
		addr = layerAddr(listener.Addr().String())
	}
	if host, _, err := net.SplitHostPort(string(addr)); err != nil || host == "" || isUnspecified(host) {
		return nil, errors.Join(rota.Refusef(rota.KindInvalid, "raft address", "raft address %q is not valid for "+
			"other nodes: use one that they can reach", addr), listener.Close())
	}
	s := &Layer{
		hello:    hello,
		opts:     opts,
		listener: listener,
		addr:     addr,
		ready:    make(chan net.Conn),
		closed:   make(chan struct{}),
		outbound: make(map[*peerConn]struct{}),
	}
	s.dialling, s.endDials = context.WithCancel(context.Background())
	s.done.Go(s.listen)
	return s, nil
}

// Accept implements net.Listener: it returns connections after their handshake.
func (s *Layer) Accept() (net.Conn, error) {
	select {
	case conn := <-s.ready:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener; it returns the advertised address, which identifies this node to raft.
func (s *Layer) Addr() net.Addr { return s.addr }

// BoundAddr returns the address listened on.
func (s *Layer) BoundAddr() net.Addr { return s.listener.Addr() }

// Counts returns the number of connections by outcome so far.
func (s *Layer) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Close stops listening and closes every connection of either direction, since raft's transport leaves open those that
// it did not pool. It also ends every Dial: hashicorp/raft's shutdown waits for the call in progress to each peer and
// for one more, and with an unreachable peer both would take their full timeout.
func (s *Layer) Close() error {
	s.mu.Lock()
	if s.shut {
		s.mu.Unlock()
		return nil
	}
	s.shut = true
	close(s.closed)
	s.endDials()
	all := append(append([]*peerConn(nil), s.greeting...), s.inbound...)
	for conn := range s.outbound {
		all = append(all, conn)
	}
	s.mu.Unlock()
	err := s.listener.Close()
	for _, conn := range all {
		_ = conn.Close() // the peer sees the end either way
	}
	s.done.Wait()
	return err
}

// Dial implements raft.StreamLayer: it connects, and returns the connection after the handshake with the intended node
// (meant). After Close it fails at once.
func (s *Layer) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, _, err := s.connect(target, timeout)
	if err != nil {
		return nil, err // not an interface that holds a nil pointer
	}
	return conn, nil
}

// Meet connects to a node, and returns its hello once its certificate has proved its id; raft is not involved.
func (s *Layer) Meet(id rota.NodeID, address string, timeout time.Duration) (Hello, error) {
	conn, peer, err := s.connect(meant(raft.ServerID(id), raft.ServerAddress(address)), timeout)
	if err != nil {
		return peer, err
	}
	return peer, conn.Close()
}

func (s *Layer) connect(target raft.ServerAddress, timeout time.Duration) (*peerConn, Hello, error) {
	node, address := splitMeant(target)
	if timeout <= 0 || timeout > s.opts.HandshakeTimeout {
		timeout = s.opts.HandshakeTimeout
	}
	deadline := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(s.dialling, deadline)
	defer cancel()
	if ctx.Err() != nil {
		return nil, Hello{}, net.ErrClosed
	}
	raw, err := s.opts.Dial(ctx, address)
	if err != nil {
		return nil, Hello{}, err
	}
	if s.opts.ClientTLS != nil {
		raw = tls.Client(raw, s.opts.ClientTLS)
	}
	conn := &peerConn{Conn: raw, layer: s, dialled: true, meant: node, ended: make(chan struct{}),
		again: make(chan struct{}, 1), meter: frameMeter{answers: true, max: frameSmallMax}}
	if !s.trackOutbound(conn) {
		return nil, Hello{}, errors.Join(net.ErrClosed, raw.Close())
	}
	peer, err := s.shake(conn, deadline)
	if err != nil {
		_ = conn.Close()
		s.refused(address, peer, err)
		return nil, peer, fmt.Errorf("handshake with %s: %w", address, err)
	}
	s.count(func(c *Counts) { c.Dialled++ })
	return conn, peer, nil
}

// listen accepts connections and starts the handshake of each on its own goroutine.
func (s *Layer) listen() {
	delay := time.Duration(0)
	for {
		raw, err := s.listener.Accept()
		if err == nil {
			delay = 0
			s.receive(raw)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Most likely out of file descriptors: wait for some to be freed.
		delay = min(max(2*delay, 5*time.Millisecond), time.Second)
		if s.lines.Allow("accept") {
			s.opts.Logger.Error("cannot take raft connections", "error", err)
		}
		select {
		case <-s.closed:
			return
		case <-time.After(delay):
		}
	}
}

// receive starts the handshake of an inbound connection. If too many are in that state, the oldest is closed: an honest
// one finishes in milliseconds, so connections held open cannot keep it out.
func (s *Layer) receive(raw net.Conn) {
	if s.opts.ServerTLS != nil {
		raw = tls.Server(raw, s.opts.ServerTLS)
	}
	conn := &peerConn{Conn: raw, layer: s, ended: make(chan struct{}), again: make(chan struct{}, 1),
		meter: frameMeter{max: s.opts.FrameMax}}
	s.mu.Lock()
	if s.shut {
		s.mu.Unlock()
		_ = raw.Close()
		return
	}
	var oldest *peerConn
	if len(s.greeting) >= s.opts.MaxInbound {
		oldest = s.greeting[0]
		s.counts.Crowded++
	}
	s.greeting = append(s.greeting, conn)
	s.done.Go(func() { s.admit(conn) })
	s.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
}

// admit completes the handshake and passes the connection to raft.
func (s *Layer) admit(conn *peerConn) {
	peer, err := s.shake(conn, time.Now().Add(s.opts.HandshakeTimeout))
	if err == nil {
		err = s.establish(conn, peer)
	}
	if err != nil {
		_ = conn.Close()
		s.refused(conn.RemoteAddr().String(), peer, err)
		return
	}
	select {
	case s.ready <- conn:
	case <-s.closed:
		_ = conn.Close()
	}
}

// shake performs TLS and the hellos within the deadline, and clears the deadline afterwards.
func (s *Layer) shake(conn *peerConn, deadline time.Time) (Hello, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return Hello{}, err
	}
	var state tls.ConnectionState
	if secure, ok := conn.Conn.(*tls.Conn); ok {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			return Hello{}, fmt.Errorf("%w: TLS: %w", errMalformed, err)
		}
		state = secure.ConnectionState()
	}
	own := s.hello()
	var full Hello
	check := func(peer Hello) error {
		peer.Dialled = conn.dialled
		full = peer
		if conn.meant != "" && conn.meant != peer.Node {
			return fmt.Errorf("%w: it is node %s, node %s is meant", errDenied, peer.Node, conn.meant)
		}
		if err := s.certified(peer, state); err != nil {
			return err
		}
		return checkHello(own, peer, s.opts.Admit)
	}
	shakeHands := welcome
	if conn.dialled {
		shakeHands = greet
	}
	if _, err := shakeHands(conn.Conn, own, check); err != nil { // below the frame meter
		return full, err
	}
	conn.watchTrust(full, state)
	return full, conn.SetDeadline(time.Time{})
}

// refused counts a failed connection, with at most one log line per minute and peer.
func (s *Layer) refused(address string, peer Hello, err error) {
	s.count(func(c *Counts) {
		switch {
		case errors.Is(err, errForeign):
			c.Foreign++
		case errors.Is(err, errDenied):
			c.Denied++
		case errors.Is(err, errCrowded):
			c.Crowded++
		case errors.Is(err, errMalformed):
			c.Malformed++
		}
	})
	host, _, splitErr := net.SplitHostPort(address) // a stranger's port changes each time
	if splitErr != nil {
		host = address
	}
	if s.isClosed() || !s.lines.Allow(host+"/"+string(peer.Node)) {
		return
	}
	s.opts.Logger.Warn("raft connection refused", "peer", address, "node", peer.Node, "error", err)
}

func (s *Layer) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

func (s *Layer) count(add func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.counts)
}

func (o Options) withDefaults() Options {
	if o.HandshakeTimeout <= 0 {
		o.HandshakeTimeout = handshakeTimeout
	}
	if o.MaxInbound <= 0 {
		o.MaxInbound = inboundMax
	}
	if o.MaxPerNode <= 0 {
		o.MaxPerNode = perNodeMax
	}
	if o.FrameMax <= 0 {
		o.FrameMax = frameMax
	}
	if o.Listen == nil {
		o.Listen = listenTCP
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func listenTCP(address string) (net.Listener, error) {
	var config net.ListenConfig
	config.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: keepAlive,
		Interval: keepAlive / 3, Count: 3}
	return config.Listen(context.Background(), "tcp", address)
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: keepAlive}
	return dialer.DialContext(ctx, "tcp", address)
}
