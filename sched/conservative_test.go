package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

// taken is a part of a worker reserved for a time, in the naive calculation.
type taken struct {
	worker   rota.WorkerID
	from, to rota.Clock
	cpu      int64
}

// fits reports whether a worker has room for a job from a moment on, for as long as it should run, in addition to the
// leases and reservations. An overdue lease may end at any moment, so it only counts against jobs that need room at
// once.
func (y *yard) fits(id rota.WorkerID, it *Item, from rota.Clock, all []taken) bool {
	for at := from; at < from+rota.Clock(it.Expected.Milliseconds()); at++ {
		cpu, slots := y.cpu[id]-it.CPUMilli, y.slots[id]-1
		for _, t := range all {
			if t.worker == id && t.from <= at && at < t.to {
				cpu, slots = cpu-t.cpu, slots-1
			}
		}
		if cpu < 0 || slots < 0 {
			return false
		}
	}
	return true
}

// soonestOf returns the first moment, and the worker with the least id, at which a job has room for as long as it
// should run.
func (y *yard) soonestOf(it *Item, ids []rota.WorkerID, all []taken) (rota.Clock, rota.WorkerID, bool) {
	for at := yardNow; at < yardNow+2000; at++ {
		for _, id := range ids {
			if y.fits(id, it, at, all) {
				return at, id, true
			}
		}
	}
	return 0, "", false
}

// randomYard creates workers with running leases, and jobs in order.
func randomYard(r *rand.Rand, backfill rota.Backfill) (y *yard, ids []rota.WorkerID, all []taken) {
	y = newYard(func(p *rota.QueuePolicy) {
		p.Backfill, p.Strategy = backfill, rota.Strategy(r.IntN(4))
		if r.IntN(2) == 0 {
			p.Ranking, p.ShortestAging = rota.RankShortest, int64(r.IntN(2))
		}
	})
	for w := range 1 + r.IntN(3) {
		id := rota.WorkerID(fmt.Sprint("w", w))
		var runs []Run
		cpu := 4 + r.Int64N(8)
		left := cpu
		for left > 0 && r.IntN(4) > 0 {
			take := 1 + r.Int64N(left)
			run := Run{End: yardNow + 1 + rota.Clock(r.IntN(40)), Load: Load{CPU: take}}
			runs = append(runs, run)
			all = append(all, taken{id, yardNow, run.End, take})
			left -= take
		}
		y.worker(id, cpu, int32(len(runs)+1+r.IntN(4)), runs...)
		ids = append(ids, id)
	}
	for range 1 + r.IntN(12) {
		y.job(1+r.Int64N(12), 1+r.Int64N(50))
	}
	slices.SortFunc(y.items, func(a, b *Item) int {
		if entryLess(entryOf(a), entryOf(b)) {
			return -1
		}
		return 1
	})
	return y, ids, all
}

// TestConservative_random compares decisions on random yards with the definition of conservative backfilling,
// calculated ms by ms: for one job after the other room is reserved on the worker that has some soonest for as long as
// it should run, and those that have it now start now.
func TestConservative_random(t *testing.T) {
	t.Parallel()
	overtook, waited, shallow := 0, 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 80))
		y, ids, all := randomYard(r, rota.BackfillConservative)
		if r.IntN(4) == 0 {
			y.policy.BackfillDepth = 1 + r.Int64N(4)
		}
		d, pairs := y.decide()
		if changes := d.Keep([]Lot{y.lot()}, nil, yardNow); len(changes) != 0 {
			t.Fatalf("seed %d: %+v is held", seed, changes)
		}
		depth := int64(0)
		var first *Item
		for _, it := range y.items {
			at, id, ever := y.soonestOf(it, ids, all)
			if !ever {
				continue // no worker is large enough
			}
			i := slices.IndexFunc(pairs, func(p Pair) bool { return p.Item == it })
			if first != nil {
				depth++
			}
			told := d.Foretell(y.lot(), it, yardNow)
			switch {
			case depth > y.policy.BackfillDepth:
				shallow++
				if i >= 0 {
					t.Fatalf("seed %d: %s starts, beyond the depth", seed, it.ID)
				}
				continue
			case at == yardNow && i < 0:
				t.Fatalf("seed %d: %s could start at %s without delaying any job", seed, it.ID, id)
			case at == yardNow:
				if id = pairs[i].Worker; !y.fits(id, it, at, all) {
					t.Fatalf("seed %d: %s starts at %s, where it delays one before it", seed, it.ID, id)
				}
				if first != nil {
					overtook++
				}
				if over := pairs[i].Reasoning.Rule == rota.ReasoningBackfilled; over != (first != nil) {
					t.Fatalf("seed %d: %s starts by %+v", seed, it.ID, pairs[i].Reasoning)
				}
			case i >= 0:
				t.Fatalf("seed %d: %s starts, and has room from %d on", seed, it.ID, at)
			case first == nil:
				first = it
				if kept := d.Reservations(); len(kept) != 1 || kept[0].Item != it || kept[0].Until != at ||
					kept[0].Worker != id {
					t.Fatalf("seed %d: %s has room at %s from %d on: %+v", seed, it.ID, id, at, kept)
				}
			case y.policy.BackfillDepth == 1000 && (!told.Planned || told.Kept.Until != at || told.Kept.Worker != id):
				t.Fatalf("seed %d: %s has room at %s from %d on: %+v", seed, it.ID, id, at, told)
			default:
				waited++
			}
			all = append(all, taken{id, at, at + rota.Clock(it.Expected.Milliseconds()), it.CPUMilli})
		}
	}
	if overtook < 300 || waited < 1000 || shallow < 100 {
		t.Errorf("%d jobs overtook, %d have room kept, %d are beyond the depth: the yards show too little", overtook,
			waited, shallow)
	}
}
