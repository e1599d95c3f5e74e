package sched

import (
	"github.com/rotasched/rota"
)

// Draft lays what one entry of rounds assigns over a Supply: it counts at once
// for all that comes later in the entry, in every queue (SPEC §7.2). It changes
// neither the Supply nor a Pending, and neither may change while it is used.
type Draft struct {
	supply    *Supply
	slotLoads slotLoads
	allowance
	// taken are the jobs that got a worker outside the draw of their queue's round,
	// takenOf counts them by class, shares by the group that they were in.
	taken   map[*Item]bool
	takenOf map[ClassID]int
	shares  map[*group]int64
	// holders are jobs that hold a worker; granted are the holds of turns.
	holders map[*Item]bool
	granted []HoldChange
	// kept counts the holds whose jobs were not placed first of all, but for those by
	// preemption, which are outside the bound.
	kept int
	// foresees says that some queue of the entry backfills: then started are its leases by worker, reserved
	// the room that is kept, and deep the queues that had more candidates than they looked at.
	foresees bool
	started  map[int32][]Run
	reserved []Reservation
	deep     []rota.QueueName
	// roomless are classes, by scope, that WantsRoom found no room for.
	roomless map[ScopedClass]bool
	// drawn are the rounds' pairs.
	drawn [][]Pair
	// walks are the classes whose oldest jobs are taken.
	walks map[walkKey]*ageWalk
	// watch records how one job gets its worker, nil where nobody asks.
	watch *watch
	// sight records what a round looks at, nil where nobody asks.
	sight *Sight
	// withheld says of a job that it gets no worker in this entry; nil where all may.
	withheld func(*Item) bool
	// gatherMost is gatherCells but in tests.
	gatherMost int
	// looksAtAll is for tests: turns pass nothing over that could give none.
	looksAtAll bool
}

// NewDraft starts an entry in which nothing is assigned yet. Without caps only
// room bounds it.
func NewDraft(s *Supply, caps Caps) *Draft {
	return &Draft{supply: s, allowance: newAllowance(caps), slotLoads: s.slotLoads.clone(), gatherMost: gatherCells}
}

// put sets a key of a map that is made when it is first needed: most entries place a job or two, and need
// hardly any of the maps.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}

// Withhold has all that is decided from here on pass over the jobs of which f is true:
// they cost no places. It is asked often.
func (d *Draft) Withhold(f func(*Item) bool) { d.withheld = f }

// out reports whether a job is not drawn: it was assigned in this entry, or is withheld.
func (d *Draft) out(it *Item) bool {
	return len(d.taken) > 0 && d.taken[it] || d.withheld != nil && d.withheld(it)
}

// HasRoom reports whether any active worker that serves the queue has a free slot left:
// without one its round gives nothing.
func (d *Draft) HasRoom(q rota.QueueName) bool {
	queue := d.supply.queues[q]
	return queue != nil && queue.workers.meets(d.slotLoads.free)
}

// Served says that each Pending of the rounds so far has been served: what is drawn from here on are other
// jobs, in a Pending of their own, for which the room that is taken counts and nothing else.
func (d *Draft) Served() { clear(d.takenOf) }

// RoundInput is what a round depends on beside Supply and Pending.
type RoundInput struct {
	Queue  rota.QueueName
	Seed   Hash
	Now    rota.Clock
	Policy *rota.QueuePolicy
	// Cursor is the queue's count of assignments so far (SPEC §7.6).
	Cursor uint64
	// Limit is how many assignments the round may make, at most batch_size.
	Limit int
	// Interleave makes the oldest job that fits some worker now the first
	// candidate, a group of its own to which fair share does not apply (SPEC §5.1).
	Interleave bool
	// Stats tells what is known of a type; only an adaptive queue's round asks.
	Stats func(rota.JobType) Stats
	// Expects is Lot's.
	Expects func(rota.JobType) int64
}

// Pair is one assignment of a round.
type Pair struct {
	Item   *Item
	Worker rota.WorkerID
	// Score is ScoreAt of the job's key (in an adaptive queue the bits of a double),
	// Rank its place in the draw, from 0.
	Score     int64
	Rank      int32
	Reasoning rota.Reasoning
	// Interleaved says that it is the round's interleaved one.
	Interleaved bool
}

// Round decides one round of a queue (SPEC §7). A job drawn into a Pair must be
// taken out of the Pending before another Draft draws from it; a Draft draws
// from a Pending at most once.
func (d *Draft) Round(p *Pending, in RoundInput) []Pair {
	wants := make([]want, len(p.demands))
	for i, k := range p.demands {
		wants[i] = want{k.class, k.items - d.takenOf[k.class]}
	}
	r := newRooms(d.supply, &d.slotLoads, wants)
	lot := Lot{Pending: p, Policy: in.Policy, Queue: in.Queue, Stats: in.Stats, Expects: in.Expects}
	if r.count == 0 || in.Limit <= 0 {
		if r.count == 0 {
			d.ReserveFirst([]Lot{lot}, in.Now)
		}
		return nil
	}
	strategy := in.Policy.Strategy
	r.place(in.Policy.Shuffles(), in.Seed)
	m := &matcher{rooms: r, in: in, draft: d}
	if strategy == rota.StrategyLeastLoaded || strategy == rota.StrategyAffinity {
		m.loads = newLoads(r)
	}
	m.begin()
	if d.sight != nil {
		d.sight.begin(m)
	}
	backfills := in.Policy.Backfill != rota.BackfillFree
	if in.Interleave && !backfills {
		if oldest := d.oldestServed(lot, true, m.has, m.barred); oldest.item != nil {
			if m.interleave(lot, oldest.item) {
				d.assigned(p, oldest.item)
			}
		}
	}
	if p.tiered {
		m.source = newTierSource(p, r, in, d)
	} else {
		r.wide = backfills
		m.source = newPendingSource(p, r, in, d, nil)
		r.wide = false
	}
	switch {
	case backfills:
		m.inOrder(p, &lot)
	case m.bars():
		m.oneByOne(nil, false)
	default:
		m.run()
	}
	d.drawn = append(d.drawn, m.pairs)
	return m.pairs
}
