package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// yard is a set of workers with only cpu, with running leases, and a queue of jobs with estimates.
type yard struct {
	supply  *Supply
	pending *Pending
	policy  rota.QueuePolicy
	items   []*Item // in ranking order
	made    int
	running map[rota.WorkerID][]Run
	cpu     map[rota.WorkerID]int64
	slots   map[rota.WorkerID]int64
}

const yardNow = rota.Clock(1_000_000)

func newYard(policy func(*rota.QueuePolicy)) *yard {
	y := &yard{supply: NewSupply(), pending: NewPending(false), policy: rota.StandardPolicy(),
		running: map[rota.WorkerID][]Run{}, cpu: map[rota.WorkerID]int64{}, slots: map[rota.WorkerID]int64{}}
	y.policy.FairShare, y.policy.Ranking, y.policy.Backfill, y.policy.Estimate = false, rota.RankFIFO, rota.BackfillEasy, rota.EstimateByUser
	policy(&y.policy)
	y.supply.SetRules("q", RulesOf(&y.policy))
	return y
}

func (y *yard) worker(id rota.WorkerID, cpu int64, slots int32, runs ...Run) {
	spec := &rota.WorkerSpec{ID: id, Queues: []rota.QueueName{"q", "r"}, Slots: slots, CPUMilli: cpu}
	taken := int64(0)
	for _, r := range runs {
		taken += r.CPU
	}
	y.supply.Put(WorkerEntry{Spec: spec, Active: true, Open: int32(len(runs)), CPUTaken: taken, Health: 1000})
	for _, r := range runs {
		y.supply.Began(id, r)
	}
	y.running[id], y.cpu[id], y.slots[id] = runs, cpu, int64(slots)
}

func (y *yard) job(cpu, estimate int64) *Item { return y.jobOf("q", y.pending, cpu, estimate) }

func (y *yard) jobOf(queue rota.QueueName, to *Pending, cpu, estimate int64) *Item {
	n := y.made
	y.made++
	spec := &rota.JobSpec{Queue: queue, Tenant: "t", CPUMilli: cpu, Priority: 5,
		Expected: time.Duration(estimate) * time.Millisecond}
	it := &Item{ID: rota.JobID(fmt.Sprintf("%s%02d", queue, n)), JobSpec: spec,
		Class: y.supply.Intern(RequirementsOf(spec)), Enqueued: rota.Clock(n),
		Number: uint64(n)}
	it.Key = RankKey(&y.policy, 5, 0, 0, rota.TierFree, it.Enqueued, RunEstimate(&y.policy, spec, 0, 0))
	to.Add(it)
	if queue == "q" {
		y.items = append(y.items, it)
	}
	return it
}

func (y *yard) lot() Lot { return Lot{Pending: y.pending, Policy: &y.policy, Queue: "q"} }

// decide decides an entry of the one queue.
func (y *yard) decide() (*Draft, []Pair) {
	d := NewDraft(y.supply, nil)
	d.Foresee(y.lot())
	d.ReserveFirst([]Lot{y.lot()}, yardNow)
	placed := d.Round(y.pending, RoundInput{Queue: "q", Policy: &y.policy, Limit: 256, Now: yardNow})
	return d, placed
}

func idsOf(pairs []Pair) (ids []string) {
	for _, p := range pairs {
		ids = append(ids, string(p.Item.ID))
	}
	return ids
}

