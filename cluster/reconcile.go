package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// voterAfter is how long a non-voter must have kept up before it gets a vote.
const voterAfter = 5 * time.Second

// reconcileLoop aligns Raft's configuration with gossip, which may suggest and never decides: a member's id and data
// directory are recorded in the log first, and the log rejects an id that was removed or belongs to another directory
// (SPEC §13.4).
func (mb *membership) reconcileLoop(l *leadership) {
	tick := mb.n.ticker(time.Second)
	defer tick.Stop()
	for {
		mb.reconcileOnce(l)
		mb.switchRules(l) // in this loop, which alone creates voters
		select {
		case <-tick.Tick():
		case <-mb.n.gossip.Changed():
		case <-l.ctx.Done():
			return
		}
	}
}

func (mb *membership) reconcileOnce(l *leadership) {
	servers := make(map[rota.NodeID]raft.Server)
	voters := 0
	for _, s := range mb.servers() {
		servers[rota.NodeID(s.ID)] = s
		if s.Suffrage == raft.Voter {
			voters++
		}
	}
	for _, m := range mb.aliveMembers() {
		if m.Identity == "" || m.ClusterID != "" && m.ClusterID != mb.ClusterID() {
			continue
		}
		s, member := servers[m.ID]
		if (!member || string(s.Address) != m.Raft || !mb.proved(m)) && !mb.vouches(l.ctx, m) {
			continue
		}
		if !mb.recorded(l, m) {
			continue
		}
		var err error
		switch {
		case !member:
			mb.n.log.Info("adding a node", "other_node", string(m.ID), "raft", m.Raft)
			err = mb.n.settled(mb.n.raft.AddNonvoter(raft.ServerID(m.ID), raft.ServerAddress(m.Raft), 0, raftTimeout))
		case string(s.Address) != m.Raft:
			mb.n.log.Info("a node has a new address", "other_node", string(m.ID), "raft", m.Raft)
			err = mb.changeServer(s.Suffrage, m)
		case s.Suffrage == raft.Nonvoter && voters < rota.MaxVoters && mb.caughtUp(m.ID):
			mb.n.log.Info("a node has caught up and gets a vote", "other_node", string(m.ID))
			if err = mb.changeServer(raft.Voter, m); err == nil {
				voters++
			}
		}
		if err != nil && l.ctx.Err() == nil && mb.n.lines.Allow("membership/"+string(m.ID)) {
			mb.n.log.Warn("membership was not changed", "other_node", string(m.ID), "err", err)
		}
		if err != nil {
			return
		}
	}
	mb.finishRemovals(servers)
}

// proved reports whether a node found by gossip has proved its data directory before: the state records that, or it
// founded the cluster together with this one.
func (mb *membership) proved(m gossip.Member) bool {
	return mb.n.replica.Member(m.ID).Known || mb.n.data.Founders()[m.ID] == m.Identity
}

