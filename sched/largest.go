package sched

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
)

// LaneSize is a lane and how many jobs wait in it.
type LaneSize struct {
	Jobs int
	// Head is its first job in ranking order, Aged the one that waits the longest, since Oldest.
	Head, Aged *Item
	Oldest     rota.Clock
	// Throttled says that rounds do not draw from it.
	Throttled bool
}

// Largest returns the lanes with the most jobs, at most n, of tenants that seen lets pass: by
// their jobs, then by their heads. O(lanes), and no more memory than n lanes take.
func (p *Pending) Largest(n int, seen func(rota.TenantID) bool) []LaneSize {
	return p.first(n, seen, largerFirst)
}

// LongestWait is Largest by how long the oldest job of each waits, then by the heads.
func (p *Pending) LongestWait(n int, seen func(rota.TenantID) bool) []LaneSize {
	return p.first(n, seen, olderFirst)
}

// first returns the first n lanes in an order.
func (p *Pending) first(n int, seen func(rota.TenantID) bool, order func(a, b LaneSize) int) (all []LaneSize) {
	for _, lanes := range p.bands {
		for _, l := range lanes {
			if !seen(l.key.tenant) {
				continue
			}
			head, _ := l.items.min()
			oldest, _ := l.aged().min()
			one := LaneSize{Jobs: l.items.len(), Head: head.item, Aged: oldest.item, Oldest: oldest.age, Throttled: l.head.item == nil}
			if len(all) == n && order(all[n-1], one) < 0 {
				continue
			}
			at, _ := slices.BinarySearchFunc(all, one, order)
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

// olderFirst is the order of lanes by their oldest jobs.
func olderFirst(a, b LaneSize) int {
	switch {
	case a.Oldest != b.Oldest:
		return cmp.Compare(a.Oldest, b.Oldest)
	case entryLess(entryOf(a.Head), entryOf(b.Head)):
		return -1
	}
	return 1
}
