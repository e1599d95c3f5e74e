package raftstore

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// maxAhead is the maximum number of batches that may wait for the disk while raft continues; a leadership has at most
// entriesInFlight in progress.
const maxAhead = 8

// aheadWriter lets the leader write its disk at the same time as its followers. hashicorp/raft sends an entry only
// after the leader's own disk has it, so a commit waits for two disks in sequence. Here a goroutine writes a leader's
// own commands while raft continues (Ongaro, Consensus: Bridging Theory and Practice, 10.2.1).
//
// raft then counts this node for an entry that may not be on its disk yet. That has no effect until it is:
//   - the machine applies an entry only once it is on this disk (await), so no caller is answered before a majority,
//     this node included, holds the entry;
//   - followers never receive a commit index beyond the entries on this disk (Stores.OnDisk);
//   - any other write comes after the pending ones (writer.do): before this node takes part in another term, every entry
//     it was counted for is on its disk.
//
// Reads of the log include pending entries, since raft does not know the difference.
type aheadWriter struct {
	// leads reports whether this node's raft is the leader. raft stores entries only from its main loop, which leaves
	// the leader state before it accepts entries of another leader.
	leads atomic.Pointer[func() bool]

	mu      sync.Mutex
	changed sync.Cond
	waiting []*raft.Log // oldest first, including those being written
	batches int         // batches added since the last write began
	failed  error
	closing bool
	ended   chan struct{}
}

func newAheadWriter() *aheadWriter {
	a := &aheadWriter{ended: make(chan struct{})}
	a.changed.L = &a.mu
	return a
}

// takes reports whether entries may be written ahead: only a leader's own commands. The first entry of a term and
// membership changes are written synchronously.
func (a *aheadWriter) takes(entries []*raft.Log) bool {
	leads := a.leads.Load()
	if leads == nil || !(*leads)() {
		return false
	}
	for _, e := range entries {
		if e.Type != raft.LogCommand {
			return false
		}
	}
	return len(entries) > 0
}

// put queues entries for writing; it blocks while the queue is full.
func (a *aheadWriter) put(entries []*raft.Log) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.failed == nil && !a.closing && a.batches >= maxAhead {
		a.changed.Wait()
	}
	switch {
	case a.failed != nil:
		return a.failed
	case a.closing:
		return errStoresClosed
	}
	a.waiting = append(a.waiting, entries...)
	a.batches++
	a.changed.Broadcast()
	return nil
}

// run writes queued entries, all of them in one transaction, until close. It stops at the first failure: by then the
// writer has ended the process or made the node unfit.
func (a *aheadWriter) run(write func([]*raft.Log) error) {
	defer close(a.ended)
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		for len(a.waiting) == 0 && !a.closing {
			a.changed.Wait()
		}
		if len(a.waiting) == 0 {
			return
		}
		batch := a.waiting[:len(a.waiting):len(a.waiting)]
		a.batches = 0
		a.mu.Unlock()
		err := write(batch)
		a.mu.Lock()
		if err != nil {
			a.failed = err
			a.changed.Broadcast()
			return
		}
		a.waiting = append([]*raft.Log(nil), a.waiting[len(batch):]...)
		a.changed.Broadcast()
	}
}

// await blocks until every entry up to index is on the disk.
func (a *aheadWriter) await(index uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.waiting) > 0 && a.waiting[0].Index <= index {
		if a.failed != nil {
			return a.failed
		}
		a.changed.Wait()
	}
	return nil
}

// drain blocks until no entry waits for the disk.
func (a *aheadWriter) drain() error { return a.await(math.MaxUint64) }

// clamp lowers an index to the last one that is on the disk.
func (a *aheadWriter) clamp(index uint64) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) > 0 {
		index = min(index, a.waiting[0].Index-1)
	}
	return index
}

// bounds returns the first and the last pending index, 0 for none.
func (a *aheadWriter) bounds() (first, last uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		return 0, 0
	}
	return a.waiting[0].Index, a.waiting[len(a.waiting)-1].Index
}

// get reads a pending entry and reports whether index is one.
func (a *aheadWriter) get(index uint64, entry *raft.Log) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 || index < a.waiting[0].Index || index > a.waiting[len(a.waiting)-1].Index {
		return false
	}
	*entry = *a.waiting[index-a.waiting[0].Index]
	return true
}

// failure returns why writing ahead has stopped, nil if it has not.
func (a *aheadWriter) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

// close writes the pending entries and ends the goroutine.
func (a *aheadWriter) close() {
	a.mu.Lock()
	a.closing = true
	a.changed.Broadcast()
	a.mu.Unlock()
	<-a.ended
}
