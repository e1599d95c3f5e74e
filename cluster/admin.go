package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot/archive"
)

// clusterVerbs is what operators ask of the cluster itself.
type clusterVerbs struct{ n *Node }

// ownStatus is this node's word on itself, of one moment.
func (cv *clusterVerbs) ownStatus() rota.NodeStatus {
	var head fsm.Head
	if !cv.n.replica.peek(func(s *fsm.View) { head = s.Head() }) {
		head.Index = rota.Index(cv.n.replica.applied.Load())
		if d := cv.n.rebuilder.digests.get(head.Index); d != nil {
			head.Digest = *d
		}
	}
	problems := cv.n.problems()
	s := rota.NodeStatus{ID: cv.n.cfg.Node, API: cv.n.cfg.API, Raft: cv.n.cfg.Raft, State: strings.ToUpper(cv.n.raft.State().String()),
		Version: cv.n.cfg.Version, AppliedIndex: head.Index, Digest: head.Digest, Healthy: len(problems) == 0, Problems: problems,
		RulesVersion: cv.n.cfg.knows}
	switch {
	case cv.n.rebuilder.active.Load():
		s.State = stateRebuilding
	case cv.n.watchdog.stalled.Load() > 0:
		s.State = stateStalled
	}
	for _, server := range cv.n.membership.servers() {
		if rota.NodeID(server.ID) == cv.n.cfg.Node {
			s.Voter = server.Suffrage == raft.Voter
		}
	}
	return s
}

// Inspect tells this node's own state to another node.
func (cv *clusterVerbs) Inspect(_ context.Context, digestsAt []rota.Index) (rota.Inspection, error) {
	in := rota.Inspection{Status: cv.ownStatus(), ClusterID: cv.n.ClusterID(), WallMs: cv.n.wall().UnixMilli(),
		LastLogIndex: rota.Index(cv.n.raft.LastIndex()), DiskLevel: uint8(cv.n.disk.now())}
	rebuild := cv.n.data.Rebuild()
	in.DifferedAt, in.RightUntil = rota.Index(rebuild.At), rota.Index(rebuild.Agreed)
	for _, at := range digestsAt[:min(len(digestsAt), inspectMost)] {
		in.Digests = append(in.Digests, cv.n.rebuilder.digests.get(at))
	}
	return in, nil
}

