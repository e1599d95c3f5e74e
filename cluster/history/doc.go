// Package history is the past as one node keeps it beside the log: the archive of ended
// jobs, and the events of the cluster, in one file. Both are written behind what is applied,
// which never waits for them. What a node lacks, as a snapshot took the place of its log or
// its disk did not keep up, it fetches from the other nodes.
//
// The package never decides what happened: it keeps and serves what was applied.
package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/logs"
	"github.com/rotasched/rota/internal/peer"
)

// Host is what the history needs of its node.
type Host struct {
	Log *slog.Logger
	// Lines limits the log lines that repeat.
	Lines *logs.Limiter
	// Life ends when the node stops; its cause is the answer to who waits then.
	Life context.Context //nolint:containedctx // the loops and shared reads hang on it, no call's own
	// SinceBoot is the node's monotonic clock.
	SinceBoot func() time.Duration
	// Room returns how many bytes may be written before the disk is the log's alone.
	Room  func() uint64
	State State
	// Others returns the other nodes, each with an empty address where it was never seen,
	// and whether this node is a member itself.
	Others func() (others []peer.NodeAddress, member bool)
	Peers  Peers
	// Replaced is called where the history here is of a past that the cluster does not have, from an entry to the newest that
	// was applied: it is given up, and this node says so.
	Replaced func(from, to rota.Index) error
}

// State is the node's replica of the state. Look, View and Freezing call with its lock
// held: what they call only reads, keeps nothing, and waits for nobody.
type State struct {
	// Look reads the state as it is, an empty one while it is rebuilt.
	Look func(func(*fsm.View))
	// View is Look for what is served: it fails while there is no state.
	View func(func(*fsm.View)) error
	// Freezing is View for what takes a frozen part of the state.
	Freezing func(func(*fsm.Machine)) error
	// Peek is Look for what must be answered while applying stalls as well: it reports
	// false, without a call, where it stalls.
	Peek func(func(*fsm.View)) bool
	// Archived lets go of staged records.
	Archived func(seqs []uint64)
	// Fresh waits until all that was acknowledged before the call is applied here.
	Fresh func(context.Context, peer.ReadOptions) (rota.ReadAt, error)
	// Await waits until an index is applied here.
	Await func(context.Context, rota.Index) error
}

func (s *State) head() (h fsm.Head) {
	s.Look(func(v *fsm.View) { h = v.Head() })
	return h
}

// Peers carries what a node asks of another node's history.
type Peers interface {
	// EventRange asks for events that this node lacks; none where the other lacks
	// them too (SPEC §12.3).
	EventRange(ctx context.Context, to peer.NodeAddress, r peer.EventRange) (peer.EventChunk, error)
	// ArchiveRange, ArchiveRecords and ListArchived ask for what this node's own archive
	// may lack (SPEC §10.5).
	ArchiveRange(ctx context.Context, to peer.NodeAddress, span peer.ArchiveSpan, maxBytes int64) (peer.ArchiveSlice, error)
	ArchiveRecords(ctx context.Context, to peer.NodeAddress, ids []rota.JobID) ([]peer.ArchiveRecord, error)
	// ArchiveSums has another node compare its sum of a span of ended jobs; each are its records' where they differ.
	ArchiveSums(ctx context.Context, to peer.NodeAddress, span peer.ArchiveSpan, sum []byte) (same bool, each []peer.ArchiveRecord, err error)
	ListArchived(ctx context.Context, to peer.NodeAddress, f rota.JobFilter, at rota.Index) (rota.JobPage, error)
}

// ask calls do for one other node after the other until it reports that it is done, and
// returns an error for each node that did not answer.
func (h *Host) ask(do func(to peer.NodeAddress) (done bool, err error)) (silent []error) {
	others, _ := h.Others()
	for _, to := range others {
		done, err := false, errNeverSeen
		if to.API != "" {
			done, err = do(to)
		}
		if err != nil {
			silent = append(silent, fmt.Errorf("node %s: %w", to.ID, err))
		}
		if done {
			break
		}
	}
	return silent
}

var errNeverSeen = errors.New("was never seen in gossip")

// alone reports whether there is no other node to ask.
func (h *Host) alone() bool {
	others, _ := h.Others()
	return len(others) == 0
}

// pause waits; it reports false when the node stops.
func (h *Host) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-h.Life.Done():
		return false
	}
}

// ended returns why nobody waits any longer: the node stops, or the caller's deadline
// passed.
func (h *Host) ended(ctx context.Context, doing string) error {
	if h.Life.Err() != nil {
		return context.Cause(h.Life)
	}
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "deadline", RetryAfter: 200 * time.Millisecond, Cause: ctx.Err(),
		Text: "the deadline passed while " + doing}
}

// notify wakes a loop that waits on a channel of one slot; a notification that is there
// already is enough.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
