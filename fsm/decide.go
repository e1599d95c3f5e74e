package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
)

// decision is the next entry of rounds in the making.
type decision struct {
	m      *parts
	draft  *sched.Draft
	rounds []*fsmpb.Round
	epoch  uint64
	// now is the clock of the state, or the stamp of the entry that is decided with; with counts its
	// operations.
	now  rota.Clock
	with uint32
	// placed counts the pairs, of most.
	placed, most int
	holds        []sched.Hold
	// before counts by queue what was placed before its round; since is sinceInterleave where rounds before it
	// say otherwise.
	before, since map[rota.QueueName]uint64
	// lots are the queues that have work and are not paused, in their turn; names
	// are theirs.
	lots  []sched.Lot
	names []rota.QueueName
	// sight is nil where nobody looks at a round.
	sight *roundSight
	// slab are rounds that are made but not yet begun.
	slab []fsmpb.Round
}

// roundSight is what the round of an epoch looks at.
type roundSight struct {
	sched.Sight
	epoch uint64
}

// Decide computes the next entry of rounds on the present state (SPEC §7.2): a
// pure read, only ever called by a leader. First go those whose room is kept for
// them: jobs that hold a worker (SPEC §7.8), then the oldest jobs, where a
// worker's turn is due (SPEC §7.10). Then the queues that have work and
// supply, in their turn; then the leases that give way (SPEC §7.9), and what
// changes among the holds. At most `most` pairs are decided. The answer is nil when
// nothing can be placed, no lease gives way and no hold changes; a queue whose
// round placed nothing is told too when another's placed something. READ_ONLY
// starts nothing (SPEC §4.3), and so nothing gives way for it either.
func (vw *View) Decide(most int) []*fsmpb.Round {
	rounds, _ := vw.decide(most, "", nil)
	return rounds
}

// decide is Decide, and where a job is watched the draft that tells of it; sight is of the round of
// an epoch.
func (vw *View) decide(most int, watched rota.JobID, sight *roundSight) ([]*fsmpb.Round, *sched.Draft) {
	if vw.m.Header.Mode == rota.ModeReadOnly {
		return nil, nil
	}
	d := newDecision(vw.m, most, watched, sight)
	if !d.all() {
		return nil, d.draft
	}
	return d.rounds, d.draft
}

// all decides for every job that waits. It reports whether there is anything to propose.
func (d *decision) all() bool {
	pl := &d.m.placement
	d.holds = pl.held()
	busy := pl.registry.busy.Len()
	d.lots, d.names = make([]sched.Lot, 0, busy), make([]rota.QueueName, 0, busy)
	pl.registry.busy.Scan(func(t turn) bool {
		if q := d.m.QueueTable.Get(t.name); !q.Policy.Paused {
			d.lots = append(d.lots, sched.Lot{Pending: pl.registry.queues[t.name].pending, Policy: &q.Policy, Queue: t.name,
				Stats: d.m.typeStats.statsOf(q), Expects: q.ExpectsOf()})
			d.names = append(d.names, t.name)
		}
		return true
	})
	d.draft.Foresee(d.lots...)
	d.withhold()
	d.keptRoom()
	d.draft.ReserveFirst(d.lots, d.now)
	for i, name := range d.names {
		if d.placed < d.most && pl.registry.supply.HasRoom(name) {
			d.queue(&d.lots[i])
		}
	}
	preempted := d.preempts()
	changed := d.changeHolds()
	d.tellReservations()
	return d.placed > 0 || preempted || changed
}

// newDecision begins the next entry of rounds on the present state.
func newDecision(m *parts, most int, watched rota.JobID, sight *roundSight) *decision {
	d := &decision{m: m, draft: sched.NewDraft(m.placement.registry.supply, caps{m}), epoch: m.Header.Epoch, now: m.Header.Clock,
		most: most, sight: sight}
	if watched != "" {
		d.draft.Watch(watched)
	}
	return d
}

// keptRoom places the jobs that hold a worker, and takes the turns of the oldest.
func (d *decision) keptRoom() {
	for _, h := range d.holds {
		if d.m.flows.doomed(d.m.JobTable.Get(h.Item.ID)) {
			continue
		}
		if pair, ok := d.draft.PlaceHeld(h, d.now); ok {
			if row := d.m.placement.holds.Get(h.Item.ID); row.Preempted {
				pair.Reasoning = rota.Reasoning{Rule: rota.ReasoningByPreemption, N: row.Revoked}
			}
			d.early(pair)
		}
	}
	for _, pair := range d.draft.Turns(d.lots, d.now, d.most-d.placed) {
		if !d.doomed(pair) {
			d.early(pair)
		}
	}
}

// doomedLooks bounds the jobs that a decision passes over as their workflow is ending:
// of what stands behind more of them, places are lost to them.
const doomedLooks = 1 << 14

// withhold has the draw pass over the jobs of workflows that are ending. They stand
// among the others until the pass comes to them, up to a hundred entries later, and
// would take the places of a batch, and the room, from whoever comes behind.
func (d *decision) withhold() {
	if d.m.flows.flowIndex.passing.Len() == 0 {
		return
	}
	left := doomedLooks
	d.draft.Withhold(func(it *sched.Item) bool {
		if left == 0 || !d.m.flows.doomed(d.m.JobTable.Get(it.ID)) {
			return false
		}
		left--
		return true
	})
}

// doomed says of a pair that its job is not to be leased any more, as its workflow is
// ending: the draw passes over so many of them and no more.
func (d *decision) doomed(p sched.Pair) bool {
	if d.m.flows.workflows.Len() == 0 {
		return false
	}
	j := d.m.JobTable.Get(p.Item.ID) // none of those that come with the entry has a row
	return j != nil && d.m.flows.doomed(j)
}

