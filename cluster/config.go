package cluster

import (
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/chores"
	"github.com/rotasched/rota/cluster/internal/memory"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/verbs"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/depot"
)

// Config is everything that a node is started with. It is checked once, and all faults are reported together.
type Config struct {
	// Node is the node's id, permanently bound to its data directory.
	Node rota.NodeID
	// Cluster is the --cluster name; nodes of another name are rejected.
	Cluster string
	// Data is the data directory.
	Data string
	// API, Raft and Gossip are addresses host:port that other nodes reach; the node itself listens on the latter two.
	API, Raft, Gossip string
	// Join lists gossip addresses of other nodes, which need not be up yet.
	Join []string
	// BootstrapExpect is how many fresh nodes found a cluster; 0 never founds one.
	BootstrapExpect int
	// NonVoter makes a node that never gets a vote.
	NonVoter bool
	// GossipKeyFile encrypts gossip; required beyond loopback unless Insecure.
	GossipKeyFile string
	Insecure      bool
	// Exposed reports that the node listens beyond loopback in clear text: [ExposedText] is part of its status.
	Exposed bool
	// Open makes callers without a credential root in a cluster that this node founds.
	Open bool
	// AdoptData accepts a data directory that was moved (see OpenDataDir).
	AdoptData bool
	// MarkFile is a file on a different disk than the data directory, which records how far this node's log had come;
	// empty for none.
	MarkFile string
	// AttestationKeys returns the Ed25519 public keys whose attestations of workers are valid now (SPEC §6.5); nil for
	// none. All nodes should have the same.
	AttestationKeys func() []ed25519.PublicKey
	// ServerTLS and ClientTLS secure the raft connections, NodeOf returns the id in a peer's certificate
	// (SECURITY §1.4); all three or none.
	ServerTLS, ClientTLS *tls.Config
	NodeOf               func(tls.ConnectionState) (rota.NodeID, error)
	// Version is the version of the binary, as shown to other nodes.
	Version string
	// CertificateEnds returns when the certificate in use expires; nil without one.
	CertificateEnds func() time.Time
	// Timing holds Raft's timeouts; zero means DefaultTiming.
	Timing Timing
	// SnapshotEntries and SnapshotEvery override Timing's snapshot settings: the number of entries that triggers a
	// snapshot, and how often that is checked. 0 leaves Timing's.
	SnapshotEntries uint64
	SnapshotEvery   time.Duration
	// AuditRetention is the minimum number of operations that the log reaches back, with a snapshot that it continues
	// from (SPEC §2.4); 0 means DefaultAuditRetention.
	AuditRetention uint64
	// AutoDegradeCommitMs and AutoDegradeUsagePermille are the commit latency, and the fill level of the fullest queue,
	// above which a leader degrades the cluster automatically (SPEC §4.7); 0 is off.
	AutoDegradeCommitMs      int64
	AutoDegradeUsagePermille int64
	// EventsRetained is how many events this node keeps (SPEC §12.3); 0 means DefaultEventsRetained. Nodes with
	// different values serve events from different starts.
	EventsRetained uint64
	// ArchiveRetention is how long, by date, ended jobs are kept on disk; 0 means DefaultArchiveRetention.
	// ArchiveMaxBytes also bounds them, oldest removed first; 0 means DefaultArchiveMaxBytes. All nodes should have the
	// same (SPEC §10.5).
	ArchiveRetention time.Duration
	ArchiveMaxBytes  uint64
	// DiskLow and DiskCritical are the percentages of the data directory's disk that must be free for new jobs to be
	// admitted, and for work to be started; 0 means the default, a negative value is off.
	DiskLow, DiskCritical int
	// ScrubEvery is how often all data on the disk is read and verified; 0 means DefaultScrubEvery, a negative value
	// never.
	ScrubEvery time.Duration
	// Backup is the destination of backups, with an empty To for none; the leader stores one every BackupEvery, and
	// keeps the last BackupKeep of this cluster. 0 means the default.
	Backup      depot.Options
	BackupEvery time.Duration
	BackupKeep  int
	// Fatal ends the process; nil logs and exits with 1.
	Fatal func(error)
	Log   *slog.Logger
	// Starting is called with what a node is waiting for, while Start has not returned. It must not block. May be nil.
	Starting func(text string)
	// Environment is everything outside the node; the zero value is the real world.
	Environment Environment
	// checkedHere replaces the constant in the package's own tests.
	checkedHere int
	// watchdogEvery replaces the constant in the package's own tests.
	watchdogEvery time.Duration
	// watchEvery replaces the constant in the package's own tests.
	watchEvery time.Duration
	// countsWithin replaces the constant in the package's own tests.
	countsWithin time.Duration
	// patience replaces usualPatience in the package's own tests.
	patience chores.Patience
	// freeSpace replaces FreeSpace in the package's own tests.
	freeSpace func(path string) (free, total uint64, err error)
	// memory replaces MemoryLimit in the package's own tests.
	memory func() uint64
	// knows and needs replace entry.RulesVersion and entry.Needs in the package's own tests of upgrades.
	knows uint32
	needs func(op *fsmpb.Op) uint32
	// admitted rejects raft connections in the package's own tests.
	admitted func(peer rota.NodeID) error
}

