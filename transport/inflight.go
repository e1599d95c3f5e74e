package transport

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/logs"
)

// These bound the memory of a node that unanswered client messages use.
const (
	DefaultInflightBytes = 256 << 20
	// InflightLeast leaves one connection a few messages.
	InflightLeast = 16 * limits.MaxMessageBytes
)

const (
	// A message has messageTime to arrive whole, and a second for each messageRate bytes.
	messageTime = 10 * time.Second
	messageRate = 64 << 10
)

// inflight bounds the bytes of clients' messages, from a message's first byte to its answer: gRPC alone would use a
// message's worth for each of a thousand streams of each connection. It follows the HTTP/2 frames (RFC 9113) of each
// connection and changes none.
type inflight struct {
	most int64
	held atomic.Int64
	// leaving counts bytes held by HTTP requests that were cut off and have not returned: they count for no caller, but
	// the memory is still in use.
	leaving atomic.Int64
	log     *slog.Logger
	warned  logs.Limiter

	mu       sync.Mutex
	conns    map[*inflightConn]struct{}
	accounts map[rota.Principal]*account
	// freed is closed when some of leaving is free; nil while nothing waits for that.
	freed chan struct{}
}

func newInflight(most int64, log *slog.Logger) *inflight {
	return &inflight{most: most, log: log, conns: make(map[*inflightConn]struct{}),
		accounts: make(map[rota.Principal]*account)}
}

// follow counts the bytes that arrive on a connection.
func (f *inflight) follow(conn net.Conn) *inflightConn {
	c := &inflightConn{Conn: conn, all: f, in: frames{preface: len(http2Preface)},
		streams: make(map[uint32]*inflightStream)}
	f.mu.Lock()
	f.conns[c] = struct{}{}
	f.mu.Unlock()
	return c
}

// relieve ends connections until the total fits: first the one with most unfinished bytes, and among those with none,
// the one that holds most.
func (f *inflight) relieve() {
	for f.held.Load() > f.most {
		if !f.endWorst(nil, "the messages in flight on this node exceed --inflight-bytes, "+
			"and this connection has the most unfinished bytes") {
			return
		}
	}
}

// endWorst ends the connection with most unfinished bytes, of one principal or, with nil, of all; it returns false if
// there is none.
func (f *inflight) endWorst(of *account, why string) bool {
	f.mu.Lock()
	var worst *inflightConn
	var unfinished, held int64
	for c := range f.conns {
		if of != nil && c.account.Load() != of {
			continue
		}
		u, h := c.unfinished.Load(), c.held.Load()
		if worst == nil || u > unfinished || u == unfinished && h > held {
			worst, unfinished, held = c, u, h
		}
	}
	f.mu.Unlock()
	if worst != nil {
		worst.end(why)
	}
	return worst != nil
}

const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// These are the parts of frames that are examined.
const (
	frameData, frameHeaders, frameReset = 0, 1, 3
	flagEndStream, flagPadded           = 0x1, 0x8
	frameHead                           = 9
	// messageHead is the size of gRPC's message prefix: a compression flag and the length.
	messageHead = 5
)

// frames follows one direction of a connection, however it is split into reads.
type frames struct {
	preface, have, left int
	head                [frameHead]byte
}

func (f *frames) kind() byte     { return f.head[3] }
func (f *frames) is(b byte) bool { return f.head[4]&b != 0 }
func (f *frames) stream() uint32 { return be32(f.head[5:]) &^ (1 << 31) }
func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// follow calls each at the end of a frame's header, with nothing, and for each piece of the frame's payload.
func (f *frames) follow(p []byte, each func(piece []byte)) {
	n := min(f.preface, len(p))
	f.preface -= n
	for p = p[n:]; len(p) > 0; p = p[n:] {
		if f.have < frameHead {
			n = copy(f.head[f.have:], p)
			if f.have += n; f.have < frameHead {
				return
			}
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			each(nil)
		} else {
			n = min(f.left, len(p))
			f.left -= n
			each(p[:n])
		}
		if f.left == 0 {
			f.have = 0
		}
	}
}

// inflightStream is a call whose messages are counted.
type inflightStream struct {
	// whole is the size of the last message, from when it is complete until it is answered.
	whole int64
	// part counts the bytes of the message that is arriving, want is its full size; head is its beginning, due is when
	// it must be complete.
	part, want int64
	head       [messageHead]byte
	due        time.Time
}

// inflightConn is a connection whose messages are counted.
type inflightConn struct {
	net.Conn
	all *inflight
	// held counts unanswered bytes, unfinished those of them whose message is not complete.
	held, unfinished atomic.Int64
	// account belongs to the principal whose call was admitted last; nil before the first. A connection rarely has two.
	account atomic.Pointer[account]

	mu      sync.Mutex
	in, out frames
	last    uint32 // the last stream that the client began
	streams map[uint32]*inflightStream
	timer   *time.Timer
	ended   bool
	// lingers reports that the bytes held at the end stay in use until inflight.left is called; behind is their number.
	lingers bool
	behind  int64
}

