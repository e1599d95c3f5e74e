package virtualnet

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// windowBytes is what one direction holds before a writer blocks.
const windowBytes = 1 << 20

// chunk is the data of one write, and when it arrives; no data is the end of the stream.
type chunk struct {
	data []byte
	at   time.Time
}

// pipe is one direction of a connection. It has one reader at a time.
type pipe struct {
	link *link

	mu     sync.Mutex
	queue  []chunk
	size   int
	latest time.Time // when the last chunk arrives: order is kept
	ended  bool      // the writer closed
	unread bool      // the reader closed: sent data is lost, until the writer reads the end
	// noRead and noWrite are why the reader's or the writer's end is gone.
	noRead, noWrite error
	// deadlines of the reader and the writer; zero is none.
	readBy, writeBy time.Time
	readable, space chan struct{}
}

func newPipe(l *link) *pipe {
	return &pipe{link: l, readable: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// read returns data that has arrived.
func (p *pipe) read(b []byte) (int, error) {
	for {
		open, changed := p.link.open()
		n, wait, err := p.take(b, open)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		if open {
			changed = nil
		}
		if wait == 0 {
			select {
			case <-p.readable:
			case <-changed:
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-p.readable:
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take reads without blocking, or returns how long to wait for data in flight: 0 is forever.
func (p *pipe) take(b []byte, open bool) (n int, wait time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.noRead != nil {
		return 0, 0, p.noRead
	}
	if !p.readBy.IsZero() {
		if wait = p.readBy.Sub(now); wait <= 0 {
			return 0, 0, os.ErrDeadlineExceeded
		}
	}
	if len(p.queue) == 0 || !open {
		return 0, wait, nil
	}
	for len(p.queue) > 0 && n < len(b) && !p.queue[0].at.After(now) {
		first := &p.queue[0]
		if first.data == nil {
			if n > 0 {
				return n, 0, nil
			}
			return 0, 0, io.EOF
		}
		k := copy(b[n:], first.data)
		n += k
		if first.data = first.data[k:]; len(first.data) == 0 {
			p.queue = p.queue[1:]
		}
	}
	if n > 0 {
		p.size -= n
		notify(p.space)
		return n, 0, nil
	}
	due := p.queue[0].at.Sub(now)
	if wait == 0 || due < wait {
		wait = due
	}
	return 0, wait, nil
}

// write sends b, and blocks while too much is in flight.
func (p *pipe) write(b []byte, delay time.Duration) (int, error) {
	for {
		p.mu.Lock()
		now := time.Now()
		var wait time.Duration
		switch {
		case p.noWrite != nil:
			p.mu.Unlock()
			return 0, p.noWrite
		case p.ended:
			p.mu.Unlock()
			return 0, net.ErrClosed
		case !p.writeBy.IsZero() && !p.writeBy.After(now):
			p.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case p.unread:
			p.mu.Unlock()
			return len(b), nil
		case p.size == 0 || p.size+len(b) <= windowBytes:
			p.append(append([]byte{}, b...), now.Add(delay))
			p.mu.Unlock()
			return len(b), nil
		case !p.writeBy.IsZero():
			wait = p.writeBy.Sub(now)
		}
		p.mu.Unlock()
		if wait == 0 {
			<-p.space
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-p.space:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// append queues a chunk after the others; the caller holds the lock.
func (p *pipe) append(data []byte, at time.Time) {
	if at.Before(p.latest) {
		at = p.latest
	}
	p.latest = at
	p.queue = append(p.queue, chunk{data, at})
	p.size += len(data)
	notify(p.readable)
}

// end sends the end of the stream.
func (p *pipe) end(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.noWrite != nil {
		return
	}
	p.ended = true
	p.append(nil, time.Now().Add(delay))
	notify(p.space)
}

// sever ends the reader's or the writer's part, or both; nil leaves it.
func (p *pipe) sever(read, write error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noRead == nil {
		p.noRead = read
	}
	if p.noWrite == nil {
		p.noWrite = write
	}
	notify(p.readable)
	notify(p.space)
}

// close ends the reader's part. The writer notices only by reading: a write that failed at once would reveal the close
// across a cut, and gRPC, whose reader has seen nothing yet, would retry forever in no time.
func (p *pipe) close() {
	p.sever(net.ErrClosed, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unread, p.queue, p.size = true, nil, 0
	notify(p.space)
}

// lose drops data in flight.
func (p *pipe) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue, p.size = nil, 0
	notify(p.space)
}

func (p *pipe) deadline(read, write *time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if read != nil {
		p.readBy = *read
		notify(p.readable)
	}
	if write != nil {
		p.writeBy = *write
		notify(p.space)
	}
}

// conn is one end of a connection.
type conn struct {
	net           *Network
	host, peer    Host
	in, out       *pipe
	local, remote address
	once          sync.Once
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) { return c.in.read(b) }

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if f := c.net.OnWrite; f != nil {
		f(c.host, len(b))
	}
	return c.out.write(b, c.net.delay(c.out.link))
}

// Close implements net.Conn: the other end reads the data sent, then the end.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.net.forget(c)
		c.out.end(c.net.delay(c.out.link))
		c.in.close()
	})
	return nil
}

// fail breaks the end like a reset.
func (c *conn) fail(err error) {
	c.net.forget(c)
	c.in.sever(err, nil)
	c.out.sever(nil, err)
}

func (n *Network) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.in.deadline(&t, nil)
	c.out.deadline(nil, &t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.deadline(&t, nil)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.deadline(nil, &t)
	return nil
}