// ExposedText is the status text of a node that listens beyond loopback in clear text.
const ExposedText = "everyone who reaches these addresses can read and change everything and pose as a node. " +
	"Set up TLS and a gossip key, or listen on loopback"

// DefaultAuditRetention is the value of SPEC §2.4, in operations.
const DefaultAuditRetention = 1_000_000

// DefaultEventsRetained is the value of SPEC §12.3.
const DefaultEventsRetained = 1_000_000

// DefaultArchiveRetention is the value of SPEC §10.5. DefaultArchiveMaxBytes holds about ten million ended jobs of a
// kilobyte; the file is a third larger.
const (
	DefaultArchiveRetention = 7 * 24 * time.Hour
	DefaultArchiveMaxBytes  = 8 << 30
	// ArchiveRetentionLeast and ArchiveBytesLeast are the minimum of both: smaller values would delete jobs that users
	// still wait for.
	ArchiveRetentionLeast = time.Minute
	ArchiveBytesLeast     = 1 << 20
)

// Timing holds Raft's timeouts. The default suits one data centre (a killed leader is replaced in about a second); up
// to 5 s suits a WAN.
type Timing struct {
	Heartbeat, Election, LeaderLease time.Duration
	// Commit is how long an idle leader waits before it sends followers the commit index again. They normally receive
	// it at once (committed.go): this covers lost messages. At 50 ms it made up half of the calls of an idle cluster.
	Commit time.Duration
	// SnapshotThreshold is the number of entries that triggers a snapshot, SnapshotInterval how often that is checked,
	// TrailingLogs the number of entries kept after one.
	SnapshotThreshold, TrailingLogs uint64
	SnapshotInterval                time.Duration
}

// The bounds of Config.SnapshotEntries and Config.SnapshotEvery. With fewer entries a busy node would write only
// snapshots; more than a million take longer to replay than a restart may.
const (
	SnapshotEntriesLeast = 64
	MaxSnapshotEntries   = 1_000_000
	SnapshotEveryLeast   = time.Second
	MaxSnapshotEvery     = time.Hour
	// trailingSnapshots is how many snapshots' worth of log remains after the newest.
	trailingSnapshots = 3
)

// DefaultTiming returns the timeouts for nodes in one data centre. TrailingLogs is more than twice SnapshotThreshold,
// so that the snapshots before the newest have their log too, and a follower that restores one still finds the log
// after it.
func DefaultTiming() Timing {
	return Timing{
		Heartbeat: 500 * time.Millisecond, Election: 500 * time.Millisecond, LeaderLease: 500 * time.Millisecond,
		Commit: 250 * time.Millisecond, SnapshotThreshold: 8_192, TrailingLogs: 24_576,
		SnapshotInterval: 20 * time.Second,
	}
}

// check rejects invalid settings, and sets the defaults of unset ones.
func (c *Config) check() error {
	if err := errors.Join(c.faults()...); err != nil {
		return &rota.Error{Kind: rota.KindInvalid, Op: "start node", Subject: "configuration",
			Text: "configuration is refused", Cause: err}
	}
	c.defaults()
	return nil
}

// faults returns the errors of all invalid names, addresses and settings, each with the valid values.
func (c *Config) faults() []error { return append(c.nameFaults(), c.settingFaults()...) }

