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
)

// ownStatus is this node's word on itself, of one moment.
func (n *Node) ownStatus() rota.NodeStatus {
	var head fsm.Head
	if n.peek() {
		head = n.machine.Head()
		n.mu.RUnlock()
	} else {
		head.Index = rota.Index(n.applied.Load())
		if d := n.digests.get(head.Index); d != nil {
			head.Digest = *d
		}
	}
	problems := n.problems()
	s := rota.NodeStatus{ID: n.cfg.Node, API: n.cfg.API, Raft: n.cfg.Raft, State: strings.ToUpper(n.raft.State().String()),
		Version: n.cfg.Version, AppliedIndex: head.Index, Digest: head.Digest, Healthy: len(problems) == 0, Problems: problems,
		RulesVersion: n.cfg.knows}
	switch {
	case n.mend.active.Load():
		s.State = stateRebuilding
	case n.dog.stalled.Load() > 0:
		s.State = stateStalled
	}
	for _, server := range n.servers() {
		if rota.NodeID(server.ID) == n.cfg.Node {
			s.Voter = server.Suffrage == raft.Voter
		}
	}
	return s
}

// Inspect tells this node's own state to another node.
func (n *Node) Inspect(_ context.Context, digestsAt []rota.Index) (rota.Inspection, error) {
	in := rota.Inspection{Status: n.ownStatus(), ClusterID: n.ClusterID(), WallMs: n.wall().UnixMilli(),
		LastLogIndex: rota.Index(n.raft.LastIndex()), DiskLevel: uint8(n.disk.now())}
	rebuild := n.data.Rebuild()
	in.DifferedAt, in.RightUntil = rota.Index(rebuild.At), rota.Index(rebuild.Agreed)
	for _, at := range digestsAt[:min(len(digestsAt), inspectMost)] {
		in.Digests = append(in.Digests, n.digests.get(at))
	}
	return in, nil
}

