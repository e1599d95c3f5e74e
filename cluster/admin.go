package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/internal/zones"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// ownStatus returns this node's current status.
func (cv *clusterVerbs) ownStatus() rota.NodeStatus {
	var head fsm.Head
	if !cv.n.replica.Peek(func(s *fsm.View) { head = s.Head() }) {
		head.Index = rota.Index(cv.n.replica.Applied.Load())
		if d := cv.n.replica.Digests.Get(head.Index); d != nil {
			head.Digest = *d
		}
	}
	problems := cv.n.problems()
	s := rota.NodeStatus{ID: cv.n.cfg.Node, API: cv.n.cfg.API, Raft: cv.n.cfg.Raft,
		State:   strings.ToUpper(cv.n.raft.State().String()),
		Version: cv.n.cfg.Version, AppliedIndex: head.Index, Digest: head.Digest, Healthy: len(problems) == 0,
		Problems: problems, RulesVersion: cv.n.cfg.knows, NonVoter: cv.n.cfg.NonVoter, WallSkew: cv.n.watch.skew()}
	s.DiskFree, s.DiskTotal = cv.n.disk.space()
	if ends := cv.n.cfg.CertificateEnds; ends != nil {
		s.CertificateEnds = rota.Date(ends().UnixMilli())
	}
	if kept := cv.n.snapshots.Newest(); kept.Index != 0 {
		s.Snapshot = &rota.NodeSnapshot{Index: kept.Index, Date: kept.Date, Bytes: kept.Bytes}
	}
	a := cv.n.archive.ArchiveStatus()
	s.Archive = &rota.NodeArchive{Records: int64(a.Records), Oldest: a.OldestDate, Bytes: int64(a.Bytes),
		Lag: millis.Duration(a.LagMs), Staged: a.Staged, Lacking: int64(a.Lacking), Lost: int64(a.Lost)}
	if cv.n.cfg.Exposed { // a note on how it was started, not a fault
		s.Problems = append(s.Problems, ExposedText)
	}
	if text := cv.n.littleMemory(); text != "" {
		s.Problems = append(s.Problems, text)
	}
	s.Problems = append(s.Problems, cv.n.watch.alarms()...) // losses are permanent: they are not a fault of this node
	switch {
	case cv.n.replica.Dropped.Load():
		s.State = stateRebuilding
	case cv.n.watchdog.stalled.Load() > 0:
		s.State = stateStalled
	}
	if s.Voter = cv.n.membership.votes(); s.Voter && s.NonVoter {
		s.Problems = append(s.Problems, keepsVote)
	}
	return s
}

// Inspect returns this node's own status to another node.
func (cv *clusterVerbs) Inspect(_ context.Context, digestsAt []rota.Index) (peer.Inspection, error) {
	in := peer.Inspection{Status: cv.ownStatus(), ClusterID: cv.n.ClusterID(), WallMs: cv.n.wall().UnixMilli(),
		Identity: cv.n.data.Identity()}
	now := cv.n.marks.now()
	in.Term, in.LastLogIndex, in.Cut = now.Term, rota.Index(now.Index), peer.LogCut(cv.n.data.Cut())
	in.DiskLevel, in.DiskRoom = cv.n.disk.report()
	in.Autopilot, in.Health = cv.n.autopilot.Report()
	in.Views = cv.ownViews()
	rebuild := cv.n.data.Rebuild()
	in.DifferedAt, in.RightUntil = rota.Index(rebuild.At), rota.Index(rebuild.Agreed)
	for _, at := range digestsAt[:min(len(digestsAt), maxInspect)] {
		in.Digests = append(in.Digests, cv.n.replica.Digests.Get(at))
	}
	return in, nil
}

// StateBytesMax returns the maximum size of the state's rows in bytes, as applied here.
func (cv *clusterVerbs) StateBytesMax() (most int64) {
	cv.n.replica.Peek(func(s *fsm.View) { most = s.ClusterSettings().StateBytesMax })
	return most
}

