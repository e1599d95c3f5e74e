package main

import (
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/rotasched/rota/cluster"
)

// tuning are the flags of `server` that a node works without: how much it keeps
// and when it protects itself. Zero takes the default of package cluster.
type tuning struct {
	auditRetention   uint64
	eventsRetained   uint64
	archiveRetention time.Duration
	archiveMaxBytes  uint64
	degradeCommit    time.Duration
	degradeUsage     float64
}

func (t *tuning) register(flags *pflag.FlagSet) {
	flags.Uint64Var(&t.auditRetention, "audit-retention", cluster.DefaultAuditRetention,
		"`operations` that rota operator audit and rota job why --at can go back")
	flags.DurationVar(&t.archiveRetention, "archive-retention", cluster.DefaultArchiveRetention,
		"how long ended jobs are kept on disk, by date")
	flags.Uint64Var(&t.archiveMaxBytes, "archive-max-bytes", cluster.DefaultArchiveMaxBytes,
		"`bytes` of ended jobs kept on disk at most, the oldest go first")
	flags.Uint64Var(&t.eventsRetained, "events-retained", cluster.DefaultEventsRetained,
		"`events` that this node keeps on disk; give all nodes the same")
	flags.DurationVar(&t.degradeCommit, "auto-degrade-commit", 0,
		"go DEGRADED when commits take longer in the middle for 10 s; 0 is off")
	flags.Float64Var(&t.degradeUsage, "auto-degrade-usage", 0,
		"go DEGRADED when a queue is fuller than this `ratio` of its queue_cap for 10 s, such as 0.8; 0 is off")
}

func (t *tuning) apply(c *cluster.Config) {
	c.AuditRetention, c.EventsRetained = t.auditRetention, t.eventsRetained
	c.ArchiveRetention, c.ArchiveMaxBytes = t.archiveRetention, t.archiveMaxBytes
	c.AutoDegradeCommitMs, c.AutoDegradeUsagePermille = t.degradeCommit.Milliseconds(), permille(t.degradeUsage)
}

// permille turns a ratio into whole permille. What is no ratio turns into one that
// the configuration refuses.
func permille(ratio float64) int64 {
	if math.IsNaN(ratio) || ratio < 0 || ratio > 1 {
		return -1
	}
	return int64(math.Round(ratio * 1000))
}
