package cluster

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/stream"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/logs"
	"go.etcd.io/bbolt"
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
	// archiveDB is the file beside the log: terminal jobs, and events.
	archiveDB *bbolt.DB
	// audit keeps what audits and explanations of the past replay.
	audit *auditKeep

	// The parts. What is exported of them is the node's own face (transport's Core and
	// NodeCore).
	replica
	proposer
	history
	eventFeed
	rebuilder
	membership
	chores
	jobVerbs
	policyVerbs
	workerVerbs
	workflowVerbs
	clusterVerbs
	explainer
	scrub    scrubber
	disk     diskGate
	watchdog watchdog
	watch    watcher
	leader   leaderWatch
	terms    terms

	stopOnce sync.Once
	stopped  chan struct{}
	quiet    atomic.Bool
	// raftDown is closed once raft has stopped and answers nothing more.
	raftDown chan struct{}
	// life ends when the node stops: what it does of its own accord hangs on it.
	life     context.Context
	endLife  context.CancelFunc
	loops    sync.WaitGroup
	fatalErr atomic.Pointer[error]
}

// Start makes a node: it opens what is on disk, finds the other nodes, and
// joins or founds the cluster. It returns once Raft runs, or when ctx ends;
// Ready tells when the node serves. Errors are *rota.Error and say what to do.
func Start(ctx context.Context, cfg Config, peers Peers) (*Node, error) {
	n, err := newNode(cfg, peers)
	if err != nil {
		return nil, err
	}
	if err := n.open(); err != nil {
		n.closeAll()
		return nil, err
	}
	if err := n.membership.join(ctx); err != nil {
		n.closeAll()
		return nil, err
	}
	if err := n.startRaft(); err != nil {
		n.closeAll()
		return nil, err
	}
	n.run(n.terms.run)
	n.run(n.watch.run)
	n.run(n.leader.run)
	n.run(n.chores.brokenLoop)
	n.run(n.rebuilder.run)
	n.run(n.disk.run)
	n.run(n.watchdog.run)
	n.run(n.scrub.run)
	n.run(n.eventFeed.wakeFollowers)
	n.run(n.eventFeed.run)
	n.run(n.history.run)
	n.run(n.history.fetchLoop)
	return n, nil
}

// newNode makes a node that has touched nothing yet.
func newNode(cfg Config, peers Peers) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, log: cfg.Log, peers: peers, measures: newMeasures(), stopped: make(chan struct{}),
		raftDown: make(chan struct{})}
	n.life, n.endLife = context.WithCancel(context.Background())
	n.replica = replica{machine: fsm.NewKnowing(cfg.knows), hub: newHub()}
	n.history = history{notify: make(chan struct{}, 1)}
	n.rebuilder = rebuilder{notified: make(chan struct{}, 1), right: make(map[rota.NodeID]rota.Index)}
	n.membership = membership{left: make(chan struct{})}
	n.terms = terms{notify: make(chan bool, 64)}
	n.chores = chores{beats: newBeatBox(n)}
	n.disk = diskGate{read: cfg.freeSpace, path: cfg.Data, low: percent(cfg.DiskLow), critical: percent(cfg.DiskCritical)}
	n.workflowVerbs = workflowVerbs{uploads: make(chan struct{}, uploadsMost), repeats: make(chan struct{}, 1)}
	n.explainer = explainer{replaying: make(chan struct{}, 1)}
	return n.own(), nil
}

