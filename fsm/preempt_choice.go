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
func (p *preemption) planFor(class sched.ClassID, worker rota.WorkerID, leases []going) ([]going, bool) {
	slots, cpu, memory, ok := p.draft.Lacks(class, worker)
	if !ok {
		return nil, false
	}
	lack := need{slots, cpu, memory}
	p.able = p.able[:0]
	for i := range leases {
		if g := &leases[i]; g.revoked {
			lack = lack.less(g)
		} else if p.m.mayPreempt(g) {
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
	exact := leases[:min(len(leases), maxPlanned)]
	for size := max(0, int(lack.slots)); size <= len(exact); size++ {
		if chosen, ok := choose(exact, size, lack); ok {
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
		if without := (need{lack.slots + 1, lack.cpu + g.cpu, lack.memory + g.memory}); without.met() {
			chosen, lack = slices.Delete(chosen, i, i+1), without
		}
	}
	return chosen, true
}

// maxPlanned bounds the leases among which every choice is tried: 4,096 of them.
const maxPlanned = 12

// choose finds the first so many of the leases that meet a need together.
func choose(leases []going, size int, lack need) ([]going, bool) {
	if size == 0 {
		return nil, lack.met()
	}
	for i := 0; i+size <= len(leases); i++ {
		if rest, ok := choose(leases[i+1:], size-1, lack.less(&leases[i])); ok {
			return append([]going{leases[i]}, rest...), true
		}
	}
	return nil, false
}