// TestBackfill checks decisions that were calculated by hand.
func TestBackfill(t *testing.T) {
	t.Parallel()
	run := func(cpu int64, end rota.Clock) Run { return Run{End: yardNow + end, Load: Load{CPU: cpu}} }
	for _, c := range []struct {
		name   string
		policy func(*rota.QueuePolicy)
		runs   []Run
		jobs   [][2]int64 // cpu, estimate
		want   []string
		until  rota.Clock // after now, 0 for no reservation
	}{
		{name: "it ends before, or as, the first can begin", runs: []Run{run(6, 50)},
			jobs:  [][2]int64{{8, 9}, {2, 51}, {2, 50}, {2, 10}},
			want:  []string{"q01", "q02"},
			until: 50}, // q01 takes what the first leaves, q02 ends in time, q03 finds none
		{name: "it uses the rest", runs: []Run{run(6, 50)}, jobs: [][2]int64{{9, 9}, {2, 51}, {1, 51}, {1, 51}},
			want: []string{"q02"}, until: 50},
		{name: "those before the first start", runs: []Run{run(6, 50)},
			jobs: [][2]int64{{1, 200}, {10, 9}, {1, 90}, {1, 201}, {1, 20}},
			want: []string{"q00", "q02", "q04"}, until: 200},
		{name: "ends of one moment leave more", runs: []Run{run(3, 50), run(4, 50)}, jobs: [][2]int64{{5, 9}, {3, 500}},
			want: []string{"q01"}, until: 50},
		{name: "one is overdue", runs: []Run{run(6, -5)}, jobs: [][2]int64{{8, 9}, {3, 1}, {2, 500}},
			want: []string{"q02"}},
		{name: "none", policy: func(p *rota.QueuePolicy) { p.Backfill = rota.BackfillNone }, runs: []Run{run(6, 50)},
			jobs: [][2]int64{{1, 9}, {8, 9}, {1, 1}}, want: []string{"q00"}, until: 50},
		{name: "whatever fits", policy: func(p *rota.QueuePolicy) { p.Backfill = rota.BackfillFree },
			runs: []Run{run(6, 50)}, jobs: [][2]int64{{8, 9}, {4, 999}}, want: []string{"q01"}},
		{name: "an impossible job is not the first", runs: []Run{run(6, 50)},
			jobs: [][2]int64{{11, 9}, {8, 9}, {4, 50}}, want: []string{"q02"}, until: 50},
		{name: "the shortest first", policy: func(p *rota.QueuePolicy) { p.BackfillOrder = rota.BackfillShortest },
			runs: []Run{run(6, 50)},
			jobs: [][2]int64{{8, 9}, {3, 40}, {3, 30}, {1, 50}}, want: []string{"q02", "q03"}, until: 50},
		{name: "no deeper", policy: func(p *rota.QueuePolicy) { p.BackfillDepth = 2 }, runs: []Run{run(6, 50)},
			jobs: [][2]int64{{8, 9}, {3, 60}, {3, 60}, {1, 50}}, until: 50},
		{name: "ranked by estimate", policy: func(p *rota.QueuePolicy) {
			p.Ranking, p.ShortestAging = rota.RankShortest, 0
		}, runs: []Run{run(6, 50)}, jobs: [][2]int64{{4, 60}, {8, 9}, {4, 40}}, want: []string{"q02"}, until: 50},
		{name: "nothing is known of a job", runs: []Run{run(6, 50)}, jobs: [][2]int64{{9, 9}, {2, 0}, {1, 0}},
			want: []string{"q02"}, until: 50},
	} {
		y := newYard(func(p *rota.QueuePolicy) {
			if c.policy != nil {
				c.policy(p)
			}
		})
		y.worker("w", 10, 20, c.runs...)
		for _, j := range c.jobs {
			y.job(j[0], j[1])
		}
		d, pairs := y.decide()
		kept := d.Reservations()
		if got := idsOf(pairs); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v start, want %v", c.name, got, c.want)
		}
		if c.policy == nil && (len(kept) != 1 || kept[0].Until != yardNow+c.until) || len(kept) == 1 && c.until > 0 &&
			kept[0].Until != yardNow+c.until {
			t.Errorf("%s: %+v is reserved, want until %d", c.name, kept, yardNow+c.until)
		}
		for _, p := range pairs {
			if over := len(kept) > 0 &&
				p.Item.Key > kept[0].Item.Key; over != (p.Reasoning == rota.Reasoning{Rule: rota.ReasoningBackfilled,
				N: int64(yardNow + c.until), Of: RunEstimate(&y.policy, p.Item.JobSpec, 0, 0)}) {
				t.Errorf("%s: %s starts by %+v", c.name, p.Item.ID, p.Reasoning)
			}
		}
	}
}

// TestBackfill_bars checks that another queue, which does not backfill itself, leaves the room reserved for a first
// job, before and after its queue's round.
func TestBackfill_bars(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		y := newYard(func(*rota.QueuePolicy) {})
		y.worker("w", 10, 20, Run{End: yardNow + 50, Load: Load{CPU: 6}})
		y.job(8, 9)
		free, other := rota.StandardPolicy(), NewPending(false)
		free.FairShare, free.Estimate = false, rota.EstimateByUser
		for _, estimate := range []int64{60, 50, 70, 80} {
			y.jobOf("r", other, 1, estimate)
		}
		lots := []Lot{y.lot(), {Pending: other, Policy: &free, Queue: "r"}}
		d := NewDraft(y.supply, nil)
		d.Foresee(lots...)
		d.ReserveFirst(lots, yardNow)
		if !first {
			d.Round(y.pending, RoundInput{Queue: "q", Policy: &y.policy, Limit: 256, Now: yardNow})
		}
		pairs := d.Round(other, RoundInput{Queue: "r", Policy: &free, Limit: 256, Now: yardNow})
		if len(pairs) != 3 || slices.ContainsFunc(pairs,
			func(p Pair) bool { return p.Reasoning.Rule == rota.ReasoningBackfilled }) {
			t.Errorf("first %v: %v start, want the one that ends in time and two in the rest", first, idsOf(pairs))
		}
	}
}

