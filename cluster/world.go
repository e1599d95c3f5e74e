package cluster

import (
	"context"
	"net"
	"time"

	"github.com/rotasched/rota/cluster/gossip"
)

// World is what a node touches beside its own memory and data directory. The zero
// value is the real one: TCP, gossip, the machine's clocks; the binary leaves it so.
// A simulation in virtual time (test/virtual) puts its own here. One seam for all was
// chosen over a clock handed to each part: timers need none, as virtual time is the
// runtime's own, and only CLOCK_BOOTTIME and the wall clock are not.
type World struct {
	// Listen and Dial make the connections of raft; nil is TCP. Dial ends with ctx.
	Listen func(address string) (net.Listener, error)
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	// Discover stands in for gossip; nil is gossip.Start.
	Discover func(gossip.Options) (gossip.Discovery, error)
	// SinceBoot is the monotonic clock of SPEC §3.5; nil is CLOCK_BOOTTIME.
	SinceBoot func() time.Duration
	// Wall is the wall clock that this node reports to the leader (SPEC §3.8); nil is
	// time.Now.
	Wall func() time.Time
	// BeforeWrite is called before each write of raft's log, term and vote, by the
	// one goroutine that makes them, and holds the write up while it does not
	// return; nil holds up none.
	BeforeWrite func()
	// NoSync skips fsync: a crash of the machine then loses votes.
	NoSync bool
}

// discoverGossip is World.Discover of the real world. With an error the interface is nil.
func discoverGossip(opts gossip.Options) (gossip.Discovery, error) {
	g, err := gossip.Start(opts)
	if err != nil {
		return nil, err
	}
	return g, nil
}