// nameFaults returns the errors of the fields that identify a node.
func (c *Config) nameFaults() (faults []error) {
	for _, e := range []error{rota.CheckID("node", c.Node), rota.CheckID("cluster", c.Cluster)} {
		if e != nil {
			faults = append(faults, e)
		}
	}
	for _, a := range []struct{ flag, addr string }{{"--api", c.API}, {"--raft", c.Raft}, {"--gossip", c.Gossip}} {
		if _, _, err := net.SplitHostPort(a.addr); err != nil {
			faults = append(faults, fmt.Errorf("%s %q is not host:port", a.flag, a.addr))
		}
	}
	if c.Data == "" {
		faults = append(faults, errors.New("data: got none; pass a directory with --data"))
	}
	return faults
}

// settingFaults returns the errors of all other fields.
func (c *Config) settingFaults() (faults []error) {
	for i, k := range c.attestationKeys() {
		if len(k) != ed25519.PublicKeySize {
			faults = append(faults, fmt.Errorf("attestation key %d: got %d bytes, want %d", i, len(k),
				ed25519.PublicKeySize))
		}
	}
	faults = append(faults, depot.Check(c.Backup)...)
	if r := c.ArchiveRetention; r != 0 && r < ArchiveRetentionLeast {
		faults = append(faults, fmt.Errorf("--archive-retention: got %s, want %s or more", r, ArchiveRetentionLeast))
	}
	if b := c.ArchiveMaxBytes; b != 0 && b < ArchiveBytesLeast {
		faults = append(faults, fmt.Errorf("--archive-max-bytes: got %d, want %d or more", b, ArchiveBytesLeast))
	}
	if e := c.SnapshotEntries; e != 0 && (e < SnapshotEntriesLeast || e > MaxSnapshotEntries) {
		faults = append(faults, fmt.Errorf("--snapshot-entries: got %d, want %d to %d", e, SnapshotEntriesLeast,
			MaxSnapshotEntries))
	}
	if e := c.SnapshotEvery; e != 0 && (e < SnapshotEveryLeast || e > MaxSnapshotEvery) {
		faults = append(faults, fmt.Errorf("--snapshot-every: got %s, want %s to %s", e, SnapshotEveryLeast,
			MaxSnapshotEvery))
	}
	if c.BootstrapExpect < 0 || c.BootstrapExpect > rota.MaxVoters {
		faults = append(faults, fmt.Errorf("--bootstrap-expect: got %d, want 0 to %d", c.BootstrapExpect,
			rota.MaxVoters))
	}
	if c.NonVoter && c.BootstrapExpect > 0 {
		faults = append(faults, errors.New(
			"--non-voter and --bootstrap-expect exclude each other: who founds a cluster has a vote"))
	}
	if c.AutoDegradeCommitMs < 0 || c.AutoDegradeCommitMs > MaxDegradeMs {
		faults = append(faults, fmt.Errorf("--auto-degrade-commit: got %d ms, want 0 to %d", c.AutoDegradeCommitMs,
			MaxDegradeMs))
	}
	if c.AutoDegradeUsagePermille < 0 || c.AutoDegradeUsagePermille > 1000 {
		faults = append(faults, fmt.Errorf("--auto-degrade-usage: got %d permille, want 0 to 1000",
			c.AutoDegradeUsagePermille))
	}
	if c.BackupEvery != 0 && c.BackupEvery < BackupEveryLeast {
		faults = append(faults, fmt.Errorf("--backup-every: got %s, want at least %s", c.BackupEvery, BackupEveryLeast))
	}
	if c.BackupKeep != 0 && c.BackupKeep < depot.KeepLeast {
		faults = append(faults, fmt.Errorf("--backup-keep: got %d, want at least %d", c.BackupKeep, depot.KeepLeast))
	}
	if low, critical := c.DiskLow, c.DiskCritical; low > MaxDiskPercent || critical > MaxDiskPercent || low > 0 &&
		critical > low {
		faults = append(faults, fmt.Errorf(
			"--disk-low and --disk-critical: got %d and %d, want percentages up to %d, the latter "+
				"at most the former", low, critical, MaxDiskPercent))
	}
	return faults
}

