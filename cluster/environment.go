package cluster

import (
	"context"
	"net"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/cluster/internal/clock"
	"github.com/rotasched/rota/cluster/rebuild"
	"github.com/rotasched/rota/internal/peer"
)

// Environment is everything that a node uses outside its own memory and data directory. The zero value is the real one, which
// the binary uses: TCP, gossip, the machine's clocks. A simulation in virtual time (test/virtual) provides its own. One
// interface for everything was chosen over a clock passed to each part: timers need none, since virtual time is the
// runtime's own, and only CLOCK_BOOTTIME and the wall clock are not.
type Environment struct {
	// Listen and Dial create raft's connections; nil is TCP. Dial ends with ctx.
	Listen func(address string) (net.Listener, error)
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	// Discover replaces gossip; nil is gossip.Start.
	Discover func(gossip.Options) (gossip.Discovery, error)
	// SinceBoot is the monotonic clock of SPEC §3.5; nil is CLOCK_BOOTTIME.
	SinceBoot func() time.Duration
	// Wall is the wall clock that this node reports to the leader (SPEC §3.8); nil is time.Now.
	Wall func() time.Time
	// BeforeWrite is called before each write of raft's log, term and vote, by the one goroutine that writes them, and
	// blocks the write until it returns; nil does nothing.
	BeforeWrite func()
	// NoSync skips fsync: a crash of the machine then loses votes.
	NoSync bool
	// DeadAfter is how long calls to a voter must fail before it counts as dead (SPEC §13.10); 0 means the value of
	// usualPatience. Autopilot's other waits shrink in proportion.
	DeadAfter time.Duration
	// Ticker creates the tickers of the node's chores; nil is time.NewTicker. In virtual time chores cost something
	// while time itself is free, so they need not run while nothing is due (Node.Idle).
	Ticker func(every time.Duration) Ticker
	// Leap is how far ahead of the clock the entries of a cluster founded by this node may be (SPEC §3.2), for clusters
	// that skip days; 0 is rota's second.
	Leap time.Duration
}

// Ticker is a time.Ticker or its replacement.
type Ticker = clock.Ticker

// discoverGossip is Environment.Discover of the real world. On error the interface is nil.
func discoverGossip(opts gossip.Options) (gossip.Discovery, error) {
	g, err := gossip.Start(opts)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Peers sends this node's calls to other nodes. transport implements it, and the binary sets it. A call is never
// retried below this interface: the caller knows which calls may be repeated. All errors are *rota.Error; kind
// Unavailable means that the outcome is unknown.
type Peers interface {
	history.Peers
	rebuild.Peers
	// Calls sets the identity of the data directory for all calls, before the first one. Calls other than Introduce and
	// Inspect go only to nodes that mayCall accepts.
	Calls(identity string, mayCall func(rota.NodeID) error)
	Forward(ctx context.Context, to peer.NodeAddress, commands []byte) ([]byte, error)
	Beat(ctx context.Context, to peer.NodeAddress, beats []peer.Beat) (peer.BeatAnswer, error)
	Barrier(ctx context.Context, to peer.NodeAddress) (rota.Index, error)
	// Log requests a node's part of the log of an attempt that may be open (SPEC §22.3).
	Log(ctx context.Context, to peer.NodeAddress, lease rota.LeaseID, after uint64) (peer.NodeLog, error)
	Inspect(ctx context.Context, to peer.NodeAddress, digestsAt []rota.Index) (peer.Inspection, error)
	CheckAt(ctx context.Context, to peer.NodeAddress, index rota.Index) (rota.NodeVerdict, error)
	// Introduce asks a running node whether this one may start: nil, Conflict (never), or Unavailable (ask again).
	Introduce(ctx context.Context, to peer.NodeAddress, in peer.Introduction) error
	// RemovePeer asks the leader to remove a node.
	RemovePeer(ctx context.Context, to peer.NodeAddress, id rota.NodeID) error
	// TransferLeadership asks the leader to hand over.
	TransferLeadership(ctx context.Context, at peer.NodeAddress, to rota.NodeID) (rota.NodeID, error)
	Close() error
}
