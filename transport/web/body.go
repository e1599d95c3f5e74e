package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/rotasched/rota"
)

const (
	// minBuffer is the memory that a body begins with; it doubles whenever it is full.
	minBuffer = 4 << 10
	// linesBuffer is the memory that a body of lines may use even if none of its lines needs that much.
	linesBuffer = 64 << 10
	// zipBytes is roughly the memory that decompression uses besides its output.
	zipBytes = 48 << 10
)

// buffers pools free buffers by size order, so that bodies reuse them without garbage. The largest has one byte more
// than maxBody.
var buffers [9]sync.Pool

func bufferSize(order int) int { return minBuffer<<order + 1 }

// body is the body of a request. Its memory grows with the data received, whatever the header states. The node counts
// the memory before it is allocated and until it is free.
type body struct {
	from  io.Reader
	zip   *unzipped
	visit Visit
	// buffer[at:] has been received and is unread; the size of the buffer is one of the orders. counted is the memory
	// that the node has counted.
	buffer            []byte
	at, order, counts int
	// ended is the reason that no further lines arrive.
	ended error
}

// newBody returns a body of at most most bytes. If it is compressed, the bound applies to both the compressed and the
// decompressed bytes.
func newBody(from io.Reader, visit Visit, most int, zipped bool) (*body, error) {
	b := &body{from: &bounded{from: from, most: most}, visit: visit}
	if zipped {
		if err := b.count(zipBytes); err != nil {
			return nil, err
		}
		b.zip = &unzipped{from: b.from}
		b.from = &bounded{from: b.zip, most: most}
	}
	return b, nil
}

// bodyKey is the context key for the call's body.
type bodyKey struct{}

// whole reads the complete body.
func (b *body) whole() ([]byte, error) {
	for {
		err := b.more()
		if err == io.EOF {
			b.visit.Arrived()
			return b.buffer, nil
		}
		if err != nil {
			b.free() // the reader of the refusal may be slow
			return nil, unread(err)
		}
	}
}

// unread returns the error for a body that cannot be read.
func unread(err error) error {
	if _, ours := errors.AsType[*rota.Error](err); ours {
		return err
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return coded{rota.Refusef(rota.KindInvalid, "body", "the body did not arrive in time: send it again"),
			http.StatusRequestTimeout}
	}
	return rota.Refusef(rota.KindInvalid, "body", "the body is incomplete")
}

// line reads the next line, with its end; at the body's end it returns the rest and io.EOF. The line is valid until the
// next read.
func (b *body) line() ([]byte, error) {
	for looked := 0; ; {
		left := b.buffer[b.at:]
		if n := bytes.IndexByte(left[looked:], '\n'); n >= 0 {
			b.at += looked + n + 1
			return left[:looked+n+1], nil
		}
		if looked = len(left); looked > maxBody {
			return left, nil
		}
		if b.ended != nil {
			b.at = len(b.buffer)
			return left, b.ended
		}
		if b.at > 0 && (len(left) == 0 || len(b.buffer) == cap(b.buffer) && cap(b.buffer) >= linesBuffer) {
			b.buffer = b.buffer[:copy(b.buffer, left)]
			b.at = 0
		}
		b.ended = b.more() // perhaps together with the last data
	}
}

// used reports whether all received data has been read.
func (b *body) used() bool { return b.at == len(b.buffer) }

// more reads the data that has arrived.
func (b *body) more() error {
	if len(b.buffer) == cap(b.buffer) {
		if err := b.grow(); err != nil {
			return err
		}
	}
	n, err := b.from.Read(b.buffer[len(b.buffer):cap(b.buffer)])
	b.buffer = b.buffer[:len(b.buffer)+n]
	if err != nil {
		return cmp.Or(b.visit.Count(0), err) // the call may have been cut off
	}
	return nil
}

// grow moves the unread data to a buffer of the next order.
func (b *body) grow() error {
	old, order := b.buffer, 0
	if old != nil {
		order = b.order + 1
	}
	if err := b.count(bufferSize(order)); err != nil {
		return err
	}
	next, _ := buffers[order].Get().(*[]byte)
	if next == nil {
		next = new(make([]byte, 0, bufferSize(order)))
	}
	b.buffer = append((*next)[:0], old[b.at:]...)
	b.giveBack(old)
	b.at, b.order = 0, order
	return nil
}

func (b *body) giveBack(buffer []byte) {
	if buffer == nil {
		return
	}
	buffers[b.order].Put(&buffer)
	_ = b.count(-bufferSize(b.order)) // releasing never fails
}

// free releases the body's memory; it must not be read afterwards.
func (b *body) free() {
	if b == nil {
		return
	}
	b.giveBack(b.buffer)
	b.buffer, b.at = nil, 0
	if b.zip != nil {
		b.zip.free()
	}
	_ = b.count(-b.counts)
}

func (b *body) count(n int) error {
	b.counts += n
	return b.visit.Count(n)
}

// bounded rejects bodies longer than the maximum.
type bounded struct {
	from       io.Reader
	most, read int
}

func (b *bounded) Read(p []byte) (int, error) {
	if left := b.most - b.read; len(p) > left+1 {
		p = p[:left+1]
	}
	n, err := b.from.Read(p)
	if b.read += n; b.read > b.most {
		return 0, tooLarge(b.most)
	}
	return n, err
}

// unzipped decompresses, beginning with the first read.
type unzipped struct {
	from io.Reader
	gzip *gzip.Reader
}

// zips pools free readers.
var zips = sync.Pool{New: func() any { return new(gzip.Reader) }}

func (u *unzipped) Read(p []byte) (n int, err error) {
	if u.gzip == nil {
		u.gzip = zips.Get().(*gzip.Reader)
		if err = u.gzip.Reset(u.from); err != nil {
			return 0, u.refuse(err)
		}
	}
	if n, err = u.gzip.Read(p); err != nil && err != io.EOF {
		return n, u.refuse(err)
	}
	return n, err
}

func (u *unzipped) refuse(err error) error {
	if rota.KindOf(err) == rota.KindInvalid {
		return err
	}
	return rota.Refusef(rota.KindInvalid, "body", "the body is not gzip, unlike its header Content-Encoding: %v", err)
}

func (u *unzipped) free() {
	if u.gzip != nil {
		_ = u.gzip.Reset(bytes.NewReader(nil)) // keeps nothing of the request
		zips.Put(u.gzip)
		u.gzip = nil
	}
}
