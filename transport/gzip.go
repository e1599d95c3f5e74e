package transport

import (
	"context"
	"io"
	"runtime"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
)

// gRPC keeps its decompressors in one table per process, which may change only before any call.
var _ = acceptGzip()

// acceptGzip replaces gRPC's gzip by one that decompresses few messages at a time. gRPC reads each only up to its
// message limit.
func acceptGzip() struct{} {
	encoding.RegisterCompressor(&boundedGzip{encoding.GetCompressor(gzip.Name),
		make(chan struct{}, runtime.GOMAXPROCS(0))})
	return struct{}{}
}

// boundedGzip decompresses as many messages at a time as there are processors. Messages are complete before they are
// decompressed, so more would not be faster. They would use memory that is not counted yet.
type boundedGzip struct {
	encoding.Compressor
	turns chan struct{}
}

// Decompress implements encoding.Compressor. gRPC closes the reader.
func (g *boundedGzip) Decompress(r io.Reader) (io.Reader, error) {
	g.turns <- struct{}{}
	in, err := g.Compressor.Decompress(r)
	if err != nil {
		<-g.turns
		return nil, err
	}
	return &gzipTurn{in, g.turns}, nil
}

// gzipTurn is a message that is being decompressed.
type gzipTurn struct {
	io.Reader
	turns chan struct{}
}

// Close ends the turn, once.
func (t *gzipTurn) Close() error {
	if t.turns == nil {
		return nil
	}
	<-t.turns
	t.turns = nil
	if in, ok := t.Reader.(io.Closer); ok {
		return in.Close()
	}
	return nil
}

// compressed reports whether a call's messages arrive compressed.
func compressed(ctx context.Context) bool {
	s, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string })
	return ok && s.RecvCompress() != "" && s.RecvCompress() != encoding.Identity
}

// unpacked counts the decompressed message of a call among the messages in flight of its connection, in addition to the
// compressed one. A nil unpacked counts nothing.
type unpacked struct {
	flight *inflightConn
	// size is the counted size; the connection's lock guards it and over.
	size int64
	over bool
}

// unpack returns the counter for a call, nil if its messages are not compressed or not counted.
func (p *pass) unpack(ctx context.Context) *unpacked {
	if p.flight == nil || !compressed(ctx) {
		return nil
	}
	return &unpacked{flight: p.flight}
}

// hold counts the size of the call's present message, in place of the one before.
func (u *unpacked) hold(size int) {
	if u != nil {
		u.set(int64(size), false)
		u.flight.relieve()
	}
}

// release ends the counting.
func (u *unpacked) release() {
	if u != nil {
		u.set(0, true)
	}
}

func (u *unpacked) set(size int64, over bool) {
	c := u.flight
	c.mu.Lock()
	defer c.mu.Unlock()
	if u.over || c.ended { // at its end a connection has released everything
		return
	}
	s := c.streams[unpackedStream]
	if s == nil {
		s = &inflightStream{}
		c.streams[unpackedStream] = s
	}
	c.count(&s.whole, size-u.size, false)
	u.size, u.over = size, over
}

// unpackedStream has the decompressed messages of a connection: no call has this id.
const unpackedStream = 0
