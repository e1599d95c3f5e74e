package main

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/transport"
)

// wiredNode is a cluster.Node in the protocol's words. The two packages do not
// know each other; only a worker's session needs a word said here.
type wiredNode struct{ *cluster.Node }

// OpenWorker returns the session as the protocol's interface; an error gives none.
func (n wiredNode) OpenWorker(ctx context.Context, spec rota.WorkerSpec, secret []byte, takeover bool,
	attestation *rota.Attestation, link peer.WorkerLink) (transport.WorkerSession, error) {
	s, err := n.Node.OpenWorker(ctx, spec, secret, takeover, attestation, link)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openClusterNode puts a cluster.Node where the protocol needs a core.
func openClusterNode(ctx context.Context, config cluster.Config, peers cluster.Peers) (node, error) {
	n, err := cluster.Start(ctx, config, peers)
	if err != nil {
		return nil, err
	}
	return wiredNode{n}, nil
}

// restoreNode makes a fresh data directory hold a backup (SPEC §13.5).
func restoreNode(_ context.Context, o restoreOptions) (rota.SnapshotInfo, error) {
	return cluster.RestoreBackup(cluster.RestoreOptions{File: o.file, Data: o.data, Node: o.node, Cluster: o.cluster, Raft: o.raft})
}
