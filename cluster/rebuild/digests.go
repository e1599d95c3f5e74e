package rebuild

import (
	"sync"

	"github.com/rotasched/rota"
)

// Digests remembers the state's digest after each of the latest entries, so that nodes can compare themselves at an
// index that all have passed (SPEC §2.5).
type Digests struct {
	mu      sync.Mutex
	entries []indexedDigest
	// mark and before are the two latest marks, entries at least compareEvery apart; due is notified of each without
	// blocking. It is created on first use.
	mark, before rota.Index
	due          chan struct{}
}

const (
	// compareEvery is the number of entries between two comparisons if more than that many arrive per second
	// (SPEC §2.5).
	compareEvery = 1_000
	// digestsKept is the number of digests a node keeps: many seconds of the fastest log.
	digestsKept = 32_768
)

// indexedDigest is the digest of a state; ended is the number of its newest terminal job, which identifies later
// records.
type indexedDigest struct {
	index  rota.Index
	digest rota.Digest
	ended  uint64
}

// Put records the digest after an entry; ended is the number of the newest terminal job.
func (r *Digests) Put(index rota.Index, d rota.Digest, ended uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = make([]indexedDigest, digestsKept)
	}
	r.entries[index%digestsKept] = indexedDigest{index, d, ended}
	if index < r.mark+compareEvery {
		return
	}
	r.mark, r.before = index, r.mark
	if r.due != nil {
		notify(r.due)
	}
}

// Marks returns a channel that is notified of each mark.
func (r *Digests) Marks() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		r.due = make(chan struct{}, 1)
	}
	return r.due
}

// Marked returns the mark before the latest, which nodes that lag by less than compareEvery entries have passed as
// well; 0 for none.
func (r *Digests) Marked() rota.Index {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.before
}

// Get returns the digest after an entry, nil if it is no longer known.
func (r *Digests) Get(index rota.Index) *rota.Digest {
	if e, ok := r.at(index); ok {
		return &e.digest
	}
	return nil
}

func (r *Digests) at(index rota.Index) (e indexedDigest, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil || index == 0 {
		return e, false
	}
	e = r.entries[index%digestsKept]
	return e, e.index == index
}

// upTo returns the newest known digest at or before an index.
func (r *Digests) upTo(index rota.Index) (newest indexedDigest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		if e.index <= index && e.index > newest.index {
			newest = e
		}
	}
	return newest
}

// Clear removes all digests.
func (r *Digests) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.entries)
	r.mark, r.before = 0, 0
}
