package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/cluster/internal/chores"
	"github.com/rotasched/rota/cluster/internal/explain"
	"github.com/rotasched/rota/cluster/internal/meter"
	"github.com/rotasched/rota/cluster/internal/zones"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/cluster/verbs"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/depot"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// Node is one node of a cluster: its replica of the state, its part in Raft and gossip, and, while it is the leader,
// the leader's chores.
type Node struct {
	base

	// The parts. Their exported methods are the node's own interface (transport's Core and NodeCore).
	servedReplica
	servedArchive
	servedEvents
	membership
	leaderChores
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
	disk      diskGate
	logs      replica.Logs
	duties    *chores.Host
	backups   *chores.Backups
	dates     *chores.Schedules
	zones     *zones.Zones
	hookLag   *chores.Webhooks
	autopilot *chores.Autopilot
	watchdog  watchdog
	watch     watcher
	leader    leaderWatch
	terms     terms
	marks     marks
	depot     *depot.Depot // of backups, nil for none
	past      *explain.PastReader
	host      *verbs.Host // of the verbs
	stats     *meter.Stats
	// recent counts recently ended jobs by queue.
	recent *meter.Recent

	stopOnce sync.Once
}

// The parts that are types of other packages, under the names by which the node has them.
type (
	explainer     = explain.Explainer
	jobVerbs      = verbs.JobVerbs
	policyVerbs   = verbs.PolicyVerbs
	scheduleVerbs = verbs.ScheduleVerbs
	batchVerbs    = verbs.BatchVerbs
	planVerbs     = verbs.PlanVerbs
	webhookVerbs  = verbs.WebhookVerbs
	authVerbs     = verbs.AuthVerbs
	workerVerbs   = verbs.WorkerVerbs
	workflowVerbs = verbs.WorkflowVerbs
)

// newNode returns a node that has not touched anything yet.
func newNode(cfg Config, peers Peers) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Starting == nil {
		cfg.Starting = func(string) {}
	}
	n := &Node{base: base{cfg: cfg, log: cfg.Log, peers: peers, measures: meter.New(), stopped: make(chan struct{}),
		raftDown: make(chan struct{})}}
	n.life, n.endLife = context.WithCancelCause(context.Background())
	n.replica = replica.Replica{Machine: fsm.NewKnowing(cfg.knows), Hub: replica.NewHub()}
	n.membership = membership{left: make(chan struct{}), removing: make(chan struct{}, 1)}
	n.terms = terms{notify: make(chan bool, 64)}
	n.disk = diskGate{read: cfg.freeSpace, path: cfg.Data, low: percent(cfg.DiskLow),
		critical: percent(cfg.DiskCritical), soon: make(chan struct{}, 1), room: math.MaxUint64}
	n.logs = replica.NewLogs(&n.replica, limits.MaxLogsBytes)
	if cfg.Backup.To != "" {
		var err error
		if n.depot, err = depot.Open(cfg.Backup); err != nil {
			return nil, err
		}
	}
	n.recent = meter.NewRecent()
	n.stats = meter.NewStats(n.recent, n.replica.Peek, n.wall, n.terms.commitLatency)
	return n.wire(), nil
}

// wire sets each part's base and the parts that it uses.
func (n *Node) wire() *Node {
	b := &n.base
	rp, pr, ms := &n.replica, &n.proposer, &n.membership
	n.servedReplica = rp
	rp.Connect(n.hostReplica())
	pr.n, pr.leader, pr.disk, pr.membership, pr.terms = b, &n.leader, &n.disk, ms, &n.terms
	ms.n, ms.leader, ms.marks, ms.terms, ms.watch = b, &n.leader, &n.marks, &n.terms, &n.watch
	n.clusterVerbs.n = n
	n.leaderChores.n, n.leaderChores.disk, n.leaderChores.terms = b, &n.disk, &n.terms
	if n.leaderChores.beats == nil {
		n.leaderChores.beats = &beatBox{}
	}
	bx := n.leaderChores.beats
	bx.n, bx.leader, bx.terms, bx.membership, bx.atLeader = b, &n.leader, &n.terms, ms, n.leaderChores.Beats

	n.zones = zones.New(&n.replica, n.wall)
	n.wireVerbs()

	n.disk.n, n.disk.membership, n.disk.terms, n.disk.watch = b, ms, &n.terms, &n.watch
	n.watch.n, n.watch.disk, n.watch.marks, n.watch.membership, n.watch.terms = b, &n.disk, &n.marks, ms, &n.terms
	n.terms.n, n.terms.leader, n.terms.membership, n.terms.disk, n.terms.watch = b, &n.leader, ms, &n.disk, &n.watch
	n.marks.n, n.marks.membership = b, ms
	n.wireDuties()
	n.watchdog.n, n.watchdog.terms = b, &n.terms
	n.leader.n = b
	return n
}

