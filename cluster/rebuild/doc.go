// Package rebuild keeps one node's state and disk correct. It compares the state's digest with those of the other
// nodes, rebuilds a state that a majority does not hold from another node's state and its own log, and scans the disk
// for damage that would otherwise go unnoticed for months.
//
// The package never touches the log's entries, the term or the vote, and never serves the state: the node drops it and
// puts it in place.
package rebuild

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/logs"
	"github.com/rotasched/rota/internal/peer"
)

// Host holds what rebuilding and scrubbing need from their node.
type Host struct {
	Disk
	Log *slog.Logger
	// Lines limits repeated log lines.
	Lines *logs.Limiter
	// Life ends when the node stops; its cause is the error for callers that wait then.
	Life context.Context //nolint:containedctx // the loops hang on it, no call's own
	// Wall is the node's wall clock.
	Wall func() time.Time
	// Node is the node's id, Knows the newest version of the rules that it supports.
	Node  rota.NodeID
	Knows uint32
	State State
	// Fatal ends the process; HaltAtNewer does so if an error means that a state needs newer rules than this binary
	// supports.
	Fatal, HaltAtNewer func(error)
	// Servers returns the members in raft's configuration. Inspect queries all others at once, including their digests.
	Servers func() []raft.Server
	Inspect func([]raft.Server, []rota.Index) map[rota.NodeID]Answer
	Peers   Peers
	// StandDown returns once this node is no longer the leader, in raft's view too.
	StandDown func()
	// Record writes operations to the log if this node is the leader, and otherwise does nothing.
	Record func([]*fsmpb.Op) error
	// Handed returns the newest entry that raft has delivered for applying. Push writes an entry without effect to the
	// log, through the current leader.
	Handed func() rota.Index
	Push   func(context.Context) error
	// Snapshot makes raft write a snapshot, and returns its metadata.
	Snapshot func() (*raft.SnapshotMeta, error)
}

// Disk holds a node's stores.
type Disk struct {
	Data      *raftstore.DataDir
	Stores    *raftstore.Stores
	Snapshots *raftstore.Snapshots
	Audit     *audit.Keep
	File      *history.File
	Archive   *history.Archive
	Events    *history.Events
}

// State is the node's replica of the state.
type State struct {
	// Digests are the state's recent digests.
	Digests *Digests
	// Look calls its function with the state's lock held: the function only reads, and never blocks.
	Look func(func(*fsm.View))
	// Freeze fails while there is no state.
	Freeze func() (*fsm.Frozen, error)
	// Dropped reports whether there is no state to serve; Drop drops it.
	Dropped func() bool
	Drop    func()
	// Newest returns the newest entry that raft delivered, even while the state is dropped.
	Newest func() rota.Index
	// Install puts a state in place once catchUp, called while applying is blocked, has brought it to the newest entry,
	// and reports whether it did. A snapshot of raft may take precedence.
	Install func(m *fsm.Machine, catchUp func(newest rota.Index) error) bool
}

// Answer is another node's status as it reports it.
type Answer struct {
	Node peer.NodeAddress
	// Digest is the digest at the one index queried, nil if it is not known.
	Digest *rota.Digest
	// DifferedAt is where the node found its state to be wrong, RightUntil the index up to which it was right.
	DifferedAt, RightUntil rota.Index
	// Rebuilding reports that it has no state.
	Rebuilding bool
	// Err is why it did not answer.
	Err error
}

// Peers sends a rebuild's requests to another node.
type Peers interface {
	// State writes another node's state to w; the data is valid only if it returns no error (SPEC §2.5).
	State(ctx context.Context, to peer.NodeAddress, w io.Writer) error
}

// pause waits, unless ctx ends or the node stops.
func (h *Host) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-h.Life.Done():
		return context.Cause(h.Life)
	}
}

// setAside moves snapshots to where raft does not see them.
func (d *Disk) setAside(log *slog.Logger, wrong []string) error {
	moved, err := d.Snapshots.SetAside(wrong...)
	for i, to := range moved {
		log.Warn("a wrong or damaged snapshot was set aside", "snapshot", wrong[i], "moved", to)
	}
	if err != nil {
		return &rota.Error{Kind: rota.KindInternal, Subject: "rebuild",
			Text: "a wrong or damaged snapshot cannot be set aside", Cause: err}
	}
	return nil
}

// notify wakes a loop that waits on a channel of capacity one; a pending notification is enough.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
