package rebuild

import (
	"sync"

	"github.com/rotasched/rota"
)

// Digests remembers the state's digest after each of the latest entries, so
// that nodes can compare themselves at an index that all have passed (SPEC §2.5).
type Digests struct {
	mu      sync.Mutex
	entries []indexedDigest
	// mark and before are the two latest entries that are compareEvery or more apart;
	// due is notified of each, never waited for. It is made when first asked for.
	mark, before rota.Index
	due          chan struct{}
}

const (
	// compareEvery is how many entries may go by between two comparisons, where they come
	// faster than seconds do (SPEC §2.5).
	compareEvery = 1_000
	// digestsKept is how far back a node knows its digests: many seconds of
	// the fastest log.
	digestsKept = 32_768
)

// indexedDigest is a state in short: ended is the number of its newest terminal
// job, by which the records that came later are known.
type indexedDigest struct {
	index  rota.Index
	digest rota.Digest
	ended  uint64
}

// Put notes the digest after an entry; ended is the number of the newest terminal job.
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

// Marked returns the mark before the latest: nodes that lag by less than compareEvery entries
// have passed it as well. 0 is none.
func (r *Digests) Marked() rota.Index {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.before
}

// Get returns the digest after an entry, nil where it is not known any more.
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

// upTo returns the newest that is known of an index or one before it.
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

// Clear forgets all of them.
func (r *Digests) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.entries)
	r.mark, r.before = 0, 0
}