// NetConn returns the underlying connection.
func (c *inflightConn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *inflightConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	c.mu.Lock()
	if !c.ended {
		c.in.follow(p[:n], c.arrived)
		c.time()
	}
	c.mu.Unlock()
	c.relieve()
	return n, err
}

// time limits the time that unfinished messages may take.
func (c *inflightConn) time() {
	if c.unfinished.Load() > 0 && c.timer == nil {
		c.timer = time.AfterFunc(time.Until(c.due()), c.late)
	}
}

// relieve ends the connection with too many bytes: this one, or one that has more.
func (c *inflightConn) relieve() {
	a := c.account.Load()
	switch {
	case c.held.Load() > c.all.most/2:
		c.end("its messages in flight are more than half of --inflight-bytes")
	case a != nil && a.held.Load() > c.all.most/2:
		c.all.relieveOf(a)
	case c.all.held.Load() > c.all.most:
		c.all.relieve()
	}
}

// Write implements net.Conn.
func (c *inflightConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if !c.ended {
		c.out.follow(p, c.answered)
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// arrived counts bytes that a client sends.
func (c *inflightConn) arrived(piece []byte) {
	id := c.in.stream()
	s := c.streams[id]
	switch kind := c.in.kind(); {
	case kind == frameHeaders && piece == nil && id > c.last:
		c.last, c.streams[id] = id, &inflightStream{}
	case kind == frameReset && piece == nil && s != nil:
		c.forget(id, s)
	case kind == frameData && piece != nil && s != nil:
		if c.in.is(flagPadded) {
			// gRPC clients send no padding: the payload is a message without an end.
			c.count(&s.part, int64(len(piece)), true)
			s.want = 1 << 62
			return
		}
		c.message(s, piece)
	}
}

// message counts a piece of a call's client message.
func (c *inflightConn) message(s *inflightStream, piece []byte) {
	for len(piece) > 0 {
		if s.part == 0 { // another message begins, the one before was read
			c.count(&s.whole, -s.whole, false)
			s.want, s.due = messageHead, time.Now().Add(messageTime)
		}
		n := min(s.want-s.part, int64(len(piece)))
		if s.part < messageHead {
			copy(s.head[s.part:], piece[:n])
		}
		c.count(&s.part, n, true)
		piece = piece[n:]
		if s.part == messageHead && s.want == messageHead {
			length := int64(be32(s.head[1:]))
			s.want += length
			s.due = s.due.Add(time.Duration(length/messageRate) * time.Second)
		}
		if s.part == s.want {
			whole := s.part
			c.count(&s.part, -whole, true)
			c.count(&s.whole, whole, false)
		}
	}
}

// answered releases the bytes that the node answers, and forgets a call at its end.
func (c *inflightConn) answered(piece []byte) {
	id, kind := c.out.stream(), c.out.kind()
	s := c.streams[id]
	if piece != nil || s == nil || kind != frameData && kind != frameHeaders && kind != frameReset {
		return
	}
	if kind == frameReset || c.out.is(flagEndStream) {
		c.forget(id, s)
		return
	}
	c.count(&s.whole, -s.whole, false)
}

func (c *inflightConn) forget(id uint32, s *inflightStream) {
	c.count(&s.whole, -s.whole, false)
	c.count(&s.part, -s.part, true)
	delete(c.streams, id)
}

// count adds to a number of a stream, and to the sums that include it.
func (c *inflightConn) count(of *int64, n int64, unfinished bool) {
	*of += n
	c.held.Add(n)
	c.all.held.Add(n)
	if a := c.account.Load(); a != nil {
		a.held.Add(n)
	}
	if unfinished {
		c.unfinished.Add(n)
	}
}

// due returns when the first arriving message must be complete, or a later time if none is arriving.
func (c *inflightConn) due() time.Time {
	first := time.Now().Add(messageTime)
	for _, s := range c.streams {
		if s.part > 0 && s.due.Before(first) {
			first = s.due
		}
	}
	return first
}

// late ends the connection if a message took too long.
func (c *inflightConn) late() {
	c.mu.Lock()
	if c.timer = nil; c.ended || c.unfinished.Load() == 0 {
		c.mu.Unlock()
		return
	}
	left := time.Until(c.due())
	if left > 0 {
		c.timer = time.AfterFunc(left, c.late)
	}
	c.mu.Unlock()
	if left <= 0 {
		c.end("a message did not arrive whole in its time")
	}
}

// end closes the connection, and logs why.
func (c *inflightConn) end(why string) {
	if c.all.warned.Allow(why) {
		c.all.log.Warn("connection closed: "+why, "address", c.RemoteAddr().String(), "bytes", c.held.Load())
	}
	_ = c.Close()
}

// Close implements net.Conn and releases the bytes held.
func (c *inflightConn) Close() error {
	c.mu.Lock()
	if !c.ended {
		c.ended = true
		if c.lingers {
			c.behind = c.held.Load()
			c.all.leaving.Add(c.behind)
		}
		for id, s := range c.streams {
			c.forget(id, s)
		}
		if c.timer != nil {
			c.timer.Stop()
		}
	}
	a := c.account.Swap(nil)
	c.mu.Unlock()
	c.all.leave(a)
	c.all.mu.Lock()
	delete(c.all.conns, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}
