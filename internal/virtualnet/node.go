package virtualnet

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/internal/server"
	"github.com/rotasched/rota/transport"
)

// Node is one run of a node with its servers.
type Node struct {
	*cluster.Node
	API   *transport.Server
	peers *transport.Peers
}

// Dialer returns the dial function of a host.
func (n *Network) Dialer(from Host) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) { return n.Dial(ctx, from, to) }
}

// Environment returns this network as the environment of a host's node. The caller sets the clocks.
func (n *Network) Environment(of Host, f *Finder) cluster.Environment {
	return cluster.Environment{Listen: n.Listen, Dial: n.Dialer(of), NoSync: true,
		Discover: func(opts gossip.Options) (gossip.Discovery, error) { return f.Join(opts), nil }}
}

// Start starts a node on a host, which may have crashed before, and returns once it serves calls.
func (n *Network) Start(ctx context.Context, on Host, config cluster.Config, log *slog.Logger) (*Node, error) {
	n.Revive(on)
	var self lateID
	peers := transport.NewPeers(transport.PeerOptions{Self: config.Node, Name: config.Cluster, ClusterID: self.get,
		Logger: log, Dial: n.Dialer(on)})
	node, err := cluster.Start(ctx, config, peers)
	if err != nil {
		_ = peers.Close()
		return nil, fmt.Errorf("start %s: %w", config.Node, err)
	}
	self.set(node)
	core := server.Wired(node)
	api, err := transport.NewServer(transport.Options{Self: config.Node, Core: core, Node: core, Logger: log})
	if err != nil {
		return nil, err
	}
	listener, err := n.Listen(config.API)
	if err != nil {
		return nil, err
	}
	go func() { _ = api.Serve(listener) }()
	return &Node{node, api, peers}, nil
}

// Close ends the servers and the node.
func (n *Node) Close(ctx context.Context) error {
	n.API.Close()
	err := n.Stop(ctx)
	_ = n.peers.Close()
	return err
}