// TestBackfill_turn checks that a worker whose turn is due is reserved, not held, for the job that gets the turn.
func TestBackfill_turn(t *testing.T) {
	t.Parallel()
	y := newYard(func(p *rota.QueuePolicy) { p.Ranking, p.ShortestAging, p.OldestEvery = rota.RankShortest, 0, 5 })
	y.worker("w", 10, 20, Run{End: yardNow + 50, Load: Load{CPU: 6}})
	y.supply.Received("w", 9)
	oldest := y.job(9, 900)
	y.job(8, 9)
	y.job(3, 40)
	d := NewDraft(y.supply, nil)
	d.Foresee(y.lot())
	if pairs := d.Turns([]Lot{y.lot()}, yardNow, 256); len(pairs) != 0 {
		t.Fatalf("%v have their turn", idsOf(pairs))
	}
	d.ReserveFirst([]Lot{y.lot()}, yardNow)
	pairs := d.Round(y.pending, RoundInput{Queue: "q", Policy: &y.policy, Limit: 256, Now: yardNow})
	if kept := d.Reservations(); len(kept) != 1 || kept[0].Item != oldest ||
		!slices.Equal(idsOf(pairs), []string{"q02"}) {
		t.Errorf("%+v is reserved, %v start", kept, idsOf(pairs))
	}
	if changes := d.Keep([]Lot{y.lot()}, nil, yardNow); len(changes) != 0 {
		t.Errorf("%+v is held", changes)
	}
}

// room reports whether a worker has room for a job at a moment, given the ends of running and started jobs.
func (y *yard) room(id rota.WorkerID, it *Item, at rota.Clock, pairs []Pair) bool {
	cpu, slots := y.cpu[id]-it.CPUMilli, y.slots[id]-1
	for _, r := range y.running[id] {
		if at == yardNow || r.End > at {
			cpu, slots = cpu-r.CPU, slots-1
		}
	}
	for _, p := range pairs {
		if p.Worker == id && p.Item != it && (at == yardNow || y.end(p.Item) > at) {
			cpu, slots = cpu-p.Item.CPUMilli, slots-1
		}
	}
	return cpu >= 0 && slots >= 0
}

func (y *yard) end(it *Item) rota.Clock { return yardNow + rota.Clock(it.Expected.Milliseconds()) }

// moments returns all moments at which a job may find room.
func (y *yard) moments(pairs []Pair) []rota.Clock {
	at := []rota.Clock{yardNow}
	for _, runs := range y.running {
		for _, r := range runs {
			at = append(at, max(r.End, yardNow+1))
		}
	}
	for _, p := range pairs {
		at = append(at, y.end(p.Item))
	}
	slices.Sort(at)
	return at
}

