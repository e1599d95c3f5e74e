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
func (n *Node) adopt(m *fsm.Machine) error {
	at := m.Head().Index
	var seen [2]rota.Index
	moved := time.Now()
	for {
		passed := n.passed()
		if err := n.replayOwn(m, &at, passed); err != nil {
			return err
		}
		if passed >= m.Head().Index && n.install(m, &at) {
			return nil
		}
		if now := [2]rota.Index{at, passed}; now != seen {
			seen, moved = now, time.Now()
		}
		if time.Since(moved) > rebuildAgree {
			return rota.Refusef(rota.Unavailable, "rebuild", "this node's log has come to entry %d, the fetched state is that of entry %d",
				passed, m.Head().Index)
		}
		if err := n.pause(n.life, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (n *Node) passed() rota.Index {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.mend.passed
}

// adoptHere is how many entries are applied while applying waits.
const adoptHere = 256

// install swaps the state in if only a few entries lack, which it applies first; at
// is the last that was. It gives way to a snapshot that raft is about to put there.
func (n *Node) install(m *fsm.Machine, at *rota.Index) bool {
	if !n.mend.placing.TryLock() {
		return false
	}
	defer n.mend.placing.Unlock()
	n.mu.Lock()
	if n.mend.passed > *at+adoptHere || n.mend.passed < m.Head().Index || n.replayOwn(m, at, n.mend.passed) != nil {
		n.mu.Unlock()
		return false
	}
	head := m.Head()
	before := n.machine
	n.machine = m
	n.mend.passed = head.Index // raft's entries from here to at hold no operations
	n.digests.clear()
	n.digests.put(head.Index, head.Digest, m.Staging().Last)
	n.hub.resync(before, m)
	n.events.reset(head)
	n.mend.active.Store(false)
	n.applied.Store(uint64(head.Index))
	n.mu.Unlock()
	n.rules.Store(head.Rules)
	n.appliedAt.Store(int64(n.sinceBoot()))
	n.hub.advance(head.Index)
	n.learnCluster()
	n.log.Warn("the state is rebuilt: this node serves again", "index", uint64(head.Index), "digest", head.Digest.String())
	return true
}

// replayOwn applies entries of this node's own log to a state that is not served.
func (n *Node) replayOwn(m *fsm.Machine, at *rota.Index, to rota.Index) error {
	for *at < to {
		if n.life.Err() != nil {
			return errStopping()
		}
		var entry raft.Log
		next := *at + 1
		if err := n.stores.Log.GetLog(uint64(next), &entry); err != nil {
			return &rota.Error{Kind: rota.Unavailable, Subject: "rebuild", Cause: err,
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
func (n *Node) passSnapshot(content io.Reader) error {
	info, err := snapshot.Inspect(content)
	if err != nil {
		n.log.Error("snapshot refused", "err", err)
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mend.passed = info.Index
	return nil
}

// followsPassed is nil where an entry that raft gives comes after all that it gave
// before, and the state has applied just that: any other state would go on from what
// the log does not hold. The caller holds the apply lock.
func (n *Node) followsPassed(index rota.Index) error {
	if head := n.machine.Head().Index; head != n.mend.passed || index <= head {
		return rota.Refusef(rota.Internal, "entry", "entry %d was to be applied to the state of entry %d, and the newest one given before was %d: "+
			"this node's state is not that of its log. Start it again, which builds the state anew from snapshot and log", index, head,
			n.mend.passed)
	}
	return nil
}