// hostReplica returns the part of the node that its replica uses.
func (n *Node) hostReplica() replica.Host {
	return replica.Host{Knows: n.cfg.knows, Log: n.log, Measures: n.measures, Life: n.life,
		Stopped:   n.stopped,
		SinceBoot: n.sinceBoot,
		Stalled:   func() bool { return n.watchdog.stalled.Load() > 0 },
		Leads:     func() bool { return n.terms.leading() != nil },
		Lower:     func() { n.terms.lower() },
		Vouched:   func() error { return cmp.Or(n.leader.behind(), n.leader.vouched()) },
		CaughtUp:  func() { n.leader.caughtUp.Store(true) },
		Propose:   n.proposer.propose,
		Applied:   n.moveLog,
		Replaced: func() {
			n.membership.learnCluster()
			n.stream.Rejudge()
		},
		Hold:         func() { n.events.Hold() },
		Reset:        func(head fsm.Head) { n.events.Reset(head) },
		VerifyLeader: func() error { return n.raft.VerifyLeader().Error() }}
}

// wireDuties creates the leader's chores that are in packages of their own.
func (n *Node) wireDuties() {
	n.duties = &chores.Host{Node: n.cfg.Node, Replica: &n.replica, Log: n.log, Lines: &n.lines, Zones: n.zones,
		Wall: n.wall, SinceBoot: n.sinceBoot, Ticker: n.ticker, ClusterID: n.membership.ClusterID}
	n.backups = chores.NewBackups(n.duties, n.depot, n.cfg.BackupEvery, n.cfg.BackupKeep)
	n.dates, n.hookLag = chores.NewSchedules(n.duties), chores.NewWebhooks(n.duties)
	n.autopilot = chores.NewAutopilot(n.duties, chores.Voters{Every: n.cfg.watchEvery, Patience: n.cfg.patience,
		Seen: n.watch.seenServers, Remove: n.membership.remove})
}

// wireVerbs creates the verbs.
func (n *Node) wireVerbs() {
	n.host = &verbs.Host{Node: n.cfg.Node, Replica: &n.replica, Log: n.log, Measures: n.measures, Life: n.life,
		Stopped: n.stopped, CountsWithin: n.cfg.countsWithin, Wall: n.wall, SinceBoot: n.sinceBoot,
		Propose: n.proposer.propose, ProposeOne: n.proposer.proposeOne, ProposeInTurn: n.proposer.proposeInTurn,
		ProposeFirst: n.proposer.proposeFirst, Servers: n.membership.serverIDs, OtherServers: n.membership.otherServers,
		AppliedOn: n.watch.appliedOn, AskLog: func(ctx context.Context, to peer.NodeAddress, lease rota.LeaseID,
			after uint64) (peer.NodeLog, error) {
			return n.peers.Log(ctx, to, lease, after)
		}}
	h := n.host
	n.past = explain.NewPastReader(h)
	n.jobVerbs, n.workerVerbs = verbs.NewJobs(h, &n.logs), verbs.NewWorkers(h, &n.logs, n.leaderChores.beats.beat)
	n.policyVerbs, n.scheduleVerbs, n.authVerbs = verbs.NewPolicy(h), verbs.NewSchedules(h, n.zones), verbs.NewAuth(h)
	n.webhookVerbs, n.batchVerbs, n.planVerbs = verbs.NewWebhooks(h), verbs.NewBatches(h), verbs.NewPlans(h)
	n.workflowVerbs, n.explainer = verbs.NewWorkflows(h), explain.New(h, n.past, &n.jobVerbs)
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

// conflict is called when another process appears under this node's id.
func (n *Node) conflict(existing, other gossip.Member) {
	if other.ID == n.cfg.Node && other.Identity != n.data.Identity() {
		n.log.Error("another process uses this node's id: stop one of the two", "other_gossip", other.Gossip,
			"other_raft", other.Raft, "existing", existing.Gossip)
	}
}

// snapshotRoom returns how large a snapshot from another node may be, in bytes: the free space of the disk.
func (n *Node) snapshotRoom() (int64, bool) {
	read := n.cfg.freeSpace
	if read == nil {
		read = raftstore.FreeSpace
	}
	free, _, err := read(n.cfg.Data)
	return int64(min(free, 1<<62)), err == nil
}

// silent reports that this node must not stand for election: its state is wrong, or applying stalls.
func (n *Node) silent() bool { return n.replica.Dropped.Load() || n.watchdog.stalled.Load() > 0 }

// writeSnapshot makes raft write a snapshot of the state, and returns its metadata.
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

// scrubLoop scrubs in the background; a restart begins the interval again, since starting reads the log and the newest
// snapshot anyway.
func (n *Node) scrubLoop() {
	if n.cfg.ScrubEvery < 0 {
		return
	}
	tick := n.ticker(n.cfg.ScrubEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.Tick():
			if !n.replica.Dropped.Load() {
				n.scrub.Pass()
			}
		case <-n.stopped:
			return
		}
	}
}

