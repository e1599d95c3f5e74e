// Package history stores one node's past next to the log: the archive of ended jobs and the events of the cluster, in
// one file. Both are written asynchronously, and applying never waits for them. Records that a node lacks, because a
// snapshot replaced its log or its disk was too slow, are fetched from the other nodes.
//
// The package never decides anything: it stores and serves applied entries.
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

// Host holds what the history needs from its node.
type Host struct {
	Log *slog.Logger
	// Lines limits repeated log lines.
	Lines *logs.Limiter
	// Life ends when the node stops; its cause is the error for callers that wait then.
	Life context.Context //nolint:containedctx // the loops and shared reads hang on it, no call's own
	// SinceBoot returns the time of the node's monotonic clock.
	SinceBoot func() time.Duration
	// Room returns how many bytes may be written before the rest of the disk is reserved for the log.
	Room  func() uint64
	State State
	// Others returns the other nodes, with an empty address for a node never seen, and whether this node is a member.
	Others func() (others []peer.NodeAddress, member bool)
	Peers  Peers
	// Replaced is called when the history here, from one entry to the newest applied one, differs from the cluster's
	// past: it is discarded, and this node reports that.
	Replaced func(from, to rota.Index) error
}

// State is the node's replica of the state. Look, View and Freezing call their function with its lock held: the
// function only reads, keeps nothing and never blocks.
type State struct {
	// Look reads the current state, an empty one during a rebuild.
	Look func(func(*fsm.View))
	// View is Look for served reads: it fails while there is no state.
	View func(func(*fsm.View)) error
	// Freezing is View for callers that take a frozen part of the state.
	Freezing func(func(*fsm.Machine)) error
	// Peek is Look for reads that must return even while applying stalls: it then reports false without calling the
	// function.
	Peek func(func(*fsm.View)) bool
	// Archived releases staged records.
	Archived func(seqs []uint64)
	// Fresh waits until everything acknowledged before the call is applied here.
	Fresh func(context.Context, peer.ReadOptions) (rota.ReadAt, error)
	// Await waits until an index is applied here.
	Await func(context.Context, rota.Index) error
}

func (s *State) head() (h fsm.Head) {
	s.Look(func(v *fsm.View) { h = v.Head() })
	return h
}

// Peers sends requests to another node's history.
type Peers interface {
	// EventRange requests events that this node lacks; it returns none if the other lacks them too (SPEC §12.3).
	EventRange(ctx context.Context, to peer.NodeAddress, r peer.EventRange) (peer.EventChunk, error)
	// ArchiveRange, ArchiveRecords and ListArchived request data that this node's own archive may lack (SPEC §10.5).
	ArchiveRange(ctx context.Context, to peer.NodeAddress, span peer.ArchiveSpan, maxBytes int64) (peer.ArchiveSlice,
		error)
	ArchiveRecords(ctx context.Context, to peer.NodeAddress, ids []rota.JobID) ([]peer.ArchiveRecord, error)
	// ArchiveSums makes another node compare its sum of a span of ended jobs; if they differ, each holds the sums of
	// its records.
	ArchiveSums(ctx context.Context, to peer.NodeAddress, span peer.ArchiveSpan, sum []byte) (same bool,
		each []peer.ArchiveRecord, err error)
	ListArchived(ctx context.Context, to peer.NodeAddress, f rota.JobFilter, at rota.Index) (rota.JobPage, error)
}

// ask calls do for one other node after another until do reports that it is done, and returns an error for each node
// that did not answer.
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

// pause sleeps for d; it reports false if the node stops.
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

// ended returns why waiting ended: the node stops, or the caller's deadline passed.
func (h *Host) ended(ctx context.Context, doing string) error {
	if h.Life.Err() != nil {
		return context.Cause(h.Life)
	}
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "deadline", RetryAfter: 200 * time.Millisecond,
		Cause: ctx.Err(),
		Text:  "the deadline passed while " + doing}
}

// notify wakes a loop that waits on a channel of capacity one; a pending notification is enough.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
