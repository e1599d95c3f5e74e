package raftstore

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// aheadMost bounds the batches that wait for the disk while raft goes on; a leadership
// has no more than entriesInFlight under way.
const aheadMost = 8

// aheadWriter lets a leader's disk work beside those of its followers. hashicorp/raft
// sends an entry when its own disk has it: a commit waits for two disks in a row. Here a
// leader's own commands are handed over to a goroutine that writes them, and raft goes on
// (Ongaro, Consensus: Bridging Theory and Practice, 10.2.1).
//
// raft then counts this node for an entry that it may not hold yet. Nothing follows from
// that before it does:
//   - the machine applies an entry only when it is on this disk (await), so that nobody is
//     answered before a majority holds it, this node being one of them;
//   - followers hear of no commit beyond what is on this disk (Stores.OnDisk);
//   - any other write comes after what is under way (writer.do): before this node takes
//     part in another term, all that it was counted for is on its disk.
//
// What reads the log reads what waits, too, as raft does not know the difference.
type aheadWriter struct {
	// leads reports whether this node's raft leads. raft stores entries from its main loop
	// alone, which leaves that state before it takes another leader's.
	leads atomic.Pointer[func() bool]

	mu      sync.Mutex
	changed sync.Cond
	waiting []*raft.Log // oldest first, those that are being written included
	batches int         // that were handed over since the last write began
	failed  error
	closing bool
	ended   chan struct{}
}

func newAheadWriter() *aheadWriter {
	a := &aheadWriter{ended: make(chan struct{})}
	a.changed.L = &a.mu
	return a
}

// takes reports whether entries may go ahead: a leader's own commands. A term's first entry
// and changes of membership are waited for, as ever.
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

// put hands entries over; it waits where too many wait already.
func (a *aheadWriter) put(entries []*raft.Log) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.failed == nil && !a.closing && a.batches >= aheadMost {
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

// run writes what was handed over, all that waits in one transaction, until close. The
// first failure is the last: the writer has ended the process, or made the node unfit.
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

// await waits until no entry up to index waits for the disk any more.
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

// drain waits until nothing waits for the disk.
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

// bounds returns the first and the last index that wait, 0 for none.
func (a *aheadWriter) bounds() (first, last uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		return 0, 0
	}
	return a.waiting[0].Index, a.waiting[len(a.waiting)-1].Index
}

// get reads an entry that waits.
func (a *aheadWriter) get(index uint64, entry *raft.Log) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 || index < a.waiting[0].Index || index > a.waiting[len(a.waiting)-1].Index {
		return false
	}
	*entry = *a.waiting[index-a.waiting[0].Index]
	return true
}

// failure returns why nothing goes ahead any more, nil while all is well.
func (a *aheadWriter) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

// close writes what waits and ends the goroutine.
func (a *aheadWriter) close() {
	a.mu.Lock()
	a.closing = true
	a.changed.Broadcast()
	a.mu.Unlock()
	<-a.ended
}
