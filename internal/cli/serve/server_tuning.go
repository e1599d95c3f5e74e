package serve

import (
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/depot"
	"github.com/rotasched/rota/internal/server"
	"github.com/rotasched/rota/transport"
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
	snapshotEntries  uint64
	snapshotEvery    time.Duration
	scrubEvery       time.Duration
	diskLow          int
	diskCritical     int
	inflightBytes    int64
	backup           depot.Options
	backupEvery      time.Duration
	backupKeep       int
}

func (t *tuning) register(flags *pflag.FlagSet) {
	flags.Uint64Var(&t.auditRetention, "audit-retention", cluster.DefaultAuditRetention,
		"`operations` that rota operator audit and rota job why --at can go back")
	cli.DurationVar(flags, &t.archiveRetention, "archive-retention", cluster.DefaultArchiveRetention,
		"how long ended jobs are kept on disk, by date")
	flags.Uint64Var(&t.archiveMaxBytes, "archive-max-bytes", cluster.DefaultArchiveMaxBytes,
		"`bytes` of ended jobs kept on disk at most, the oldest go first")
	flags.Uint64Var(&t.eventsRetained, "events-retained", cluster.DefaultEventsRetained,
		"`events` that this node keeps on disk; give all nodes the same")
	standard := cluster.DefaultTiming()
	flags.Uint64Var(&t.snapshotEntries, "snapshot-entries", standard.SnapshotThreshold,
		"`entries` of the log between snapshots; a restart replays about this number")
	cli.DurationVar(flags, &t.snapshotEvery, "snapshot-every", standard.SnapshotInterval,
		"interval at which --snapshot-entries is checked")
	cli.DurationVar(flags, &t.scrubEvery, "scrub-every", cluster.DefaultScrubEvery,
		"interval at which everything on the disk is read and verified; 0 is never")
	flags.StringVar(&t.backup.To, "backup-to", "",
		"`location` where the leader stores backups, a directory or s3://bucket/prefix; set the same on all nodes")
	cli.StoreFlags(flags, &t.backup)
	flags.StringSliceVar(&t.backup.Recipients, "backup-recipient", nil,
		"age `recipient` (age1…) of encrypted backups; may be repeated; keep its identity off the nodes")
	cli.DurationVar(flags, &t.backupEvery, "backup-every", cluster.DefaultBackupEvery, "interval of backups")
	flags.IntVar(&t.backupKeep, "backup-keep", cluster.DefaultBackupKeep,
		"`backups` of this cluster that are kept there, at least 3")
	flags.IntVar(&t.diskLow, "disk-low", cluster.DefaultDiskLow,
		"`percent` of the data directory's disk below which no new jobs are admitted (at most 8 GiB); 0 is off")
	flags.IntVar(&t.diskCritical, "disk-critical", cluster.DefaultDiskCritical,
		"`percent` of the disk below which no jobs start (at most 4 GiB); 0 is off")
	flags.Int64Var(&t.inflightBytes, "inflight-bytes", transport.DefaultInflightBytes,
		"maximum `bytes` of unanswered client messages on this node; half of it for one connection")
	cli.DurationVar(flags, &t.degradeCommit, "auto-degrade-commit", 0,
		"go DEGRADED when the median commit takes longer for 10 s; 0 is off")
	flags.Float64Var(&t.degradeUsage, "auto-degrade-usage", 0,
		"go DEGRADED when a queue exceeds this `ratio` of its queue_cap for 10 s, such as 0.8; 0 is off")
	cli.Within(flags, 0, cli.Unbounded, "audit-retention", "events-retained")
	cli.WithinOrZero(flags, cluster.ArchiveRetentionLeast, rota.MaxDuration, "archive-retention")
	cli.WithinOrZero(flags, cluster.ArchiveBytesLeast, cli.Unbounded, "archive-max-bytes")
	cli.WithinOrZero(flags, cluster.SnapshotEntriesLeast, cluster.MaxSnapshotEntries, "snapshot-entries")
	cli.WithinOrZero(flags, cluster.SnapshotEveryLeast, cluster.MaxSnapshotEvery, "snapshot-every")
	cli.Within(flags, 0, rota.MaxDuration, "scrub-every")
	cli.Within(flags, cluster.BackupEveryLeast, rota.MaxDuration, "backup-every")
	cli.Within(flags, cluster.BackupKeepLeast, math.MaxInt32, "backup-keep")
	cli.Within(flags, transport.InflightLeast, math.MaxInt64, "inflight-bytes")
	cli.Within(flags, 0, cluster.MaxDegradeMs*time.Millisecond, "auto-degrade-commit")
	cli.Within(flags, 0, 1.0, "auto-degrade-usage")
	cli.Within(flags, 0, cluster.MaxDiskPercent, "disk-low", "disk-critical")
}

func (t *tuning) apply(p *server.Plan) {
	c := &p.Node
	p.InflightBytes = t.inflightBytes
	c.Backup, c.BackupEvery, c.BackupKeep = t.backup, t.backupEvery, t.backupKeep
	c.SnapshotEntries, c.SnapshotEvery = t.snapshotEntries, t.snapshotEvery
	c.AuditRetention, c.EventsRetained = t.auditRetention, t.eventsRetained
	c.ArchiveRetention, c.ArchiveMaxBytes = t.archiveRetention, t.archiveMaxBytes
	if c.ScrubEvery = t.scrubEvery; t.scrubEvery <= 0 {
		c.ScrubEvery = -1
	}
	c.DiskLow, c.DiskCritical = offBelow(t.diskLow), offBelow(t.diskCritical)
	c.AutoDegradeCommitMs, c.AutoDegradeUsagePermille = t.degradeCommit.Milliseconds(), cli.Permille(t.degradeUsage)
}

// offBelow turns the 0 that is off into what the configuration takes for off.
func offBelow(v int) int {
	if v <= 0 {
		return -1
	}
	return v
}
