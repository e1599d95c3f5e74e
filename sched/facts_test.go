package sched

import (
	"cmp"

	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// naiveCaps holds the remaining allowances of tenants and domains; an absent one is unbounded.
type naiveCaps struct {
	tenants, windows map[rota.TenantID]int64
	domains, keys    map[string]int64
}

var (
	somePriorities = []int32{0, 1, 1, 1, 1, 5, 6, 10}
	someSizes      = []int64{0, 0, 0, 1 << 20, 5 << 20}
)

// someStats returns the statistics of the types; one type has none.
func someStats(typ rota.JobType) Stats {
	switch typ {
	case "echo":
		return Stats{Success: 30, Fail: 3, EMAus: 2_000_000, ExpectedMs: 1_500, Sampled: true}
	case "render":
		return Stats{Success: 5, Fail: 70, EMAus: 9_000_000, ExpectedMs: 1_000, Sampled: true}
	}
	return Stats{}
}

// someCaps bounds nothing, or some tenants and domains.
func someCaps(t *dice) *naiveCaps {
	if t.between(0, 1) == 0 {
		return nil
	}
	c := &naiveCaps{map[rota.TenantID]int64{}, map[rota.TenantID]int64{}, map[string]int64{}, map[string]int64{}}
	for _, key := range someKeys {
		if t.between(0, 3) == 0 {
			c.keys[key] = int64(t.between(0, 5))
		}
	}
	for _, tenant := range someTenants {
		if t.between(0, 2) == 0 {
			c.tenants[tenant] = int64(t.between(0, 9))
		}
		if t.between(0, 4) == 0 {
			c.windows[tenant] = int64(t.between(0, 9))
		}
	}
	for _, domain := range someDomains {
		if t.between(0, 3) == 0 {
			c.domains[domain] = int64(t.between(0, 5))
		}
	}
	return c
}

func (c *naiveCaps) clone() naiveCaps {
	if c == nil {
		return naiveCaps{}
	}
	return naiveCaps{maps.Clone(c.tenants), maps.Clone(c.windows), maps.Clone(c.domains), maps.Clone(c.keys)}
}

func leftOf[K comparable](m map[K]int64, k K) int64 {
	if n, ok := m[k]; ok {
		return n
	}
	return math.MaxInt64
}

func (c *naiveCaps) open(it *Item) bool {
	return c == nil || leftOf(c.tenants, it.Tenant) > 0 && leftOf(c.windows, it.Tenant) > 0 &&
		leftOf(c.domains, it.Domain) > 0 && !slices.ContainsFunc(it.Keys,
		func(key string) bool { return leftOf(c.keys, key) <= 0 })
}

func (c *naiveCaps) spend(it *Item) {
	if c == nil {
		return
	}
	if _, ok := c.tenants[it.Tenant]; ok {
		c.tenants[it.Tenant]--
	}
	if _, ok := c.windows[it.Tenant]; ok {
		c.windows[it.Tenant]--
	}
	if _, ok := c.domains[it.Domain]; ok {
		c.domains[it.Domain]--
	}
	for _, key := range it.Keys {
		if _, ok := c.keys[key]; ok {
			c.keys[key]--
		}
	}
}

// asked returns it as the product's Caps.
func (c *naiveCaps) asked() Caps {
	if c == nil {
		return nil
	}
	return askedCaps{c.clone()}
}

type askedCaps struct{ naiveCaps }

func (c askedCaps) Tenant(t rota.TenantID) int64                   { return leftOf(c.tenants, t) }
func (c askedCaps) Window(_ rota.QueueName, t rota.TenantID) int64 { return leftOf(c.windows, t) }
func (c askedCaps) Key(count string) int64                         { return leftOf(c.keys, count) }
func (c askedCaps) Amount(string) Amount                           { return Amount{Left: math.MaxInt64} }
func (c askedCaps) Weight(string, *Item) int64                     { return 1 }

func (c askedCaps) Domain(_ rota.QueueName, domain string) int64 { return leftOf(c.domains, domain) }

// drawable reports whether a job may be drawn now.
func (n *naive) drawable(it *Item, class func(*Item) *naiveAsk) bool {
	return n.left.open(it) && n.roomAnywhere(class(it))
}

// drop removes a placed job.
func (n *naive) drop(it *Item) {
	is := func(x *Item) bool { return x == it }
	n.items, n.idle = slices.DeleteFunc(n.items, is), slices.DeleteFunc(n.idle, is)
}

// oldestOfAll returns the oldest of the jobs that turns look at.
func (n *naive) oldestOfAll(wanted func(*Item) bool) (best *Item) {
	for _, it := range slices.Concat(n.items, n.idle) {
		if wanted(it) && (best == nil || byAge(it, best) < 0) {
			best = it
		}
	}
	return best
}

func naiveScore(p *rota.QueuePolicy, it *Item, now rota.Clock) float64 {
	s := someStats(it.Type)
	e, ok, bad := float64(p.EpsilonMilli)/1000, float64(s.Success), float64(s.Fail)
	raw := (ok + e) / (ok + bad + 2*e)
	if s.ExpectedMs > 0 {
		raw = float64(s.ExpectedMs) / math.Max(1, float64(s.EMAus)/1000) * raw
	}
	c := math.Min(1, (ok+bad)/float64(p.NMin))
	blended := float64(c*raw) + float64((1-c)*1)
	w := math.Max(float64(p.WMinMilli)/1000, math.Min(float64(p.WMaxMilli)/1000, blended))
	aging := math.Min(float64(p.MaxAgingMilli)/1000, 1+float64(now-it.Enqueued)/1000/(float64(p.TAgingMs)/1000))
	base := float64(p.TierBasesMilli[naiveTier(it.Priority, p.Tiers)]) / 1000
	return float64(base*aging) * (w / math.Sqrt(math.Max(0.1, float64(it.Size)/(1<<20))))
}

// naiveTier deals the priorities from 1 on to the tiers below the critical one, in turn, and counts how many each has.
func naiveTier(priority int32, tiers int64) int64 {
	has := make([]int64, tiers)
	has[0] = 1
	for i := range int64(rota.MaxPriority) {
		has[1+i%(tiers-1)]++
	}
	tier, left := int64(0), int64(priority)
	for left >= has[tier] {
		left -= has[tier]
		tier++
	}
	return tier
}

// sampler takes sample after sample of an adaptive queue's jobs by SPEC §5.3: from each tier the first that may be
// drawn, sorted by score.
func (n *naive) sampler(class func(*Item) *naiveAsk) func() bool {
	rest := n.items
	n.items = nil
	return func() bool {
		var tiers [rota.MaxTiers][]*Item
		for _, it := range rest {
			if n.drawable(it, class) {
				tiers[it.Tier] = append(tiers[it.Tier], it)
			}
		}
		var depths [rota.MaxTiers]int
		for i := range tiers {
			slices.SortFunc(tiers[i], byTier)
			depths[i] = len(tiers[i])
		}
		for i, taken := range ScoringOf(n.policy).Taken(int(n.policy.BatchSize), depths) {
			n.items = append(n.items, tiers[i][:taken]...)
		}
		rest = slices.DeleteFunc(rest, func(it *Item) bool { return slices.Contains(n.items, it) })
		slices.SortFunc(n.items, func(a, b *Item) int {
			x, y := math.Float64frombits(uint64(n.score(a))), math.Float64frombits(uint64(n.score(b)))
			return cmp.Or(cmp.Compare(y, x), cmp.Compare(a.Enqueued, b.Enqueued), cmp.Compare(a.ID, b.ID))
		})
		return len(n.items) > 0
	}
}

func byTier(a, b *Item) int {
	return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.TierAt, b.TierAt), cmp.Compare(a.TierSeq, b.TierSeq))
}

