package chores

import (
	"context"
	"log/slog"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/cluster/internal/clock"
	"github.com/rotasched/rota/cluster/internal/zones"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/logs"
)

// Host is the part of a node that these chores use.
type Host struct {
	Node    rota.NodeID
	Replica *replica.Replica
	Log     *slog.Logger
	Lines   *logs.Limiter
	Zones   *zones.Zones
	// The data on disk, set once it is open.
	Archive *history.Archive
	Events  *history.Events

	Wall      func() time.Time
	SinceBoot func() time.Duration
	Ticker    func(every time.Duration) clock.Ticker
	ClusterID func() rota.ClusterID
}

// Term is the leadership in which a chore runs.
type Term interface {
	// Life ends with the leadership.
	Life() context.Context
	// Propose puts operations into the log, urgent ones before submissions, and waits for their outcomes.
	Propose(ctx context.Context, ops []*fsmpb.Op, urgent bool) ([]*fsmpb.Outcome, error)
	// All proposes operations entry by entry; each must be accepted or be stale.
	All(ctx context.Context, ops []*fsmpb.Op) error
	// WallNow returns the median of the voters' wall clocks in milliseconds, 0 if unknown.
	WallNow() int64
	// CommitLatency returns the median latency of the latest commits, 0 without any.
	CommitLatency() time.Duration
}
