package sched

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotasched/rota"
)

// seeds is the number of random lives per property, in addition to rapid's.
const seeds = 1500

// naive sets up the second implementation over copies of the facts.
func (w *world) naive(in RoundInput) *naive {
	n := &naive{policy: in.Policy, seed: in.Seed, cursor: in.Cursor, limit: in.Limit, interleave: in.Interleave,
		items: w.unblocked(), idle: w.idle(), left: w.caps.clone()}
	n.keyOf = func(it *Item) int64 { return it.Key }
	n.score = func(it *Item) int64 { return ScoreAt(in.Policy, it.Key, in.Now) }
	if w.tiered {
		n.score = func(it *Item) int64 { return int64(math.Float64bits(naiveScore(in.Policy, it, in.Now))) }
		n.keyOf = n.score
		n.more = func() bool { return false }
	}
	for _, x := range w.workers {
		c := *x
		n.workers = append(n.workers, &c)
	}
	slices.SortFunc(n.workers, func(a, b *naiveWorker) int {
		return strings.Compare(string(a.spec.ID), string(b.spec.ID))
	})
	if w.fair {
		n.shares = map[string]*naiveShare{}
		for _, tenant := range someTenants {
			if s := w.shares[tenant]; s != nil {
				n.shares["t:"+string(tenant)] = &naiveShare{s.open, s.weight}
			}
		}
	}
	if n.grouped = w.grouped; n.grouped {
		n.shares = map[string]*naiveShare{}
		for party, had := range w.turns.turn {
			n.shares[party] = &naiveShare{had, 1}
		}
	}
	return n
}

func (w *world) input(t *dice) RoundInput {
	in := RoundInput{Queue: "q", Stats: someStats, Now: 1000 + w.now, Policy: &w.policy,
		Cursor: uint64(t.between(0, 50)), Limit: pick(t, []int{0, 3, 17, 256, 256, 256, 256, 256})}
	w.now += rota.Clock(t.between(0, 2))
	in.Interleave = t.between(0, 2) == 0
	in.Seed = H([]byte(fmt.Sprint(t.between(0, 1000))))
	w.caps = someCaps(t)
	return in
}

// maxTurns is the maximum number of turns of the oldest in one entry.
const maxTurns = 20

// outcome is the decision of an entry of one queue.
type outcome struct {
	early, turns, pairs []Pair
	changes             []HoldChange
	granted             []HoldChange // by turns, even if the job was placed elsewhere
}

// decide lets the product decide an entry.
func (w *world) decide(in RoundInput, maxGather int) (o outcome) {
	d := NewDraft(w.supply, w.caps.asked())
	d.maxGather = maxGather
	holds := w.sortedHolds()
	for _, h := range holds {
		if p, ok := d.PlaceHeld(h, in.Now); ok {
			o.early = append(o.early, p)
		}
	}
	o.turns = d.Turns([]Lot{w.lot()}, in.Now, maxTurns)
	o.pairs = d.Round(w.pending, in)
	o.changes, o.granted = d.Keep([]Lot{w.lot()}, holds, in.Now), d.granted
	return o
}

// decideNaively lets the second implementation decide it.
func (w *world) decideNaively(in RoundInput) (o outcome) {
	n := w.naive(in)
	class := w.asks()
	holds := w.sortedHolds()
	o.early = n.placeHeld(holds, class)
	o.turns, o.changes = n.turns(holds, maxTurns, class)
	o.pairs = n.run(class)
	placed := func(it *Item) bool {
		is := func(p Pair) bool { return p.Item == it }
		return slices.ContainsFunc(o.early, is) || slices.ContainsFunc(o.turns, is) || slices.ContainsFunc(o.pairs, is)
	}
	o.changes = slices.DeleteFunc(o.changes, func(c HoldChange) bool { return placed(c.Item) })
	o.changes = append(o.changes,
		n.keep(slices.DeleteFunc(w.unblocked(), placed), placed, holds, o.changes, in.Now, class)...)
	return o
}

func (o outcome) equal(x outcome) bool {
	return slices.Equal(o.early, x.early) && slices.Equal(o.turns, x.turns) && slices.Equal(o.pairs, x.pairs) &&
		slices.Equal(o.changes, x.changes)
}

func (o outcome) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s| %s| %s", show(o.early), show(o.turns), show(o.pairs))
	for _, c := range o.changes {
		fmt.Fprintf(&b, " hold %s for %s, not %s;", c.Worker, c.Item.ID, c.Old)
	}
	return b.String()
}