func (w *world) newPending() *Pending {
	p := NewPending(w.fair)
	switch {
	case w.tiered:
		p = NewTiered(int(w.policy.Tiers))
	case w.grouped:
		p = NewGrouped()
	}
	if w.ring != nil {
		p.SetKeys(w.keys)
	}
	return p
}

func (w *world) isThrottled(it *Item) bool {
	return w.throttled["t:"+string(it.Tenant)] || w.throttled["d:"+it.Domain] || w.ring != nil && len(it.Keys) > 0 &&
		(w.ring.waits[string(it.ID)] || slices.ContainsFunc(it.Keys, w.ring.Full))
}

// idle returns the jobs that only turns of the oldest look at.
func (w *world) idle() (out []*Item) {
	for _, it := range w.items {
		if it.Priority > 5 && w.low == LowOldestOnly && !w.isThrottled(it) {
			out = append(out, it)
		}
	}
	return out
}

// ranked returns all jobs in ranking order, for an adaptive queue tier by tier.
func (w *world) ranked() []*Item {
	out := slices.Clone(w.items)
	slices.SortFunc(out, func(a, b *Item) int {
		if w.tiered {
			return byTier(a, b)
		}
		return cmp.Or(cmp.Compare(a.Key, b.Key), byAge(a, b))
	})
	return out
}

