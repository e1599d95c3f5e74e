package cluster

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/caller"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/internal/peer"
)

// RemovePeer permanently removes a node from the cluster: its id can never return. It fails if too few healthy voters
// would be left.
func (mb *membership) RemovePeer(ctx context.Context, id rota.NodeID) error {
	return mb.atLeader(ctx, func() error { return mb.RemoveHere(ctx, id) },
		func(at peer.NodeAddress) error { return mb.n.peers.RemovePeer(ctx, at, id) })
}

// RemoveHere removes a node if this one is the leader.
func (mb *membership) RemoveHere(ctx context.Context, id rota.NodeID) error {
	if mb.terms.leading() == nil {
		return fault.NotLeader()
	}
	if err := mb.mayOperate(ctx); err != nil {
		return err
	}
	return mb.remove(ctx, id, "")
}

// remove removes a node from the cluster. Removals run one at a time, since each is judged by the nodes that would be
// left. why is the leader's own reason, empty for a request.
func (mb *membership) remove(ctx context.Context, id rota.NodeID, why string) error {
	select {
	case mb.removing <- struct{}{}:
		defer func() { <-mb.removing }()
	case <-ctx.Done():
		return fault.Deadline(ctx, "waiting for another removal")
	}
	op := &fsmpb.SetNode{Id: string(id), Removed: true, Reason: why}
	left, err := mb.wouldBeLeft(id, why != "")
	if err != nil {
		return err
	}
	if why == "" {
		op.Voters = left
	}
	l := mb.terms.leading()
	if l == nil {
		return fault.NotLeader()
	}
	if err := l.All(ctx, caller.Sign(ctx, []*fsmpb.Op{{Op: &fsmpb.Op_SetNode{SetNode: op}}})); err != nil {
		return err
	}
	failpoint.Pass("removal-before-configuration")
	// If this fails, reconcile completes it: the id is rejected from now on.
	if err := mb.n.settled(mb.n.raft.RemoveServer(raft.ServerID(id), 0, raftTimeout)); err != nil {
		return &rota.Error{Kind: rota.KindUnavailable, Text: "the node was not removed", Cause: err,
			RetryAfter: time.Second}
	}
	return nil
}

// wouldBeLeft returns how many voters would remain without a voter, 0 for a node without a vote, or why it must not be
// removed. A dead one must still be unreachable.
func (mb *membership) wouldBeLeft(id rota.NodeID, dead bool) (left uint32, err error) {
	of := mb.n.replica.Member(id)
	_, alive := mb.member(id)
	healthy, voters, voter, member := 0, 0, false, (of.Known || alive) && !of.Removed // it may be about to be added
	servers := mb.servers()
	views := mb.watch.inspectAll(servers, nil)
	for _, s := range servers {
		if rota.NodeID(s.ID) == id {
			member, voter = true, s.Suffrage == raft.Voter
			continue
		}
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if rota.NodeID(s.ID) == mb.n.cfg.Node || views[rota.NodeID(s.ID)].err == nil {
			healthy++
		}
	}
	switch {
	case !member && of.Removed:
		return 0, rota.Refusef(rota.KindNotFound, fault.SubjectRemoved, "node %q is no longer a member", id)
	case !member:
		return 0, rota.Refusef(rota.KindNotFound, "node", "node %q is not a member", id)
	case voters == 0 || healthy <= voters/2:
		return 0, rota.Refusef(rota.KindConflict, "node",
			"without node %s only %d of %d voters would be healthy: bring others back first",
			id, healthy, voters)
	case dead && views[id].err == nil:
		return 0, rota.Refusef(rota.KindConflict, "node", "node %s answers again: it stays", id)
	case id == mb.n.cfg.Node:
		return 0, rota.Refusef(rota.KindConflict, "node",
			"node %s leads: use `operator raft leave` there, or hand over first", id)
	}
	if voter {
		left = uint32(min(voters, rota.MaxVoters))
	}
	return left, nil
}

const (
	// leaveTry bounds one request of a leaving node: another member may answer.
	leaveTry = 5 * time.Second
	// unheardOf is how long a leaving node must be unknown to all members before it concludes that it never was one:
	// its gossip may still be in transit, and if it left before that arrives, it would be added afterwards.
	unheardOf = 3 * time.Second
)

