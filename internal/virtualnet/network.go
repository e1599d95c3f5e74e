package virtualnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Host is a machine: a node, a worker, or a user.
type Host string

// Route is the way from one host to another.
type Route struct{ From, To Host }

// link is the state of one route. Cuts are counted: two faults may cut one link.
type link struct {
	mu      sync.Mutex
	cuts    int
	slow    time.Duration
	changed chan struct{} // closed and replaced when a cut ends
}

func (l *link) open() (bool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cuts == 0, l.changed
}

// Network joins hosts by streams. All delays are virtual.
type Network struct {
	mu        sync.Mutex
	random    *rand.Rand
	links     map[Route]*link
	listeners map[string]*listener
	conns     map[*conn]struct{}
	// ghosts are ends whose other host disappeared silently: they are reset when that host is back.
	ghosts map[Host][]*conn
	dead   map[Host]bool
	// Even, if not 0, is the duration of every write: then no delay or loss is random.
	Even time.Duration
	// OnWrite, if not nil, is called for every write of a host.
	OnWrite func(from Host, bytes int)
}

// New returns a network without hosts, whose delays are drawn from a seed.
func New(seed uint64) *Network {
	return &Network{random: rand.New(rand.NewPCG(seed, 1)), links: make(map[Route]*link),
		listeners: make(map[string]*listener), conns: make(map[*conn]struct{}),
		ghosts: make(map[Host][]*conn), dead: make(map[Host]bool)}
}

// The delays of a link: a local network with occasional packet loss, which a stream shows as a pause.
const (
	minDelay    = 200 * time.Microsecond
	delaySpread = 600 * time.Microsecond
	lostOneIn   = 400
	lostDelay   = 200 * time.Millisecond
)

// delay draws the duration of one write.
func (n *Network) delay(l *link) time.Duration {
	n.mu.Lock()
	d := n.Even
	if d == 0 {
		d = minDelay + time.Duration(n.random.Int64N(int64(delaySpread)))
		if n.random.IntN(lostOneIn) == 0 {
			d += lostDelay
		}
	}
	n.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slow > 0 {
		d += l.slow
	}
	return d
}

func (n *Network) link(r Route) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[r]
	if l == nil {
		l = &link{changed: make(chan struct{})}
		n.links[r] = l
	}
	return l
}

// Cut stops a route, and returns the function that heals it.
func (n *Network) Cut(r Route) (heal func()) {
	l := n.link(r)
	l.mu.Lock()
	l.cuts++
	l.mu.Unlock()
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.cuts--; l.cuts == 0 {
			close(l.changed)
			l.changed = make(chan struct{})
		}
	})
}

// Slow adds a delay to a route.
func (n *Network) Slow(r Route, by time.Duration) (heal func()) {
	l := n.link(r)
	set := func(by time.Duration) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.slow += by
	}
	set(by)
	return sync.OnceFunc(func() { set(-by) })
}

// Crash ends every connection and listener of a host. The other ends are reset at once, or after a silent crash when
// the host is back.
func (n *Network) Crash(h Host, silent bool) {
	n.mu.Lock()
	n.dead[h] = true
	var own, others []*conn
	for c := range n.conns {
		switch {
		case c.host == h:
			own = append(own, c)
			delete(n.conns, c)
		case c.peer == h && silent:
			n.ghosts[h] = append(n.ghosts[h], c)
		case c.peer == h:
			others = append(others, c)
		}
	}
	for address, l := range n.listeners {
		if l.host == h {
			l.end()
			delete(n.listeners, address)
		}
	}
	n.mu.Unlock()
	for _, c := range own {
		c.fail(errCrashed)
		c.out.lose() // data in flight
	}
	for _, c := range others {
		c.fail(errReset)
	}
}

