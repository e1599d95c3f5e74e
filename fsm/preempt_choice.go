package fsm

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// plan is how a worker can make room: by ending these leases, newest first.
type plan struct {
	worker rota.WorkerID
	leases []going
	// at is the worker's place in the shuffled order.
	at int32
}

// comparePlans orders plans by the fewest leases, then the newest.
func comparePlans(a, b plan) int {
	if c := cmp.Compare(len(a.leases), len(b.leases)); c != 0 {
		return c
	}
	for i := range a.leases {
		if c := cmp.Compare(b.leases[i].started, a.leases[i].started); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.at, b.at)
}

// planFor chooses among a worker's preemptible leases, newest first: leases that are already revoked count as ended.
func (p *preemption) planFor(ask sched.Ask, worker rota.WorkerID, leases []going) ([]going, bool) {
	slots, load, ok := p.draft.Lacks(ask, worker)
	if !ok {
		return nil, false
	}
	lack := need{slots, load}
	p.able = p.able[:0]
	for i := range leases {
		if g := &leases[i]; g.revoked {
			lack = lack.less(g)
		} else if p.m.placement.mayPreempt(g) {
			p.able = append(p.able, *g)
		}
	}
	return fewest(p.able, lack)
}

// fewest returns the fewest of these leases, newest first, whose end meets a need; ties go to the first in the order of
// their places, so to the newest. This is exact among the maxPlanned newest. If those do not suffice, leases are added
// from the newest on, and those that prove unnecessary are left out, oldest first.
func fewest(leases []going, lack need) ([]going, bool) {
	c := choice{leases: leases[:min(len(leases), maxPlanned)]}
	c.measure()
	for size := max(0, int(lack.slots)); size <= len(c.leases); size++ {
		if chosen, ok := c.choose(0, size, lack); ok {
			return chosen, true
		}
	}
	var chosen []going
	for i := 0; i < len(leases) && !lack.met(); i++ {
		chosen, lack = append(chosen, leases[i]), lack.less(&leases[i])
	}
	if !lack.met() {
		return nil, false
	}
	for i := len(chosen) - 1; i >= 0; i-- {
		g := &chosen[i]
		if without := (need{lack.slots + 1, lack.Plus(g.Load)}); without.met() {
			chosen, lack = slices.Delete(chosen, i, i+1), without
		}
	}
	return chosen, true
}

// maxPlanned is the number of leases among which every choice is tried: 4,096 choices.
const maxPlanned = 12

// choice is the search for the fewest leases. The leases after a place bound the room that can still be gained. So a
// worker on which no end of leases would help, as most are in a cluster short of cpu, costs next to nothing.
type choice struct {
	leases []going
	// sum and most are, for the leases from a place on, their total load and the largest single load; looks counts the
	// places looked at.
	sum, most [maxPlanned + 1]sched.Load
	looks     int
}

func (c *choice) measure() {
	for i := len(c.leases) - 1; i >= 0; i-- {
		g := &c.leases[i]
		c.sum[i] = c.sum[i+1].Plus(g.Load)
		c.most[i] = c.most[i+1].Most(g.Load)
	}
}

// hopeless reports whether no choice of `size` leases from a place on meets a need.
func (c *choice) hopeless(from, size int, lack need) bool {
	return int64(lack.slots) > int64(size) || !lack.Within(c.sum[from]) ||
		!lack.Share(int64(max(size, 1))).Within(c.most[from])
}

// choose returns the first choice of `size` leases from a place on that together meet a need.
func (c *choice) choose(from, size int, lack need) ([]going, bool) {
	c.looks++
	if size == 0 {
		return nil, lack.met()
	}
	for i := from; i+size <= len(c.leases) && !c.hopeless(i, size, lack); i++ {
		if rest, ok := c.choose(i+1, size-1, lack.less(&c.leases[i])); ok {
			return append([]going{c.leases[i]}, rest...), true
		}
	}
	return nil, false
}
