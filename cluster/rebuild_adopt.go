package cluster

import (
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// adopt makes a fetched state this node's, once it has applied what this node's log
// holds after it. It goes on for as long as it gets on: a large state's log may be long,
// and grows meanwhile.
func (rb *rebuilder) adopt(m *fsm.Machine) error {
	at := m.Head().Index
	var seen [2]rota.Index
	moved := time.Now()
	for {
		passed := rb.newest()
		if err := rb.replayOwn(m, &at, passed); err != nil {
			return err
		}
		if passed >= m.Head().Index && rb.install(m, &at) {
			return nil
		}
		if now := [2]rota.Index{at, passed}; now != seen {
			seen, moved = now, time.Now()
		}
		if time.Since(moved) > rebuildAgree {
			return rota.Refusef(rota.KindUnavailable, "rebuild", "this node's log has come to entry %d, the fetched state is that of entry %d",
				passed, m.Head().Index)
		}
		if err := rb.n.leader.pause(rb.n.life, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (rb *rebuilder) newest() rota.Index {
	rb.n.replica.mu.RLock()
	defer rb.n.replica.mu.RUnlock()
	return rb.passed
}

// adoptHere is how many entries are applied while applying waits.
const adoptHere = 256

// install swaps the state in if only a few entries lack, which it applies first; at
// is the last that was. It gives way to a snapshot that raft is about to put there.
func (rb *rebuilder) install(m *fsm.Machine, at *rota.Index) bool {
	if !rb.placing.TryLock() {
		return false
	}
	defer rb.placing.Unlock()
	rb.n.replica.mu.Lock()
	if rb.passed > *at+adoptHere || rb.passed < m.Head().Index || rb.replayOwn(m, at, rb.passed) != nil {
		rb.n.replica.mu.Unlock()
		return false
	}
	head := m.Head()
	rb.place(m, head) // raft's entries from its index to at hold no operations
	rb.active.Store(false)
	rb.n.replica.mu.Unlock()
	rb.n.replica.advance(head.Index, head.Rules)
	rb.n.membership.learnCluster()
	rb.n.stream.Rejudge()
	rb.n.log.Warn("the state is rebuilt: this node serves again", "index", uint64(head.Index), "digest", head.Digest.String())
	return true
}

// place puts a state, and what follows from it, where the present one is. The caller holds
// the apply lock.
func (rb *rebuilder) place(m *fsm.Machine, head fsm.Head) {
	rp := &rb.n.replica
	before := rp.machine
	rp.machine, rb.passed = m, head.Index
	rb.digests.clear()
	rb.digests.put(head.Index, head.Digest, m.Staging().Last)
	rp.hub.resync(before, m)
	rb.n.events.Reset(head)
	rp.applied.Store(uint64(head.Index))
}

// replayOwn applies entries of this node's own log to a state that is not served.
func (rb *rebuilder) replayOwn(m *fsm.Machine, at *rota.Index, to rota.Index) error {
	for *at < to {
		if rb.n.life.Err() != nil {
			return errStopping()
		}
		var entry raft.Log
		next := *at + 1
		if err := rb.n.stores.Log.GetLog(uint64(next), &entry); err != nil {
			return &rota.Error{Kind: rota.KindUnavailable, Subject: "rebuild", Cause: err,
				Text: fmt.Sprintf("entry %d, which the fetched state lacks, is not in this node's log", next)}
		}
		if entry.Type == raft.LogCommand {
			if _, err := m.Apply(next, entry.Term, entry.Data); err != nil {
				return err
			}
		}
		*at = next
	}
	return nil
}

// passSnapshot takes a snapshot that raft installs, or begins with, for passed: the
// state is fetched. The caller holds placing, so that none is put in place meanwhile.
func (rb *rebuilder) passSnapshot(content io.Reader) error {
	info, err := snapshot.Inspect(content)
	if err != nil {
		rb.n.log.Error("snapshot refused", "err", err)
		return err
	}
	rb.n.replica.mu.Lock()
	defer rb.n.replica.mu.Unlock()
	rb.passed = info.Index
	return nil
}

// followsPassed is nil where an entry that raft gives comes after all that it gave
// before, and the state has applied just that: any other state would go on from what
// the log does not hold. The caller holds the apply lock.
func (rb *rebuilder) followsPassed(index rota.Index) error {
	if head := rb.n.replica.machine.Head().Index; head != rb.passed || index <= head {
		return rota.Refusef(rota.KindInternal, "entry", "entry %d was to be applied to the state of entry %d, and the newest one given before was %d: "+
			"this node's state is not that of its log. Start it again, which builds the state anew from snapshot and log", index, head,
			rb.passed)
	}
	return nil
}