// Reset breaks every connection of a host, which keeps running: both ends are reset.
func (n *Network) Reset(h Host) {
	n.mu.Lock()
	var ends []*conn
	for c := range n.conns {
		if c.host == h || c.peer == h {
			ends = append(ends, c)
		}
	}
	n.mu.Unlock()
	for _, c := range ends {
		c.fail(errReset)
		c.out.lose()
	}
}

// Revive lets a host connect and listen again.
func (n *Network) Revive(h Host) {
	n.mu.Lock()
	delete(n.dead, h)
	ghosts := n.ghosts[h]
	delete(n.ghosts, h)
	n.mu.Unlock()
	for _, c := range ghosts {
		c.fail(errReset)
	}
}

var (
	errCrashed = errors.New("this host crashed")
	errReset   = errors.New("connection reset by peer")
	errRefused = errors.New("connection refused")
)

// hostOf returns the host of an address host:port.
func hostOf(address string) Host {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		panic("virtualnet: address " + address)
	}
	return Host(name)
}

// address implements net.Addr.
type address string

// Network implements net.Addr.
func (address) Network() string { return "virtual" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

// listener accepts connections to one address.
type listener struct {
	net    *Network
	host   Host
	at     address
	mu     sync.Mutex
	queue  []*conn
	wake   chan struct{}
	closed chan struct{}
	once   sync.Once
}

// Listen accepts connections to an address host:port.
func (n *Network) Listen(at string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := hostOf(at)
	if n.dead[h] {
		return nil, errCrashed
	}
	if n.listeners[at] != nil {
		return nil, fmt.Errorf("listen %s: address in use", at)
	}
	l := &listener{net: n, host: h, at: address(at), wake: make(chan struct{}, 1), closed: make(chan struct{})}
	n.listeners[at] = l
	return l, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		if len(l.queue) > 0 {
			c := l.queue[0]
			l.queue = l.queue[1:]
			l.mu.Unlock()
			return c, nil
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.at }

// Close implements net.Listener.
func (l *listener) Close() error {
	l.net.mu.Lock()
	if l.net.listeners[string(l.at)] == l {
		delete(l.net.listeners, string(l.at))
	}
	l.net.mu.Unlock()
	l.end()
	return nil
}

// end closes the listener and resets connections that were not accepted.
func (l *listener) end() {
	l.once.Do(func() {
		close(l.closed)
		l.mu.Lock()
		left := l.queue
		l.queue = nil
		l.mu.Unlock()
		for _, c := range left {
			go func() { _ = c.Close() }()
		}
	})
}

// Dial connects a host to an address; across a cut it blocks until the cut heals, or ctx ends.
func (n *Network) Dial(ctx context.Context, from Host, to string) (net.Conn, error) {
	there, back := n.link(Route{from, hostOf(to)}), n.link(Route{hostOf(to), from})
	for _, l := range []*link{there, back} {
		for {
			open, changed := l.open()
			if open {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, fmt.Errorf("dial %s: %w", to, ctx.Err())
			}
		}
	}
	took := time.NewTimer(n.delay(there) + n.delay(back))
	defer took.Stop()
	select {
	case <-took.C:
	case <-ctx.Done():
		return nil, fmt.Errorf("dial %s: %w", to, ctx.Err())
	}
	n.mu.Lock()
	l := n.listeners[to]
	switch {
	case n.dead[from]:
		n.mu.Unlock()
		return nil, errCrashed
	case l == nil:
		n.mu.Unlock()
		return nil, fmt.Errorf("dial %s: %w", to, errRefused)
	}
	forth, backwards := newPipe(there), newPipe(back)
	near := &conn{net: n, host: from, peer: l.host, in: backwards, out: forth, local: address(from) + ":0",
		remote: l.at}
	far := &conn{net: n, host: l.host, peer: from, in: forth, out: backwards, local: l.at, remote: address(from) + ":0"}
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	n.mu.Unlock()
	l.mu.Lock()
	l.queue = append(l.queue, far)
	l.mu.Unlock()
	notify(l.wake)
	return near, nil
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
