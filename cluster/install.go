package cluster

import (
	"io"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// Replacing the state itself: it is dropped if it is wrong, and put in place by raft's restore or by a rebuild
// (SPEC §2.5).

// drop replaces the state with an empty one, so that nothing is served from it, and ends everything that depends on it:
// the leadership, workers' streams, events.
func (rp *replica) drop() {
	rp.mu.Lock()
	rp.terms.lower() // first: a leader must propose nothing based on the empty state
	rp.dropped.Store(true)
	rp.machine = fsm.NewKnowing(rp.n.cfg.knows)
	rp.digests.Clear()
	rp.n.events.Hold()
	rp.mu.Unlock()
	rp.hub.mu.Lock()
	for s := range rp.hub.streams() {
		s.end()
	}
	rp.hub.mu.Unlock()
}

// newest returns the newest entry or snapshot that raft delivered.
func (rp *replica) newest() rota.Index {
	rp.mu.RLock()
	defer rp.mu.RUnlock()
	return rp.passed
}

// install puts a rebuilt state in place once catchUp, called with the apply lock held, has applied to it the entries
// that raft delivered, and reports whether it did. A snapshot that raft is about to install takes precedence.
func (rp *replica) install(m *fsm.Machine, catchUp func(newest rota.Index) error) bool {
	if !rp.placing.TryLock() {
		return false
	}
	defer rp.placing.Unlock()
	rp.mu.Lock()
	if catchUp(rp.passed) != nil {
		rp.mu.Unlock()
		return false
	}
	head := m.Head()
	rp.place(m, head) // raft's entries from its index to the newest hold no operations
	rp.dropped.Store(false)
	rp.mu.Unlock()
	rp.advance(head.Index, head.Rules)
	rp.membership.learnCluster()
	rp.n.stream.Rejudge()
	return true
}

// place replaces the current state, and everything derived from it. The caller holds the apply lock.
func (rp *replica) place(m *fsm.Machine, head fsm.Head) {
	before := rp.machine
	rp.machine, rp.passed = m, head.Index
	rp.digests.Clear()
	rp.digests.Put(head.Index, head.Digest, m.Staging().Last)
	rp.doors.publish(m)
	rp.hub.resync(before, m)
	rp.n.events.Reset(head)
	rp.applied.Store(uint64(head.Index))
}

// passSnapshot records a snapshot that raft installs, or starts with, as passed: the state is fetched instead. The
// caller holds placing, so that no state is put in place meanwhile.
func (rp *replica) passSnapshot(content io.Reader) error {
	info, err := snapshot.Inspect(content)
	if err != nil {
		rp.n.log.Error("snapshot refused", "err", err)
		return err
	}
	rp.mu.Lock()
	defer rp.mu.Unlock()
	rp.passed = info.Index
	return nil
}

// followsPassed returns nil if an entry from raft comes after all earlier ones, and the state has applied exactly
// those. Any other state would continue from something that the log does not contain. The caller holds the apply lock.
func (rp *replica) followsPassed(index rota.Index) error {
	if head := rp.machine.Head().Index; head != rp.passed || index <= head {
		return rota.Refusef(rota.KindInternal, "entry",
			"entry: got %d after %d, want the one after %d: this node's state is not that of its log. "+
				"Start the node again, which rebuilds the state from snapshot and log",
			index, rp.passed, head)
	}
	return nil
}
