package sched

import (
	"slices"

	"github.com/rotasched/rota"
)

// LaneSize is a lane and how many jobs wait in it.
type LaneSize struct {
	Jobs int
	// Head is its first job in ranking order, Oldest the least Enqueued of its jobs.
	Head   *Item
	Oldest rota.Clock
	// Throttled says that rounds do not draw from it.
	Throttled bool
}

// Largest returns the lanes with the most jobs, at most n, of tenants that seen lets pass: by
// their jobs, then by their heads. O(lanes), and no more memory than n lanes take.
func (p *Pending) Largest(n int, seen func(rota.TenantID) bool) (all []LaneSize) {
	for _, lanes := range p.bands {
		for _, l := range lanes {
			jobs := l.items.len()
			if len(all) == n && jobs < all[n-1].Jobs || !seen(l.key.tenant) {
				continue
			}
			head, _ := l.items.min()
			oldest, _ := l.aged().min()
			one := LaneSize{Jobs: jobs, Head: head.item, Oldest: oldest.age, Throttled: l.head.item == nil}
			at, _ := slices.BinarySearchFunc(all, one, largerFirst)
			if at == n {
				continue
			}
			if len(all) == n {
				all = all[:n-1]
			}
			all = slices.Insert(all, at, one)
		}
	}
	return all
}

// largerFirst is the order of lanes by size.
func largerFirst(a, b LaneSize) int {
	switch {
	case a.Jobs != b.Jobs:
		return b.Jobs - a.Jobs
	case entryLess(entryOf(a.Head), entryOf(b.Head)):
		return -1
	}
	return 1
}
