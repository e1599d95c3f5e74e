package cluster

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/cluster/stream"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/logs"
	"github.com/rotasched/rota/internal/peer"
)

// knownCluster is the cluster's id once it is known.
type knownCluster struct {
	mu sync.Mutex
	id rota.ClusterID
}

// ClusterID returns the cluster's id; it is empty until the cluster's first leader chose it.
func (mb *membership) ClusterID() rota.ClusterID {
	mb.known.mu.Lock()
	defer mb.known.mu.Unlock()
	return mb.known.id
}

// Name returns the --cluster name.
func (mb *membership) Name() string { return mb.n.cfg.Cluster }

// ID returns the node's id.
func (mb *membership) ID() rota.NodeID { return mb.n.cfg.Node }

// learnCluster records the cluster's id, once. A state of another cluster than the data directory's ends the process.
func (mb *membership) learnCluster() {
	id := mb.n.replica.Head().ClusterID
	mb.known.mu.Lock()
	defer mb.known.mu.Unlock()
	if id == "" || id == mb.known.id {
		return
	}
	if err := mb.n.data.SetClusterID(id); err != nil {
		mb.n.fatal(err)
		return
	}
	mb.known.id = id
	go func() { _ = mb.n.gossip.UpdateMeta(func(m *gossip.Meta) { m.ClusterID = id }) }()
}

// handed returns the newest entry that raft has delivered for applying, 0 before it runs.
func (mb *membership) handed() rota.Index {
	if r := mb.started.Load(); r != nil {
		return rota.Index(r.AppliedIndex())
	}
	return 0
}

// hello returns this node's hello, sent before the first byte of raft.
func (mb *membership) hello() stream.Hello {
	return stream.Hello{ClusterName: mb.n.cfg.Cluster, ClusterID: mb.ClusterID(), Node: mb.n.cfg.Node,
		Identity: mb.n.data.Identity()}
}

// admit rejects the raft connection of a node that is not recorded, with two exceptions: raft's own configuration sent
// this node there, or the other may be the leader that this one lacks. A node that was paused, or founds, learns of its
// leader only through raft.
func (mb *membership) admit(other stream.Hello) error {
	if mb.n.cfg.admitted != nil {
		if err := mb.n.cfg.admitted(other.Node); err != nil {
			return err
		}
	}
	var of replica.Member
	if !mb.n.replica.Peek(func(s *fsm.View) { of = replica.MemberOf(s, other.Node) }) {
		return fault.Stalled() // otherwise connections would pile up meanwhile
	}
	err := mb.judge(of, other.Node, other.Identity)
	if !unrecorded(err) {
		return err
	}
	if leader := mb.heard(); other.Dialled || leader == "" || leader == other.Node {
		return nil
	}
	return err
}

// heard returns the leader known to raft.
func (mb *membership) heard() rota.NodeID {
	r := mb.started.Load()
	if r == nil {
		return ""
	}
	_, id := r.LeaderWithID()
	return rota.NodeID(id)
}

// Recorded returns an error if the state does not record the node with this data directory.
func (mb *membership) Recorded(id rota.NodeID, identity string) error {
	of, ok := mb.n.replica.PeekMember(id)
	if !ok {
		return rota.Refusef(rota.KindUnavailable, peer.Unrecorded,
			"applying has stalled on this node, which cannot look up node %s: ask another", id)
	}
	return mb.judge(of, id, identity)
}

// judge is Recorded for the state's record of the node. Until the state has the founders, those that proved themselves
// at the founding count.
func (mb *membership) judge(of replica.Member, id rota.NodeID, identity string) error {
	if !of.Known {
		of.Identity, of.Known = mb.n.data.Founders()[id]
	}
	switch {
	case of.Removed:
		return fault.Removed(id)
	case of.Known && of.Identity != identity && !planted.sameIDRejoin():
		return rota.Refusef(rota.KindDenied, "node", "node id %s belongs to another data directory", id)
	case of.Known:
		return nil
	case mb.terms.leading() != nil:
		return rota.Refusef(rota.KindDenied, peer.Unrecorded, "node %s is not a member of this cluster", id)
	}
	return rota.Refusef(rota.KindUnavailable, peer.Unrecorded,
		"this node does not know node %s yet: ask again, or the leader", id)
}