// round decides a round, compares it with naive and the guarantees, and applies it.
func (w *world) round(t *dice) {
	in := w.input(t)
	got, want := w.decide(in, gatherCells), w.decideNaively(in)
	if !got.equal(want) {
		t.Fatalf("fair %v, turns of parties %v, strategy %v:\n got %v\nwant %v", w.fair, w.grouped, w.policy.Strategy,
			got, want)
	}
	// Again, without gathering cells, iterating over the index of groups.
	if again := w.decide(in, -1); !got.equal(again) {
		t.Fatalf("a second run differs: %v, %v", got, again)
	}
	pairs := slices.Concat(got.early, got.turns, got.pairs)
	wasHeld := map[rota.WorkerID]bool{}
	for _, h := range w.holds {
		wasHeld[h.Worker] = true
	}
	for _, c := range got.granted {
		wasHeld[c.Worker] = true
	}
	for _, p := range pairs {
		if ok, why := w.supply.Fits(p.Item.ask(), p.Worker); !ok {
			t.Fatalf("job %s on %s: %s", p.Item.ID, p.Worker, why)
		}
		w.supply.Take(p.Worker, loadOf(p.Item))
		i := slices.IndexFunc(w.workers, func(x *naiveWorker) bool { return x.spec.ID == p.Worker })
		x := w.workers[i]
		x.received++
		if p.Reasoning.Rule == rota.ReasoningByTurnOfTheOldest {
			x.received = AfterTurn(x.received-1, w.policy.OldestEvery, x.spec.Slots+x.spec.Prefetch)
		}
		w.supply.Received(p.Worker, x.received)
		x.open, x.cpu, x.mem = x.open+1, x.cpu-p.Item.CPUMilli, x.mem-p.Item.MemoryBytes
		x.io -= p.Item.IOBytesPerS
		x.use(w.naiveAsk(p.Item.ask()))
		w.supply.Isolate(p.Worker, x.isolated)
		w.supply.TakeUnits(p.Worker, "q", w.classes[p.Item.Class].Units)
		w.supply.Intern(*w.classes[p.Item.Class]) // the lease's user
		w.remove(t, p.Item)
		w.hadTurn(p.Item)
		if s := w.shares[p.Item.Tenant]; s != nil {
			s.open++
			w.pending.SetShare(p.Item.Tenant, s.open, s.weight)
		}
	}
	left := w.unblocked()
	w.apply(got.changes, in.Now)
	if len(got.pairs) == in.Limit {
		return
	}
	for _, p := range pairs {
		w.caps.spend(p.Item)
	}
	for _, it := range left {
		if !w.caps.open(it) {
			continue
		}
		for _, x := range w.workers {
			if x.held || wasHeld[x.spec.ID] {
				continue
			}
			if ok, _ := w.supply.Fits(it.ask(), x.spec.ID); ok {
				t.Fatalf("job %s is left over while %s has room", it.ID, x.spec.ID)
			}
		}
	}
}

func loadOf(it *Item) Load { return Load{it.CPUMilli, it.MemoryBytes, it.IOBytesPerS} }

func show(pairs []Pair) string {
	var b strings.Builder
	for _, p := range pairs {
		fmt.Fprintf(&b, "%s(%d)→%s %v  ", p.Item.ID, p.Rank, p.Worker, p.Reasoning)
	}
	return b.String()
}

func (w *world) check(t *dice) {
	if err := w.supply.Check(); err != nil {
		t.Fatalf("%v", err)
	}
	if err := w.pending.Check(); err != nil {
		t.Fatalf("%v", err)
	}
	oldest, ok := rota.Clock(0), false
	for _, it := range w.items {
		if !ok || it.Enqueued < oldest {
			oldest, ok = it.Enqueued, true
		}
	}
	w.checkPlaces(t)
	if o, has := w.pending.Oldest(); o != oldest || has != ok || w.pending.Len() != len(w.items) {
		t.Fatalf("oldest %d %v of %d, want %d %v of %d", o, has, w.pending.Len(), oldest, ok, len(w.items))
	}
	w.checkWorkers(t)
	for _, q := range someQueues {
		workers, room := 0, false
		for _, x := range w.workers {
			if x.active && slices.Contains(x.spec.Queues, q) {
				workers++
				room = room || !x.held && !x.isolated && x.offers() && x.open < int64(x.spec.Slots+x.spec.Prefetch)
			}
		}
		if w.supply.Workers(q) != workers || w.supply.HasRoom(q) != room {
			t.Fatalf("queue %s: %d workers, room %v", q, w.supply.Workers(q), w.supply.HasRoom(q))
		}
	}
}

// live runs a queue's random life: every round equals the naive one, assigns nothing that does not fit, leaves nothing
// that would fit, and every index equals a recount.
func live(t *dice) {
	w := newWorld(t)
	w.round(t)
	w.follow(t)
	w.check(t)
	for range t.between(0, 20) {
		w.step(t)
		w.follow(t)
		w.check(t)
	}
}

