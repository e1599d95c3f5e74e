package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/transport"
)

// Node is a cluster node as a process drives it.
type Node interface {
	transport.Core
	transport.NodeCore
	// Left returns a channel that is closed once the node has left the cluster by an operator's command.
	Left() <-chan struct{}
	// Stop hands leadership over, if it is here, and closes everything.
	Stop(ctx context.Context) error
	// StateBytesMax returns the bound on the bytes of the cluster's rows, as this node knows it.
	StateBytesMax() int64
	// Collectors returns the node's own metrics.
	Collectors() []prometheus.Collector
}

// Opener creates a node: Open, or another one in a test.
type Opener func(ctx context.Context, config cluster.Config, peers cluster.Peers) (Node, error)

// Plan is the complete, checked configuration of one node.
type Plan struct {
	// Node configures the node itself; its API is where others find it. Start sets its Log, Fatal, Starting and Environment,
	// and its Version is Build's.
	Node cluster.Config
	// Listen is the address that its API is served at, Admin that of health and metrics; an empty Admin disables these.
	Listen, Admin string
	// Profiles serves /debug/pprof at Admin.
	Profiles bool
	// TLS encrypts connections of clients; nil is clear text.
	TLS *tls.Config
	// ClientOf returns role and name in a client's certificate.
	ClientOf func(tls.ConnectionState) (role, name string, err error)
	// Build names the binary.
	Build Build
	// NoConsole disables the web console.
	NoConsole bool
	// Hosts are the names that HTTP answers to, in addition to the node's addresses.
	Hosts transport.Hosts
	// InflightBytes bounds the bytes of clients' messages before they are answered; 0 is the default.
	InflightBytes int64
	// Together is how many nodes share the process; 0 is 1.
	Together int
}

// Build names a binary in metrics and to other nodes.
type Build struct{ Version, Revision, Go string }

// config returns the configuration of the node itself.
func (p *Plan) config(log *slog.Logger, fatal func(error), starting func(string)) cluster.Config {
	c := p.Node
	c.Version, c.Fatal, c.Starting, c.Log, c.Environment = p.Build.Version, fatal, starting, log, world()
	return c
}

// hosts returns the names that HTTP answers to.
func (p *Plan) hosts() *transport.Hosts {
	h := p.Hosts
	h.Names = append(slices.Clone(h.Names), p.Listen, p.Admin, p.Node.API, p.Node.Raft, p.Node.Gossip)
	return &h
}

// peers makes the calling side of the node service. The cluster's id becomes known later, from the node itself.
func (p *Plan) peers(log *slog.Logger, id func() rota.ClusterID) *transport.Peers {
	return transport.NewPeers(transport.PeerOptions{
		Self: p.Node.Node, Name: p.Node.Cluster, ClusterID: id, TLS: p.Node.ServerTLS, NodeOf: p.Node.NodeOf,
		Logger: log,
	})
}

// lateNode stands for a node that does not exist yet, for objects that are created before it.
type lateNode struct {
	at atomic.Pointer[Node]
	// waits is what it waits for, nil while its data directory is opened.
	waits atomic.Pointer[string]
}

func (l *lateNode) set(n Node) { l.at.Store(&n) }

func (l *lateNode) starting(text string) { l.waits.Store(&text) }

func (l *lateNode) clusterID() rota.ClusterID {
	if n := l.at.Load(); n != nil {
		return (*n).ClusterID()
	}
	return ""
}

// stateBytesMax returns the node's value, or the default if there is no node yet.
func (l *lateNode) stateBytesMax() int64 {
	if n := l.at.Load(); n != nil {
		return (*n).StateBytesMax()
	}
	return rota.DefaultStateBytesMax
}

// ready returns why the node cannot serve; nil if it can.
func (l *lateNode) ready() error {
	if n := l.at.Load(); n != nil {
		return (*n).Ready()
	}
	text := "its data directory is being opened and checked"
	if waits := l.waits.Load(); waits != nil {
		text = *waits
	}
	return rota.Refusef(rota.KindUnavailable, "node", "starting: %s", text)
}