// promote moves the first job of a tier to the back of the next one.
func (w *world) promote(t *dice) {
	front := w.pending.TierFront(t.between(2, 7))
	if front == nil {
		return
	}
	w.supply.Intern(*w.classes[front.Class]) // the new one's user
	w.next++
	it := *front
	w.remove(t, front)
	it.TierPlace = &TierPlace{it.Tier - 1, 3, uint64(w.next), it.Size, 0}
	w.items = append(w.items, &it)
	w.pending.Add(&it)
}

// checkPlaces compares the returned places, tiers and lanes with the list.
func (w *world) checkPlaces(t *dice) {
	var depths []int64
	var fronts []*Item
	if w.tiered {
		depths, fronts = make([]int64, w.policy.Tiers), make([]*Item, w.policy.Tiers)
	}
	var critical []*Item
	lanes, throttled := map[laneKey]bool{}, 0
	for i, it := range w.ranked() {
		if n := w.pending.Before(it); n != int64(i) {
			t.Fatalf("%d jobs before %s, want %d", n, it.ID, i)
		}
		blocked := w.isThrottled(it) || it.Priority > 5 && w.low != LowFree
		if w.pending.Blocked(it) != blocked {
			t.Fatalf("job %s is blocked: %v", it.ID, !blocked)
		}
		if w.tiered {
			if depths[it.Tier]++; fronts[it.Tier] == nil {
				fronts[it.Tier] = it
			}
		}
		if it.Priority == 0 && !blocked {
			critical = append(critical, it)
		}
		k := laneKey{it.Tenant, it.Domain, it.Class, bandOf(it.Priority), 0, strings.Join(it.Keys, waitsForTurn), ""}
		if w.ring != nil && w.ring.waits[string(it.ID)] {
			k.counts = waitsForTurn
		}
		if w.grouped {
			k.party = partyOf(it)
		}
		if w.tiered {
			k.tier = uint8(it.Tier)
		}
		if !lanes[k] {
			lanes[k] = true
			if blocked {
				throttled++
			}
		}
	}
	if !slices.Equal(w.pending.Tiers(), depths) || w.pending.Lanes() != len(lanes) ||
		w.pending.ThrottledLanes() != throttled {
		t.Fatalf("tiers %v, %d lanes, %d throttled; want %v, %d, %d", w.pending.Tiers(), w.pending.Lanes(),
			w.pending.ThrottledLanes(), depths, len(lanes), throttled)
	}
	for i, front := range fronts {
		if w.pending.TierFront(i) != front {
			t.Fatalf("tier %d begins with another job", i)
		}
	}
	if got := slices.Collect(w.pending.Critical); !slices.Equal(got, critical) {
		t.Fatalf("%d critical jobs, want %d, or in another order", len(got), len(critical))
	}
}
