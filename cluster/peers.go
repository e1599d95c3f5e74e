package cluster

import (
	"context"
	"io"

	"github.com/rotasched/rota"
)

// Peers carries this node's calls to other nodes. transport satisfies it; the
// binary puts it here. A call is never retried beneath this interface: the
// caller knows which calls may be repeated. All errors are *rota.Error; kind
// Unavailable means that the outcome is unknown.
type Peers interface {
	Forward(ctx context.Context, to rota.NodeAddress, commands []byte) ([]byte, error)
	Beat(ctx context.Context, to rota.NodeAddress, beats []rota.Beat) (rota.BeatAnswer, error)
	Barrier(ctx context.Context, to rota.NodeAddress) (rota.Index, error)
	Inspect(ctx context.Context, to rota.NodeAddress, digestsAt []rota.Index) (rota.Inspection, error)
	CheckAt(ctx context.Context, to rota.NodeAddress, index rota.Index) (rota.NodeVerdict, error)
	// State writes another node's state to w; what was written counts only where no
	// error comes (SPEC §2.5).
	State(ctx context.Context, to rota.NodeAddress, w io.Writer) error
	// EventRange asks for events that this node lacks; none where the other lacks
	// them too (SPEC §12.3).
	EventRange(ctx context.Context, to rota.NodeAddress, r rota.EventRange) (rota.EventChunk, error)
	// ArchiveRange, ArchiveRecords and ListArchived ask another node's history for
	// what this node's own may lack (SPEC §10.5).
	ArchiveRange(ctx context.Context, to rota.NodeAddress, span rota.ArchiveSpan, maxBytes int64) (rota.ArchiveSlice, error)
	ArchiveRecords(ctx context.Context, to rota.NodeAddress, ids []rota.JobID) ([]rota.ArchiveRecord, error)
	ListArchived(ctx context.Context, to rota.NodeAddress, f rota.JobFilter, at rota.Index) (rota.JobPage, error)
	// Introduce asks a node that is up whether this one may start: nil, Conflict
	// (never), or Unavailable (ask again).
	Introduce(ctx context.Context, to rota.NodeAddress, in rota.Introduction) error
	// RemovePeer asks the leader to remove a node.
	RemovePeer(ctx context.Context, to rota.NodeAddress, id rota.NodeID) error
	// TransferLeadership asks the leader to hand over.
	TransferLeadership(ctx context.Context, at rota.NodeAddress, to rota.NodeID) (rota.NodeID, error)
	Close() error
}
