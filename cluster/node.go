package cluster

import (
	"context"
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/rebuild"
	"github.com/rotasched/rota/cluster/stream"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/depot"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/logs"
	"github.com/rotasched/rota/internal/peer"
)

// Node is one node of a cluster: its replica of the state, its part in Raft and
// gossip, and, while it leads, the leader's chores.
type Node struct {
	cfg      Config
	log      *slog.Logger
	peers    Peers
	lines    logs.Limiter
	measures *measures

	data      *raftstore.DataDir
	stores    *raftstore.Stores
	snapshots *raftstore.Snapshots
	stream    *stream.Layer
	transport *stream.Transport
	gossip    gossip.Discovery
	raft      *raft.Raft
	// beside is the file beside the log, with ended jobs and events.
	beside *history.File
	// audit keeps what audits and explanations of the past replay.
	audit *audit.Keep
	stats *stats
	// recent counts what ended lately in each queue.
	recent *recent

	// The parts. What is exported of them is the node's own face (transport's Core and
	// NodeCore).
	replica
	proposer
	servedArchive
	servedEvents
	membership
	chores
	jobVerbs
	policyVerbs
	scheduleVerbs
	webhookVerbs
	batchVerbs
	planVerbs
	authVerbs
	workerVerbs
	workflowVerbs
	clusterVerbs
	explainer
	archive   *history.Archive
	events    *history.Events
	rebuild   *rebuild.Rebuilder
	scrub     *rebuild.Scrubber
	disk      diskGate
	logs      liveLogs
	backups   backups
	dates     scheduleHealth
	zones     zoneData
	hookLag   hookLag
	autopilot autopilot
	watchdog  watchdog
	watch     watcher
	leader    leaderWatch
	terms     terms
	marks     marks

	stopOnce sync.Once
	stopped  chan struct{}
	quiet    atomic.Bool
	// raftDown is closed once raft has stopped and answers nothing more.
	raftDown chan struct{}
	// life ends when the node stops: what it does of its own accord hangs on it.
	life     context.Context
	endLife  context.CancelCauseFunc
	loops    sync.WaitGroup
	fatalErr atomic.Pointer[error]
	spaced   atomic.Bool // the log is written in the way of spacedRules, or could not be
}

// newNode makes a node that has touched nothing yet.
func newNode(cfg Config, peers Peers) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Starting == nil {
		cfg.Starting = func(string) {}
	}
	n := &Node{cfg: cfg, log: cfg.Log, peers: peers, measures: newMeasures(), stopped: make(chan struct{}),
		raftDown: make(chan struct{})}
	n.life, n.endLife = context.WithCancelCause(context.Background())
	n.replica = replica{machine: fsm.NewKnowing(cfg.knows), hub: newHub()}
	n.membership = membership{left: make(chan struct{}), removing: make(chan struct{}, 1)}
	n.terms = terms{notify: make(chan bool, 64)}
	n.chores = chores{beats: newBeatBox(n)}
	n.disk = diskGate{read: cfg.freeSpace, path: cfg.Data, low: percent(cfg.DiskLow), critical: percent(cfg.DiskCritical),
		soon: make(chan struct{}, 1), room: math.MaxUint64}
	n.logs = newLiveLogs(limits.MaxLogsBytes)
	n.dates.n, n.zones.n = n, n
	n.backups = backups{every: cfg.BackupEvery, keep: cfg.BackupKeep, one: make(chan struct{}, 1)}
	if cfg.Backup.To != "" {
		var err error
		if n.backups.depot, err = depot.Open(cfg.Backup); err != nil {
			return nil, err
		}
	}
	n.workflowVerbs = workflowVerbs{uploads: make(chan struct{}, uploadsMost), repeats: make(chan struct{}, 1)}
	n.explainer = explainer{past: newPastReader(n), ahead: newForecaster(n)}
	n.stats = newStats()
	n.stats.n = n
	n.recent = newRecent()
	return n.own(), nil
}

