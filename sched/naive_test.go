package sched

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// naive decides a round following only the text of SPEC §7, with plain lists that are sorted and searched again at
// every step. It shares only the hashes, ScoreAt and Shuffled (all covered by their own vectors) with the product.
type naive struct {
	workers []*naiveWorker // by id
	policy  *rota.QueuePolicy
	seed    Hash
	cursor  uint64
	limit   int
	// items are the unblocked jobs in ranking order; keyOf orders and ties.
	items      []*Item
	keyOf      func(*Item) int64
	score      func(*Item) int64
	interleave bool
	// shares is nil without sharing; grouped reports that parties share by taking turns.
	shares  map[string]*naiveShare
	grouped bool
	// idle are the jobs that only turns of the oldest look at.
	idle []*Item
	// left is what the caps leave.
	left naiveCaps
	// more takes the next sample of an adaptive queue's jobs; else nil.
	more func() bool

	set  []*naiveWorker // those of SPEC §7.4, in the order of the strategy
	out  []Pair
	rank int32
}

type naiveWorker struct {
	spec         *rota.WorkerSpec
	active       bool
	open         int64
	cpu, mem, io int64 // free
	endless      int32
	held         bool
	isolated     bool // its one lease runs alone
	received     uint64
	naiveReputation
}

type naiveShare struct{ open, weight int64 }

// room reports whether the worker may take a job of the class now.
func (n *naive) room(w *naiveWorker, r *naiveAsk) bool { return !w.held && n.hasRoom(w, r) }

// hasRoom is room for the one job that the worker may be held for.
func (n *naive) hasRoom(w *naiveWorker, r *naiveAsk) bool {
	most := int64(w.spec.Slots) + min(int64(w.spec.Prefetch), n.policy.PrefetchMax)
	if n.policy.LeasesMaxPerWorker > 0 {
		most = min(most, n.policy.LeasesMaxPerWorker)
	}
	return w.could(r, n.policy) && !w.isolated && !(r.Isolated && w.open > 0) && w.open < most && w.offers() &&
		w.hasUnits(r, n.policy) && (r.CPUMilli == 0 || w.cpu >= r.CPUMilli) &&
		(r.MemoryBytes == 0 || w.mem >= r.MemoryBytes) && (r.IOBytesPerS == 0 || w.io >= r.IOBytesPerS)
}

// offers reports whether the worker accepts one more lease by its offer.
func (w *naiveWorker) offers() bool { return !w.polls || w.free > 0 }

// could reports whether the worker could ever take a job of the class.
func (w *naiveWorker) could(r *naiveAsk, p *rota.QueuePolicy) bool {
	if !w.active || !w.trusted(r, p) || w.spec.CPUMilli < r.CPUMilli || w.spec.MemoryBytes < r.MemoryBytes ||
		w.spec.IOBytesPerS < r.IOBytesPerS || !slices.Contains(w.spec.Queues, r.Queue) {
		return false
	}
	for _, capability := range r.Requires {
		if !slices.Contains(w.spec.Capabilities, capability) {
			return false
		}
	}
	if len(r.RegionsAllow) > 0 && !slices.Contains(r.RegionsAllow, w.spec.Region) {
		return false
	}
	if slices.Contains(r.RegionsDeny, w.spec.Region) || r.Worker != "" && r.Worker != w.spec.ID {
		return false
	}
	return true
}

func (n *naive) roomAnywhere(r *naiveAsk) bool {
	return slices.ContainsFunc(n.workers, func(w *naiveWorker) bool { return n.room(w, r) })
}

// run decides the round; class returns an item's requirements.
func (n *naive) run(class func(*Item) *naiveAsk) []Pair {
	for _, w := range n.workers {
		if slices.ContainsFunc(n.items, func(it *Item) bool { return n.room(w, class(it).ofAnyTenant()) }) {
			n.set = append(n.set, w)
		}
	}
	if s := n.policy.Strategy; s != rota.StrategyRoundRobin && s != rota.StrategyRandom &&
		(s == rota.StrategyShuffle || !n.policy.Unseeded) {
		byID := n.set
		n.set = nil
		for _, i := range Shuffled(len(byID), n.seed) {
			n.set = append(n.set, byID[i])
		}
	}
	if n.interleave && n.limit > 0 {
		n.first(class)
	}
	if n.more != nil {
		n.more = n.sampler(class)
	}
	for len(n.out) < n.limit {
		if n.more != nil && len(n.items) == 0 && !n.more() {
			break
		}
		var group []*Item
		var ranks []int32
		mixed, had := false, naiveShare{}
		for len(group) < groupMax {
			i := n.next(class)
			if i < 0 {
				break
			}
			it := n.items[i]
			if len(group) > 0 && (n.keyOf(it) != n.keyOf(group[0]) || it.Enqueued != group[0].Enqueued ||
				it.Number != group[0].Number) {
				break
			}
			if n.shares != nil {
				s := n.share(it)
				if len(group) == 0 {
					had = *s
				}
				if mixed = mixed || len(group) > 0 && n.sharer(it) != n.sharer(group[0]); mixed &&
					s.open*had.weight != had.open*s.weight {
					break
				}
				s.open++
			}
			n.items = slices.Delete(n.items, i, i+1)
			group, ranks = append(group, it), append(ranks, n.rank)
			if n.drawable(it, class) {
				n.rank++
			}
		}
		if len(group) == 0 {
			break
		}
		n.match(group, ranks, class)
	}
	return n.out
}

// oldest returns the index of the oldest of the wanted items, -1 if there is none.
func (n *naive) oldest(wanted func(*Item) bool) int {
	best := -1
	for i, it := range n.items {
		if wanted(it) && (best < 0 || byAge(it, n.items[best]) < 0) {
			best = i
		}
	}
	return best
}

