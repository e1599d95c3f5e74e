package sched

import (
	"github.com/rotasched/rota"
)

// Draft lays what one entry of rounds assigns over a Supply: it counts at once
// for all that comes later in the entry, in every queue (SPEC §7.2). It changes
// neither the Supply nor a Pending, and neither may change while it is used.
type Draft struct {
	supply   *Supply
	standing standing
	// taken are the jobs that got a worker outside the draw of their queue's round,
	// takenOf counts them by class, shares by the group that they were in.
	taken   map[*Item]bool
	takenOf map[ClassID]int
	shares  map[*group]int64
	// holders are jobs that hold a worker; granted are the holds of turns.
	holders map[*Item]bool
	granted []HoldChange
	// told counts the holds whose jobs were not placed first of all.
	told int
	// drawn are the rounds' pairs.
	drawn [][]Pair
	// walks are the classes whose oldest jobs are taken.
	walks map[walkKey]*elderWalk
	// gatherMost is gatherCells but in tests.
	gatherMost int
}

// NewDraft starts an entry in which nothing is assigned yet.
func NewDraft(s *Supply) *Draft {
	return &Draft{supply: s, standing: s.standing.clone(), gatherMost: gatherCells, taken: map[*Item]bool{},
		takenOf: map[ClassID]int{}, shares: map[*group]int64{}, walks: map[walkKey]*elderWalk{},
		holders: map[*Item]bool{}}
}

// RoundInput is what a round depends on beside Supply and Pending.
type RoundInput struct {
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
}

// Pair is one assignment of a round.
type Pair struct {
	Item   *Item
	Worker rota.WorkerID
	// Score is ScoreAt of the job's key (the bits of a double for a list that
	// RoundOver was given), Rank its place in the draw, from 0.
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
	return d.round(wants, in, func(m *matcher) {
		if in.Interleave {
			if oldest := d.eldest(p, true, m.has); oldest.item != nil {
				m.interleave(oldest.item)
				d.assigned(p, oldest.item)
			}
		}
		m.source = newPendingSource(p, m.rooms, in, d)
	})
}

// RoundOver decides a round over a list that is ranked already, such as
// Adaptive makes. It interleaves nothing: such a list is drawn from a sample.
func (d *Draft) RoundOver(list []Scored, in RoundInput) []Pair {
	var wants []want
	at := map[ClassID]int{}
	candidates := make([]candidate, len(list))
	for i, s := range list {
		candidates[i] = s.candidate()
		w, known := at[s.Item.Class]
		if !known {
			w = len(wants)
			at[s.Item.Class] = w
			wants = append(wants, want{class: s.Item.Class})
		}
		wants[w].items++
	}
	return d.round(wants, in, func(m *matcher) { m.source = &listSource{list: candidates} })
}

// round runs a matcher; open gives it its source.
func (d *Draft) round(wants []want, in RoundInput, open func(*matcher)) []Pair {
	r := newRooms(d.supply, &d.standing, in.Policy.LeasesMaxPerWorker, wants)
	if r.count == 0 || in.Limit <= 0 {
		return nil
	}
	strategy := in.Policy.Strategy
	r.place(strategy != rota.RoundRobin && strategy != rota.Random, in.Seed)
	m := &matcher{rooms: r, in: in}
	if strategy == rota.LeastLoaded || strategy == rota.Affinity {
		m.loads = newLoads(r)
	}
	m.begin()
	open(m)
	m.run()
	d.drawn = append(d.drawn, m.pairs)
	return m.pairs
}