func (c *Config) defaults() {
	if c.Timing == (Timing{}) {
		c.Timing = DefaultTiming()
	}
	if c.SnapshotEntries != 0 {
		c.Timing.SnapshotThreshold = c.SnapshotEntries
		c.Timing.TrailingLogs = max(c.Timing.TrailingLogs, trailingSnapshots*c.SnapshotEntries)
	}
	if c.SnapshotEvery != 0 {
		c.Timing.SnapshotInterval = c.SnapshotEvery
	}
	if c.AuditRetention == 0 {
		c.AuditRetention = DefaultAuditRetention
	}
	if c.EventsRetained == 0 {
		c.EventsRetained = DefaultEventsRetained
	}
	if c.ArchiveRetention == 0 {
		c.ArchiveRetention = DefaultArchiveRetention
	}
	if c.ArchiveMaxBytes == 0 {
		c.ArchiveMaxBytes = DefaultArchiveMaxBytes
	}
	if c.DiskLow == 0 {
		c.DiskLow = DefaultDiskLow
	}
	if c.DiskCritical == 0 {
		c.DiskCritical = DefaultDiskCritical
	}
	if c.BackupEvery == 0 {
		c.BackupEvery = DefaultBackupEvery
	}
	if c.BackupKeep == 0 {
		c.BackupKeep = DefaultBackupKeep
	}
	if c.ScrubEvery == 0 {
		c.ScrubEvery = DefaultScrubEvery
	}
	if c.watchdogEvery == 0 {
		c.watchdogEvery = watchdogEvery
	}
	if c.watchEvery == 0 {
		c.watchEvery = watchEvery
	}
	if c.countsWithin == 0 {
		c.countsWithin = verbs.CountsWithin
	}
	if c.patience == (chores.Patience{}) {
		c.patience = chores.UsualPatience.Within(c.Environment.DeadAfter)
	}
	if c.freeSpace == nil {
		c.freeSpace = raftstore.FreeSpace
	}
	if c.memory == nil {
		c.memory = sync.OnceValue(MemoryLimit)
	}
	if c.knows == 0 {
		c.knows = entry.RulesVersion
	}
	if c.checkedHere == 0 {
		c.checkedHere = checkedHere
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Bounds on a node's own queues and waits, each with its reason.
const (
	// proposalQueue bounds proposals that wait for the log: beyond it callers are rejected instead of queued.
	proposalQueue = 8_192
	// entriesInFlight bounds the pipeline: one entry is in progress while the next fills. With 4, each node's commits
	// cost a job about 10 % more CPU (two pairs of runs on a busy machine).
	entriesInFlight = 2
	// roundPatience is how long an entry waits for the round that its predecessor caused. Deciding takes tens of
	// microseconds with hundreds of workers; a longer wait would cost an entry more than the round gains.
	roundPatience = time.Millisecond
	// MaxDegradeMs is the maximum of --auto-degrade-commit: a commit that takes a minute needs no threshold.
	MaxDegradeMs = 60_000
	// maxInspect bounds the digests that one request asks for.
	maxInspect = 64
	// watchEvery is how often the other nodes are asked, watchdogEvery the interval of checks for calls that do not
	// return.
	watchEvery    = time.Second
	watchdogEvery = time.Second
	// peerTimeout bounds a background request to another node.
	peerTimeout = 500 * time.Millisecond
	// raftTimeout bounds changes of membership and leadership.
	raftTimeout = 10 * time.Second
)

const (
	// DefaultBackupEvery is the default interval of backups.
	DefaultBackupEvery = time.Hour
	// DefaultBackupKeep is the default number of backups kept.
	DefaultBackupKeep = 30
	// BackupEveryLeast is the minimum interval: a backup reads the whole state.
	BackupEveryLeast = time.Second
	// BackupKeepLeast is the number of backups that are never removed.
	BackupKeepLeast = depot.KeepLeast
)

const (
	// DefaultDiskLow is the percentage of free space below which the disk is low.
	DefaultDiskLow = 10
	// DefaultDiskCritical is the percentage of free space below which the disk is critical.
	DefaultDiskCritical = 5
	// MaxDiskPercent bounds both: a disk that is half empty is not full.
	MaxDiskPercent = 50
)

// DefaultScrubEvery is how often everything on the disk is read and verified.
const DefaultScrubEvery = 24 * time.Hour

// checkedHere is the maximum number of rows checked in place: a hundred thousand take a tenth of a second, during which
// nothing is applied.
const checkedHere = 50_000

// attestationKeys returns the keys that are valid now.
func (c *Config) attestationKeys() []ed25519.PublicKey {
	if c.AttestationKeys == nil {
		return nil
	}
	return c.AttestationKeys()
}

// MemoryLimit returns how many bytes this process may use, 0 if unknown.
func MemoryLimit() uint64 { return memory.Limit() }
