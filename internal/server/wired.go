package server

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/transport"
)

// wired is a cluster.Node in the protocol's words. The two packages do not
// know each other; only a worker's session needs a word said here.
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

// Open starts a cluster.Node and puts it where the protocol needs a core.
func Open(ctx context.Context, config cluster.Config, peers cluster.Peers) (Node, error) {
	n, err := cluster.Start(ctx, config, peers)
	if err != nil {
		return nil, err
	}
	return Wired(n), nil
}

// Wired puts a node where the protocol needs a core.
func Wired(n *cluster.Node) Node { return wired{n} }