// own shows the parts their node, by which they reach each other.
func (n *Node) own() *Node {
	n.replica.n, n.proposer.n, n.membership.n, n.chores.n = n, n, n, n
	n.jobVerbs.n, n.policyVerbs.n, n.authVerbs.n, n.workerVerbs.n, n.workflowVerbs.n, n.clusterVerbs.n, n.explainer.n, n.scheduleVerbs.n, n.planVerbs.n, n.batchVerbs.n = n, n, n, n, n, n, n, n, n, n
	n.webhookVerbs.n, n.hookLag.n = n, n
	n.autopilot.n, n.backups.n, n.logs.n, n.disk.n, n.watchdog.n, n.watch.n, n.leader.n, n.terms.n, n.marks.n = n, n, n, n, n, n, n, n, n
	return n
}

// run starts a loop that Stop waits for.
func (n *Node) run(loop func()) {
	n.loops.Add(1)
	go func() {
		defer n.loops.Done()
		loop()
	}()
}

// fatal ends the process: going on would be wrong. It must not wait for
// anything of this node, whose goroutine it may be.
func (n *Node) fatal(err error) {
	if !n.fatalErr.CompareAndSwap(nil, &err) {
		return
	}
	n.log.Error("this node stops", "err", err)
	if n.cfg.Fatal != nil {
		n.cfg.Fatal(err)
		return
	}
	os.Exit(1)
}

// unfit gives leadership up when the disk stalls.
func (n *Node) unfit(reason string) {
	n.log.Error("this node is unfit to lead", "reason", reason)
	n.watch.setUnfit(reason)
	go func() {
		if n.terms.leading() != nil {
			ctx, cancel := context.WithTimeout(n.life, raftTimeout)
			defer cancel()
			n.terms.handOver(ctx)
		}
	}()
}

// conflict is called when another process shows up under this node's id.
func (n *Node) conflict(existing, other gossip.Member) {
	if other.ID == n.cfg.Node && other.Identity != n.data.Identity() {
		n.log.Error("another process uses this node's id: stop one of the two", "other_gossip", other.Gossip,
			"other_raft", other.Raft, "existing", existing.Gossip)
	}
}

// snapshotRoom returns how large a snapshot from another node may be: what the disk has free.
func (n *Node) snapshotRoom() (int64, bool) {
	read := n.cfg.freeSpace
	if read == nil {
		read = raftstore.FreeSpace
	}
	free, _, err := read(n.cfg.Data)
	return int64(min(free, 1<<62)), err == nil
}

// silent reports that this node must not stand: its state is wrong, or applying stalls.
func (n *Node) silent() bool { return n.replica.dropped.Load() || n.watchdog.stalled.Load() > 0 }

// writeSnapshot has raft write a snapshot of the state, and returns which it is.
func (n *Node) writeSnapshot() (*raft.SnapshotMeta, error) {
	f := n.raft.Snapshot()
	if err := n.settled(f); err != nil {
		return nil, err
	}
	meta, content, err := f.Open()
	if err != nil {
		return nil, err
	}
	return meta, content.Close()
}

// scrubLoop scrubs in the background; a restart begins the interval anew, as starting
// reads the log and the newest snapshot anyway.
func (n *Node) scrubLoop() {
	if n.cfg.ScrubEvery < 0 {
		return
	}
	tick := n.ticker(n.cfg.ScrubEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.Tick():
			if !n.replica.dropped.Load() {
				n.scrub.Pass()
			}
		case <-n.stopped:
			return
		}
	}
}

func (n *Node) stopping() bool {
	select {
	case <-n.stopped:
		return true
	default:
		return false
	}
}

// servedArchive is what the archive answers to users and other nodes.
type servedArchive interface {
	ArchiveStatus() history.Status
	ArchiveRange(ctx context.Context, span peer.ArchiveSpan, maxBytes int64) (peer.ArchiveSlice, error)
	ArchiveRecords(ctx context.Context, ids []rota.JobID) ([]peer.ArchiveRecord, error)
	ArchiveSums(ctx context.Context, span peer.ArchiveSpan, sum []byte) (same bool, each []peer.ArchiveRecord, err error)
	ListArchived(ctx context.Context, f rota.JobFilter, at rota.Index) (rota.JobPage, error)
}

