package cluster

import (
	"context"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/internal/meter"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/rebuild"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/cluster/stream"
	"github.com/rotasched/rota/internal/logs"
	"github.com/rotasched/rota/snapshot/archive"
)

// Start creates a node: it opens the data on disk, finds the other nodes, and joins or founds the cluster. It returns
// once Raft runs, or when ctx ends; Ready reports when the node serves. Errors are *rota.Error and state the remedy.
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
	n.cfg.Starting("its state is being restored")
	if err := n.startRaft(); err != nil {
		n.closeAll()
		return nil, err
	}
	if cfg.NonVoter && n.membership.votes() {
		n.log.Warn(keepsVote)
	}
	if text := n.littleMemory(); text != "" {
		n.log.Warn("the memory of this node is less than its state may need: " + text)
	}
	n.terms.begun, n.backups.Save = n.startChores, n.clusterVerbs.SaveSnapshot
	n.run(n.terms.run)
	n.run(n.watch.run)
	n.run(n.leader.run)
	n.run(n.leader.catchUp)
	if !cfg.Environment.NoSync { // without syncing, nothing is durable anyway
		n.run(n.marks.run)
	}
	n.run(n.leaderChores.brokenLoop)
	n.run(n.rebuild.Run)
	n.run(n.disk.run)
	n.run(n.watchdog.run)
	n.run(func() {
		tick := n.ticker(meter.Step)
		defer tick.Stop()
		n.stats.Run(n.life, tick.Tick())
	})
	n.run(n.scrubLoop)
	n.run(n.events.WakeFollowers)
	n.run(n.events.Run)
	n.run(n.archive.Run)
	n.run(func() {
		tick := n.ticker(replica.LogsEvery)
		defer tick.Stop()
		n.logs.Loop(n.life, tick.Tick())
	})
	n.run(n.archive.Fetch)
	n.run(n.leaderChores.retentionLoop)
	return n, nil
}

// open opens the data directory and everything in it.
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
		KeepFrom: n.keepFrom, Cutting: func(low, high uint64) error { return n.rebuild.Cutting(low, high) },
		Plain: n.data.Plain(), NoSync: n.cfg.Environment.NoSync, BeforeWrite: n.cfg.Environment.BeforeWrite})
	if err != nil {
		return err
	}
	n.snapshots, err = raftstore.OpenSnapshots(n.cfg.Data, libraries, n.disk.forSnapshots)
	if err != nil {
		return &rota.Error{Kind: rota.KindInternal, Text: "snapshot directory cannot be opened", Cause: err}
	}
	if n.audit, err = audit.Open(n.cfg.Data, n.cfg.AuditRetention, report.WholeFrom, n.log); err != nil {
		return err
	}
	n.historyFile, err = history.OpenFile(history.FileOptions{Path: filepath.Join(n.cfg.Data, archive.FileName),
		Retained: n.cfg.EventsRetained,
		NoSync:   n.cfg.Environment.NoSync, Cluster: n.data.ClusterID(), Fresh: n.data.Fresh()})
	if err != nil {
		return err
	}
	n.peers.Calls(n.data.Identity(), n.membership.mayCall)
	n.keepHistory()
	n.keepRight()
	if err := n.marks.open(report.Mark()); err != nil {
		return err
	}
	n.membership.known.id = n.data.ClusterID()
	n.stream, err = stream.NewLayer(n.cfg.Raft, raft.ServerAddress(n.cfg.Raft), n.membership.hello, stream.Options{
		Admit: n.membership.admit, ServerTLS: n.cfg.ServerTLS, ClientTLS: n.cfg.ClientTLS, NodeOf: n.cfg.NodeOf,
		Logger: libraries, Listen: n.cfg.Environment.Listen, Dial: n.cfg.Environment.Dial})
	if err != nil {
		return err
	}
	n.transport = stream.NewTransport(stream.TransportConfig{Layer: n.stream, Logger: libraries,
		Address: n.membership.raftAddress, Silent: n.silent,
		Muted: n.terms.muted, Wrong: n.replica.Dropped.Load, OnDisk: n.stores.OnDisk, Leads: n.terms.leads,
		Room: n.snapshotRoom, Notified: n.measures.CommitMessages.Inc, Acknowledged: n.marks.acknowledged})
	discover := discoverGossip
	if n.cfg.Environment.Discover != nil {
		discover = n.cfg.Environment.Discover
	}
	n.gossip, err = discover(gossip.Options{ID: n.cfg.Node, Cluster: n.cfg.Cluster, Bind: n.cfg.Gossip,
		KeyFile: n.cfg.GossipKeyFile, Insecure: n.cfg.Insecure, Join: n.cfg.Join, OnConflict: n.conflict,
		OnRefused: n.membership.waiting.refuse, Logger: libraries,
		Meta: gossip.Meta{ClusterID: n.membership.known.id, API: n.cfg.API, Raft: n.cfg.Raft, Version: n.cfg.Version,
			BootstrapExpect: n.cfg.BootstrapExpect, HasState: !n.data.Fresh(), Identity: n.data.Identity()}})
	return err
}