// vouches asks a node found by gossip, over the connections that nodes trust (mutual TLS, if configured), whether it is
// the node that gossip describes: gossip alone makes no member.
func (mb *membership) vouches(ctx context.Context, m gossip.Member) bool {
	if m.ID == mb.n.cfg.Node {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	in, err := mb.n.peers.Inspect(ctx, peer.NodeAddress{ID: m.ID, API: m.API}, nil)
	if err == nil && in.Status.ID == m.ID && in.Status.Raft == m.Raft && in.Identity == m.Identity {
		return true
	}
	if mb.n.lines.Allow("vouch/" + string(m.ID)) {
		mb.n.log.Warn("a node that gossip suggests does not answer for itself and is not added", "other_node",
			string(m.ID),
			"api", m.API, "raft", m.Raft, "answered_as", string(in.Status.ID), "identity", in.Identity, "err", err)
	}
	return false
}

// finishRemovals removes nodes from the configuration that were removed in the log: the leader that began a removal may
// not have completed it.
func (mb *membership) finishRemovals(servers map[rota.NodeID]raft.Server) {
	for id := range servers {
		if id == mb.n.cfg.Node || mb.refuseRemoved(id) == nil {
			continue
		}
		err := mb.n.settled(mb.n.raft.RemoveServer(raft.ServerID(id), 0, raftTimeout))
		mb.n.log.Info("a removed node is no longer in the configuration", "other_node", string(id), "err", err)
	}
}

func (mb *membership) changeServer(as raft.ServerSuffrage, m gossip.Member) error {
	if as == raft.Voter {
		return mb.n.settled(mb.n.raft.AddVoter(raft.ServerID(m.ID), raft.ServerAddress(m.Raft), 0, raftTimeout))
	}
	return mb.n.settled(mb.n.raft.AddNonvoter(raft.ServerID(m.ID), raft.ServerAddress(m.Raft), 0, raftTimeout))
}

// recorded reports whether the log has the member's current data, and records it if not. Nothing that the state already
// rejects is proposed: a removed node that continues gossiping must not cause log writes.
func (mb *membership) recorded(l *leadership, m gossip.Member) bool {
	of := mb.n.replica.Member(m.ID)
	own := uint64(0)
	if m.ID == mb.n.cfg.Node {
		own = mb.n.data.Starts()
	}
	switch {
	case of.Removed:
		mb.refusedMember(m, "it was removed: start it on an empty data directory with a --node id that was never used")
		return false
	case of.Known && of.Identity != m.Identity && !planted.sameIDRejoin():
		mb.refusedMember(m, "its id belongs to another data directory: start it with a --node id that was never used")
		return false
	case of.Known && own <= of.Starts:
		return true
	}
	r := l.propose(l.ctx, []*fsmpb.Op{{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{
		Id: string(m.ID), Api: m.API, Raft: m.Raft, Identity: m.Identity, Starts: max(own, of.Starts)}}}}, true)
	if r.err != nil {
		return false
	}
	if e := entry.OutcomeError(r.outcomes[0]); e != nil {
		mb.refusedMember(m, e.Text)
		return false
	}
	return true
}

func (mb *membership) refusedMember(m gossip.Member, why string) {
	if mb.n.lines.Allow("member/" + string(m.ID)) {
		mb.n.log.Error("a node is refused", "other_node", string(m.ID), "gossip", m.Gossip, "why", why)
	}
}

// caughtUp reports whether a node without a vote that should get one has stayed close to the leader for long enough.
func (mb *membership) caughtUp(id rota.NodeID) bool {
	v, ok := mb.watch.view(id)
	return ok && v.err == nil && !v.status.NonVoter && v.closeSince != 0 && mb.n.sinceBoot()-v.closeSince >= voterAfter
}

// switchRules puts the newest version that every voter supports into force. It asks each voter now: an earlier answer
// may have come from another binary. A voter that does not answer may support less, so nothing changes without it.
func (mb *membership) switchRules(l *leadership) {
	in := mb.n.replica.RulesInForce()
	if mb.n.cfg.knows <= in {
		return
	}
	servers := mb.servers()
	views := mb.watch.inspectAll(servers, nil)
	next, voters := mb.n.cfg.knows, 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		id := rota.NodeID(s.ID)
		if id == mb.n.cfg.Node {
			continue
		}
		v := views[id]
		knows := max(v.status.RulesVersion, entry.FirstRules)
		if v.err != nil {
			knows = in
		}
		if knows <= in && mb.n.lines.Allow("rules/"+string(id)) {
			mb.n.log.Info("newer rules wait for a node", "other_node", string(id), "in_force", in, "known_here",
				mb.n.cfg.knows, "err", v.err)
		}
		next = min(next, knows)
	}
	if next <= in || voters == 0 {
		return
	}
	err := l.All(l.ctx, []*fsmpb.Op{{Op: &fsmpb.Op_SwitchRules{SwitchRules: &fsmpb.SwitchRules{Version: next}}}})
	if err == nil {
		mb.n.log.Info("newer rules are in force", "version", next, "before", in)
	} else if l.ctx.Err() == nil && mb.n.lines.Allow("rules") {
		mb.n.log.Warn("newer rules were not switched on", "version", next, "err", err)
	}
}
