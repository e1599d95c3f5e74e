package cluster

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/cluster/rebuild"
	"github.com/rotasched/rota/internal/peer"
)

// Peers carries this node's calls to other nodes. transport satisfies it; the
// binary puts it here. A call is never retried beneath this interface: the
// caller knows which calls may be repeated. All errors are *rota.Error; kind
// Unavailable means that the outcome is unknown.
type Peers interface {
	history.Peers
	rebuild.Peers
	// Calls sets the identity of the data directory that calls are made with, before the
	// first one. Calls other than Introduce and Inspect go to those alone that mayCall takes.
	Calls(identity string, mayCall func(rota.NodeID) error)
	Forward(ctx context.Context, to peer.NodeAddress, commands []byte) ([]byte, error)
	Beat(ctx context.Context, to peer.NodeAddress, beats []peer.Beat) (peer.BeatAnswer, error)
	Barrier(ctx context.Context, to peer.NodeAddress) (rota.Index, error)
	Inspect(ctx context.Context, to peer.NodeAddress, digestsAt []rota.Index) (peer.Inspection, error)
	CheckAt(ctx context.Context, to peer.NodeAddress, index rota.Index) (rota.NodeVerdict, error)
	// Introduce asks a node that is up whether this one may start: nil, Conflict
	// (never), or Unavailable (ask again).
	Introduce(ctx context.Context, to peer.NodeAddress, in peer.Introduction) error
	// RemovePeer asks the leader to remove a node.
	RemovePeer(ctx context.Context, to peer.NodeAddress, id rota.NodeID) error
	// TransferLeadership asks the leader to hand over.
	TransferLeadership(ctx context.Context, at peer.NodeAddress, to rota.NodeID) (rota.NodeID, error)
	Close() error
}