// servedReplica is the part of the replica served to users and other nodes.
type servedReplica interface {
	Pulse() (head fsm.Head, leads bool)
	Barrier(ctx context.Context) (rota.Index, error)
}

// servedArchive is the part of the archive served to users and other nodes.
type servedArchive interface {
	ArchiveStatus() history.Status
	ArchiveRange(ctx context.Context, span peer.ArchiveSpan, maxBytes int64) (peer.ArchiveSlice, error)
	ArchiveRecords(ctx context.Context, ids []rota.JobID) ([]peer.ArchiveRecord, error)
	ArchiveSums(ctx context.Context, span peer.ArchiveSpan, sum []byte) (same bool, each []peer.ArchiveRecord,
		err error)
	ListArchived(ctx context.Context, f rota.JobFilter, at rota.Index) (rota.JobPage, error)
}

// servedEvents is the part of the events served to users and other nodes.
type servedEvents interface {
	Events(ctx context.Context, filter rota.EventFilter, send func(peer.EventBatch) error) error
	EventRange(ctx context.Context, r peer.EventRange) (peer.EventChunk, error)
}

// watched is a part that reports its condition.
type watched interface {
	// Problems lists faults, each with its remedy.
	Problems() []string
	Collectors() []prometheus.Collector
}

func (n *Node) watched() []watched {
	return []watched{n.archive, n.events, n.rebuild, &n.disk, &n.watchdog, n.scrub, n.backups, n.dates, n.zones,
		n.hookLag, &n.marks}
}

// problems lists this node's faults, each with its remedy.
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

// APIs returns the addresses where the cluster's nodes serve clients, from the state; none while applying stalls.
func (n *Node) APIs() (all []string) {
	n.replica.Peek(func(s *fsm.View) { all = fsm.NodeAPIs(s) })
	return all
}

// Access returns the table of rights as this node has applied it; nil before there is a cluster.
func (n *Node) Access() access.Table {
	if t := n.replica.Access(); t != nil {
		return t
	}
	return nil
}

// Events serves events as history does, limited to those that the caller may read by its rights in the state when they
// are sent.
func (n *Node) Events(ctx context.Context, filter rota.EventFilter, send func(peer.EventBatch) error) error {
	return n.events.Events(ctx, filter, func(b peer.EventBatch) error {
		rd, err := n.replica.Reader(ctx)
		if err != nil {
			return err
		}
		all := len(b.Events)
		b.Events = rd.Events(b.Events)
		b.Own = b.Own || rd != nil && all > 0
		return send(b)
	})
}

// WorkerSession is one worker connected to this node.
type WorkerSession = replica.WorkerSession

// WarmLogs creates the process-wide log compressor in advance: see [replica.WarmLogs].
func WarmLogs() error { return replica.WarmLogs() }

// CaughtUp reports whether, since its start, this node has applied everything acknowledged before, and still has
// contact with a leader: otherwise it may not know a valid credential.
func (n *Node) CaughtUp() bool { return n.leader.behind() == nil && n.leader.vouched() == nil }

// Vouched returns nil while a leader vouches for this node's state (SECURITY §5.4).
func (n *Node) Vouched() error { return n.leader.vouched() }

// memoryOfState is how many times the state's maximum size a node needs as memory: rows take more than the bytes that
// state_bytes_max counts, plus garbage.
const memoryOfState = 4

// littleMemory returns a problem text if this node has less memory than its state may need; "" if it has enough, or
// that is unknown.
func (n *Node) littleMemory() string {
	most := int64(rota.DefaultStateBytesMax)
	n.replica.Peek(func(s *fsm.View) {
		if set := s.ClusterSettings().StateBytesMax; set > 0 {
			most = set
		}
	})
	has := n.cfg.memory()
	if has == 0 || has/memoryOfState >= uint64(most) {
		return ""
	}
	const mib = 1 << 20
	return fmt.Sprintf(
		"it may use %d MiB of memory, and the state may grow to %d MiB (state_bytes_max), which needs %d times that. "+
			"Add memory, or set a lower state_bytes_max", has/mib, most/mib, memoryOfState)
}

// clusterVerbs are the operations on the cluster itself, for operators.
type clusterVerbs struct{ n *Node }