// Status tells the whole cluster as this node sees it; it works without a leader.
func (cv *clusterVerbs) Status(context.Context) (rota.ClusterStatus, error) {
	c := rota.ClusterStatus{ClusterID: cv.n.ClusterID(), AppliedIndex: rota.Index(cv.n.replica.applied.Load()), RulesVersion: cv.n.replica.rules.Load()}
	cv.n.replica.peek(func(s *fsm.View) {
		head, mode := s.Head(), s.Mode()
		c.AppliedIndex, c.Clock, c.Date, c.RulesVersion = head.Index, head.Clock, head.Date, head.Rules
		c.Mode, c.ModeReason, c.Drained = head.Mode, mode.Reason, mode.Drained
		c.Jobs, c.Workers = s.Counts(), s.WorkerCount()
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
	slices.SortFunc(c.Nodes, func(a, b rota.NodeStatus) int { return cmp.Compare(a.ID, b.ID) })
	return c, nil
}

// Peers lists Raft's configuration.
func (cv *clusterVerbs) Peers(context.Context) ([]rota.RaftPeer, error) {
	_, leader := cv.n.raft.LeaderWithID()
	var peers []rota.RaftPeer
	for _, s := range cv.n.membership.servers() {
		peers = append(peers, rota.RaftPeer{ID: rota.NodeID(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter,
			Leader: s.ID == leader})
	}
	return peers, nil
}

// atLeader carries a call out here if this node leads, else relays it to the
// leader once; while there is none it waits (SPEC §13.1).
func (cv *clusterVerbs) atLeader(ctx context.Context, here func() error, there func(to rota.NodeAddress) error) error {
	for {
		var last error
		if cv.n.terms.leading() != nil {
			if last = here(); !isNotLeader(last) {
				return last
			}
		} else if to, ok := cv.n.Leader(); ok {
			if last = there(to); !isNotLeader(last) {
				return last
			}
		}
		if err := cv.n.leader.pause(ctx, 25*time.Millisecond); err != nil {
			return givenUp(err, last)
		}
	}
}

// TransferLeadership hands over to a voter, or to the one that Raft finds best.
func (cv *clusterVerbs) TransferLeadership(ctx context.Context, to rota.NodeID) (leader rota.NodeID, err error) {
	err = cv.atLeader(ctx, func() (err error) { leader, err = cv.TransferHere(ctx, to); return err },
		func(at rota.NodeAddress) (err error) {
			leader, err = cv.n.peers.TransferLeadership(ctx, at, to)
			return err
		})
	return leader, err
}

// TransferHere hands over if this node leads.
func (cv *clusterVerbs) TransferHere(ctx context.Context, to rota.NodeID) (rota.NodeID, error) {
	if cv.n.terms.leading() == nil {
		return "", notLeader()
	}
	if to == cv.n.cfg.Node {
		return to, nil
	}
	successor, err := cv.awaitSuccessor(ctx, to)
	if err != nil {
		return "", err
	}
	if err := cv.n.settledWithin(ctx, cv.n.raft.LeadershipTransferToServer(successor.ID, successor.Address)); err != nil {
		return "", &rota.Error{Kind: rota.Unavailable, Text: "leadership was not handed over", Cause: err, RetryAfter: time.Second}
	}
	for {
		if _, id := cv.n.raft.LeaderWithID(); id != "" && rota.NodeID(id) != cv.n.cfg.Node {
			return rota.NodeID(id), nil
		}
		if err := cv.n.leader.pause(ctx, 10*time.Millisecond); err != nil {
			return "", givenUp(err, nil)
		}
	}
}

// successorWait is how long a node that was named may take to answer: one that was
// just started answers its own clients before this node's connection to it is back.
const successorWait = 5 * time.Second

// errSilent is why a successor that may yet answer is refused.
var errSilent = errors.New("no answer came in time")

// awaitSuccessor is successor, asked again for a while where only silence stands
// in the way.
func (cv *clusterVerbs) awaitSuccessor(ctx context.Context, named rota.NodeID) (raft.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, successorWait)
	defer cancel()
	for {
		s, err := cv.successor(named)
		if !errors.Is(err, errSilent) || cv.n.leader.pause(ctx, 50*time.Millisecond) != nil {
			return s, err
		}
	}
}

// successor gives the voter that leadership goes to: the one named, or of those whose
// disks have the most room the one that has applied most. It must answer now: hashicorp/raft takes no entry while
// it waits, up to ten seconds, for a successor that hangs.
func (cv *clusterVerbs) successor(named rota.NodeID) (best raft.Server, err error) {
	servers := cv.n.membership.servers()
	views := cv.n.watch.inspectAll(servers, nil)
	err = rota.Refusef(rota.Conflict, "node", "no other voter answers: leadership stays here")
	if named != "" {
		err = rota.Refusef(rota.NotFound, "node", "node %q is no member", named)
	}
	level, applied, found := diskRoomy, rota.Index(0), false
	for _, s := range servers {
		id := rota.NodeID(s.ID)
		v, other := views[id]
		switch {
		case !other || named != "" && id != named:
		case s.Suffrage != raft.Voter:
			if named != "" {
				err = rota.Refusef(rota.Conflict, "node", "node %s is no voter yet: wait until it has caught up", id)
			}
		case v.err != nil:
			if named != "" {
				refusal := rota.Refusef(rota.Conflict, "node", "node %s cannot lead now", id)
				refusal.Cause = errSilent
				err = refusal
			}
		case v.status.State == stateRebuilding:
			if named != "" {
				err = rota.Refusef(rota.Conflict, "node", "node %s rebuilds its state: it cannot lead now", id)
			}
		case v.status.State == stateStalled:
			if named != "" {
				err = rota.Refusef(rota.Conflict, "node", "node %s stalls: it cannot lead now", id)
			}
		case !found || v.disk < level || v.disk == level && v.status.AppliedIndex > applied:
			best, level, applied, found = s, v.disk, v.status.AppliedIndex, true
		}
	}
	if found {
		return best, nil
	}
	return best, err
}

// CheckAt walks this node's invariants once it has applied an index.
func (cv *clusterVerbs) CheckAt(ctx context.Context, index rota.Index) (rota.NodeVerdict, error) {
	v := rota.NodeVerdict{ID: cv.n.cfg.Node, Index: index, Violations: []string{}}
	if err := cv.n.replica.waitApplied(ctx, index); err != nil {
		return v, err
	}
	var head fsm.Head
	var held []archive.EventEntry
	var frozen *fsm.Frozen
	err := cv.n.replica.freezing(func(m *fsm.Machine) { head, held, frozen = m.Head(), cv.n.eventFeed.events.held(), m.Freeze() })
	if err != nil {
		return v, err
	}
	faults, err := cv.checkState(ctx, frozen)
	if err != nil {
		return v, err
	}
	v.Violations = append(v.Violations, faults...)
	v.Violations = append(v.Violations, cv.n.eventFeed.events.verify(head, held)...)
	v.Violations = append(v.Violations, cv.n.history.check(frozen)...)
	switch d := cv.n.rebuilder.digests.get(index); {
	case d != nil:
		v.Digest = *d
	case head.Index == index:
		v.Digest = head.Digest
	default:
		return v, rota.Refusef(rota.OutOfRange, "index", "the digest at index %d is no longer kept here", index)
	}
	return v, nil
}

// checkedHere is how many rows are checked where they are: a hundred thousand take a
// tenth of a second, in which nothing is applied.
const checkedHere = 50_000

// checkState walks the invariants. Those of a large state are walked on a copy made
// beside it, so that applying does not wait: what a node derives in memory is then
// the copy's own.
func (cv *clusterVerbs) checkState(ctx context.Context, f *fsm.Frozen) ([]string, error) {
	if f.Rows() <= cv.n.cfg.checkedHere {
		return cv.n.replica.check(), nil
	}
	select {
	case cv.n.explainer.replaying <- struct{}{}: // it takes a state's memory, as a replay does
		defer func() { <-cv.n.explainer.replaying }()
	case <-ctx.Done():
		return nil, ctxError(ctx, "waiting for a replay of the past")
	}
	m, err := f.Thaw()
	if err != nil {
		return []string{"the state cannot be copied: " + err.Error()}, nil
	}
	return m.Check(), nil
}

// Verify asks every node to walk its invariants, and compares their digests at
// one index.
func (cv *clusterVerbs) Verify(ctx context.Context) (rota.Verdict, error) {
	index, err := cv.n.replica.barrierIndex(ctx)
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
			err = rota.Refusef(rota.Unavailable, "node", "node %s was never seen in gossip: is it up?", id)
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