// mayCall rejects calls to a node that is neither in raft's configuration nor in the state.
func (mb *membership) mayCall(id rota.NodeID) error {
	if slices.ContainsFunc(mb.servers(), func(s raft.Server) bool { return rota.NodeID(s.ID) == id }) {
		return nil
	}
	if of, ok := mb.n.replica.PeekMember(id); ok && of.Known && !of.Removed {
		return nil
	}
	return &rota.Error{Kind: rota.KindUnavailable, Subject: fault.SubjectNotSent,
		Text: "this node does not know node " + string(id) + " yet"}
}

// unrecorded reports whether a node was rejected because the state does not record it.
func unrecorded(err error) bool {
	var refusal *rota.Error
	return errors.As(err, &refusal) && refusal.Subject == peer.Unrecorded
}

// refuseRemoved returns an error for a node that was removed from the cluster, including this one.
func (mb *membership) refuseRemoved(id rota.NodeID) error {
	if !mb.n.replica.Member(id).Removed {
		return nil
	}
	return fault.Removed(id)
}

// Introduce decides about a starting node: nil lets it start. Kind Conflict rejects it permanently; Unavailable makes
// it ask again, as this node does not know yet.
func (mb *membership) Introduce(in peer.Introduction) error {
	if mb.n.raft != nil && in.Fresh && mb.ClusterID() == "" && in.Identity != "" &&
		mb.n.data.Founders()[in.Node] == in.Identity {
		return nil // a founder, and awaited: without it there may be no majority
	}
	if err := mb.marks.judge(in); err != nil {
		return err
	}
	if mb.n.raft == nil || mb.Ready() != nil {
		return &rota.Error{Kind: rota.KindUnavailable, Text: "this node has not caught up and cannot judge yet"}
	}
	var of replica.Member
	if err := mb.n.replica.View(func(s *fsm.View) { of = replica.MemberOf(s, in.Node) }); err != nil {
		return err
	}
	if err := fault.Older(in, mb.n.replica.RulesInForce()); err != nil {
		return err
	}
	switch {
	case !of.Known, planted.sameIDRejoin() && !of.Removed:
		return nil
	case of.Removed:
		return rota.Refusef(rota.KindConflict, "node",
			"node %s was removed from the cluster: start on an empty data directory "+
				"with a --node id that was never used", in.Node)
	case of.Identity != in.Identity && in.Fresh:
		return rota.Refusef(rota.KindConflict, "node",
			"node id %s is known to the cluster but this data directory is empty: its votes and entries are lost. "+
				"Put its old directory back. Or remove the node (rota operator raft remove-peer %s), and start with a "+
				"new --node id and another empty --data, as this directory has the old id",
			in.Node, in.Node)
	case of.Identity != in.Identity:
		return rota.Refusef(rota.KindConflict, "node",
			"node id %s belongs to another data directory of this cluster: start with "+
				"the right --data, or with a new --node id and an empty --data", in.Node)
	case in.Starts < of.Starts:
		return rota.Refusef(rota.KindConflict, "node",
			"this data directory of node %s is at start %d but the cluster saw start %d: "+
				"it is an old copy. Use the newest one, or join with a new --node id on an empty one", in.Node,
			in.Starts, of.Starts)
	}
	return nil
}

// member finds an alive gossip member.
func (mb *membership) member(id rota.NodeID) (gossip.Member, bool) {
	for _, m := range mb.n.gossip.Members() {
		if m.ID == id && m.Alive {
			return m, true
		}
	}
	return gossip.Member{}, false
}

// raftAddress returns a node's raft address in gossip.
func (mb *membership) raftAddress(id rota.NodeID) (string, bool) {
	m, ok := mb.member(id)
	return m.Raft, ok && m.Raft != ""
}

// Leader returns the leader's address; ok is false while there is none, or it is this node itself.
func (mb *membership) Leader() (leader peer.NodeAddress, ok bool) {
	_, id := mb.n.raft.LeaderWithID()
	if id == "" || rota.NodeID(id) == mb.n.cfg.Node {
		return peer.NodeAddress{}, false
	}
	return mb.address(rota.NodeID(id))
}

// address returns the address where a node serves others; it is remembered after gossip loses the node.
func (mb *membership) address(id rota.NodeID) (peer.NodeAddress, bool) {
	if m, ok := mb.member(id); ok && m.API != "" {
		mb.watch.remember(id, m.API)
		return peer.NodeAddress{ID: id, API: m.API}, true
	}
	api, ok := mb.watch.remembered(id)
	return peer.NodeAddress{ID: id, API: api}, ok
}

