package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// replica is this node's copy of the state: what applies entries to it, and what reads it.
type replica struct {
	n *Node
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

// peek is look for what must be answered while applying stalls as well, such as a node's
// health; it reports false, without a call of f, where it stalls.
func (rp *replica) peek(f func(*fsm.View)) bool {
	for !rp.mu.TryRLock() {
		if rp.n.watchdog.stalled.Load() > 0 {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	defer rp.mu.RUnlock()
	f(&rp.machine.View)
	return true
}

// read waits until the state is as fresh as opt asks, and returns what f reads of it.
func read[T any](ctx context.Context, rp *replica, opt rota.ReadOptions, f func(*fsm.View) (T, error)) (T, rota.ReadAt, error) {
	var value T
	at, err := rp.fresh(ctx, opt)
	if err != nil {
		return value, at, err
	}
	var refused error
	if err := rp.view(func(s *fsm.View) { value, refused = f(s) }); err != nil {
		return value, at, err
	}
	return value, at, refused
}

// head returns the head of the state.
func (rp *replica) head() (h fsm.Head) {
	rp.look(func(s *fsm.View) { h = s.Head() })
	return h
}

// staging returns what the state holds of ended jobs that the archive lacks.
func (rp *replica) staging() (staging fsm.Staging) {
	rp.look(func(s *fsm.View) { staging = s.Staging() })
	return staging
}

// firstDeleted returns the oldest number of a deleted job that the state remembers, 0 for
// none.
func (rp *replica) firstDeleted() (seq uint64) {
	rp.look(func(s *fsm.View) { seq = s.FirstDeleted() })
	return seq
}

// member is what the state says of a node.
type member struct {
	identity       string
	starts         uint64
	removed, known bool
}

func memberOf(s *fsm.View, id rota.NodeID) (m member) {
	m.identity, m.starts, m.removed, m.known = s.Node(id)
	return m
}

// member returns what the state says of a node.
func (rp *replica) member(id rota.NodeID) (m member) {
	rp.look(func(s *fsm.View) { m = memberOf(s, id) })
	return m
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

// refuseRebuilding refuses what needs a state while this node has none. Under the apply
// lock that is the last word; else see reading.
func (rp *replica) refuseRebuilding() error {
	if !rp.n.rebuilder.active.Load() {
		return nil
	}
	return &rota.Error{Kind: rota.Unavailable, Subject: "node", RetryAfter: rebuildPause,
		Text: "this node's state was wrong and is being rebuilt from another node's: use another node"}
}

// rulesInForce is the version by which this node's entries are sealed. It may lag
// behind the log: an older version than needed stops nobody.
func (rp *replica) rulesInForce() uint32 { return max(rp.rules.Load(), fsm.FirstRules) }

// Pulse tells the head of the state as this node has applied it, at once and asking
// nobody, and whether it leads.
func (rp *replica) Pulse() (head fsm.Head, leads bool) {
	rp.look(func(s *fsm.View) { head, leads = s.Head(), rp.n.terms.leading() != nil })
	return head, leads
}