// soonest returns when a job first finds room on any worker.
func (y *yard) soonest(it *Item, pairs []Pair) (rota.Clock, rota.WorkerID) {
	ids := make([]rota.WorkerID, 0, len(y.cpu))
	for id := range y.cpu {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, at := range y.moments(pairs) {
		for _, id := range ids {
			if y.room(id, it, at, pairs) {
				return at, id
			}
		}
	}
	return 0, ""
}

// TestBackfill_random compares decisions on random yards with the definition of EASY backfilling, recalculated from the
// future's moments: jobs before the first one start while there is room; the first starts as soon as it could when it
// became the first; and every other job that could start without delaying it does.
func TestBackfill_random(t *testing.T) {
	t.Parallel()
	overtook, waited := 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 26))
		y := newYard(func(p *rota.QueuePolicy) {
			p.Strategy = rota.Strategy(r.IntN(4))
			if r.IntN(2) == 0 {
				p.Ranking, p.ShortestAging = rota.RankShortest, int64(r.IntN(2))
			}
		})
		for w := range 1 + r.IntN(3) {
			var runs []Run
			cpu := 4 + r.Int64N(8)
			left := cpu
			for left > 0 && r.IntN(4) > 0 {
				take := 1 + r.Int64N(left)
				runs = append(runs, Run{End: yardNow + 1 + rota.Clock(r.IntN(40)), Load: Load{CPU: take}})
				left -= take
			}
			y.worker(rota.WorkerID(fmt.Sprint("w", w)), cpu, int32(len(runs)+1+r.IntN(4)), runs...)
		}
		for range 1 + r.IntN(9) {
			y.job(1+r.Int64N(12), 1+r.Int64N(50))
		}
		slices.SortFunc(y.items, func(a, b *Item) int {
			if entryLess(entryOf(a), entryOf(b)) {
				return -1
			}
			return 1
		})
		d, pairs := y.decide()
		var before []Pair // of the jobs before the first that finds no room
		var first *Item
		for _, it := range y.items {
			if at, _ := y.soonest(it, before); at == 0 {
				continue // no worker is large enough
			}
			i := slices.IndexFunc(pairs, func(p Pair) bool { return p.Item == it })
			if at, _ := y.soonest(it, before); at == yardNow && first == nil {
				if i < 0 {
					t.Fatalf("seed %d: %s has room, and waits", seed, it.ID)
				}
				before = append(before, pairs[i])
				continue
			}
			if first == nil {
				first = it
			}
			switch {
			case it == first:
				at, id := y.soonest(it, before)
				kept := d.Reservations()
				if i >= 0 || len(kept) != 1 || kept[0].Item != it || kept[0].Until != at || kept[0].Worker != id {
					t.Fatalf("seed %d: %s has room at %s from %d on: %+v", seed, it.ID, id, at, kept)
				}
				if !y.room(id, it, at, pairs) {
					t.Fatalf("seed %d: %s is delayed", seed, it.ID)
				}
			case i >= 0:
				overtook++
			default:
				waited++
				until, at := d.Reservations()[0].Until, d.Reservations()[0].Worker
				for id := range y.cpu {
					with := append(slices.Clone(pairs), Pair{Item: it, Worker: id})
					if y.room(id, it, yardNow, pairs) && (id != at || y.room(at, first, until, with)) {
						t.Fatalf("seed %d: %s could start at %s without delaying any job", seed, it.ID, id)
					}
				}
			}
		}
	}
	if overtook < 500 || waited < 500 {
		t.Errorf("%d jobs overtook the first, %d did not: the yards show too little", overtook, waited)
	}
}

// BenchmarkBackfill decides 256 assignments behind a job with a reservation, with 1,000 workers that have 16 running
// leases each.
func BenchmarkBackfill(b *testing.B) {
	for _, way := range []struct {
		name     string
		policy   func(*rota.QueuePolicy)
		distinct bool // the estimates of overrunning leases are distinct
	}{
		{name: "rank", policy: func(*rota.QueuePolicy) {}},
		{name: "shortest", policy: func(p *rota.QueuePolicy) { p.BackfillOrder = rota.BackfillShortest }},
		{name: "conservative", policy: func(p *rota.QueuePolicy) { p.Backfill = rota.BackfillConservative }},
		{name: "conservative distinct", policy: func(p *rota.QueuePolicy) { p.Backfill = rota.BackfillConservative },
			distinct: true},
	} {
		for _, c := range []struct {
			name    string
			overrun int // overrunning leases out of ten
		}{{"all start", 0}, {"half start", 5}, {"one in ten starts", 9}} {
			b.Run(fmt.Sprintf("%s %s", way.name, c.name), func(b *testing.B) {
				y := newYard(way.policy)
				for w := range 1000 {
					var runs []Run
					for i := range 16 {
						runs = append(runs, Run{End: yardNow + rota.Clock(1000+(w*31+i*7)%900), Load: Load{CPU: 1000}})
					}
					cpu := int64(16_000)
					if w == 0 {
						cpu = 64_000 // where the first one is to go
					}
					y.worker(rota.WorkerID(fmt.Sprintf("w%04d", w)), cpu, 1000, runs...)
				}
				y.job(60_000, 500)
				for i := range 1_000_000 {
					estimate, cpu := int64(100), int64(100)
					if i%10 < c.overrun {
						if estimate = 1_000_000; way.distinct {
							estimate, cpu = estimate+int64(i*7919%100_000), 5000 // none of them starts
						}
					}
					y.job(cpu, estimate)
				}
				b.ReportAllocs()
				for b.Loop() {
					if d, pairs := y.decide(); len(pairs) == 0 || len(d.Reservations()) != 1 {
						b.Fatal(len(pairs))
					}
				}
			})
		}
	}
}
