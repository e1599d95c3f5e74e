package replica

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/meter"
	"github.com/rotasched/rota/cluster/rebuild"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// Host is the part of a node that its replica uses.
type Host struct {
	Knows    uint32 // the newest version of the rules that this binary supports
	Log      *slog.Logger
	Measures *meter.Measures
	Life     context.Context
	Stopped  <-chan struct{}

	SinceBoot func() time.Duration
	// Stalled reports that applying does not return.
	Stalled func() bool
	// Leads reports whether this node is the leader; Lower ends its leadership.
	Leads func() bool
	Lower func()
	// Vouched returns an error while this node cannot vouch for its state; CaughtUp is called when its state has been as
	// new as the leader's.
	Vouched  func() error
	CaughtUp func()
	// Propose puts operations into the log wherever the leader is.
	Propose func(ctx context.Context, ops []*fsmpb.Op) ([]*fsmpb.Outcome, rota.Index, error)
	// Applied is called after each entry with the rules in force, Replaced after the whole state was replaced.
	Applied  func(rules uint32)
	Replaced func()
	// Hold and Reset stop the events while there is no state, and continue them from another one.
	Hold  func()
	Reset func(fsm.Head)
	// VerifyLeader asks raft whether this node still leads; only a planted bug relies on it.
	VerifyLeader func() error
}

// Connect sets the node that the replica belongs to, before anything is applied.
func (rp *Replica) Connect(h Host) { rp.host = h }

// proposeOne is Host.Propose for a single operation; its rejection is the error.
func (rp *Replica) proposeOne(ctx context.Context, op *fsmpb.Op) (rota.Index, error) {
	outcomes, index, err := rp.host.Propose(ctx, []*fsmpb.Op{op})
	if err != nil {
		return 0, err
	}
	if e := entry.OutcomeError(outcomes[0]); e != nil {
		return index, e
	}
	return index, nil
}

// Replica is this node's copy of the state; entries are applied to it and reads are served from it.
type Replica struct {
	host Host
	// Mu is the apply lock: Apply holds it exclusively, reads of the machine share it.
	Mu      sync.RWMutex
	Machine *fsm.Machine
	// Applied is the newest entry of the state, appliedAt when it was applied, in time since boot.
	Applied   atomic.Uint64
	appliedAt atomic.Int64
	// Rules is the version of the rules in force; 0 until the first entry is applied.
	Rules atomic.Uint32
	// Hub wakes callers that wait for applied entries.
	Hub     *Hub
	barrier barrierGroup
	// Digests holds the state's digest after each of the latest entries.
	Digests rebuild.Digests
	// Dropped reports that there is no state to serve. It is changed under the apply lock, and read without it where a
	// slightly outdated value is harmless.
	Dropped atomic.Bool
	// Passed is the newest entry or snapshot that raft delivered, whether or not there was a state to apply it to;
	// guarded by the apply lock.
	Passed rota.Index
	// Placing ensures that only one state is put in place at a time: raft's snapshot, or the rebuilt one.
	Placing sync.Mutex
	access  accessTable
}

// Look calls f with the current state, an empty one during a rebuild. It holds the lock: f only reads, keeps nothing of
// the state, and never blocks.
func (rp *Replica) Look(f func(*fsm.View)) {
	rp.Mu.RLock()
	defer rp.Mu.RUnlock()
	f(&rp.Machine.View)
}

// View is Look for served reads: it fails while there is no state, since a read that began before the state was dropped
// must not be answered from the empty one in its place.
func (rp *Replica) View(f func(*fsm.View)) error {
	rp.Mu.RLock()
	defer rp.Mu.RUnlock()
	if err := rp.RefuseRebuilding(); err != nil {
		return err
	}
	f(&rp.Machine.View)
	return nil
}

// Freezing is View for callers that take a frozen part of the state: freezing marks the shared data, so no one else may
// read meanwhile.
func (rp *Replica) Freezing(f func(*fsm.Machine)) error {
	rp.Mu.Lock()
	defer rp.Mu.Unlock()
	if err := rp.RefuseRebuilding(); err != nil {
		return err
	}
	f(rp.Machine)
	return nil
}

// TryAlone is Freezing for optional work: it reports false, without calling f, if the state is in use or being rebuilt.
func (rp *Replica) TryAlone(f func(*fsm.Machine)) bool {
	if !rp.Mu.TryLock() {
		return false
	}
	defer rp.Mu.Unlock()
	if rp.RefuseRebuilding() != nil {
		return false
	}
	f(rp.Machine)
	return true
}

