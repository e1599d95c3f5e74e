package sched

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
)

// LaneSize is a lane and its number of pending jobs.
type LaneSize struct {
	Jobs int
	// Head is its first job in ranking order; Aged is the job that has waited longest, since Oldest.
	Head, Aged *Item
	Oldest     rota.Clock
	// Throttled reports whether rounds skip the lane.
	Throttled bool
}

// Largest returns the at most n lanes with the most jobs, among tenants for which seen is true, ordered by number of
// jobs, then by head. O(lanes) time, memory for n lanes.
func (p *Pending) Largest(n int, seen func(rota.TenantID) bool) []LaneSize {
	return p.first(n, seen, largerFirst)
}

// LongestWait is Largest ordered by how long the oldest job of each lane has waited, then by head.
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
			one := LaneSize{Jobs: l.items.len(), Head: head.item, Aged: oldest.item, Oldest: oldest.age,
				Throttled: l.head.item == nil}
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

// largerFirst orders lanes by size.
func largerFirst(a, b LaneSize) int {
	switch {
	case a.Jobs != b.Jobs:
		return b.Jobs - a.Jobs
	case entryLess(entryOf(a.Head), entryOf(b.Head)):
		return -1
	}
	return 1
}

// olderFirst orders lanes by their oldest jobs.
func olderFirst(a, b LaneSize) int {
	switch {
	case a.Oldest != b.Oldest:
		return cmp.Compare(a.Oldest, b.Oldest)
	case entryLess(entryOf(a.Head), entryOf(b.Head)):
		return -1
	}
	return 1
}
