package replica

import (
	"io"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// Replacing the state itself: it is dropped if it is wrong, and put in place by raft's restore or by a rebuild
// (SPEC §2.5).

// Drop replaces the state with an empty one, so that nothing is served from it, and ends everything that depends on it:
// the leadership, workers' streams, events.
func (rp *Replica) Drop() {
	rp.Mu.Lock()
	rp.host.Lower() // first: a leader must propose nothing based on the empty state
	rp.Dropped.Store(true)
	rp.Machine = fsm.NewKnowing(rp.host.Knows)
	rp.Digests.Clear()
	rp.host.Hold()
	rp.Mu.Unlock()
	rp.Hub.Mu.Lock()
	for s := range rp.Hub.streams() {
		s.end()
	}
	rp.Hub.Mu.Unlock()
}

// Newest returns the newest entry or snapshot that raft delivered.
func (rp *Replica) Newest() rota.Index {
	rp.Mu.RLock()
	defer rp.Mu.RUnlock()
	return rp.Passed
}

// Install puts a rebuilt state in place once catchUp, called with the apply lock held, has applied to it the entries
// that raft delivered, and reports whether it did. A snapshot that raft is about to install takes precedence.
func (rp *Replica) Install(m *fsm.Machine, catchUp func(newest rota.Index) error) bool {
	if !rp.Placing.TryLock() {
		return false
	}
	defer rp.Placing.Unlock()
	rp.Mu.Lock()
	if catchUp(rp.Passed) != nil {
		rp.Mu.Unlock()
		return false
	}
	head := m.Head()
	rp.Place(m, head) // raft's entries from its index to the newest hold no operations
	rp.Dropped.Store(false)
	rp.Mu.Unlock()
	rp.Advance(head.Index, head.Rules)
	rp.host.Replaced()
	return true
}

// Place replaces the current state, and everything derived from it. The caller holds the apply lock.
func (rp *Replica) Place(m *fsm.Machine, head fsm.Head) {
	before := rp.Machine
	rp.Machine, rp.Passed = m, head.Index
	rp.Digests.Clear()
	rp.Digests.Put(head.Index, head.Digest, m.Staging().Last)
	rp.access.publish(m)
	rp.Hub.resync(before, m)
	rp.host.Reset(head)
	rp.Applied.Store(uint64(head.Index))
}

// PassSnapshot records a snapshot that raft installs, or starts with, as passed: the state is fetched instead. The
// caller holds placing, so that no state is put in place meanwhile.
func (rp *Replica) PassSnapshot(content io.Reader) error {
	info, err := snapshot.Inspect(content)
	if err != nil {
		rp.host.Log.Error("snapshot refused", "err", err)
		return err
	}
	rp.Mu.Lock()
	defer rp.Mu.Unlock()
	rp.Passed = info.Index
	return nil
}

// FollowsPassed returns nil if an entry from raft comes after all earlier ones, and the state has applied exactly
// those. Any other state would continue from something that the log does not contain. The caller holds the apply lock.
func (rp *Replica) FollowsPassed(index rota.Index) error {
	if head := rp.Machine.Head().Index; head != rp.Passed || index <= head {
		return rota.Refusef(rota.KindInternal, "entry",
			"entry: got %d after %d, want the one after %d: this node's state is not that of its log. "+
				"Start the node again, which rebuilds the state from snapshot and log",
			index, rp.Passed, head)
	}
	return nil
}
