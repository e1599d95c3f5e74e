package cluster

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota/cluster/rebuild"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// replica is this node's copy of the state: what applies entries to it, and what reads it.
type replica struct {
	n          *base
	terms      *terms
	leader     *leaderWatch
	membership *membership
	watch      *watcher
	watchdog   *watchdog
	// mu is the apply lock: Apply holds it, reads of the machine share it.
	mu      sync.RWMutex
	machine *fsm.Machine
	// applied is the newest entry of the state, appliedAt when it was applied, in time
	// since boot.
	applied   atomic.Uint64
	appliedAt atomic.Int64
	// rules is the version of the rules in force; 0 until the first entry is applied.
	rules atomic.Uint32
	// hub wakes who waits for what was applied.
	hub     *hub
	barrier barrierGroup
	// digests are the state's after each of the latest entries.
	digests rebuild.Digests
	// dropped says that there is no state to serve. It is changed under the apply lock,
	// and read without it where a moment's lateness does no harm.
	dropped atomic.Bool
	// passed is the newest entry, or snapshot, that raft handed over, whether there was a state
	// to apply it to or not; guarded by the apply lock.
	passed rota.Index
	// placing lets one at a time put a state in place: raft's snapshot, or the rebuilt one.
	placing sync.Mutex
	doors   doorkeeper
}

// look calls f with the state as it is, an empty one while it is rebuilt. The lock is held
// meanwhile: f only reads, keeps nothing of the state, and waits for nobody.
func (rp *replica) look(f func(*fsm.View)) {
	rp.mu.RLock()
	defer rp.mu.RUnlock()
	f(&rp.machine.View)
}

// view is look for what is served: it fails while there is no state, as a read that began
// before the state was dropped must not be answered from the empty one in its place.
func (rp *replica) view(f func(*fsm.View)) error {
	rp.mu.RLock()
	defer rp.mu.RUnlock()
	if err := rp.refuseRebuilding(); err != nil {
		return err
	}
	f(&rp.machine.View)
	return nil
}

// freezing is view for what takes a frozen part of the state: that marks what is shared, so
// nobody else may read meanwhile.
func (rp *replica) freezing(f func(*fsm.Machine)) error {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	if err := rp.refuseRebuilding(); err != nil {
		return err
	}
	f(rp.machine)
	return nil
}

// tryAlone is freezing for what can do without: it reports false, without a call of f, where anybody has
// the state, or it is rebuilt.
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

// peek is look for what must be answered while applying stalls as well, such as a node's
// health; it reports false, without a call of f, where it stalls.
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

// member is what the state says of a node.
type member struct {
	identity, api  string
	starts         uint64
	removed, known bool
}

func memberOf(s *fsm.View, id rota.NodeID) member {
	of, known := s.Node(id)
	return member{identity: of.Identity, api: of.API, starts: of.Starts, removed: of.Removed, known: known}
}

// member returns what the state says of a node.
func (rp *replica) member(id rota.NodeID) (m member) {
	rp.look(func(s *fsm.View) { m = memberOf(s, id) })
	return m
}

// peekMember is member for calls that are answered while applying stalls as well.
func (rp *replica) peekMember(id rota.NodeID) (m member, ok bool) {
	ok = rp.peek(func(s *fsm.View) { m = memberOf(s, id) })
	return m, ok
}

// mayOperate refuses the caller of a context that has no right to remove members, or to have
// another leader; a node that acts by itself has.
func (rp *replica) mayOperate(ctx context.Context) (refusal error) {
	ops := askedBy(ctx, []*fsmpb.Op{{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Removed: true}}}})
	err := rp.view(func(s *fsm.View) {
		if denied := s.Denied(ops); denied != nil {
			refusal = entry.OutcomeError(denied[0])
		}
	})
	return cmp.Or(refusal, err)
}

// check walks the invariants of the state.
func (rp *replica) check() []string {
	rp.mu.RLock()
	defer rp.mu.RUnlock()
	return rp.machine.Check()
}

