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
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/depot"
)

// Config is everything that a node is started with. It is checked once, all
// faults together.
type Config struct {
	// Node is the node's id, for ever bound to its data directory.
	Node rota.NodeID
	// Cluster is the --cluster name; nodes of another name are refused.
	Cluster string
	// Data is the data directory.
	Data string
	// API, Raft and Gossip are addresses H:P that other nodes reach; the node
	// listens on the latter two itself.
	API, Raft, Gossip string
	// Join are gossip addresses of other nodes, which need not be up yet.
	Join []string
	// BootstrapExpect is how many fresh nodes found a cluster; 0 never founds one.
	BootstrapExpect int
	// NonVoter says that this node never gets a vote.
	NonVoter bool
	// GossipKeyFile encrypts gossip; needed beyond loopback unless Insecure.
	GossipKeyFile string
	Insecure      bool
	// Exposed says that the node listens beyond loopback in clear text: [ExposedText] stands in its
	// status.
	Exposed bool
	// Open says that callers without a credential are root in a cluster that this node founds.
	Open bool
	// AdoptData takes a data directory that was moved (see OpenDataDir).
	AdoptData bool
	// MarkFile is a file on another disk than the data directory's, which keeps how far this node's log had come;
	// empty is none.
	MarkFile string
	// AttestationKeys returns the Ed25519 public keys whose attestation of a worker counts now
	// (SPEC §6.5); nil is none. All nodes should be given the same.
	AttestationKeys func() []ed25519.PublicKey
	// ServerTLS and ClientTLS secure the raft connections, NodeOf returns the id in a peer's
	// certificate (SECURITY §1.4); all three or none.
	ServerTLS, ClientTLS *tls.Config
	NodeOf               func(tls.ConnectionState) (rota.NodeID, error)
	// Version of the binary, as other nodes are shown it.
	Version string
	// CertificateEnds returns when the certificate that is shown now ends; nil where there is none.
	CertificateEnds func() time.Time
	// Timing of Raft; zero takes DefaultTiming.
	Timing Timing
	// SnapshotEntries and SnapshotEvery take the place of what Timing says of
	// snapshots: so many entries make one, and so often that is looked at. 0 leaves
	// Timing's.
	SnapshotEntries uint64
	SnapshotEvery   time.Duration
	// AuditRetention is how many operations the log goes back at least, with a
	// snapshot that it follows on (SPEC §2.4); 0 takes DefaultAuditRetention.
	AuditRetention uint64
	// AutoDegradeCommitMs and AutoDegradeUsagePermille are the commit latency, and the
	// fill of the fullest queue, above which a leader degrades the cluster by itself
	// (SPEC §4.7); 0 is off.
	AutoDegradeCommitMs      int64
	AutoDegradeUsagePermille int64
	// EventsRetained is how many events this node keeps (SPEC §12.3); 0 takes
	// DefaultEventsRetained. Nodes that differ in it begin to serve at another event.
	EventsRetained uint64
	// ArchiveRetention is how long, by date, ended jobs are kept on disk; 0 takes
	// DefaultArchiveRetention. ArchiveMaxBytes bounds them too, the oldest go first;
	// 0 takes DefaultArchiveMaxBytes. Nodes should be given the same (SPEC §10.5).
	ArchiveRetention time.Duration
	ArchiveMaxBytes  uint64
	// DiskLow and DiskCritical are how many percent of the data directory's disk must
	// be free for new jobs to be admitted, and for work to be started; 0 takes the
	// default, less is off.
	DiskLow, DiskCritical int
	// ScrubEvery is how often all that lies on the disk is read and verified; 0 takes
	// DefaultScrubEvery, less is never.
	ScrubEvery time.Duration
	// Backup says where backups go, an empty To for none; the leader stores one every
	// BackupEvery, and keeps the last BackupKeep of this cluster. 0 takes the default.
	Backup      depot.Options
	BackupEvery time.Duration
	BackupKeep  int
	// Fatal ends the process; nil logs and exits 1.
	Fatal func(error)
	Log   *slog.Logger
	// Starting is called with what a node waits for that Start has not returned yet. It must
	// not block. May be nil.
	Starting func(text string)
	// World is all that is outside of the node; the zero value is the real one.
	World World
	// checkedHere stands in for the constant in the package's own tests.
	checkedHere int
	// watchdogEvery stands in for the constant in the package's own tests.
	watchdogEvery time.Duration
	// watchEvery stands in for the constant in the package's own tests.
	watchEvery time.Duration
	// countsWithin stands in for the constant in the package's own tests.
	countsWithin time.Duration
	// patience stands in for usualPatience in the package's own tests.
	patience patience
	// freeSpace stands in for FreeSpace in the package's own tests.
	freeSpace func(path string) (free, total uint64, err error)
	// memory stands in for MemoryLimit in the package's own tests.
	memory func() uint64
	// knows and needs stand in for entry.RulesVersion and entry.Needs in the package's own
	// tests of upgrades.
	knows uint32
	needs func(op *fsmpb.Op) uint32
	// admitted refuses raft connections in the package's own tests.
	admitted func(peer rota.NodeID) error
}