// Leave hands over leadership, removes this node from the configuration and ends it once the answer is sent. Its id can
// never return.
func (mb *membership) Leave(ctx context.Context) error {
	switch servers := mb.servers(); {
	case len(servers) == 0 && len(mb.others()) == 0:
		return rota.Refusef(rota.KindConflict, "node",
			"node %s has met no other: there is no cluster to leave, stop it", mb.n.cfg.Node)
	case mb.onlyVoter():
		return rota.Refusef(rota.KindConflict, "node", "node %s is the only voter: a cluster cannot be left by all",
			mb.n.cfg.Node)
	}
	if mb.terms.leading() != nil {
		if _, err := mb.TransferLeadership(ctx, ""); err != nil {
			return err
		}
	}
	var unknown time.Duration // when a member first did not know it; others may be dead
	for turn := 0; ; turn++ {
		err := mb.leaveOnce(ctx, turn)
		var refusal *rota.Error
		removed := errors.As(err, &refusal) && refusal.Subject == fault.SubjectRemoved
		missing := refusal != nil && (refusal.Kind == rota.KindNotFound || refusal.Kind == rota.KindDenied &&
			unrecorded(err))
		if missing && unknown == 0 {
			unknown = mb.n.sinceBoot()
		}
		switch {
		case err == nil,
			removed, // by a call whose answer was lost
			missing && mb.n.sinceBoot()-unknown > unheardOf:
			failpoint.Pass("leave-before-end")
			mb.leftOnce.Do(func() { close(mb.left) })
			return nil
		case missing, fault.IsNotLeader(err), rota.KindOf(err) == rota.KindUnavailable, rota.KindOf(err) == rota.KindTimeout:
			if end := mb.leader.pause(ctx, 25*time.Millisecond); end != nil {
				return givenUp(end, err)
			}
		default:
			return err
		}
	}
}

// leaveOnce asks the leader to remove this node, or the other members in turn if it knows no leader: once the node is
// removed from the configuration it no longer learns which node leads, and it may have missed the answer. Only the
// leader acts on the request.
func (mb *membership) leaveOnce(ctx context.Context, turn int) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTry)
	defer cancel()
	to, ok := mb.Leader()
	others := mb.others()
	switch {
	case ok:
	case mb.terms.leading() != nil: // leadership came back
		if _, err := mb.TransferHere(ctx, ""); err != nil {
			return err
		}
		return fault.NotLeader() // the new leader is asked next
	case len(others) == 0:
		return fault.NotLeader()
	default:
		to = others[turn%len(others)]
	}
	return mb.n.peers.RemovePeer(ctx, to, mb.n.cfg.Node)
}

// others returns the other members that are alive in gossip.
func (mb *membership) others() (all []peer.NodeAddress) {
	for _, m := range mb.aliveMembers() {
		if m.ID != mb.n.cfg.Node && m.API != "" {
			all = append(all, peer.NodeAddress{ID: m.ID, API: m.API})
		}
	}
	return all
}

// atLeader runs a call here if this node is the leader, otherwise relays it to the leader once; while there is none it
// waits (SPEC §13.1).
func (mb *membership) atLeader(ctx context.Context, here func() error, there func(to peer.NodeAddress) error) error {
	for {
		var last error
		if mb.terms.leading() != nil {
			if last = here(); !fault.IsNotLeader(last) {
				return last
			}
		} else if to, ok := mb.Leader(); ok {
			if last = there(to); !fault.IsNotLeader(last) {
				return last
			}
		}
		if err := mb.leader.pause(ctx, 25*time.Millisecond); err != nil {
			return givenUp(err, last)
		}
	}
}

// TransferLeadership hands over to a voter, or to the one that Raft considers best.
func (mb *membership) TransferLeadership(ctx context.Context, to rota.NodeID) (leader rota.NodeID, err error) {
	err = mb.atLeader(ctx, func() (err error) { leader, err = mb.TransferHere(ctx, to); return err },
		func(at peer.NodeAddress) (err error) {
			leader, err = mb.n.peers.TransferLeadership(ctx, at, to)
			return err
		})
	return leader, err
}

