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
	// minBuffer is the memory that a body begins with; it doubles whenever that is full.
	minBuffer = 4 << 10
	// linesBuffer is what a body of lines may take though none of its lines needs so much.
	linesBuffer = 64 << 10
	// zipBytes is about what decompressing takes beside what comes of it.
	zipBytes = 48 << 10
)

// buffers has those that are free, by order: what one body gives back the next one takes, and it is no garbage. The
// greatest has a byte more than maxBody.
var buffers [9]sync.Pool

func bufferSize(order int) int { return minBuffer<<order + 1 }

// body is the body of a request. Its memory grows with what has come, whatever the header says, and is counted for the
// node before it is taken and until it is free.
type body struct {
	from  io.Reader
	zip   *unzipped
	visit Visit
	// buffer[at:] has come and is not used up; the buffer is one of an order. counted is what
	// the node has counted.
	buffer            []byte
	at, order, counts int
	// ended is why no more lines come.
	ended error
}

// newBody returns a body of at most so many bytes; compressed, it has as many either way.
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

// bodyKey is the key of a context's value that is the call's body.
type bodyKey struct{}

// whole reads all of it.
func (b *body) whole() ([]byte, error) {
	for {
		err := b.more()
		if err == io.EOF {
			b.visit.Arrived()
			return b.buffer, nil
		}
		if err != nil {
			b.free() // whoever reads the refusal may be slow
			return nil, unread(err)
		}
	}
}

// unread is how a body is refused that cannot be read.
func unread(err error) error {
	if _, ours := errors.AsType[*rota.Error](err); ours {
		return err
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return coded{rota.Refusef(rota.KindInvalid, "body", "the body did not arrive in time: send it again"), http.StatusRequestTimeout}
	}
	return rota.Refusef(rota.KindInvalid, "body", "the body is incomplete")
}

// line reads the next line, with its end; at the body's end it returns what is left and io.EOF. It is good until the
// next one is read.
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
		b.ended = b.more() // with the last of what came, perhaps
	}
}

// used reports that all that has come is used up.
func (b *body) used() bool { return b.at == len(b.buffer) }

// more reads what has come.
func (b *body) more() error {
	if len(b.buffer) == cap(b.buffer) {
		if err := b.grow(); err != nil {
			return err
		}
	}
	n, err := b.from.Read(b.buffer[len(b.buffer):cap(b.buffer)])
	b.buffer = b.buffer[:len(b.buffer)+n]
	if err != nil {
		return cmp.Or(b.visit.Count(0), err) // it may have been cut off
	}
	return nil
}

// grow has what is kept in a buffer of the next order.
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
	_ = b.count(-bufferSize(b.order)) // giving back is never refused
}

// free gives back what the body takes; nobody reads it any more.
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

// bounded refuses what is longer than it may be.
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

// unzipped decompresses, from the first read on.
type unzipped struct {
	from io.Reader
	gzip *gzip.Reader
}

// zips are readers that are free.
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