// ExposedText is said of a node that listens beyond loopback in clear text.
const ExposedText = "everyone who reaches these addresses can read and change everything and pose as a node: set up TLS and a gossip key, " +
	"or listen on loopback"

// DefaultAuditRetention is that of SPEC §2.4, in operations.
const DefaultAuditRetention = 1_000_000

// DefaultEventsRetained is SPEC §12.3's.
const DefaultEventsRetained = 1_000_000

// DefaultArchiveRetention is that of SPEC §10.5. DefaultArchiveMaxBytes holds some
// ten million ended jobs of a kilobyte; the file takes a third more.
const (
	DefaultArchiveRetention = 7 * 24 * time.Hour
	DefaultArchiveMaxBytes  = 8 << 30
	// ArchiveRetentionLeast and ArchiveBytesLeast are the least of both: less would take
	// jobs that people still wait for.
	ArchiveRetentionLeast = time.Minute
	ArchiveBytesLeast     = 1 << 20
)

// Timing are Raft's timeouts. The default suits one data centre (a killed
// leader is replaced in about a second); up to 5 s suits a WAN.
type Timing struct {
	Heartbeat, Election, LeaderLease time.Duration
	// Commit is how long an idle leader waits before it sends followers again how
	// far the log is committed. They learn it at once (committed.go): this is for
	// what got lost. With 50 ms it was half of the calls of an idle cluster.
	Commit time.Duration
	// SnapshotThreshold is how many entries make a snapshot, SnapshotInterval how
	// often that is looked at, TrailingLogs how many entries stay behind one.
	SnapshotThreshold, TrailingLogs uint64
	SnapshotInterval                time.Duration
}

// The bounds of Config.SnapshotEntries and Config.SnapshotEvery. Fewer entries would have a busy node write
// nothing but snapshots; more than a million take longer to replay than a restart may.
const (
	SnapshotEntriesLeast = 64
	SnapshotEntriesMost  = 1_000_000
	SnapshotEveryLeast   = time.Second
	SnapshotEveryMost    = time.Hour
	// trailingSnapshots is how many snapshots' worth of log stays behind the newest.
	trailingSnapshots = 3
)

// DefaultTiming is for nodes in one data centre. TrailingLogs exceeds
// SnapshotThreshold twice over, so that the snapshots before the newest have their
// log too, and a follower that restores one still finds the log after it.
func DefaultTiming() Timing {
	return Timing{
		Heartbeat: 500 * time.Millisecond, Election: 500 * time.Millisecond, LeaderLease: 500 * time.Millisecond,
		Commit: 250 * time.Millisecond, SnapshotThreshold: 8_192, TrailingLogs: 24_576, SnapshotInterval: 20 * time.Second,
	}
}

// check refuses what cannot be, and gives what was left open its default.
func (c *Config) check() error {
	if err := errors.Join(c.faults()...); err != nil {
		return &rota.Error{Kind: rota.KindInvalid, Op: "start node", Subject: "configuration", Text: "configuration is refused", Cause: err}
	}
	c.defaults()
	return nil
}

// faults are all names, addresses and settings that cannot be, each with what is wanted.
func (c *Config) faults() []error { return append(c.nameFaults(), c.settingFaults()...) }

// nameFaults are those of what tells a node from others.
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
		faults = append(faults, errors.New("--data is empty: a directory is wanted"))
	}
	return faults
}

