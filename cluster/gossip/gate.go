package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/rotasched/rota/internal/logs"
)

// The kinds of memberlist's messages, as sent.
const (
	kindPing         = 0
	kindIndirectPing = 1
	kindAck          = 2
	kindSuspect      = 3
	kindAlive        = 4
	kindDead         = 5
	kindPushPull     = 6
	kindCompound     = 7
	kindEncrypted    = 10
	kindNack         = 11
	kindCRC          = 12
	kindError        = 13
	kindLabel        = 244
)

const (
	// maxStreams bounds inbound streams, and streamBytes the size of one: a state of maxMembers nodes has about 700
	// bytes per node.
	maxStreams  = 16
	streamBytes = 1 << 20
	// maxMembers limits the nodes in one exchange, and the known nodes.
	maxMembers = 1_024
	// encryptionVersion is the version that memberlist writes. sealBytes is the overhead: version, nonce and tag.
	encryptionVersion = 1
	nonceBytes        = 12
	sealBytes         = 1 + nonceBytes + 16
)

// gate checks received data before memberlist decodes it, because memberlist's decoder has no bounds. It passes only
// data that has the cluster's label, is encrypted if there is a key, and has a kind and a size that nodes of rota send.
// Compressed data is rejected, because nodes of rota compress nothing.
type gate struct {
	*memberlist.NetTransport
	label string
	keys  *keys // nil without a key file
	log   *slog.Logger
	lines *logs.Limiter

	packets chan *memberlist.Packet
	streams chan net.Conn
	open    chan struct{} // one value for each inbound stream
	// closed stops the passing of data, ended stops the loops. Two are needed, because the inner transport cannot stop
	// before its data was received.
	closed, ended chan struct{}
	loops         sync.WaitGroup
	once          sync.Once
}

// newGate returns a gate for the data that a transport receives.
func newGate(inner *memberlist.NetTransport, label string, keys *keys, log *slog.Logger, lines *logs.Limiter) *gate {
	g := &gate{NetTransport: inner, label: label, keys: keys, log: log, lines: lines,
		packets: make(chan *memberlist.Packet),
		streams: make(chan net.Conn), open: make(chan struct{}, maxStreams), closed: make(chan struct{}),
		ended: make(chan struct{})}
	g.loops.Go(g.takePackets)
	g.loops.Go(g.takeStreams)
	return g
}

// PacketCh implements memberlist.Transport.
func (g *gate) PacketCh() <-chan *memberlist.Packet { return g.packets }

// StreamCh implements memberlist.Transport.
func (g *gate) StreamCh() <-chan net.Conn { return g.streams }

// DialAddressTimeout implements memberlist.NodeAwareTransport. The gate checks answers too.
func (g *gate) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	conn, err := g.NetTransport.DialAddressTimeout(addr, timeout)
	if err != nil {
		return nil, err
	}
	return &gateConn{Conn: conn, gate: g}, nil
}

// DialTimeout implements memberlist.Transport.
func (g *gate) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return g.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// Shutdown implements memberlist.Transport.
func (g *gate) Shutdown() error {
	var err error
	g.once.Do(func() {
		close(g.closed)
		err = g.NetTransport.Shutdown()
		close(g.ended)
		g.loops.Wait()
	})
	return err
}

func (g *gate) takePackets() {
	for {
		select {
		case packet := <-g.NetTransport.PacketCh():
			if err := g.judgePacket(packet.Buf); err != nil {
				g.refused(packet.From, err)
				continue
			}
			select {
			case g.packets <- packet:
			case <-g.closed:
			}
		case <-g.ended:
			return
		}
	}
}

func (g *gate) takeStreams() {
	for {
		select {
		case conn := <-g.NetTransport.StreamCh():
			select {
			case g.open <- struct{}{}:
			default:
				g.refused(conn.RemoteAddr(), fmt.Errorf("%w: %d streams are open already", errGate, maxStreams))
				_ = conn.Close()
				continue
			}
			select {
			case g.streams <- &gateConn{Conn: conn, gate: g, inbound: true}:
			case <-g.closed:
				_ = conn.Close()
			}
		case <-g.ended:
			return
		}
	}
}

// refused logs a rejection, at most once per minute for each machine.
func (g *gate) refused(from net.Addr, err error) {
	host, _, splitErr := net.SplitHostPort(from.String())
	if splitErr != nil {
		host = from.String()
	}
	if g.lines.Allow("gate/" + host) {
		g.log.Warn("gossip refused", "from", from.String(), "error", err)
	}
}

// unlabel removes the cluster's label.
func (g *gate) unlabel(s *scanner) error {
	head, err := s.need(2)
	if err != nil {
		return err
	}
	if head[0] != kindLabel || int(head[1]) != len(g.label) {
		return fmt.Errorf("%w: not labelled for this cluster", errGate)
	}
	label, err := s.need(len(g.label))
	if err == nil && string(label) != g.label {
		err = fmt.Errorf("%w: not labelled for this cluster", errGate)
	}
	return err
}

// decrypt decrypts data with the key that sealed it. known is the associated data, which is authenticated too.
func (g *gate) decrypt(sealed, known []byte) ([]byte, error) {
	if len(sealed) <= sealBytes || sealed[0] != encryptionVersion {
		return nil, fmt.Errorf("%w: nothing that the key sealed", errGate)
	}
	return g.keys.open(sealed[1:1+nonceBytes], sealed[1+nonceBytes:], known)
}