// Status tells the whole cluster as this node sees it; it works without a leader.
func (n *Node) Status(context.Context) (rota.ClusterStatus, error) {
	c := rota.ClusterStatus{ClusterID: n.ClusterID(), AppliedIndex: rota.Index(n.applied.Load()), RulesVersion: n.rules.Load()}
	if n.peek() {
		head, mode := n.machine.Head(), n.machine.Mode()
		c.AppliedIndex, c.Clock, c.Date, c.RulesVersion = head.Index, head.Clock, head.Date, head.Rules
		c.Mode, c.ModeReason, c.Drained = head.Mode, mode.Reason, mode.Drained
		c.Jobs, c.Workers = n.machine.Counts(), n.machine.WorkerCount()
		n.mu.RUnlock()
	}
	_, leader := n.raft.LeaderWithID()
	c.Leader, c.Term, c.Nodes = rota.NodeID(leader), n.raft.CurrentTerm(), []rota.NodeStatus{n.ownStatus()}
	servers := n.servers()
	views := n.inspectAll(servers, nil)
	for _, s := range servers {
		id := rota.NodeID(s.ID)
		if id == n.cfg.Node {
			continue
		}
		v := views[id]
		status := v.status
		if v.err != nil {
			api, _ := n.watch.remembered(id)
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
func (n *Node) Peers(context.Context) ([]rota.RaftPeer, error) {
	_, leader := n.raft.LeaderWithID()
	var peers []rota.RaftPeer
	for _, s := range n.servers() {
		peers = append(peers, rota.RaftPeer{ID: rota.NodeID(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter,
			Leader: s.ID == leader})
	}
	return peers, nil
}

// atLeader carries a call out here if this node leads, else relays it to the
// leader once; while there is none it waits (SPEC §13.1).
func (n *Node) atLeader(ctx context.Context, here func() error, there func(to rota.NodeAddress) error) error {
	for {
		var last error
		if n.leading() != nil {
			if last = here(); !isNotLeader(last) {
				return last
			}
		} else if to, ok := n.Leader(); ok {
			if last = there(to); !isNotLeader(last) {
				return last
			}
		}
		if err := n.pause(ctx, 25*time.Millisecond); err != nil {
			return givenUp(err, last)
		}
	}
}

// TransferLeadership hands over to a voter, or to the one that Raft finds best.
func (n *Node) TransferLeadership(ctx context.Context, to rota.NodeID) (leader rota.NodeID, err error) {
	err = n.atLeader(ctx, func() (err error) { leader, err = n.TransferHere(ctx, to); return err },
		func(at rota.NodeAddress) (err error) {
			leader, err = n.peers.TransferLeadership(ctx, at, to)
			return err
		})
	return leader, err
}

// TransferHere hands over if this node leads.
func (n *Node) TransferHere(ctx context.Context, to rota.NodeID) (rota.NodeID, error) {
	if n.leading() == nil {
		return "", notLeader()
	}
	if to == n.cfg.Node {
		return to, nil
	}
	successor, err := n.awaitSuccessor(ctx, to)
	if err != nil {
		return "", err
	}
	if err := n.settledWithin(ctx, n.raft.LeadershipTransferToServer(successor.ID, successor.Address)); err != nil {
		return "", &rota.Error{Kind: rota.Unavailable, Text: "leadership was not handed over", Cause: err, RetryAfter: time.Second}
	}
	for {
		if _, id := n.raft.LeaderWithID(); id != "" && rota.NodeID(id) != n.cfg.Node {
			return rota.NodeID(id), nil
		}
		if err := n.pause(ctx, 10*time.Millisecond); err != nil {
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
func (n *Node) awaitSuccessor(ctx context.Context, named rota.NodeID) (raft.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, successorWait)
	defer cancel()
	for {
		s, err := n.successor(named)
		if !errors.Is(err, errSilent) || n.pause(ctx, 50*time.Millisecond) != nil {
			return s, err
		}
	}
}

// successor gives the voter that leadership goes to: the one named, or of those whose
// disks have the most room the one that has applied most. It must answer now: hashicorp/raft takes no entry while
// it waits, up to ten seconds, for a successor that hangs.
func (n *Node) successor(named rota.NodeID) (best raft.Server, err error) {
	servers := n.servers()
	views := n.inspectAll(servers, nil)
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
func (n *Node) CheckAt(ctx context.Context, index rota.Index) (rota.NodeVerdict, error) {
	v := rota.NodeVerdict{ID: n.cfg.Node, Index: index, Violations: []string{}}
	if err := n.waitApplied(ctx, index); err != nil {
		return v, err
	}
	n.mu.Lock()
	err := n.refuseRebuilding()
	head, held, frozen := n.machine.Head(), n.events.held(), n.machine.Freeze()
	n.mu.Unlock()
	if err != nil {
		return v, err
	}
	faults, err := n.checkState(ctx, frozen)
	if err != nil {
		return v, err
	}
	v.Violations = append(v.Violations, faults...)
	v.Violations = append(v.Violations, n.events.verify(head, held)...)
	v.Violations = append(v.Violations, n.checkHistory(frozen)...)
	switch d := n.digests.get(index); {
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
func (n *Node) checkState(ctx context.Context, f *fsm.Frozen) ([]string, error) {
	if f.Rows() <= n.cfg.checkedHere {
		n.mu.RLock()
		defer n.mu.RUnlock()
		return n.machine.Check(), nil
	}
	select {
	case n.replaying <- struct{}{}: // it takes a state's memory, as a replay does
		defer func() { <-n.replaying }()
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
func (n *Node) Verify(ctx context.Context) (rota.Verdict, error) {
	index, err := n.barrierIndex(ctx)
	if err != nil {
		return rota.Verdict{}, err
	}
	verdict := rota.Verdict{Index: index, Equal: true}
	for _, s := range n.servers() {
		id := rota.NodeID(s.ID)
		var v rota.NodeVerdict
		var err error
		if id == n.cfg.Node {
			v, err = n.CheckAt(ctx, index)
		} else if to, ok := n.address(id); ok {
			v, err = n.peers.CheckAt(ctx, to, index)
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