// TransferHere hands over if this node is the leader.
func (mb *membership) TransferHere(ctx context.Context, to rota.NodeID) (rota.NodeID, error) {
	if mb.terms.leading() == nil {
		return "", fault.NotLeader()
	}
	if err := mb.mayOperate(ctx); err != nil {
		return "", err
	}
	if to == mb.n.cfg.Node {
		return to, nil
	}
	successor, err := mb.awaitSuccessor(ctx, to)
	if err != nil {
		return "", err
	}
	if err := mb.n.settledWithin(ctx, mb.n.raft.LeadershipTransferToServer(successor.ID,
		successor.Address)); err != nil {
		return "", &rota.Error{Kind: rota.KindUnavailable, Text: "leadership was not handed over", Cause: err,
			RetryAfter: time.Second}
	}
	for {
		if _, id := mb.n.raft.LeaderWithID(); id != "" && rota.NodeID(id) != mb.n.cfg.Node {
			return rota.NodeID(id), nil
		}
		if err := mb.leader.pause(ctx, 10*time.Millisecond); err != nil {
			return "", givenUp(err, nil)
		}
	}
}

// awaitSuccessor is successor, retried for a while if the only obstacle is a missing answer.
func (mb *membership) awaitSuccessor(ctx context.Context, named rota.NodeID) (raft.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, successorWait)
	defer cancel()
	for {
		s, err := mb.successor(named)
		if !errors.Is(err, errSilent) || mb.leader.pause(ctx, 50*time.Millisecond) != nil {
			return s, err
		}
	}
}

// successor returns the voter to hand leadership to: the named one, or among those with the most disk space the one
// that has applied most. It must answer now: hashicorp/raft accepts no entry while it waits, up to ten seconds, for a
// successor that hangs.
func (mb *membership) successor(named rota.NodeID) (best raft.Server, err error) {
	servers := mb.servers()
	views := mb.watch.inspectAll(servers, nil)
	err = rota.Refusef(rota.KindConflict, "node", "no other voter answers: leadership stays here")
	if named != "" {
		err = rota.Refusef(rota.KindNotFound, "node", "node %q is not a member", named)
	}
	level, applied, found := diskRoomy, rota.Index(0), false
	for _, s := range servers {
		id := rota.NodeID(s.ID)
		v, other := views[id]
		switch {
		case !other || named != "" && id != named:
		case s.Suffrage != raft.Voter:
			if named != "" {
				err = rota.Refusef(rota.KindConflict, "node", "node %s is not a voter yet: wait until it has caught up",
					id)
			}
		case v.err != nil:
			if named != "" {
				refusal := rota.Refusef(rota.KindConflict, "node", "node %s cannot lead now", id)
				refusal.Cause = errSilent
				err = refusal
			}
		case v.status.State == stateRebuilding:
			if named != "" {
				err = rota.Refusef(rota.KindConflict, "node", "node %s rebuilds its state: it cannot lead now", id)
			}
		case v.status.State == stateStalled:
			if named != "" {
				err = rota.Refusef(rota.KindConflict, "node", "node %s stalls: it cannot lead now", id)
			}
		case !found || v.disk.level < level || v.disk.level == level && v.status.AppliedIndex > applied:
			best, level, applied, found = s, v.disk.level, v.status.AppliedIndex, true
		}
	}
	if found {
		return best, nil
	}
	return best, err
}

// successorWait is how long a named node may take to answer: one that was just started answers its own clients before
// this node's connection to it is restored.
const successorWait = 5 * time.Second

// errSilent is the error for a successor that may yet answer.
var errSilent = errors.New("no answer came in time")

// mayOperate returns an error if the context's caller has no right to remove members or transfer leadership; a node
// acting by itself has it.
func (mb *membership) mayOperate(ctx context.Context) (refusal error) {
	ops := caller.Sign(ctx, []*fsmpb.Op{{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Removed: true}}}})
	err := mb.n.replica.View(func(s *fsm.View) {
		if denied := s.Denied(ops); denied != nil {
			refusal = entry.OutcomeError(denied[0])
		}
	})
	return cmp.Or(refusal, err)
}
