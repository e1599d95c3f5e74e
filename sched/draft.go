package sched

import (
	"github.com/rotasched/rota"
)

// Draft overlays the assignments of one entry of rounds on a Supply. Each assignment counts at once for everything
// later in the entry, in every queue (SPEC §7.2). A Draft changes neither the Supply nor a Pending, and neither may
// change while it is in use.
type Draft struct {
	supply    *Supply
	slotLoads slotLoads
	allowance
	// taken are the jobs that got a worker outside the draw of their queue's round; takenOf counts them by class,
	// shares by the group that they were in.
	taken   map[*Item]bool
	takenOf map[ClassID]int
	shares  map[*group]int64
	// holders are jobs that hold a worker; granted are the holds of turns.
	holders map[*Item]bool
	granted []HoldChange
	// kept counts the holds whose jobs were not placed first of all. Holds by preemption are excluded: they are outside
	// the bound.
	kept int
	// foresees reports whether some queue of the entry backfills. If so, started holds the entry's leases by worker,
	// reserved the reserved room, and deep the queues that had more candidates than they looked at.
	foresees bool
	started  map[int32][]Run
	reserved []Reservation
	deep     []rota.QueueName
	// roomless are the classes, by scope, for which WantsRoom found no room.
	roomless map[ScopedClass]bool
	// drawn are the rounds' pairs.
	drawn [][]Pair
	// walks are the walks of the classes whose oldest jobs were assigned.
	walks map[walkKey]*ageWalk
	// watch records how one job gets its worker; nil if no job is watched.
	watch *watch
	// sight records what a round looks at; nil if not recorded.
	sight *Sight
	// withheld reports whether a job gets no worker in this entry; nil if none is withheld.
	withheld func(*Item) bool
	// maxGather is gatherCells except in tests.
	maxGather int
	// looksAtAll is for tests: turns then also look at lists that could not give a job.
	looksAtAll bool
}

// NewDraft starts an entry without assignments. Without caps only room bounds it.
func NewDraft(s *Supply, caps Caps) *Draft {
	return &Draft{supply: s, allowance: newAllowance(caps), slotLoads: s.slotLoads.clone(), maxGather: gatherCells}
}

// put sets a key of a map that it creates on first use: most entries place a job or two and use few of the maps.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}

// Withhold makes all later decisions skip the jobs for which f is true: they use no places. f is called often.
func (d *Draft) Withhold(f func(*Item) bool) { d.withheld = f }

// out reports whether a job is not drawn: it was assigned in this entry or is withheld.
func (d *Draft) out(it *Item) bool {
	return len(d.taken) > 0 && d.taken[it] || d.withheld != nil && d.withheld(it)
}

// HasRoom reports whether any active worker that serves the queue has a free slot left: otherwise its round places
// nothing.
func (d *Draft) HasRoom(q rota.QueueName) bool {
	queue := d.supply.queues[q]
	return queue != nil && queue.workers.meets(d.slotLoads.free)
}

// Served declares every Pending of the rounds so far finished. Later draws use other jobs, in a Pending of their own,
// and share only the room already taken.
func (d *Draft) Served() { clear(d.takenOf) }

// RoundInput is the input of a round in addition to Supply and Pending.
type RoundInput struct {
	Queue  rota.QueueName
	Seed   Hash
	Now    rota.Clock
	Policy *rota.QueuePolicy
	// Cursor counts the queue's assignments so far (SPEC §7.6).
	Cursor uint64
	// Limit is the maximum number of assignments of the round, at most batch_size.
	Limit int
	// Interleave makes the oldest job that fits some worker now the first candidate, in a group of its own to which
	// fair share does not apply (SPEC §5.1).
	Interleave bool
	// Stats returns the stats of a type; only an adaptive queue's round calls it.
	Stats func(rota.JobType) Stats
	// Expects is the same as Lot.Expects.
	Expects func(rota.JobType) int64
}

// Pair is one assignment of a round.
type Pair struct {
	Item   *Item
	Worker rota.WorkerID
	// Score is ScoreAt of the job's key (in an adaptive queue the bits of a double); Rank is its place in the draw,
	// from 0.
	Score     int64
	Rank      int32
	Reasoning rota.Reasoning
	// Interleaved reports whether it is the round's interleaved pair.
	Interleaved bool
}

// Round decides one round of a queue (SPEC §7). Remove a job drawn into a Pair from the Pending before another Draft
// draws from it. A Draft draws from a Pending at most once.
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