// own shows the parts their node, by which they reach each other.
func (n *Node) own() *Node {
	n.replica.n, n.proposer.n, n.history.n, n.eventFeed.n, n.rebuilder.n, n.membership.n, n.chores.n = n, n, n, n, n, n, n
	n.jobVerbs.n, n.policyVerbs.n, n.workerVerbs.n, n.workflowVerbs.n, n.clusterVerbs.n, n.explainer.n = n, n, n, n, n, n
	n.scrub.n, n.disk.n, n.watchdog.n, n.watch.n, n.leader.n, n.terms.n = n, n, n, n, n, n
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

// open takes the data directory and what lies in it.
func (n *Node) open() (err error) {
	libraries := logs.Quieting(n.log, &n.quiet)
	if n.data, err = raftstore.OpenDataDir(n.cfg.Data, n.cfg.Node, n.cfg.Cluster, n.cfg.AdoptData); err != nil {
		return err
	}
	report, err := raftstore.Preflight(n.cfg.Data, n.log)
	if err != nil {
		return err
	}
	n.stores, err = raftstore.Open(n.cfg.Data, raftstore.Options{Fatal: n.fatal, Unfit: n.unfit, Logger: n.log,
		KeepFrom: n.keepFrom, NoSync: n.cfg.World.NoSync, BeforeWrite: n.cfg.World.BeforeWrite})
	if err != nil {
		return err
	}
	n.snapshots, err = raftstore.OpenSnapshots(n.cfg.Data, libraries)
	if err != nil {
		return &rota.Error{Kind: rota.Internal, Text: "snapshot directory cannot be opened", Cause: err}
	}
	if n.audit, err = openAuditKeep(n.cfg.Data, n.cfg.AuditRetention, report.WholeFrom); err != nil {
		return err
	}
	if err := n.openArchive(); err != nil {
		return err
	}
	if err := n.history.open(); err != nil {
		return err
	}
	n.membership.known.id = n.data.ClusterID()
	n.stream, err = stream.NewLayer(n.cfg.Raft, raft.ServerAddress(n.cfg.Raft), n.membership.hello, stream.Options{
		Admit: n.membership.admit, ServerTLS: n.cfg.ServerTLS, ClientTLS: n.cfg.ClientTLS, Logger: libraries,
		Listen: n.cfg.World.Listen, Dial: n.cfg.World.Dial})
	if err != nil {
		return err
	}
	n.transport = stream.NewTransport(stream.TransportConfig{Layer: n.stream, Logger: libraries, Address: n.membership.raftAddress, Silent: n.rebuilder.silent,
		Muted: n.rebuilder.muted, Wrong: n.rebuilder.active.Load, OnDisk: n.stores.OnDisk, Leads: n.terms.leads, Room: n.snapshotRoom,
		Told: n.measures.told.Inc})
	discover := discoverGossip
	if n.cfg.World.Discover != nil {
		discover = n.cfg.World.Discover
	}
	n.gossip, err = discover(gossip.Options{ID: n.cfg.Node, Cluster: n.cfg.Cluster, Bind: n.cfg.Gossip,
		KeyFile: n.cfg.GossipKeyFile, Insecure: n.cfg.Insecure, Join: n.cfg.Join, OnConflict: n.conflict, Logger: libraries,
		Meta: gossip.Meta{ClusterID: n.membership.known.id, API: n.cfg.API, Raft: n.cfg.Raft, Version: n.cfg.Version,
			BootstrapExpect: n.cfg.BootstrapExpect, HasState: !n.data.Fresh(), Identity: n.data.Identity()}})
	return err
}

// keepFrom is the first entry that cutting the log must leave: the one after the
// snapshot before the newest, or an older one where audits ask for it.
func (n *Node) keepFrom() uint64 {
	if n.snapshots == nil || n.audit == nil {
		return 0
	}
	floor := n.audit.floor()
	kept, err := n.snapshots.List()
	if err != nil || len(kept) < 2 {
		return floor
	}
	keep := kept[1].Index + 1
	if floor > 0 {
		keep = min(keep, floor)
	}
	return keep
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

func (n *Node) startRaft() error {
	if n.data.Rebuild().Open {
		n.rebuilder.active.Store(true) // what a snapshot here holds may be wrong
		notify(n.rebuilder.notified)
	}
	n.run(func() { n.transport.Run(n.life) })
	r, err := raft.NewRaft(n.raftConfig(), adapter{n}, n.stores.Log, n.stores.Stable, n.snapshots, n.transport)
	if err != nil {
		return &rota.Error{Kind: rota.Internal, Text: "raft cannot start on " + filepath.Join(n.cfg.Data, "raft.db"), Cause: err}
	}
	n.raft = r
	n.stores.Leads(func() bool { return r.State() == raft.Leader })
	n.transport.Begin(r)
	return n.gossip.UpdateMeta(func(m *gossip.Meta) { m.HasState = true })
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

// conflict is told when another process shows up under this node's id.
func (n *Node) conflict(existing, other gossip.Member) {
	if other.ID == n.cfg.Node && other.Identity != n.data.Identity() {
		n.log.Error("another process uses this node's id: stop one of the two", "other_gossip", other.Gossip,
			"other_raft", other.Raft, "existing", existing.Gossip)
	}
}

func (tm *terms) leading() *leadership { return tm.lead.Load() }

// leads reports whether this node leads, and whether it is about to send an entry.
func (tm *terms) leads() (leads, entrySoon bool) {
	l := tm.leading()
	return l != nil, l != nil && l.entrySoon()
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

func (n *Node) stopping() bool {
	select {
	case <-n.stopped:
		return true
	default:
		return false
	}
}

// Stop ends the node: leadership is handed over first, then everything is
// closed. ctx bounds the handing over.
func (n *Node) Stop(ctx context.Context) error {
	var err error
	n.stopOnce.Do(func() {
		if n.terms.leading() != nil && n.membership.otherVoters() > 0 {
			n.terms.handOver(ctx)
		}
		n.terms.land(ctx)
		n.quiet.Store(true)
		close(n.stopped)
		n.endLife()
		err = n.stopRaft()
		close(n.raftDown)
		n.loops.Wait()
		n.closeAll()
	})
	return err
}

// handOver gives leadership away; where that fails the others elect by themselves.
func (tm *terms) handOver(ctx context.Context) {
	successor, err := tm.n.clusterVerbs.successor("")
	if err != nil {
		tm.n.log.Warn("leadership could not be handed over", "err", err)
		return
	}
	// hashicorp/raft 1.7.3 forgets a transfer that it is asked for in the moment in which
	// leadership is lost, and never answers its future: the state is looked at instead. A
	// transfer ends within an election timeout, well or not.
	_ = tm.n.raft.LeadershipTransferToServer(successor.ID, successor.Address)
	for asked := time.Now(); tm.n.raft.State() == raft.Leader; time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil || time.Since(asked) > 2*tm.n.cfg.Timing.Election {
			tm.n.log.Warn("leadership was not handed over in time", "to", string(successor.ID))
			return
		}
	}
}

// lower ends the present leadership.
func (tm *terms) lower() *leadership {
	l := tm.lead.Swap(nil)
	if l != nil {
		l.end()
	}
	return l
}

// stopMost bounds the wait for raft's goroutines: one may hang on a disk or a peer.
const stopMost = 10 * time.Second

func (n *Node) stopRaft() error {
	down := n.raft.Shutdown()
	_ = n.stream.Close() // ends the calls to peers that raft waits for
	done := make(chan error, 1)
	go func() { done <- down.Error() }()
	late := time.NewTimer(stopMost)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return rota.Refusef(rota.Internal, "raft", "raft did not stop within %s: a disk or a peer hangs", stopMost)
	}
}

// landMost bounds how long a stopping node waits for its own entries.
const landMost = 2 * time.Second

// land ends the present leadership and waits until its entries are answered,
// while raft is still there to answer them.
func (tm *terms) land(ctx context.Context) {
	l := tm.lower()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, landMost)
	defer cancel()
	select {
	case <-l.landed:
	case <-ctx.Done():
		tm.n.log.Warn("entries in flight were not answered before the node stopped")
	}
}

func (n *Node) closeAll() {
	n.endLife()
	if n.gossip != nil {
		_ = n.gossip.Leave(time.Second)
		_ = n.gossip.Close()
	}
	if n.transport != nil {
		_ = n.transport.Close()
	} else if n.stream != nil {
		_ = n.stream.Close()
	}
	if n.stores != nil {
		if err := n.stores.Close(); err != nil {
			n.log.Warn("stores did not close", "err", err)
		}
	}
	if n.archiveDB != nil {
		n.eventFeed.flush()
		if n.history.store != nil {
			_ = n.history.flush() // said already; the log has the entries
		}
		if err := n.archiveDB.Close(); err != nil {
			n.log.Warn("archive did not close", "err", err)
		}
	}
	if n.data != nil {
		_ = n.data.Close()
	}
}

// Left is closed once the node has left the cluster on an operator's word.
func (mb *membership) Left() <-chan struct{} { return mb.left }
