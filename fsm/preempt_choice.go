package fsm

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// plan is how a worker can make room: by ending these leases, the newest first.
type plan struct {
	worker rota.WorkerID
	leases []going
	// at is the worker's place in the shuffled order.
	at int32
}

// comparePlans puts the fewest leases first, then the newest.
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

// planFor chooses among a worker's leases that give way, the newest first: those
// that are revoked already count as ended.
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

// fewest are the fewest of these leases, the newest first, whose end meets a need;
// of equally few the first in the order of their places, so the newest. That is
// exact among the maxPlanned newest; where those do not suffice, leases are added
// from the newest on, and what turns out not to be needed is left out, the oldest
// first.
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

// maxPlanned bounds the leases among which every choice is tried: 4,096 of them.
const maxPlanned = 12

// choice is the search for the fewest leases. What follows a place gives a bound on
// what can still be had, so that a worker on which no end of leases would do, as
// most are in a cluster that is short of cpu, costs next to nothing.
type choice struct {
	leases []going
	// sum and most are what the leases from a place on take together, and the most
	// that one of them takes; looks counts the places looked at.
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

// hopeless reports whether no so many of the leases from a place on meet a need.
func (c *choice) hopeless(from, size int, lack need) bool {
	return int64(lack.slots) > int64(size) || !lack.Within(c.sum[from]) || !lack.Share(int64(max(size, 1))).Within(c.most[from])
}

// choose finds the first so many of the leases from a place on that meet a need
// together.
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