// early adds a pair that goes before all rounds, in an operation before theirs:
// what follows in the entry is decided, and checked, after it.
func (d *decision) early(pair sched.Pair) {
	queue := d.m.JobTable.Get(pair.Item.ID).Spec.Queue
	if n := len(d.rounds); n == 0 || d.rounds[n-1].Queue != string(queue) {
		d.round(queue)
	}
	r := d.rounds[len(d.rounds)-1]
	r.Pairs = append(r.Pairs, pairOp(&pair))
	if d.before == nil {
		d.before = make(map[rota.QueueName]uint64)
	}
	d.before[queue]++
	d.placed++
}

// round begins the next round.
func (d *decision) round(queue rota.QueueName) *fsmpb.Round {
	d.epoch++
	if len(d.slab) == 0 {
		d.slab = make([]fsmpb.Round, max(1, min(len(d.names), 64)))
	}
	r := &d.slab[0]
	d.slab = d.slab[1:]
	r.Epoch, r.Height, r.Queue, r.With = d.epoch, uint64(d.m.Header.Index), string(queue), d.with
	d.rounds = append(d.rounds, r)
	return r
}

// queue decides a queue's own round.
func (d *decision) queue(lot *sched.Lot) {
	r := d.round(lot.Queue)
	if !d.draft.HasRoom(lot.Queue) {
		return // The round is told all the same. Where queues are many, most are such.
	}
	if d.sight != nil && d.sight.epoch == d.epoch {
		d.draft.Look(&d.sight.Sight)
		defer d.draft.Look(nil)
	}
	m, q := d.m, d.m.QueueTable.Get(lot.Queue)
	pairs := d.draft.Round(lot.Pending, sched.RoundInput{
		Queue: lot.Queue, Stats: lot.Stats, Expects: lot.Expects,
		Seed: sched.MatchSeed(m.Header.Cluster, d.epoch, m.Header.Index, m.Header.Beacon), Now: d.now,
		Policy: &q.Policy, Cursor: q.Placed + d.before[lot.Queue], Limit: d.limit(&q.Policy),
		Interleave: q.Interleaves(d.sinceInterleave(q))})
	for i := range pairs {
		if why := &pairs[i].Reasoning; why.Rule == rota.ReasoningBackfilled {
			why.N = int64(m.Header.Now().At(rota.Clock(why.N)).Date)
			if m.Header.Rules < 2 {
				why.Of = 0
			}
		}
		if !d.doomed(pairs[i]) {
			r.Pairs = append(r.Pairs, pairOp(&pairs[i]))
			d.placed++
		}
	}
}

// limit is how many pairs a queue's round may have. What an entry has at most, batch_size may exceed (SPEC §7.3).
func (d *decision) limit(p *rota.QueuePolicy) int {
	batch := int(p.BatchSize)
	return min(batch, max(d.most, batch)-d.placed)
}

// changeHolds adds what changes among the holds to the last round.
func (d *decision) changeHolds() bool {
	changes := d.draft.Keep(d.lots, d.holds, d.now)
	if len(changes) == 0 {
		return false
	}
	if len(d.rounds) == 0 {
		d.round(d.m.JobTable.Get(changes[0].Item.ID).Spec.Queue)
	}
	last := d.rounds[len(d.rounds)-1]
	for _, c := range changes {
		last.Holds = append(last.Holds, &fsmpb.Hold{Job: string(c.Item.ID), Worker: string(c.Worker), Turn: c.Turn})
	}
	return true
}

// sinceInterleave counts a queue's assignments since its last interleaved one, those before in the entry
// among them.
func (d *decision) sinceInterleave(q *state.QueueRow) uint64 {
	if since, ok := d.since[q.Name]; ok {
		return since
	}
	return q.SinceInterleave + d.before[q.Name]
}

// DispatchMs is the shortest dispatch_interval of the queues that have QUEUED jobs,
// 0 if none has.
func (vw *View) DispatchMs() (least int64) {
	vw.m.placement.registry.busy.Scan(func(t turn) bool {
		if ms := vw.m.QueueTable.Get(t.name).Policy.DispatchIntervalMs; least == 0 || ms < least {
			least = ms
		}
		return true
	})
	return least
}

// Waiting reports whether any queue has QUEUED jobs.
func (vw *View) Waiting() bool { return vw.m.placement.registry.busy.Len() > 0 }

// QueueBusy reports whether a queue has QUEUED jobs.
func (vw *View) QueueBusy(name rota.QueueName) bool {
	i := vw.m.placement.registry.queues[name]
	return i != nil && i.turn.name != ""
}

// ReenactRound decides once more on this very state, with what an entry brings where there is any, and
// returns the round of an epoch, nil where none of it is decided, with what it looked at. A job that was
// placed before its queue's draw is in no sight. Nobody may read the state meanwhile.
func (m *Machine) ReenactRound(epoch uint64, a *Arrivals, most int) (round *fsmpb.Round, sight sched.Sight, seed sched.Hash) {
	looked := roundSight{epoch: epoch}
	rounds, _ := m.decideWith(a, most, "", &looked)
	for _, r := range rounds {
		if r.GetEpoch() == epoch {
			round = r
		}
	}
	return round, looked.Sight, sched.MatchSeed(m.Header.Cluster, epoch, m.Header.Index, m.Header.Beacon)
}

func pairOp(p *sched.Pair) *fsmpb.Pair {
	return &fsmpb.Pair{Job: string(p.Item.ID), Worker: string(p.Worker), Score: p.Score, Rank: p.Rank,
		Rule: uint32(p.Reasoning.Rule), N: p.Reasoning.N, Of: p.Reasoning.Of, Interleaved: p.Interleaved}
}