// archived lets go of staged records that the archive holds.
func (rp *replica) archived(seqs []uint64) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	rp.machine.Archived(seqs)
}

// freezeWhole freezes a state that is there: while it is rebuilt there is none.
func (rp *replica) freezeWhole() (*fsm.Frozen, error) {
	start := time.Now() // the wait for the lock counts: raft's own call stands in the way of applying
	rp.mu.Lock()
	defer rp.mu.Unlock()
	if err := rp.refuseRebuilding(); err != nil {
		return nil, err
	}
	frozen := rp.machine.Freeze()
	rp.n.measures.held.Observe(time.Since(start).Seconds())
	return frozen, nil
}

func (rp *replica) freeze() *fsm.Frozen {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	return rp.machine.Freeze()
}

// advance notes that an entry was applied, by a version of the rules, and wakes who waits
// for it.
func (rp *replica) advance(index rota.Index, rules uint32) {
	rp.rules.Store(rules)
	rp.n.spaceLog(rules)
	rp.appliedAt.Store(int64(rp.n.sinceBoot()))
	rp.hub.advance(index)
}

// refuseRebuilding refuses what needs a state while this node has none. Under the apply
// lock that is the last word; else see reading.
func (rp *replica) refuseRebuilding() error {
	if !rp.dropped.Load() {
		return nil
	}
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "node", RetryAfter: rebuild.Pause,
		Text: "this node's state was wrong and is being rebuilt from another node's: use another node"}
}

// rulesInForce is the version by which this node's entries are sealed. It may lag
// behind the log: an older version than needed stops nobody.
func (rp *replica) rulesInForce() uint32 { return max(rp.rules.Load(), entry.FirstRules) }

// Pulse returns the head of the state as this node has applied it, at once and asking
// nobody, and whether it leads.
func (rp *replica) Pulse() (head fsm.Head, leads bool) {
	rp.look(func(s *fsm.View) { head, leads = s.Head(), rp.terms.leading() != nil })
	return head, leads
}

// Ready is nil when this node knows a leader and has caught up with it.
func (rp *replica) Ready() error {
	if rp.n.stopping() {
		return errStopping()
	}
	if err := rp.refuseRebuilding(); err != nil {
		return err
	}
	var term uint64
	var of member
	if !rp.peek(func(s *fsm.View) { term, of = s.Head().Term, memberOf(s, rp.n.cfg.Node) }) {
		return errStalled()
	}
	if of.removed {
		return errRemoved(rp.n.cfg.Node)
	}
	if err := rp.watch.stillMember(); err != nil {
		return err
	}
	if _, id := rp.n.raft.LeaderWithID(); id == "" {
		return errNoLeader(nil)
	}
	if now := rp.n.raft.CurrentTerm(); term != now {
		return rota.Refusef(rota.KindUnavailable, "node", "this node has applied term %d, the cluster is in term %d: it is catching up",
			term, now)
	}
	return rp.leader.behind() // it may have been down within one term
}

// doorkeeper keeps the newest table of rights, which the edge reads without a lock.
type doorkeeper struct {
	table atomic.Pointer[fsm.Access]
	// of and version say which state the table is of; the apply lock guards them.
	of      *fsm.Machine
	version uint64
}

// publish makes a change of rights known. The caller holds the apply lock. The table of a
// state without a cluster, such as the empty one while a state is rebuilt, is none.
func (d *doorkeeper) publish(m *fsm.Machine) {
	if m.Head().ClusterID == "" || d.of == m && d.version == m.AccessVersion() {
		return
	}
	d.of, d.version = m, m.AccessVersion()
	d.table.Store(m.Access())
}

// APIs returns where the cluster's nodes answer clients, as the state says: none while applying
// stalls.
func (n *Node) APIs() (all []string) {
	n.replica.peek(func(s *fsm.View) { all = fsm.NodeAPIs(s) })
	return all
}

// Access returns who may do what, as this node has applied it; nil before there is a cluster.
func (n *Node) Access() access.Table {
	if t := n.replica.doors.table.Load(); t != nil {
		return t
	}
	return nil
}