func (g *gate) judgePacket(packet []byte) error {
	s := &scanner{held: packet, most: len(packet)}
	if err := g.unlabel(s); err != nil {
		return err
	}
	message := packet[s.at:]
	if g.keys != nil {
		var err error
		if message, err = g.decrypt(message, []byte(g.label)); err != nil {
			return err
		}
	}
	if len(message) >= 5 && message[0] == kindCRC {
		if crc32.ChecksumIEEE(message[5:]) != binary.BigEndian.Uint32(message[1:]) {
			return fmt.Errorf("%w: its checksum is wrong", errGate)
		}
		message = message[5:]
	}
	return judgeMessage(message, true)
}

// judgeMessage checks one message of a packet, or the parts of a compound one.
func judgeMessage(message []byte, compound bool) error {
	s := &scanner{held: message, most: len(message)}
	kind, err := s.need(1)
	if err != nil {
		return err
	}
	switch kind[0] {
	case kindPing, kindIndirectPing, kindAck, kindSuspect, kindAlive, kindDead, kindNack:
		if _, err := s.object(); err != nil {
			return err
		}
	case kindCompound:
		if !compound {
			return fmt.Errorf("%w: a compound message in another", errGate)
		}
		return judgeParts(s)
	default:
		return fmt.Errorf("%w: a packet of kind %d", errGate, kind[0])
	}
	if s.at != len(message) {
		return fmt.Errorf("%w: %d bytes after a message", errGate, len(message)-s.at)
	}
	return nil
}

func judgeParts(s *scanner) error {
	count, err := s.number(1)
	if err != nil {
		return err
	}
	lengths, err := s.need(2 * count)
	if err != nil {
		return err
	}
	for i := range count {
		part, err := s.need(int(binary.BigEndian.Uint16(lengths[2*i:])))
		if err != nil {
			return err
		}
		if err := judgeMessage(part, false); err != nil {
			return err
		}
	}
	return nil
}

// gateConn is a stream whose single message is checked before its first byte is passed on.
type gateConn struct {
	net.Conn
	gate    *gate
	inbound bool
	once    sync.Once

	judged bool
	bad    error
	left   []byte
}

// Read implements net.Conn; memberlist reads from one goroutine. It returns io.EOF after the first message, as a stream
// of memberlist has only one. A connection that ends before its message is not logged as rejected: a starting node
// opens its port and closes it again.
func (c *gateConn) Read(p []byte) (int, error) {
	if !c.judged {
		c.judged = true
		if c.left, c.bad = c.gate.judgeStream(c.Conn, c.inbound); errors.Is(c.bad, errGate) {
			c.gate.refused(c.RemoteAddr(), c.bad)
			c.bad = io.EOF // it gets no answer
		}
	}
	switch {
	case c.bad != nil:
		return 0, c.bad
	case len(c.left) == 0:
		return 0, io.EOF
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

// Close implements net.Conn.
func (c *gateConn) Close() error {
	c.once.Do(func() {
		if c.inbound {
			<-c.gate.open
		}
	})
	return c.Conn.Close()
}

// judgeStream reads and checks one message, and returns its bytes unchanged.
func (g *gate) judgeStream(from io.Reader, inbound bool) ([]byte, error) {
	s := &scanner{from: from, most: streamBytes}
	if inbound { // answers have no label
		if err := g.unlabel(s); err != nil {
			return nil, err
		}
	}
	if g.keys == nil {
		err := judgeExchange(s)
		return s.held[:s.at], err
	}
	head, err := s.need(5)
	if err != nil {
		return nil, err
	}
	if head[0] != kindEncrypted {
		return nil, fmt.Errorf("%w: not encrypted with this cluster's key", errGate)
	}
	known := append(append([]byte{}, head...), g.label...)
	sealed, err := s.need(int(min(binary.BigEndian.Uint32(head[1:]), streamBytes+1)))
	if err != nil {
		return nil, err
	}
	plain, err := g.decrypt(sealed, known)
	if err != nil {
		return nil, err
	}
	inner := &scanner{held: plain, most: len(plain)}
	if err := judgeExchange(inner); err != nil {
		return nil, err
	}
	if inner.at != len(plain) {
		return nil, fmt.Errorf("%w: %d bytes after a message", errGate, len(plain)-inner.at)
	}
	return s.held[:s.at], nil
}

// judgeExchange accepts a ping, its answer, or the list of all nodes that the other end knows.
func judgeExchange(s *scanner) error {
	kind, err := s.need(1)
	if err != nil {
		return err
	}
	switch kind[0] {
	case kindPing, kindAck, kindError:
		_, err := s.object()
		return err
	case kindPushPull:
	default:
		return fmt.Errorf("%w: a stream of kind %d", errGate, kind[0])
	}
	header, err := s.object()
	if err != nil {
		return err
	}
	nodes, user := header["Nodes"], header["UserStateLen"]
	if nodes < 0 || nodes > maxMembers || user != 0 {
		return fmt.Errorf("%w: got %d nodes and %d bytes of user state, maximum %d and 0", errGate, nodes, user,
			maxMembers)
	}
	for range nodes {
		if _, err := s.object(); err != nil {
			return err
		}
	}
	return nil
}
