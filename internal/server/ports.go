package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// Ports are one node's addresses on loopback.
type Ports struct {
	API    string `json:"api"`
	Raft   string `json:"raft"`
	Admin  string `json:"admin"`
	Gossip string `json:"gossip"`
}

// listener is an address that a node is to listen on.
type listener struct {
	// name is its name for people: a flag, or a node's part.
	name string
	addr string
	// udp means that it is for packets, too.
	udp bool
}

// listeners returns the addresses that the node listens on, by flag.
func (p *Plan) listeners() []listener {
	return []listener{{"--api", p.Listen, false}, {"--raft", p.Node.Raft, false}, {"--admin", p.Admin, false},
		{"--gossip", p.Node.Gossip, true}}
}

// portHolder keeps addresses open until all have been tried: none is used twice.
type portHolder struct{ held []io.Closer }

func (h *portHolder) release() {
	for _, c := range h.held {
		_ = c.Close()
	}
}

// hold opens the address and returns it with its port.
func (h *portHolder) hold(addr string, udp bool) (string, error) {
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	h.held = append(h.held, lis)
	addr = lis.Addr().String()
	if udp {
		packets, err := net.ListenPacket("udp", addr)
		if err != nil {
			return "", err
		}
		h.held = append(h.held, packets)
	}
	return addr, nil
}

// free finds an address on loopback.
func (h *portHolder) free(udp bool) (addr string, err error) {
	const tries = 20
	for range tries {
		if addr, err = h.hold("127.0.0.1:0", udp); err == nil {
			return addr, nil
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

// tryListeners opens each address and closes it again: a node that waits for others, or reads a large state first,
// would report a port in use late. All faults are reported together. Another process may still take a port before the
// node does; the node then reports it.
func tryListeners(all ...listener) error { return errors.Join(tryAll(all...)...) }

// tryAll returns each fault of tryListeners separately.
func tryAll(all ...listener) (faults []error) {
	var h portHolder
	defer h.release()
	for _, l := range all {
		if _, err := h.hold(l.addr, l.udp); err != nil {
			faults = append(faults, listenError(l.name, l.addr, err))
		}
	}
	return faults
}

// TryListen returns why the address of a flag cannot be listened on.
func TryListen(flag, addr string) error { return tryListeners(listener{flag, addr, false}) }

// listenError describes why an address cannot be listened on, and what to do.
func listenError(name, addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s %s: the port is taken, by another process or another flag; end that process "+
			"(ss -ltnup shows it) or give %s another port", name, addr, name)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s %s: this machine has no such address; give %s one of its own, or 0.0.0.0 for all", name,
			addr, name)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s %s: this user may not listen on that port; give %s one of 1024 or more", name, addr, name)
	default:
		return fmt.Errorf("%s %s: cannot be listened on: %w", name, addr, err)
	}
}

// Moved is an address that was in use, and its replacement.
type Moved struct {
	From string
	To   *string
}

// OpenPorts keeps each address that is given and free, and finds others on loopback for the rest. Given addresses go
// first: a free port must not be one of them.
func OpenPorts(ports []Ports) (moved []Moved, err error) {
	var h portHolder
	defer h.release()
	type seat struct {
		addr *string
		udp  bool
	}
	var missing []seat
	for i := range ports {
		p := &ports[i]
		for _, s := range []seat{{&p.API, false}, {&p.Raft, false}, {&p.Admin, false}, {&p.Gossip, true}} {
			if *s.addr != "" {
				if held, err := h.hold(*s.addr, s.udp); err == nil {
					*s.addr = held // port 0 is any that is free
					continue
				}
				moved = append(moved, Moved{*s.addr, s.addr})
			}
			missing = append(missing, s)
		}
	}
	for _, s := range missing {
		if *s.addr, err = h.free(s.udp); err != nil {
			return nil, err
		}
	}
	return moved, nil
}

// Loopback reports whether an address is reached from this machine only.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Reachable returns the address that others use: the address itself, or for "all addresses" (0.0.0.0, ::, none) this
// machine's first one beyond loopback.
func Reachable(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return "", fmt.Errorf("use host:port")
	}
	ip := net.ParseIP(host)
	if host != "" && (ip == nil || !ip.IsUnspecified()) {
		return addr, nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("this machine's addresses: %w", err)
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if ok && n.IP.IsGlobalUnicast() && (n.IP.To4() != nil || ip != nil && ip.To4() == nil) {
			return net.JoinHostPort(n.IP.String(), port), nil
		}
	}
	return net.JoinHostPort("127.0.0.1", port), nil
}
