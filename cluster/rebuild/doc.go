// Package rebuild keeps one node's state and disk right: it compares the state's digest with
// what the other nodes hold, rebuilds a state that a majority does not hold from another
// node's and the own log, and reads the disk for damage that nobody would meet for months.
//
// The package never touches the log's entries, the term or the vote, and never serves the
// state: the node drops it and puts it in place.
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

// Host is what a rebuild, and the scrubbing, need of their node.
type Host struct {
	Disk
	Log *slog.Logger
	// Lines limits the log lines that repeat.
	Lines *logs.Limiter
	// Life ends when the node stops; its cause is the answer to who waits then.
	Life context.Context //nolint:containedctx // the loops hang on it, no call's own
	// Wall is the node's wall clock.
	Wall func() time.Time
	// Node is the node's id, Knows the newest version of the rules that it knows.
	Node  rota.NodeID
	Knows uint32
	State State
	// Fatal ends the process; HaltAtNewer does where an error says that a state needs newer rules
	// than this binary knows.
	Fatal, HaltAtNewer func(error)
	// Servers are the members as raft knows them. Inspect asks all others at once, for their
	// digests as well.
	Servers func() []raft.Server
	Inspect func([]raft.Server, []rota.Index) map[rota.NodeID]Answer
	Peers   Peers
	// StandDown returns once this node does not lead any more, in raft's eyes too.
	StandDown func()
	// Record puts operations into the log if this node leads, and does nothing else.
	Record func([]*fsmpb.Op) error
	// Handed returns the newest entry that raft has given out to be applied. Push puts an entry without effect into the
	// log, through whichever node leads.
	Handed func() rota.Index
	Push   func(context.Context) error
	// Snapshot has raft write a snapshot, and returns which it is.
	Snapshot func() (*raft.SnapshotMeta, error)
}

// Disk is what a node has on its disk.
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
	// Digests are the state's of late.
	Digests *Digests
	// Look calls with the state's lock held: what it calls only reads, and waits for nobody.
	Look func(func(*fsm.View))
	// Freeze fails while there is no state.
	Freeze func() (*fsm.Frozen, error)
	// Dropped reports whether there is no state to serve; Drop makes it so.
	Dropped func() bool
	Drop    func()
	// Newest is the newest entry that raft handed over, dropped state or not.
	Newest func() rota.Index
	// Install puts a state in place once catchUp, called while nothing is applied, has brought it to
	// the newest entry, and reports whether it did. It may give way to a snapshot of raft's.
	Install func(m *fsm.Machine, catchUp func(newest rota.Index) error) bool
}

// Answer is what another node says of itself.
type Answer struct {
	Node peer.NodeAddress
	// Digest is that of the one index asked for, nil where it is not known.
	Digest *rota.Digest
	// DifferedAt is where it found its state to be wrong, RightUntil up to where that was right.
	DifferedAt, RightUntil rota.Index
	// Rebuilding says that it has no state.
	Rebuilding bool
	// Err is why it did not answer.
	Err error
}

// Peers carries what a rebuild asks of another node.
type Peers interface {
	// State writes another node's state to w; what was written counts only where no
	// error comes (SPEC §2.5).
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

// setAside moves snapshots out of raft's sight.
func (d *Disk) setAside(log *slog.Logger, wrong []string) error {
	moved, err := d.Snapshots.SetAside(wrong...)
	for i, to := range moved {
		log.Warn("a wrong or damaged snapshot was set aside", "snapshot", wrong[i], "moved", to)
	}
	if err != nil {
		return &rota.Error{Kind: rota.KindInternal, Subject: "rebuild", Text: "a wrong or damaged snapshot cannot be set aside", Cause: err}
	}
	return nil
}

// notify wakes a loop that waits on a channel of one slot; a notification that is there
// already is enough.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