// shuffled builds a world twice, in two orders, and checks that they decide the same.
func shuffled(t *dice) {
	w := newWorld(t)
	in := w.input(t)
	want := NewDraft(w.supply, w.caps.asked()).Round(w.pending, in)
	other := w.rebuilt(t)
	if got := NewDraft(other.supply, w.caps.asked()).Round(other.pending, in); show(got) != show(want) {
		t.Fatalf("in another order:\n got %v\nwant %v", show(got), show(want))
	}
}

// withheld withholds some jobs: none of them is drawn, and they hide no others. Which job of a draw gets which worker
// may differ from a draw without them, as the workers that withheld jobs could go to are counted, and a job may thereby
// lose its only worker.
func withheld(t *dice) {
	w := newWorld(t)
	in := w.input(t)
	out := map[*Item]bool{}
	for _, it := range w.items {
		out[it] = t.between(0, 2) == 0
	}
	d := NewDraft(w.supply, w.caps.asked())
	d.Withhold(func(it *Item) bool { return out[it] })
	got := d.Round(w.pending, in)
	for _, it := range w.items {
		if out[it] {
			w.pending.Remove(it)
		}
	}
	if slices.ContainsFunc(got, func(p Pair) bool { return out[p.Item] }) {
		t.Fatalf("drew a job that is withheld: %v", show(got))
	}
	want := NewDraft(w.supply, w.caps.asked()).Round(w.pending, in)
	if (len(got) > 0) != (len(want) > 0) {
		t.Fatalf("with jobs withheld:\n got %v\nwant %v", show(got), show(want))
	}
	for _, p := range got {
		out[p.Item] = true
		w.supply.Take(p.Worker, loadOf(p.Item))
		if w.classes[p.Item.Class].Isolated {
			w.supply.Isolate(p.Worker, true)
		}
		w.supply.TakeUnits(p.Worker, "q", w.classes[p.Item.Class].Units)
		w.caps.spend(p.Item)
	}
	if len(got) == in.Limit {
		return
	}
	for _, it := range w.unblocked() {
		for _, x := range w.workers {
			if out[it] || x.held || !w.caps.open(it) {
				continue
			}
			if ok, _ := w.supply.Fits(it.ask(), x.spec.ID); ok {
				t.Fatalf("job %s is left over with withheld ones while %s has room", it.ID, x.spec.ID)
			}
		}
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		property func(*dice)
	}{{"equals naive", live}, {"forgets the order of adding", shuffled}, {"passes over withheld jobs", withheld}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				c.property(&dice{t, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }})
			})
		})
		t.Run(c.name+" at fixed and fresh seeds", func(t *testing.T) {
			t.Parallel()
			fresh := rand.Uint64()
			for i := range uint64(seeds) {
				if i == seeds/2 {
					t.Logf("fresh seeds from %d", fresh)
				}
				if i >= seeds/2 {
					i += fresh
				}
				r := rand.New(rand.NewPCG(i, 0))
				c.property(&dice{t, r.IntN})
				if t.Failed() {
					t.Fatalf("at seed %d", i)
				}
			}
		})
	}
}

// TestTurns_passOverNothingThatMatters compares turns that look at all jobs of two queues with turns that only look at
// jobs that may be older than the one found so far.
func TestTurns_passOverNothingThatMatters(t *testing.T) {
	t.Parallel()
	turns, both := 0, 0
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 1))
		dice := &dice{t, r.IntN}
		w := newWorld(dice)
		for range 3 {
			w.putWorker(dice)
		}
		o := *w
		o.queue, o.pending, o.items, o.specs = "r", w.newPending(), nil, nil
		o.policy.OldestEvery = pick(dice, []int64{0, 1, 2, 3})
		for range dice.between(0, 60) {
			o.add(dice)
		}
		lots := []Lot{w.lot(), {Pending: o.pending, Policy: &o.policy, Queue: "r", Stats: someStats}}
		w.caps = someCaps(dice)
		of := map[rota.QueueName]int{}
		var pairs [2][]Pair
		var granted [2][]HoldChange
		for i := range pairs {
			d := NewDraft(w.supply, w.caps.asked())
			d.looksAtAll = i == 0
			pairs[i] = d.Turns(lots, 1000, maxTurns)
			granted[i] = d.granted
		}
		if !slices.Equal(pairs[0], pairs[1]) || !slices.Equal(granted[0], granted[1]) {
			t.Fatalf("seed %d: %s, held %v; with less looked at %s, held %v", seed, show(pairs[0]), granted[0],
				show(pairs[1]), granted[1])
		}
		turns += len(pairs[0])
		for _, p := range pairs[0] {
			of[p.Item.Queue]++
		}
		if len(of) == 2 {
			both++
		}
	}
	if turns < seeds || both < seeds/20 {
		t.Errorf("only %d turns in %d lives, %d of them with turns of both queues: this shows little", turns, seeds,
			both)
	}
}