// settingFaults are those of all else.
func (c *Config) settingFaults() (faults []error) {
	for i, k := range c.attestationKeys() {
		if len(k) != ed25519.PublicKeySize {
			faults = append(faults, fmt.Errorf("attestation key %d has %d bytes: %d are wanted", i, len(k), ed25519.PublicKeySize))
		}
	}
	faults = append(faults, depot.Check(c.Backup)...)
	if r := c.ArchiveRetention; r != 0 && r < ArchiveRetentionLeast {
		faults = append(faults, fmt.Errorf("--archive-retention is %s: %s or more is wanted", r, ArchiveRetentionLeast))
	}
	if b := c.ArchiveMaxBytes; b != 0 && b < ArchiveBytesLeast {
		faults = append(faults, fmt.Errorf("--archive-max-bytes is %d: %d or more is wanted", b, ArchiveBytesLeast))
	}
	if e := c.SnapshotEntries; e != 0 && (e < SnapshotEntriesLeast || e > SnapshotEntriesMost) {
		faults = append(faults, fmt.Errorf("--snapshot-entries is %d: %d to %d is wanted", e, SnapshotEntriesLeast,
			SnapshotEntriesMost))
	}
	if e := c.SnapshotEvery; e != 0 && (e < SnapshotEveryLeast || e > SnapshotEveryMost) {
		faults = append(faults, fmt.Errorf("--snapshot-every is %s: %s to %s is wanted", e, SnapshotEveryLeast, SnapshotEveryMost))
	}
	if c.BootstrapExpect < 0 || c.BootstrapExpect > rota.MaxVoters {
		faults = append(faults, fmt.Errorf("--bootstrap-expect is %d: 0 to %d is wanted", c.BootstrapExpect, rota.MaxVoters))
	}
	if c.NonVoter && c.BootstrapExpect > 0 {
		faults = append(faults, errors.New("--non-voter and --bootstrap-expect exclude each other: who founds a cluster has a vote"))
	}
	if c.AutoDegradeCommitMs < 0 || c.AutoDegradeCommitMs > MaxDegradeMs {
		faults = append(faults, fmt.Errorf("--auto-degrade-commit is %d ms: 0 to %d is wanted", c.AutoDegradeCommitMs,
			MaxDegradeMs))
	}
	if c.AutoDegradeUsagePermille < 0 || c.AutoDegradeUsagePermille > 1000 {
		faults = append(faults, fmt.Errorf("--auto-degrade-usage is %d permille: 0 to 1000 is wanted", c.AutoDegradeUsagePermille))
	}
	if c.BackupEvery != 0 && c.BackupEvery < BackupEveryLeast {
		faults = append(faults, fmt.Errorf("--backup-every is %s: at least %s is wanted", c.BackupEvery, BackupEveryLeast))
	}
	if c.BackupKeep != 0 && c.BackupKeep < depot.KeepLeast {
		faults = append(faults, fmt.Errorf("--backup-keep is %d: at least %d are kept", c.BackupKeep, depot.KeepLeast))
	}
	if low, critical := c.DiskLow, c.DiskCritical; low > MaxDiskPercent || critical > MaxDiskPercent || low > 0 && critical > low {
		faults = append(faults, fmt.Errorf("--disk-low is %d and --disk-critical is %d: percent up to %d are wanted, the latter "+
			"no more than the former", low, critical, MaxDiskPercent))
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
		c.countsWithin = countsWithin
	}
	if c.patience == (patience{}) {
		c.patience = usualPatience.within(c.World.DeadAfter)
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

// The bounds of a node's own queues and waits, each with its reason.
const (
	// proposalQueue bounds proposals that wait for the log: beyond it callers
	// are refused rather than kept.
	proposalQueue = 8_192
	// entriesInFlight bounds the pipeline: one entry is on its way while the next
	// fills. With 4 each node's commits cost a job some 10 % more CPU (two pairs of runs
	// on a busy machine).
	entriesInFlight = 2
	// roundPatience is how long an entry waits for the round that its forerunner caused.
	// Deciding takes some tens of microseconds where workers are hundreds; a longer wait
	// would cost an entry more than the round gains.
	roundPatience = time.Millisecond
	// MaxDegradeMs is the most of --auto-degrade-commit: who has waited a minute for a commit needs no threshold.
	MaxDegradeMs = 60_000
	// inspectMost bounds the digests that one question asks for.
	inspectMost = 64
	// peerTimeout bounds a question to another node that nobody waits for.
	peerTimeout = 500 * time.Millisecond
	// countsWithin bounds how long the answer to a change of rights waits for the other members to
	// apply it, countsLook and countsLookMost the pauses between two questions to one whether it
	// has: they apply within milliseconds, or are far behind.
	countsWithin   = time.Second
	countsLook     = 2 * time.Millisecond
	countsLookMost = 50 * time.Millisecond
	// raftTimeout bounds changes of membership and leadership.
	raftTimeout = 10 * time.Second
	// noticesKept bounds what waits for a worker's stream; beyond it the stream
	// is sent all open leases anew.
	noticesKept = 65_536
)

// DefaultScrubEvery is how often everything on the disk is read and verified.
const DefaultScrubEvery = 24 * time.Hour

// checkedHere is how many rows are checked where they are: a hundred thousand take a
// tenth of a second, in which nothing is applied.
const checkedHere = 50_000

// attestationKeys returns the keys that count now.
func (c *Config) attestationKeys() []ed25519.PublicKey {
	if c.AttestationKeys == nil {
		return nil
	}
	return c.AttestationKeys()
}