// Status returns the whole cluster as this node sees it; it works without a leader.
func (cv *clusterVerbs) Status(context.Context) (rota.ClusterStatus, error) {
	c := rota.ClusterStatus{ClusterID: cv.n.ClusterID(), AppliedIndex: rota.Index(cv.n.replica.Applied.Load()),
		RulesVersion: cv.n.replica.Rules.Load()}
	cv.n.replica.Peek(func(s *fsm.View) {
		head, mode := s.Head(), s.Mode()
		c.AppliedIndex, c.Clock, c.Date, c.RulesVersion = head.Index, head.Clock, head.Date, head.Rules
		c.Mode, c.ModeReason, c.Drained = head.Mode, mode.Reason, mode.Drained
		c.Jobs, c.Workers = s.Counts(), s.WorkerCount()
		if last, _, ok := fsm.LastBackup(s); ok {
			c.Backup = &last
		}
		zones := zones.Of(s)
		c.TZData = zones.Report()
		settings := s.ClusterSettings()
		c.StateBytes, c.StateBytesMax, c.ETag = s.StateBytes(), settings.StateBytesMax, settings.ETag
	})
	_, leader := cv.n.raft.LeaderWithID()
	c.Leader, c.Term, c.Nodes = rota.NodeID(leader), cv.n.raft.CurrentTerm(), []rota.NodeStatus{cv.ownStatus()}
	servers := cv.n.membership.servers()
	views := cv.n.watch.inspectAll(servers, nil)
	for _, s := range servers {
		id := rota.NodeID(s.ID)
		if id == cv.n.cfg.Node {
			continue
		}
		v := views[id]
		status := v.status
		if v.err != nil {
			api, _ := cv.n.watch.remembered(id)
			status = rota.NodeStatus{ID: id, API: api, Raft: string(s.Address), State: "UNREACHABLE",
				Problems: []string{"does not answer: " + v.err.Error()}}
		}
		status.Voter = s.Suffrage == raft.Voter
		c.Nodes = append(c.Nodes, status)
	}
	var health map[rota.NodeID]rota.NodeHealth
	c.Autopilot, health = cv.autopilotOf(views[c.Leader])
	for i := range c.Nodes {
		c.Nodes[i].NodeHealth = health[c.Nodes[i].ID]
	}
	slices.SortFunc(c.Nodes, func(a, b rota.NodeStatus) int { return cmp.Compare(a.ID, b.ID) })
	return c, nil
}

// autopilotOf returns the assessment of the voters: the leader's, if the leader is another node and answered.
func (cv *clusterVerbs) autopilotOf(leader peerView) (rota.Autopilot, map[rota.NodeID]rota.NodeHealth) {
	a, list := cv.n.autopilot.Report()
	if len(leader.health) > 0 {
		a, list = leader.autopilot, leader.health
	}
	health := make(map[rota.NodeID]rota.NodeHealth, len(list))
	for _, h := range list {
		health[h.ID] = h.NodeHealth
	}
	return a, health
}

// Peers lists Raft's configuration, each server with the leader's information about it.
func (cv *clusterVerbs) Peers(ctx context.Context) ([]rota.RaftPeer, error) {
	_, leader := cv.n.raft.LeaderWithID()
	var peers []rota.RaftPeer
	servers := cv.n.membership.servers()
	lead := slices.DeleteFunc(slices.Clone(servers), func(s raft.Server) bool { return s.ID != leader })
	_, health := cv.autopilotOf(cv.n.watch.inspectAll(lead, nil)[rota.NodeID(leader)])
	for _, s := range servers {
		peers = append(peers, rota.RaftPeer{ID: rota.NodeID(s.ID), Address: string(s.Address),
			Voter: s.Suffrage == raft.Voter, Leader: s.ID == leader, NodeHealth: health[rota.NodeID(s.ID)]})
	}
	return peers, nil
}

// CheckAt checks this node's invariants once it has applied an index.
func (cv *clusterVerbs) CheckAt(ctx context.Context, index rota.Index) (rota.NodeVerdict, error) {
	v := rota.NodeVerdict{ID: cv.n.cfg.Node, Index: index, Violations: []string{}}
	if err := cv.n.replica.WaitApplied(ctx, index); err != nil {
		return v, err
	}
	var head fsm.Head
	var held []archive.EventEntry
	var frozen *fsm.Frozen
	err := cv.n.replica.Freezing(func(m *fsm.Machine) { head, held, frozen = m.Head(), cv.n.events.Held(), m.Freeze() })
	if err != nil {
		return v, err
	}
	faults, err := cv.checkState(ctx, frozen)
	if err != nil {
		return v, err
	}
	v.Violations = append(v.Violations, faults...)
	v.Violations = append(v.Violations, cv.n.events.Verify(head, held)...)
	v.Violations = append(v.Violations, cv.n.archive.Check(frozen)...)
	switch d := cv.n.replica.Digests.Get(index); {
	case d != nil:
		v.Digest = *d
	case head.Index == index:
		v.Digest = head.Digest
	default:
		return v, rota.Refusef(rota.KindOutOfRange, "index", "the digest at index %d is no longer kept here", index)
	}
	return v, nil
}