// keepHistory creates the archive and the events in the open file.
func (n *Node) keepHistory() {
	host := history.Host{Log: n.log, Lines: &n.lines, Life: n.life, SinceBoot: n.sinceBoot, Room: n.disk.forHistory,
		Others: n.membership.otherServers, Peers: n.peers,
		Replaced: func(from, to rota.Index) error { return n.rebuild.Replaced(from, to) },
		State: history.State{Look: n.replica.Look, View: n.replica.View, Freezing: n.replica.Freezing,
			Peek: n.replica.Peek, Archived: n.replica.Archived, Fresh: n.replica.Fresh, Await: n.replica.WaitApplied}}
	n.archive = history.NewArchive(host, n.historyFile, n.cfg.ArchiveRetention, n.cfg.ArchiveMaxBytes)
	n.events = history.NewEvents(host, n.historyFile, n.cfg.EventsRetained)
	n.servedArchive, n.servedEvents = n.archive, n.events
	n.host.Archive, n.host.Events, n.host.Audit, n.host.Stores = n.archive, n.events, n.audit, n.stores
	n.duties.Archive, n.duties.Events = n.archive, n.events
}

// keepRight creates the parts that find and repair a wrong state and damage on the disk.
func (n *Node) keepRight() {
	rp := &n.replica
	host := rebuild.Host{Log: n.log, Lines: &n.lines, Life: n.life, Wall: n.wall, Node: n.cfg.Node, Knows: n.cfg.knows,
		Disk: rebuild.Disk{Data: n.data, Stores: n.stores, Snapshots: n.snapshots, Audit: n.audit, File: n.historyFile,
			Archive: n.archive,
			Events:  n.events},
		State: rebuild.State{Digests: &rp.Digests, Look: rp.Look, Freeze: rp.FreezeWhole, Dropped: rp.Dropped.Load,
			Drop: rp.Drop, Newest: rp.Newest, Install: rp.Install},
		Fatal: n.fatal, HaltAtNewer: n.haltAtNewer, Servers: n.membership.servers, Inspect: n.watch.answers,
		Handed: n.membership.handed,
		Push: func(ctx context.Context) error {
			_, _, err := n.proposer.proposeOne(ctx, replica.BarrierOp())
			return err
		},
		StandDown: func() { n.terms.standDown(func() bool { return true }) }, Record: n.terms.record,
		Snapshot: n.writeSnapshot, Peers: n.peers}
	n.rebuild, n.scrub = rebuild.New(host), rebuild.NewScrubber(host)
}

// keepFrom returns the first entry that must remain when the log is cut: the one after the snapshot before the newest,
// or an older one if audits need it.
func (n *Node) keepFrom() uint64 {
	if n.snapshots == nil || n.audit == nil {
		return 0
	}
	floor := n.audit.Floor()
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

func (n *Node) startRaft() error {
	if n.data.Rebuild().Open {
		n.replica.Dropped.Store(true) // snapshots here may be wrong
		n.rebuild.Resume()
	}
	n.run(func() { n.transport.Run(n.life) })
	r, err := raft.NewRaft(n.membership.raftConfig(), adapter{n}, n.stores.Log, n.stores.Stable, n.snapshots,
		n.transport)
	if err != nil {
		return &rota.Error{Kind: rota.KindInternal, Text: "raft cannot start on " + filepath.Join(n.cfg.Data,
			"raft.db"), Cause: err}
	}
	n.raft = r
	n.membership.started.Store(r)
	n.stores.Leads(func() bool { return r.State() == raft.Leader })
	n.transport.Begin(r)
	return n.gossip.UpdateMeta(func(m *gossip.Meta) { m.HasState = true })
}

// Stop ends the node: it first hands over leadership, then closes everything. ctx bounds the handover.
func (n *Node) Stop(ctx context.Context) error {
	var err error
	n.stopOnce.Do(func() {
		if n.terms.leading() != nil && n.membership.otherVoters() > 0 {
			n.terms.handOver(ctx)
		}
		n.terms.land(ctx)
		n.quiet.Store(true)
		close(n.stopped)
		n.endLife(fault.Stopping())
		err = n.stopRaft()
		close(n.raftDown)
		n.loops.Wait()
		n.marks.save()
		n.closeAll()
	})
	return err
}

// maxStop bounds the wait for raft's goroutines: a disk or a peer may block one of them.
const maxStop = 10 * time.Second

func (n *Node) stopRaft() error {
	down := n.raft.Shutdown()
	_ = n.stream.Close() // ends the calls to peers that raft waits for
	done := make(chan error, 1)
	go func() { done <- down.Error() }()
	late := time.NewTimer(maxStop)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return rota.Refusef(rota.KindInternal, "raft", "raft did not stop within %s: a disk or a peer hangs", maxStop)
	}
}

func (n *Node) closeAll() {
	n.endLife(fault.Stopping())
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
	if n.historyFile != nil {
		n.events.Flush()
		_ = n.archive.Flush() // already logged; the log has the entries
		if err := n.historyFile.DB.Close(); err != nil {
			n.log.Warn("archive did not close", "err", err)
		}
	}
	if n.data != nil {
		_ = n.data.Close()
	}
}

// startChores starts the leader's loops; each ends with the leadership.
func (n *Node) startChores(l *leadership) {
	for _, chore := range []func(){l.collect, l.land,
		func() { n.leaderChores.matchLoop(l) }, func() { n.leaderChores.sweepLoop(l) }, func() {
			n.leaderChores.silenceLoop(l)
		}, func() { n.membership.reconcileLoop(l) },
		func() { n.duties.Degrade(l, n.cfg.AutoDegradeCommitMs, n.cfg.AutoDegradeUsagePermille) },
		func() { n.dates.Loop(l) }, func() { n.hookLag.Loop(l) }, func() { n.duties.Plans(l) },
		func() { n.backups.Loop(l) }, func() { n.autopilot.Loop(l) }} {
		n.run(chore)
	}
}
