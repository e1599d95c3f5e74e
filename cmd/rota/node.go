package main

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/transport"
)

// node is a cluster node as this binary drives it. Its making is nodewire.go's.
type node interface {
	transport.Core
	transport.NodeCore
	// Left is closed once the node has left the cluster on an operator's word.
	Left() <-chan struct{}
	// Stop hands leadership over, if it is here, and closes everything.
	Stop(ctx context.Context) error
}

// measured is a node that has metrics of its own.
type measured interface {
	Collectors() []prometheus.Collector
}

// nodeOpener makes a node. Tests put another one here.
type nodeOpener func(ctx context.Context, config cluster.Config, peers cluster.Peers) (node, error)

// nodePlan is everything that one node is started with, checked.
type nodePlan struct {
	id      rota.NodeID
	cluster string
	data    string
	// api is listened on, advertised is where others find it.
	api, advertised, raft, gossip, admin string
	join                                 []string
	bootstrapExpect                      int
	gossipKeyFile                        string
	insecure, adoptData                  bool
	tuning                               tuning
	attestationKeys                      []ed25519.PublicKey
	// clientTLS is shown to clients, nodeTLS to and by other nodes; nil is clear
	// text.
	clientTLS, nodeTLS *tls.Config
	// liveTLS is what both are made of.
	liveTLS *liveTLS
}

func (p *nodePlan) config(log *slog.Logger, fatal func(error)) cluster.Config {
	c := cluster.Config{
		Node: p.id, Cluster: p.cluster, Data: p.data, API: p.advertised, Raft: p.raft, Gossip: p.gossip, Join: p.join,
		BootstrapExpect: p.bootstrapExpect, GossipKeyFile: p.gossipKeyFile, Insecure: p.insecure, AdoptData: p.adoptData,
		ServerTLS: p.nodeTLS, ClientTLS: p.nodeTLS, Version: version, Fatal: fatal, Log: log,
		AttestationKeys: p.attestationKeys, World: world(),
	}
	p.tuning.apply(&c)
	return c
}

// peers makes the calling side of the node service. The cluster's id becomes
// known later, from the node itself.
func (p *nodePlan) peers(log *slog.Logger, id func() rota.ClusterID) *transport.Peers {
	return transport.NewPeers(transport.PeerOptions{
		Self: p.id, Name: p.cluster, ClusterID: id, TLS: p.nodeTLS, Logger: log,
	})
}

// lateNode is a node that is not there yet for those who are made before it.
type lateNode struct{ at atomic.Pointer[node] }

func (l *lateNode) set(n node) { l.at.Store(&n) }

func (l *lateNode) clusterID() rota.ClusterID {
	if n := l.at.Load(); n != nil {
		return (*n).ClusterID()
	}
	return ""
}

// ready says why the node cannot serve; nil when it can.
func (l *lateNode) ready() error {
	if n := l.at.Load(); n != nil {
		return (*n).Ready()
	}
	return rota.Refusef(rota.KindUnavailable, "node", "starting: state is being restored")
}