// checkState checks the invariants. For a large state it checks a copy, so that applying does not wait; data derived in
// memory is then the copy's own.
func (cv *clusterVerbs) checkState(ctx context.Context, f *fsm.Frozen) ([]string, error) {
	if f.Rows() <= cv.n.cfg.checkedHere {
		return cv.n.replica.Check(), nil
	}
	leave, err := cv.n.explainer.Reader.Alone(ctx) // it needs memory for a second state, like a read of the past
	if err != nil {
		return nil, err
	}
	defer leave()
	m, err := f.Thaw()
	if err != nil {
		return []string{"the state cannot be copied: " + err.Error()}, nil
	}
	return m.Check(), nil
}

// Verify makes every node check its invariants, and compares their digests at one index.
func (cv *clusterVerbs) Verify(ctx context.Context) (rota.Verdict, error) {
	index, err := cv.n.replica.BarrierIndex(ctx)
	if err != nil {
		return rota.Verdict{}, err
	}
	verdict := rota.Verdict{Index: index, Equal: true}
	for _, s := range cv.n.membership.servers() {
		id := rota.NodeID(s.ID)
		var v rota.NodeVerdict
		var err error
		if id == cv.n.cfg.Node {
			v, err = cv.CheckAt(ctx, index)
		} else if to, ok := cv.n.membership.address(id); ok {
			v, err = cv.n.peers.CheckAt(ctx, to, index)
		} else {
			err = rota.Refusef(rota.KindUnavailable, "node", "node %s was never seen in gossip: is it up?", id)
		}
		if err != nil {
			v = rota.NodeVerdict{ID: id, Index: index, Violations: []string{}, Error: err.Error()}
		}
		verdict.Nodes = append(verdict.Nodes, v)
		if v.Error != "" || len(v.Violations) > 0 || v.Digest != verdict.Nodes[0].Digest {
			verdict.Equal = false
		}
	}
	return verdict, nil
}

// ownViews returns this node's view of each other server in raft's configuration.
func (cv *clusterVerbs) ownViews() (views []peer.NodeView) {
	members := make(map[rota.NodeID]gossip.Member)
	for _, m := range cv.n.gossip.Members() {
		members[m.ID] = m
	}
	_, leader := cv.n.raft.LeaderWithID()
	_, health := cv.n.autopilot.Report()
	wall, boot := rota.Date(cv.n.wall().UnixMilli()), cv.n.sinceBoot()
	for _, s := range cv.n.membership.servers() {
		id := rota.NodeID(s.ID)
		if id == cv.n.cfg.Node {
			continue
		}
		v := peer.NodeView{ID: id, Gossip: "UNKNOWN", AnsweredMs: -1, RaftMs: -1}
		if m, known := members[id]; known {
			v.Gossip = "GONE"
			if m.Alive {
				v.Gossip = "ALIVE"
			}
		}
		seen, _ := cv.n.watch.view(id)
		if seen.heard != 0 {
			v.AnsweredMs = (boot - seen.heard).Milliseconds()
		}
		if seen.err != nil {
			v.Error = seen.err.Error()
		}
		if i := slices.IndexFunc(health, func(h peer.NodeHealth) bool {
			return h.ID == id && h.LastContact != 0
		}); i >= 0 {
			v.RaftMs = int64(max(0, wall-health[i].LastContact))
		} else if last := cv.n.raft.LastContact(); s.ID == leader && !last.IsZero() {
			v.RaftMs = max(0, time.Since(last).Milliseconds())
		}
		views = append(views, v)
	}
	return views
}

// Views collects each node's views of the others. It works without a leader.
func (cv *clusterVerbs) Views(context.Context) ([]peer.NodeViews, error) {
	all := []peer.NodeViews{{ID: cv.n.cfg.Node, Views: cv.ownViews()}}
	for id, v := range cv.n.watch.inspectAll(cv.n.membership.servers(), nil) {
		of := peer.NodeViews{ID: id, Views: v.others}
		if v.err != nil {
			of.Error = "does not answer: " + v.err.Error()
		}
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b peer.NodeViews) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}