// Peek is Look for reads that must be answered even while applying stalls, such as a node's health; it reports false,
// without calling f, while it stalls.
func (rp *Replica) Peek(f func(*fsm.View)) bool {
	for !rp.Mu.TryRLock() {
		if rp.host.Stalled() {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	defer rp.Mu.RUnlock()
	f(&rp.Machine.View)
	return true
}

// Head returns the head of the state.
func (rp *Replica) Head() (h fsm.Head) {
	rp.Look(func(s *fsm.View) { h = s.Head() })
	return h
}

// Member is the state's record of a node.
type Member struct {
	Identity, API  string
	Starts         uint64
	Removed, Known bool
}

// MemberOf returns the record of a node in a state.
func MemberOf(s *fsm.View, id rota.NodeID) Member {
	of, known := s.Node(id)
	return Member{Identity: of.Identity, API: of.API, Starts: of.Starts, Removed: of.Removed, Known: known}
}

// Member returns the state's record of a node.
func (rp *Replica) Member(id rota.NodeID) (m Member) {
	rp.Look(func(s *fsm.View) { m = MemberOf(s, id) })
	return m
}

// PeekMember is Member for calls that are answered even while applying stalls.
func (rp *Replica) PeekMember(id rota.NodeID) (m Member, ok bool) {
	ok = rp.Peek(func(s *fsm.View) { m = MemberOf(s, id) })
	return m, ok
}

// Check checks the invariants of the state.
func (rp *Replica) Check() []string {
	rp.Mu.RLock()
	defer rp.Mu.RUnlock()
	return rp.Machine.Check()
}

// Archived releases staged records that the archive holds.
func (rp *Replica) Archived(seqs []uint64) {
	rp.Mu.Lock()
	defer rp.Mu.Unlock()
	rp.Machine.Archived(seqs)
}

// FreezeWhole freezes the state; it fails during a rebuild, when there is none.
func (rp *Replica) FreezeWhole() (*fsm.Frozen, error) {
	start := time.Now() // includes the wait for the lock: raft's own call delays applying
	rp.Mu.Lock()
	defer rp.Mu.Unlock()
	if err := rp.RefuseRebuilding(); err != nil {
		return nil, err
	}
	frozen := rp.Machine.Freeze()
	rp.host.Measures.Held.Observe(time.Since(start).Seconds())
	return frozen, nil
}

// Advance records that an entry was applied with a version of the rules, and wakes the callers that wait for it.
func (rp *Replica) Advance(index rota.Index, rules uint32) {
	rp.Rules.Store(rules)
	rp.host.Applied(rules)
	rp.appliedAt.Store(int64(rp.host.SinceBoot()))
	rp.Hub.advance(index)
}

// RefuseRebuilding returns an error if this node has no state. Under the apply lock the answer is final; otherwise see
// View.
func (rp *Replica) RefuseRebuilding() error {
	if !rp.Dropped.Load() {
		return nil
	}
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "node", RetryAfter: rebuild.Pause,
		Text: "this node's state was wrong and is being rebuilt from another node's: use another node"}
}

// RulesInForce returns the version that this node's entries are sealed with. It may lag behind the log: an older
// version than needed stops no node.
func (rp *Replica) RulesInForce() uint32 { return max(rp.Rules.Load(), entry.FirstRules) }

// Pulse returns the head of the state as this node has applied it, and whether it is the leader. It returns immediately
// and asks no other node.
func (rp *Replica) Pulse() (head fsm.Head, leads bool) {
	rp.Look(func(s *fsm.View) { head, leads = s.Head(), rp.host.Leads() })
	return head, leads
}

// Access returns the table of rights as this node has applied it; nil before there is a cluster.
func (rp *Replica) Access() *fsm.Access { return rp.access.newest.Load() }

// accessTable holds the newest table of rights, which the edge reads without a lock.
type accessTable struct {
	newest atomic.Pointer[fsm.Access]
	// of and version identify the state that the table belongs to; the apply lock guards them.
	of      *fsm.Machine
	version uint64
}

// PublishAccess publishes a change of rights. The caller holds the apply lock.
func (rp *Replica) PublishAccess() { rp.access.publish(rp.Machine) }

// publish publishes the table of a state, if it has changed. A state without a cluster, such as the empty
// one during a rebuild, has no table.
func (d *accessTable) publish(m *fsm.Machine) {
	if m.Head().ClusterID == "" || d.of == m && d.version == m.AccessVersion() {
		return
	}
	d.of, d.version = m, m.AccessVersion()
	d.newest.Store(m.Access())
}
