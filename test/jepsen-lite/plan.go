package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// pair is two kinds of nemeses at work at the same time, in the order of their names.
type pair struct{ a, b string }

func pairOf(a, b string) pair { return pair{min(a, b), max(a, b)} }

// ruinous nemeses destroy what nodes have stored. Two at once might destroy a
// majority's, which nothing can promise to survive.
var ruinous = []string{"bit-rot"}

// plan has the lanes strike all pairs of nemeses, and not only those that chance
// brings together. The first lane draws by weight, from the seed alone. The others
// wait until it is at work, and take a partner for what it does then; so far as
// that depends on how long strikes take, it is not the seed's.
type plan struct {
	mu      sync.Mutex
	at      [lanes]string
	changed chan struct{}
	struck  map[pair]int
}

func newPlan() *plan { return &plan{changed: make(chan struct{}), struck: make(map[pair]int)} }

// partnerMost is how long a lane waits for another to be at work before it strikes
// alone.
const partnerMost = 6 * time.Second

// begin notes what a lane does now, "" for nothing.
func (p *plan) begin(lane int, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[lane] = name
	close(p.changed)
	p.changed = make(chan struct{})
}

// await gives what the first lane does, "" if it did nothing for long.
func (p *plan) await(ctx context.Context) string {
	patience := time.NewTimer(partnerMost)
	defer patience.Stop()
	for {
		p.mu.Lock()
		other, changed := p.at[0], p.changed
		p.mu.Unlock()
		if other != "" {
			return other
		}
		select {
		case <-changed:
		case <-patience.C:
			return ""
		case <-ctx.Done():
			return ""
		}
	}
}

// partner draws one of those whose pair with other was struck least, and counts it:
// one that cannot strike now does not come again before all others had their turn.
func (p *plan) partner(other string, can []nemesis, r *rand.Rand) nemesis {
	p.mu.Lock()
	defer p.mu.Unlock()
	can = slices.DeleteFunc(slices.Clone(can), func(n nemesis) bool {
		return slices.Contains(ruinous, n.name) && slices.Contains(ruinous, other)
	})
	if len(can) == 0 {
		return nemesis{}
	}
	least := slices.MinFunc(can, func(a, b nemesis) int {
		return p.struck[pairOf(a.name, other)] - p.struck[pairOf(b.name, other)]
	})
	fewest := p.struck[pairOf(least.name, other)]
	can = slices.DeleteFunc(can, func(n nemesis) bool { return p.struck[pairOf(n.name, other)] > fewest })
	chosen := drawByWeight(can, r)
	p.struck[pairOf(chosen.name, other)]++
	return chosen
}

// drawByWeight draws one, likelier ones more often.
func drawByWeight(can []nemesis, r *rand.Rand) nemesis {
	if len(can) == 0 {
		return nemesis{}
	}
	total := 0
	for _, n := range can {
		total += n.weight
	}
	at := r.IntN(total)
	for _, n := range can {
		if at -= n.weight; at < 0 {
			return n
		}
	}
	return can[0]
}

// pairs are the kinds of nemeses that were at work at the same time, and how often.
func pairs(faults []Fault) map[pair]int {
	met := make(map[pair]int)
	for i, a := range faults {
		for _, b := range faults[i+1:] {
			if a.Lane != b.Lane && a.From < b.To && b.From < a.To {
				met[pairOf(a.Nemesis, b.Nemesis)]++
			}
		}
	}
	return met
}

// pairNames are pairs in words, for figures.
func pairNames(met map[pair]int) map[string]int {
	names := make(map[string]int, len(met))
	for p, n := range met {
		names[p.a+" + "+p.b] = n
	}
	return names
}

// kinds are the nemeses that could strike in a run, or did, by name.
func kinds(h *History) []string {
	all := slices.Clone(h.Nemeses)
	for i := range h.Faults {
		all = append(all, h.Faults[i].Nemesis)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
