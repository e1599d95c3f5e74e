package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// openingBytes bounds the bytes of an HTTP/2 connection that are kept until its first request decides its protocol.
	// The last frame may exceed it.
	openingBytes = 16 << 10
	// openingFrame is the largest frame that a client may send before it reads other settings: the protocol's default.
	openingFrame = 16 << 10
	// grpcType is the content type of gRPC, before a subtype such as +proto.
	grpcType = "application/grpc"
)

// opening is the beginning of an HTTP/2 connection: its preface, its settings, and the headers of its first request up
// to the content type. All of it is read again by the server that gets the connection.
type opening struct {
	conn   net.Conn
	framer *http2.Framer
	seen   bytes.Buffer
	// acked reports that the client has acknowledged the settings that settle sent; seen does not contain that frame.
	acked bool
	// block reports that the headers of the first request have begun, typed that its content type is known.
	block, typed, grpc bool
}

// openHTTP2 reads a connection up to the content type of its first request, and reports whether that is gRPC's. With an
// error, the client has received the reason. The caller limits the time.
func openHTTP2(conn net.Conn) (*opening, error) {
	o := &opening{conn: conn}
	o.framer = http2.NewFramer(conn, io.TeeReader(conn, &o.seen))
	o.framer.SetMaxReadFrameSize(openingFrame)
	if err := o.settle(); err != nil {
		return nil, err
	}
	if err := o.follow(); err != nil {
		o.refuse(err)
		return nil, err
	}
	return o, nil
}

// settle reads the preface, and sends settings: many gRPC clients send no request before they have received some. The
// server that gets the connection sends its own; until then its client is held to the smaller number of streams.
func (o *opening) settle() error {
	var preface [len(http2Preface)]byte
	if _, err := io.ReadFull(io.TeeReader(o.conn, &o.seen), preface[:]); err != nil {
		return err
	}
	if string(preface[:]) != http2Preface {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return o.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: webStreams})
}

// follow reads frames until the protocol is known. Headers that are too long for openingBytes are HTTP's to refuse.
func (o *opening) follow() error {
	headers := hpack.NewDecoder(4<<10, o.header)
	headers.SetMaxStringLength(2 * (openingBytes + openingFrame)) // Huffman's code shortens by 8:5 at most
	for settled := false; o.seen.Len() < openingBytes; settled = true {
		frame, err := o.framer.ReadFrame()
		if err != nil {
			return err
		}
		var fragment []byte
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if settled || !f.IsAck() {
				o.acknowledge(f)
				continue
			}
		case *http2.HeadersFrame:
			o.block, fragment = settled, f.HeaderBlockFragment()
		case *http2.ContinuationFrame:
			fragment = f.HeaderBlockFragment()
		case *http2.WindowUpdateFrame, *http2.PriorityFrame, *http2.PingFrame, *http2.UnknownFrame:
			if settled {
				continue
			}
		}
		if !o.block { // a client begins with its settings, and may send data only after headers
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		if _, err := headers.Write(fragment); err != nil {
			return http2.ConnectionError(http2.ErrCodeCompression)
		}
		if o.typed || frame.Header().Flags.Has(http2.FlagHeadersEndHeaders) {
			return nil
		}
	}
	if !o.block {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// acknowledge removes the client's first acknowledgement from what is read again.
func (o *opening) acknowledge(f *http2.SettingsFrame) {
	if f.IsAck() && !o.acked {
		o.acked = true
		o.seen.Truncate(o.seen.Len() - frameHead)
	}
}

// header examines one header of the first request.
func (o *opening) header(f hpack.HeaderField) {
	if f.Name == "content-type" && !o.typed {
		o.typed, o.grpc = true, isGRPC(f.Value)
	}
}

// isGRPC reports whether a content type is gRPC's; that of gRPC-Web is not.
func isGRPC(kind string) bool {
	if len(kind) < len(grpcType) || !strings.EqualFold(kind[:len(grpcType)], grpcType) {
		return false
	}
	rest := kind[len(grpcType):]
	return rest == "" || rest[0] == '+' || rest[0] == ';'
}

// refuse sends the reason of a connection's end. No request was served, so a client may repeat all of them elsewhere.
func (o *opening) refuse(err error) {
	code := http2.ErrCodeNo
	var fault http2.ConnectionError
	var stream http2.StreamError
	switch {
	case errors.As(err, &fault):
		code = http2.ErrCode(fault)
	case errors.As(err, &stream):
		code = stream.Code
	case errors.Is(err, http2.ErrFrameTooLarge):
		code = http2.ErrCodeFrameSize
	}
	_ = o.conn.SetWriteDeadline(time.Now().Add(lastWrite))
	_ = o.framer.WriteGoAway(0, code, nil)
}

// toGRPC returns the connection for gRPC's server, which ignores an acknowledgement too many.
func (o *opening) toGRPC() net.Conn { return &begunConn{Conn: o.conn, first: o.seen.Bytes()} }

// toHTTP returns the connection for net/http, which ends a connection at an acknowledgement too many.
func (o *opening) toHTTP() net.Conn {
	conn := o.conn
	if !o.acked {
		conn = &acklessConn{Conn: conn}
	}
	return &begunConn{Conn: conn, first: o.seen.Bytes()}
}

// acklessConn is an HTTP/2 connection, from the beginning of a frame, without the first acknowledgement of settings
// that arrives on it.
type acklessConn struct {
	net.Conn
	// found reports that the acknowledgement was removed: from there on nothing is examined.
	found bool
	// head has the have bytes of a frame's header that were read, of which sent were returned; left is the rest of the
	// frame's payload.
	head             [frameHead]byte
	have, sent, left int
}

// NetConn returns the underlying connection.
func (c *acklessConn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *acklessConn) Read(p []byte) (int, error) {
	for !c.found && len(p) > 0 {
		if c.left > 0 {
			n, err := c.Conn.Read(p[:min(c.left, len(p))])
			c.left -= n
			return n, err
		}
		if c.have == frameHead {
			n := copy(p, c.head[c.sent:])
			if c.sent += n; c.sent == frameHead {
				c.left = int(c.head[0])<<16 | int(c.head[1])<<8 | int(c.head[2])
				c.have, c.sent = 0, 0
			}
			return n, nil
		}
		n, err := c.Conn.Read(c.head[c.have:])
		c.have += n
		c.found = c.head == acknowledgement && c.have == frameHead
		if err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}

// acknowledgement is the frame that acknowledges settings: no payload, type 4, flag 1, stream 0.
var acknowledgement = [frameHead]byte{3: byte(http2.FrameSettings), 4: byte(http2.FlagSettingsAck)}
