package cluster

import (
	"io"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// How the state itself is exchanged: dropped where it is wrong, and put in place by raft's
// restore, or by a rebuild (SPEC §2.5).

// drop puts nothing in the place of the state, so that nobody can be served
// from it, and ends what hangs on it: the leadership, workers' streams, events.
func (rp *replica) drop() {
	rp.mu.Lock()
	rp.terms.lower() // first: nothing that the empty state suggests to a leader is proposed
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

// newest returns the newest entry, or snapshot, that raft handed over.
func (rp *replica) newest() rota.Index {
	rp.mu.RLock()
	defer rp.mu.RUnlock()
	return rp.passed
}

// install puts a rebuilt state in place once catchUp, called with the apply lock held, has
// applied to it what raft handed over, and reports whether it did. It gives way to a
// snapshot that raft is about to put there.
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

// place puts a state, and what follows from it, where the present one is. The caller holds
// the apply lock.
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

// passSnapshot takes a snapshot that raft installs, or begins with, for passed: the
// state is fetched. The caller holds placing, so that none is put in place meanwhile.
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

// followsPassed is nil where an entry that raft gives comes after all that it gave
// before, and the state has applied just that: any other state would go on from what
// the log does not hold. The caller holds the apply lock.
func (rp *replica) followsPassed(index rota.Index) error {
	if head := rp.machine.Head().Index; head != rp.passed || index <= head {
		return rota.Refusef(rota.KindInternal, "entry", "entry %d was to be applied to the state of entry %d, and the newest one given before was %d: "+
			"this node's state is not that of its log. Start it again, which builds the state anew from snapshot and log", index, head,
			rp.passed)
	}
	return nil
}
