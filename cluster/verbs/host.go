package verbs

import (
	"context"
	"log/slog"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/cluster/internal/meter"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// Host is the part of a node that its verbs use.
type Host struct {
	Node     rota.NodeID
	Replica  *replica.Replica
	Log      *slog.Logger
	Measures *meter.Measures
	Life     context.Context
	Stopped  <-chan struct{}
	// CountsWithin bounds how long a change of rights waits for the other members.
	CountsWithin time.Duration
	// The data on disk, set once it is open.
	Archive *history.Archive
	Events  *history.Events
	Audit   *audit.Keep
	Stores  *raftstore.Stores

	Wall      func() time.Time
	SinceBoot func() time.Duration
	// Propose puts operations into the log wherever the leader is; the others are the proposer's functions of the same
	// names.
	Propose       func(ctx context.Context, ops []*fsmpb.Op) ([]*fsmpb.Outcome, rota.Index, error)
	ProposeOne    func(ctx context.Context, op *fsmpb.Op) (*fsmpb.Outcome, rota.Index, error)
	ProposeInTurn func(ctx context.Context, op *fsmpb.Op) (*fsmpb.Outcome, rota.Index, error)
	ProposeFirst  func(ctx context.Context, ops []*fsmpb.Op) ([]*fsmpb.Outcome, error)
	// Servers lists the members of Raft's configuration, OtherServers the addresses of all but this one.
	Servers      func() []rota.NodeID
	OtherServers func() (others []peer.NodeAddress, member bool)
	// AppliedOn asks a member for the index that it has applied; false if it has no state or does not answer.
	AppliedOn func(ctx context.Context, id rota.NodeID) (rota.Index, bool)
	// AskLog asks a node for its part of the log of an attempt that may be open.
	AskLog func(ctx context.Context, to peer.NodeAddress, lease rota.LeaseID, after uint64) (peer.NodeLog, error)
}
