package transport

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"

	caller "google.golang.org/grpc/peer"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

const (
	// maxCalls bounds the calls in flight on a node, including those that wait and watch: each holds a goroutine or
	// two. gRPC alone would accept maxStreams on each of 10,000 connections.
	maxCalls = 50_000
	// maxNodeCalls bounds the calls of other nodes, which are counted separately, so that clients cannot keep the nodes
	// from calling each other.
	maxNodeCalls = 10_000
)

// limiter counts calls or connections by their origin, and allows one address at most half of them, so that it cannot
// keep all others out.
type limiter struct {
	most, each int

	mu   sync.Mutex
	open int
	from map[string]int
}

func newLimiter(most int) *limiter {
	return &limiter{most: most, each: (most + 1) / 2, from: make(map[string]int)}
}

// enter counts one in; leave counts it out again. leave is nil if there is no room, and full reports whether others
// used it up.
func (c *limiter) enter(from string) (leave func(), full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most || c.from[from] >= c.each {
		return nil, c.from[from] < c.each
	}
	c.open++
	c.from[from]++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open--
		if c.from[from]--; c.from[from] <= 0 {
			delete(c.from, from)
		}
	}), false
}

// addressOf returns the key that a connection is counted under: an IPv4 address, or an IPv6 network of 64 bits, all of
// which one machine may have.
func addressOf(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return addr.Network()
	}
	ip := at.Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return ip.String()
	}
	return network.String()
}

// ofNodes reports whether a call is for nodes only.
func ofNodes(method string) bool {
	return strings.HasPrefix(method, "/"+rotav1.Node_ServiceDesc.ServiceName+"/")
}

// receive admits a call, or returns the reason that it does not. leave must be called at the end.
func (s *Server) receive(ctx context.Context, method string) (leave func(), err error) {
	from, _ := caller.FromContext(ctx)
	if from == nil {
		from = &caller.Peer{}
	}
	if ofNodes(method) {
		if leave, _ = s.nodeCalls.enter(""); leave == nil {
			return nil, s.tooMany("of nodes", s.nodeCalls.most)
		}
		return leave, nil
	}
	return s.receiveFrom(from.Addr)
}

// receiveFrom admits a client's call by its address.
func (s *Server) receiveFrom(addr net.Addr) (leave func(), err error) {
	leave, full := s.calls.enter(addressOf(addr))
	switch {
	case leave != nil:
		return leave, nil
	case full:
		return nil, s.tooMany("", s.calls.most)
	default:
		return nil, s.tooMany("of this address", s.calls.each)
	}
}

func (s *Server) tooMany(whose string, most int) error {
	e := rota.Refusef(rota.KindExhausted, "calls",
		"node %s has %d calls %s in flight, which is the maximum: end some, or ask another node",
		s.options.Self, most, whose)
	e.RetryAfter = comeBack
	return e
}
