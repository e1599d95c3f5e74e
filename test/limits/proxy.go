package main

import (
	"net"
	"sync"
	"time"
)

// proxy is a TCP proxy between one worker process and one server. A cut proxy passes no bytes and keeps its
// connections open, as a network does that drops packets.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	open  *sync.Cond
	isCut bool
	conns map[net.Conn]bool
}

func newProxy(target string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, target: target, conns: make(map[net.Conn]bool)}
	p.open = sync.NewCond(&p.mu)
	go p.accept()
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// cut stops or resumes the flow of bytes.
func (p *proxy) cut(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = on
	p.open.Broadcast()
}

// wait returns once bytes may pass.
func (p *proxy) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.isCut {
		p.open.Wait()
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.cut(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

func (p *proxy) serve(client net.Conn) {
	p.wait() // a new connection gets no answer while the network is cut
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client) })
	both.Go(func() { p.copy(client, server) })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// copy passes bytes in one direction until either end closes, and then closes both. The end of a connection is a
// packet too: it does not pass while the network is cut.
func (p *proxy) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.wait()
		if n > 0 {
			if _, bad := to.Write(buffer[:n]); bad != nil {
				err = bad
			}
		}
		if err != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}
