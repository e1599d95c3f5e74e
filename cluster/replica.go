package cluster

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/rebuild"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// replica is this node's copy of the state; entries are applied to it and reads are served from it.
type replica struct {
	n          *base
	terms      *terms
	leader     *leaderWatch
	membership *membership
	watch      *watcher
	watchdog   *watchdog
	// mu is the apply lock: Apply holds it exclusively, reads of the machine share it.
	mu      sync.RWMutex
	machine *fsm.Machine
	// applied is the newest entry of the state, appliedAt when it was applied, in time since boot.
	applied   atomic.Uint64
	appliedAt atomic.Int64
	// rules is the version of the rules in force; 0 until the first entry is applied.
	rules atomic.Uint32
	// hub wakes callers that wait for applied entries.
	hub     *hub
	barrier barrierGroup
	// digests holds the state's digest after each of the latest entries.
	digests rebuild.Digests
	// dropped reports that there is no state to serve. It is changed under the apply lock, and read without it where a
	// slightly outdated value is harmless.
	dropped atomic.Bool
	// passed is the newest entry or snapshot that raft delivered, whether or not there was a state to apply it to;
	// guarded by the apply lock.
	passed rota.Index
	// placing ensures that only one state is put in place at a time: raft's snapshot, or the rebuilt one.
	placing sync.Mutex
	doors   doorkeeper
}

// look calls f with the current state, an empty one during a rebuild. It holds the lock: f only reads, keeps nothing of
// the state, and never blocks.
func (rp *replica) look(f func(*fsm.View)) {
	rp.mu.RLock()
	defer rp.mu.RUnlock()
	f(&rp.machine.View)
}

// view is look for served reads: it fails while there is no state, since a read that began before the state was dropped
// must not be answered from the empty one in its place.
func (rp *replica) view(f func(*fsm.View)) error {
	rp.mu.RLock()
	defer rp.mu.RUnlock()
	if err := rp.refuseRebuilding(); err != nil {
		return err
	}
	f(&rp.machine.View)
	return nil
}

// freezing is view for callers that take a frozen part of the state: freezing marks the shared data, so no one else may
// read meanwhile.
func (rp *replica) freezing(f func(*fsm.Machine)) error {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	if err := rp.refuseRebuilding(); err != nil {
		return err
	}
	f(rp.machine)
	return nil
}

// tryAlone is freezing for optional work: it reports false, without calling f, if the state is in use or being rebuilt.
func (rp *replica) tryAlone(f func(*fsm.Machine)) bool {
	if !rp.mu.TryLock() {
		return false
	}
	defer rp.mu.Unlock()
	if rp.refuseRebuilding() != nil {
		return false
	}
	f(rp.machine)
	return true
}

// peek is look for reads that must be answered even while applying stalls, such as a node's health; it reports false,
// without calling f, while it stalls.
func (rp *replica) peek(f func(*fsm.View)) bool {
	for !rp.mu.TryRLock() {
		if rp.watchdog.stalled.Load() > 0 {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	defer rp.mu.RUnlock()
	f(&rp.machine.View)
	return true
}

// head returns the head of the state.
func (rp *replica) head() (h fsm.Head) {
	rp.look(func(s *fsm.View) { h = s.Head() })
	return h
}

// member is the state's record of a node.
type member struct {
	identity, api  string
	starts         uint64
	removed, known bool
}

func memberOf(s *fsm.View, id rota.NodeID) member {
	of, known := s.Node(id)
	return member{identity: of.Identity, api: of.API, starts: of.Starts, removed: of.Removed, known: known}
}

// member returns the state's record of a node.
func (rp *replica) member(id rota.NodeID) (m member) {
	rp.look(func(s *fsm.View) { m = memberOf(s, id) })
	return m
}

// peekMember is member for calls that are answered even while applying stalls.
func (rp *replica) peekMember(id rota.NodeID) (m member, ok bool) {
	ok = rp.peek(func(s *fsm.View) { m = memberOf(s, id) })
	return m, ok
}

// mayOperate returns an error if the context's caller has no right to remove members or transfer leadership; a node
// acting by itself has it.
func (rp *replica) mayOperate(ctx context.Context) (refusal error) {
	ops := askedBy(ctx, []*fsmpb.Op{{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Removed: true}}}})
	err := rp.view(func(s *fsm.View) {
		if denied := s.Denied(ops); denied != nil {
			refusal = entry.OutcomeError(denied[0])
		}
	})
	return cmp.Or(refusal, err)
}