// byAge is the order of SPEC §5.1 and §7.10, by submission number under fifo (SPEC §16.4).
func byAge(a, b *Item) int {
	return cmp.Or(cmp.Compare(a.Enqueued, b.Enqueued), cmp.Compare(a.Number, b.Number), cmp.Compare(a.ID, b.ID))
}

// first assigns the interleaved job.
func (n *naive) first(class func(*Item) *naiveAsk) {
	i := n.oldest(func(it *Item) bool { return n.drawable(it, class) })
	if i < 0 {
		return
	}
	it := n.items[i]
	if n.shares != nil {
		n.share(it).open++
	}
	n.items = slices.Delete(n.items, i, i+1)
	n.match([]*Item{it}, []int32{n.rank}, class)
	n.rank++
	n.out[0].Interleaved = true
}

// next returns the next candidate: the first in ranking order; under fair share the first of the tenant with the least
// share, among jobs that some worker has room for.
func (n *naive) next(class func(*Item) *naiveAsk) int {
	if n.shares == nil {
		return min(len(n.items), 1) - 1
	}
	best := -1
	for i, it := range n.items {
		if n.drawable(it, class) && (best < 0 || n.lessShare(it, n.items[best])) {
			best = i
		}
	}
	return best
}

func (n *naive) share(it *Item) *naiveShare {
	by := n.sharer(it)
	if n.shares[by] == nil {
		n.shares[by] = &naiveShare{weight: 1}
	}
	return n.shares[by]
}

func (n *naive) lessShare(a, b *Item) bool {
	x, y := n.share(a), n.share(b)
	return x.open*y.weight < y.open*x.weight
}

func (n *naive) match(group []*Item, ranks []int32, class func(*Item) *naiveAsk) {
	for len(n.out) < n.limit {
		var able []*naiveWorker
		for _, w := range n.set {
			if slices.ContainsFunc(group, func(it *Item) bool { return n.left.open(it) && n.room(w, class(it)) }) {
				able = append(able, w)
			}
		}
		if len(able) == 0 {
			return
		}
		w, why := n.choose(able, group)
		best := -1
		var least Hash
		for i, it := range group {
			tie := Tie(it.ID, w.spec.ID, n.seed)
			if n.left.open(it) && n.room(w, class(it)) && (best < 0 || bytes.Compare(tie[:], least[:]) < 0) {
				best, least = i, tie
			}
		}
		it, r := group[best], class(group[best])
		if why.Rule == rota.ReasoningBySeededShuffle && (r.CPUMilli > 0 || r.MemoryBytes > 0 || r.IOBytesPerS > 0) {
			why = rota.Reasoning{Rule: rota.ReasoningByResourceFit, N: w.cpu, Of: r.CPUMilli}
		}
		n.out = append(n.out, Pair{it, w.spec.ID, n.score(it), ranks[best], why, false})
		n.left.spend(it)
		w.open++
		w.cpu -= r.CPUMilli
		w.mem -= r.MemoryBytes
		w.io -= r.IOBytesPerS
		w.use(r)
		group, ranks = slices.Delete(group, best, best+1), slices.Delete(ranks, best, best+1)
	}
}

func (n *naive) choose(able []*naiveWorker, group []*Item) (w *naiveWorker, why rota.Reasoning) {
	lowest := slices.MinFunc(group, func(a, b *Item) int { return strings.Compare(string(a.ID), string(b.ID)) })
	if n.policy.PreferLocality && n.policy.Strategy != rota.StrategyAffinity && len(able) > 1 {
		holds := func(w *naiveWorker) int { return w.holds(lowest) }
		best := holds(slices.MaxFunc(able, func(a, b *naiveWorker) int { return cmp.Compare(holds(a), holds(b)) }))
		if best > 0 {
			able = slices.DeleteFunc(slices.Clone(able), func(w *naiveWorker) bool { return holds(w) < best })
			w, _ = n.byStrategy(able, group)
			return w, rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: int64(best)}
		}
	}
	return n.byStrategy(able, group)
}

func (n *naive) byStrategy(able []*naiveWorker, group []*Item) (w *naiveWorker, why rota.Reasoning) {
	switch n.policy.Strategy {
	case rota.StrategyShuffle:
		w = able[0]
		why = rota.Reasoning{Rule: rota.ReasoningBySeededShuffle, N: int64(slices.Index(n.set, w)),
			Of: int64(len(n.set))}
	case rota.StrategyRoundRobin:
		c := n.cursor + uint64(len(n.out))
		w = able[c%uint64(len(able))]
		why = rota.Reasoning{Rule: rota.ReasoningByRoundRobin, N: int64(c)}
	case rota.StrategyRandom:
		lowest := slices.MinFunc(group, func(a, b *Item) int { return strings.Compare(string(a.ID), string(b.ID)) })
		turn := randomTurn(lowest.ID, n.seed)
		if n.policy.Unseeded {
			turn = unseededTurn(lowest.ID, len(able))
		}
		w = able[turn%uint64(len(able))]
		why = rota.Reasoning{Rule: rota.ReasoningBySeededRandom}
	case rota.StrategyAffinity:
		lowest := slices.MinFunc(group, func(a, b *Item) int { return strings.Compare(string(a.ID), string(b.ID)) })
		w, why = bound(able, lowest)
	default:
		w = able[0]
		for _, x := range able {
			if x.open < w.open {
				w = x
			}
		}
		why = rota.Reasoning{Rule: rota.ReasoningByLeastLoaded, N: w.open}
	}
	if len(able) == 1 {
		why = rota.Reasoning{Rule: rota.ReasoningOnlyWorkerAvailable}
	}
	return w, why
}
