package cluster

import (
	"sync"

	"github.com/rotasched/rota"
)

// digestRing remembers the state's digest after each of the latest entries, so
// that nodes can compare themselves at an index that all have passed (SPEC §2.5).
type digestRing struct {
	mu      sync.Mutex
	entries []indexedDigest
}

type indexedDigest struct {
	index  rota.Index
	digest rota.Digest
}

func (r *digestRing) put(index rota.Index, d rota.Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = make([]indexedDigest, digestsKept)
	}
	r.entries[index%digestsKept] = indexedDigest{index, d}
}

func (r *digestRing) get(index rota.Index) *rota.Digest {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		return nil
	}
	if e := r.entries[index%digestsKept]; e.index == index && index != 0 {
		d := e.digest
		return &d
	}
	return nil
}

func (r *digestRing) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.entries)
}