// check checks the invariants of the state.
func (rp *replica) check() []string {
	rp.mu.RLock()
	defer rp.mu.RUnlock()
	return rp.machine.Check()
}

// archived releases staged records that the archive holds.
func (rp *replica) archived(seqs []uint64) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	rp.machine.Archived(seqs)
}

// freezeWhole freezes the state; it fails during a rebuild, when there is none.
func (rp *replica) freezeWhole() (*fsm.Frozen, error) {
	start := time.Now() // includes the wait for the lock: raft's own call delays applying
	rp.mu.Lock()
	defer rp.mu.Unlock()
	if err := rp.refuseRebuilding(); err != nil {
		return nil, err
	}
	frozen := rp.machine.Freeze()
	rp.n.measures.Held.Observe(time.Since(start).Seconds())
	return frozen, nil
}

// advance records that an entry was applied with a version of the rules, and wakes the callers that wait for it.
func (rp *replica) advance(index rota.Index, rules uint32) {
	rp.rules.Store(rules)
	rp.n.moveLog(rules)
	rp.appliedAt.Store(int64(rp.n.sinceBoot()))
	rp.hub.advance(index)
}

// refuseRebuilding returns an error if this node has no state. Under the apply lock the answer is final; otherwise see
// view.
func (rp *replica) refuseRebuilding() error {
	if !rp.dropped.Load() {
		return nil
	}
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "node", RetryAfter: rebuild.Pause,
		Text: "this node's state was wrong and is being rebuilt from another node's: use another node"}
}

// rulesInForce returns the version that this node's entries are sealed with. It may lag behind the log: an older
// version than needed stops no node.
func (rp *replica) rulesInForce() uint32 { return max(rp.rules.Load(), entry.FirstRules) }

// Pulse returns the head of the state as this node has applied it, and whether it is the leader. It returns immediately
// and asks no other node.
func (rp *replica) Pulse() (head fsm.Head, leads bool) {
	rp.look(func(s *fsm.View) { head, leads = s.Head(), rp.terms.leading() != nil })
	return head, leads
}

// Ready returns nil if this node knows a leader and has caught up with it.
func (rp *replica) Ready() error {
	if rp.n.stopping() {
		return fault.Stopping()
	}
	if err := rp.refuseRebuilding(); err != nil {
		return err
	}
	var term uint64
	var of member
	if !rp.peek(func(s *fsm.View) { term, of = s.Head().Term, memberOf(s, rp.n.cfg.Node) }) {
		return fault.Stalled()
	}
	if of.removed {
		return fault.Removed(rp.n.cfg.Node)
	}
	if err := rp.watch.stillMember(); err != nil {
		return err
	}
	if _, id := rp.n.raft.LeaderWithID(); id == "" {
		return fault.NoLeader(nil)
	}
	if now := rp.n.raft.CurrentTerm(); term != now {
		return rota.Refusef(rota.KindUnavailable, "node",
			"this node has applied term %d, the cluster is in term %d: it is catching up",
			term, now)
	}
	return rp.leader.behind() // it may have been down within one term
}

// doorkeeper holds the newest table of rights, which the edge reads without a lock.
type doorkeeper struct {
	table atomic.Pointer[fsm.Access]
	// of and version identify the state that the table belongs to; the apply lock guards them.
	of      *fsm.Machine
	version uint64
}

// publish publishes a change of rights. The caller holds the apply lock. A state without a cluster, such as the empty
// one during a rebuild, has no table.
func (d *doorkeeper) publish(m *fsm.Machine) {
	if m.Head().ClusterID == "" || d.of == m && d.version == m.AccessVersion() {
		return
	}
	d.of, d.version = m, m.AccessVersion()
	d.table.Store(m.Access())
}

// APIs returns the addresses where the cluster's nodes serve clients, from the state; none while applying stalls.
func (n *Node) APIs() (all []string) {
	n.replica.peek(func(s *fsm.View) { all = fsm.NodeAPIs(s) })
	return all
}

// Access returns the table of rights as this node has applied it; nil before there is a cluster.
func (n *Node) Access() access.Table {
	if t := n.replica.doors.table.Load(); t != nil {
		return t
	}
	return nil
}
