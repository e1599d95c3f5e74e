package cluster

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/cluster/internal/clock"
	"github.com/rotasched/rota/cluster/internal/meter"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/rebuild"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/cluster/stream"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/logs"
)

// base is the part of a node that every other part may use: configuration, clocks, stores, the replica of the state and
// the way into the log. A part holds *base and pointers to the few other parts that it calls, not the node.
type base struct {
	cfg      Config
	log      *slog.Logger
	peers    Peers
	lines    logs.Limiter
	measures *meter.Measures

	data      *raftstore.DataDir
	stores    *raftstore.Stores
	snapshots *raftstore.Snapshots
	stream    *stream.Layer
	transport *stream.Transport
	gossip    gossip.Discovery
	raft      *raft.Raft
	// historyFile is the file next to the log that holds ended jobs and events.
	historyFile *history.File
	archive     *history.Archive
	events      *history.Events
	// audit keeps the data that audits and explanations of the past replay.
	audit   *audit.Keep
	rebuild *rebuild.Rebuilder
	scrub   *rebuild.Scrubber

	replica replica.Replica
	proposer

	stopped chan struct{}
	quiet   atomic.Bool
	// raftDown is closed once raft has stopped and no longer answers.
	raftDown chan struct{}
	// life ends when the node stops; it is the context of its background work.
	life     context.Context
	endLife  context.CancelCauseFunc
	loops    sync.WaitGroup
	fatalErr atomic.Pointer[error]
	moving   atomic.Bool // the log moves at the next start (movedRules), or recording that failed
}

// run starts a loop that Stop waits for.
func (b *base) run(loop func()) {
	b.loops.Add(1)
	go func() {
		defer b.loops.Done()
		loop()
	}()
}

// fatal ends the process because continuing would be wrong. It must not wait for any part of this node, whose goroutine
// it may be on.
func (b *base) fatal(err error) {
	if !b.fatalErr.CompareAndSwap(nil, &err) {
		return
	}
	b.log.Error("this node stops", "err", err)
	if b.cfg.Fatal != nil {
		b.cfg.Fatal(err)
		return
	}
	os.Exit(1)
}

func (b *base) stopping() bool {
	select {
	case <-b.stopped:
		return true
	default:
		return false
	}
}

// ticker returns the ticker of a chore.
func (b *base) ticker(every time.Duration) clock.Ticker {
	if f := b.cfg.Environment.Ticker; f != nil {
		return f(every)
	}
	return clock.New(every)
}

// stampLead returns how far this node, as leader, stamps ahead of the applied clock: half of what the state accepts.
func (b *base) stampLead() rota.Clock {
	return max(limits.StampLeadMax, rota.Clock(b.cfg.Environment.Leap/time.Millisecond)/2)
}

// sinceBoot returns the time of the node's monotonic clock.
func (b *base) sinceBoot() time.Duration {
	if f := b.cfg.Environment.SinceBoot; f != nil {
		return f()
	}
	return clock.SinceBoot()
}

// wall returns the time of the node's wall clock.
func (b *base) wall() time.Time {
	if f := b.cfg.Environment.Wall; f != nil {
		return f()
	}
	return time.Now()
}

// settled waits for one of raft's futures. hashicorp/raft never answers entries that were committed but had not reached
// the machine when it stopped. Without this function a proposal, and stopping the node, would wait forever.
func (b *base) settled(f raft.Future) error {
	done := make(chan error, 1)
	go awaitAnswer(f, done)
	select {
	case err := <-done:
		return err
	case <-b.raftDown:
	}
	late := time.NewTimer(lastWord)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return raft.ErrRaftShutdown
	}
}

// settledWithin is settled with a deadline: raft may never answer a leadership transfer that is requested while
// leadership is being lost (handOver).
func (b *base) settledWithin(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- b.settled(f) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// movedRules is the first version of the rules whose binaries all read a log in files of its own.
const movedRules = 2

// moveLog makes the log move into files of its own at the next start, once the rules in force prevent the return of
// binaries that cannot read it there.
func (b *base) moveLog(rules uint32) {
	if rules < movedRules || b.moving.Swap(true) {
		return
	}
	if err := b.data.MarkMoving(); err != nil {
		b.log.Warn("the log stays in raft.db until a start after the next", "error", err)
	}
}

// lastWord is how long a future may take to deliver an answer that it had before raft stopped.
const lastWord = 50 * time.Millisecond

// awaitAnswer sends the result of f. If raft never returns one, the goroutine lives until the process ends.
func awaitAnswer(f raft.Future, done chan<- error) { done <- f.Error() }

// haltAtNewer ends a node that receives a state with rules that it does not support: raft would offer it again forever.
func (b *base) haltAtNewer(err error) {
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if e, ok := cause.(*rota.Error); ok && e.Subject == fsm.SubjectRules { // wrapped by the reader's own error
			b.fatal(err)
			return
		}
	}
}
