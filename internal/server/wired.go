package server

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/transport"
)

// wired adapts a cluster.Node to the protocol's interfaces. The two packages do not import each other; only a worker's
// session needs an adapter.
type wired struct{ *cluster.Node }

// AttachWorker returns the session as the protocol's interface, which is nil with an error.
func (n wired) AttachWorker(ctx context.Context, id rota.WorkerID, secret []byte) (transport.WorkerSession, error) {
	s, err := n.Node.AttachWorker(ctx, id, secret)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenWorker returns the session as the protocol's interface, which is nil with an error.
func (n wired) OpenWorker(ctx context.Context, spec rota.WorkerSpec, secret []byte, takeover bool,
	attestation *rota.Attestation, link peer.WorkerLink) (transport.WorkerSession, error) {
	s, err := n.Node.OpenWorker(ctx, spec, secret, takeover, attestation, link)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Open starts a cluster.Node and adapts it to the protocol.
func Open(ctx context.Context, config cluster.Config, peers cluster.Peers) (Node, error) {
	n, err := cluster.Start(ctx, config, peers)
	if err != nil {
		return nil, err
	}
	return Wired(n), nil
}

// Wired adapts a node to the protocol.
func Wired(n *cluster.Node) Node { return wired{n} }