// membership is this node's place among the others: its identity, the nodes that it knows, and how nodes come and go.
type membership struct {
	n      *base
	leader *leaderWatch
	marks  *marks
	terms  *terms
	watch  *watcher
	known  knownCluster
	// started is the node's raft, once it runs: connections may arrive earlier.
	started atomic.Pointer[raft.Raft]
	// left is closed when the node has left on request.
	left     chan struct{}
	leftOnce sync.Once
	// removing has room for one removal at a time by the leader.
	removing chan struct{}
	waiting  waiting
}

// otherVoters counts the voters other than this node.
func (mb *membership) otherVoters() int {
	count := 0
	for _, s := range mb.servers() {
		if s.Suffrage == raft.Voter && rota.NodeID(s.ID) != mb.n.cfg.Node {
			count++
		}
	}
	return count
}

// onlyVoter reports whether this node is the only voter. A node that is still joining a cluster knows no voter at all.
func (mb *membership) onlyVoter() bool { return mb.otherVoters() == 0 && mb.votes() }

// votes reports whether this node has a vote.
func (mb *membership) votes() bool {
	return slices.ContainsFunc(mb.servers(), func(s raft.Server) bool {
		return rota.NodeID(s.ID) == mb.n.cfg.Node && s.Suffrage == raft.Voter
	})
}

// keepsVote is the problem text of a voter that was started with --non-voter.
const keepsVote = "it was started with --non-voter, and keeps the vote that it has: remove it and start a node with a " +
	"new id, or start it without the flag"

// servers returns raft's latest configuration.
func (mb *membership) servers() []raft.Server {
	if mb.n.raft == nil {
		return nil // it is still founding or joining
	}
	f := mb.n.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// otherServers returns the other nodes of the configuration, with an empty address for a node never seen in gossip, and
// whether this node is a member itself.
func (mb *membership) otherServers() (others []peer.NodeAddress, member bool) {
	for _, s := range mb.servers() {
		id := rota.NodeID(s.ID)
		if id == mb.n.cfg.Node {
			member = true
			continue
		}
		to, _ := mb.address(id)
		others = append(others, to)
	}
	return others, member
}

// Left is closed once the node has left the cluster at an operator's request.
func (mb *membership) Left() <-chan struct{} { return mb.left }

func (mb *membership) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	t := mb.n.cfg.Timing
	c.LocalID = raft.ServerID(mb.n.cfg.Node)
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = t.Heartbeat, t.Election, t.LeaderLease
	c.CommitTimeout = t.Commit
	c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = t.SnapshotThreshold, t.TrailingLogs, t.SnapshotInterval
	c.NotifyCh = mb.terms.notify
	c.Logger = logs.ForRaft(logs.Quieting(mb.n.log, &mb.n.quiet))
	c.NoLegacyTelemetry = true
	failpointRaft(c)
	return c
}

// Ready returns nil if this node knows a leader and has caught up with it.
func (mb *membership) Ready() error {
	if mb.n.stopping() {
		return fault.Stopping()
	}
	if err := mb.n.replica.RefuseRebuilding(); err != nil {
		return err
	}
	var term uint64
	var of replica.Member
	if !mb.n.replica.Peek(func(s *fsm.View) { term, of = s.Head().Term, replica.MemberOf(s, mb.n.cfg.Node) }) {
		return fault.Stalled()
	}
	if of.Removed {
		return fault.Removed(mb.n.cfg.Node)
	}
	if err := mb.watch.stillMember(); err != nil {
		return err
	}
	if _, id := mb.n.raft.LeaderWithID(); id == "" {
		return fault.NoLeader(nil)
	}
	if now := mb.n.raft.CurrentTerm(); term != now {
		return rota.Refusef(rota.KindUnavailable, "node",
			"this node has applied term %d, the cluster is in term %d: it is catching up",
			term, now)
	}
	return mb.leader.behind() // it may have been down within one term
}

// serverIDs lists the members of Raft's configuration.
func (mb *membership) serverIDs() (ids []rota.NodeID) {
	for _, s := range mb.servers() {
		ids = append(ids, rota.NodeID(s.ID))
	}
	return ids
}

// waiting is the state of a node that waits for others.
type waiting struct {
	mu      sync.Mutex
	refused map[string]bool // the --join addresses that reject its gossip
	said    time.Time
}