// servedEvents is what the events answer to users and other nodes.
type servedEvents interface {
	Events(ctx context.Context, filter rota.EventFilter, send func(peer.EventBatch) error) error
	EventRange(ctx context.Context, r peer.EventRange) (peer.EventChunk, error)
}

// watched is a part that says how it is.
type watched interface {
	// Problems lists what is wrong, each with what to do.
	Problems() []string
	Collectors() []prometheus.Collector
}

func (n *Node) watched() []watched {
	return []watched{n.archive, n.events, n.rebuild, &n.disk, &n.watchdog, n.scrub, &n.backups, &n.dates, &n.zones,
		&n.hookLag, &n.marks}
}

// problems lists what is wrong with this node, each with what to do.
func (n *Node) problems() []string {
	problems := append([]string{}, n.watch.problems()...)
	for _, part := range n.watched() {
		problems = append(problems, part.Problems()...)
	}
	if err := n.Ready(); err != nil {
		problems = append(problems, err.Error())
	}
	return problems
}

func (n *Node) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	t := n.cfg.Timing
	c.LocalID = raft.ServerID(n.cfg.Node)
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = t.Heartbeat, t.Election, t.LeaderLease
	c.CommitTimeout = t.Commit
	c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = t.SnapshotThreshold, t.TrailingLogs, t.SnapshotInterval
	c.NotifyCh = n.terms.notify
	c.Logger = logs.ForRaft(logs.Quieting(n.log, &n.quiet))
	c.NoLegacyTelemetry = true
	failpointRaft(c)
	return c
}

// ticker paces a chore.
func (n *Node) ticker(every time.Duration) Ticker {
	if f := n.cfg.World.Ticker; f != nil {
		return f(every)
	}
	return realTicker{time.NewTicker(every)}
}

// stampLead is how far this node stamps ahead of the applied clock as leader: half of what the state takes.
func (n *Node) stampLead() rota.Clock {
	return max(limits.StampLeadMax, rota.Clock(n.cfg.World.Leap/time.Millisecond)/2)
}

// sinceBoot is the node's monotonic clock.
func (n *Node) sinceBoot() time.Duration {
	if f := n.cfg.World.SinceBoot; f != nil {
		return f()
	}
	return sinceBoot()
}

// wall is the node's wall clock.
func (n *Node) wall() time.Time {
	if f := n.cfg.World.Wall; f != nil {
		return f()
	}
	return time.Now()
}

// clusterVerbs is what operators ask of the cluster itself.
type clusterVerbs struct{ n *Node }

// chores is what the leader does unasked: it matches, sweeps, looks for silent workers and
// degrades. Its followers take it their workers' beats.
type chores struct {
	n     *Node
	beats *beatBox
}

// jobVerbs is what users do with jobs.
type jobVerbs struct{ n *Node }

// policyVerbs is what operators set: queues, tenants, and the cluster's mode.
type policyVerbs struct{ n *Node }

// batchVerbs is what users do with batches (SPEC §24).
type batchVerbs struct{ n *Node }

// scheduleVerbs is what users do with schedules (SPEC §17).
type scheduleVerbs struct{ n *Node }

// webhookVerbs is what users do with webhooks (SPEC §13.14).
type webhookVerbs struct{ n *Node }

// planVerbs is what users do with plans (SPEC §21.7).
type planVerbs struct{ n *Node }

// authVerbs is who may do what: tokens, roles, blocked certificates.
type authVerbs struct{ n *Node }

// explainer says why a job waits or was placed as it was, also in the past.
type explainer struct {
	n     *Node
	past  *pastReader
	ahead *forecaster
}

// workerVerbs is what becomes of workers as they, a guard or an operator ask.
type workerVerbs struct{ n *Node }

// workflowVerbs is what users do with workflows.
type workflowVerbs struct {
	n *Node
	// uploads has room for the workflows that come in at a time, repeats for one that is
	// known already, to be compared.
	uploads, repeats chan struct{}
}

// uploadsMost bounds the workflows that a node hands over at a time: each holds its
// spec in memory, up to MaxWorkflowBytes and its edges.
const uploadsMost = 4
