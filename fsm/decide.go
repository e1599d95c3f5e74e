package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
)

// decision is the next entry of rounds under construction.
type decision struct {
	m      *parts
	draft  *sched.Draft
	rounds []*fsmpb.Round
	epoch  uint64
	// now is the clock of the state, or the stamp of the entry that is decided with; with is the number of that entry's
	// operations.
	now  rota.Clock
	with uint32
	// placed counts the pairs; most is their limit.
	placed, most int
	holds        []sched.Hold
	// before counts by queue the jobs placed before its round. since replaces sinceInterleave if earlier rounds change
	// it.
	before, since map[rota.QueueName]uint64
	// lots are the queues that have work and are not paused, in turn order; names are their names.
	lots  []sched.Lot
	names []rota.QueueName
	// sight is nil unless a round is observed.
	sight *roundSight
	// slab holds allocated rounds that are not used yet.
	slab []fsmpb.Round
}

// roundSight is what the round of an epoch looks at.
type roundSight struct {
	sched.Sight
	epoch uint64
}

// Decide computes the next entry of rounds on the present state (SPEC §7.2). It is a pure read, called only by a
// leader. First come jobs with reserved room: jobs that hold a worker (SPEC §7.8), then the oldest jobs where a
// worker's turn is due (SPEC §7.10). Then come the queues that have work and supply, in turn order, then the leases to
// preempt (SPEC §7.9), then the changes of holds. It decides at most `most` pairs. The result is nil if nothing can be
// placed, no lease is preempted and no hold changes; if another queue's round placed something, it includes the rounds
// that placed nothing. READ_ONLY starts nothing (SPEC §4.3), so nothing is preempted for it either.
func (vw *View) Decide(most int) []*fsmpb.Round {
	rounds, _ := vw.decide(most, "", nil)
	return rounds
}

// decide is Decide; if a job is watched, the draft reports about it. sight is for the round of an epoch.
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

// all decides for every pending job. It reports whether there is anything to propose.
func (d *decision) all() bool {
	pl := &d.m.placement
	d.holds = pl.held()
	busy := pl.registry.busy.Len()
	d.lots, d.names = make([]sched.Lot, 0, busy), make([]rota.QueueName, 0, busy)
	pl.registry.busy.Scan(func(t turn) bool {
		if q := d.m.QueueTable.Get(t.name); !q.Policy.Paused {
			d.lots = append(d.lots, sched.Lot{Pending: pl.registry.queues[t.name].pending, Policy: &q.Policy,
				Queue: t.name, Stats: d.m.typeStats.StatsOf(q), Expects: q.ExpectsOf()})
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

// newDecision starts a decision on the present state.
func newDecision(m *parts, most int, watched rota.JobID, sight *roundSight) *decision {
	d := &decision{m: m, draft: sched.NewDraft(m.placement.registry.supply, caps{m}), epoch: m.Header.Epoch,
		now: m.Header.Clock, most: most, sight: sight}
	if watched != "" {
		d.draft.Watch(watched)
	}
	return d
}

// keptRoom places the jobs that hold a worker and takes the turns of the oldest.
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

// doomedLooks is the maximum number of jobs of ending workflows that a decision skips. Beyond it they cost the jobs
// behind them their places.
const doomedLooks = 1 << 14

// withhold makes the draw skip the jobs of workflows that are ending. They stay among the others until the pass reaches
// them, up to a hundred entries later. Until then they would use places of a batch, and room, at the expense of the
// jobs behind them.
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

// doomed reports whether a pair's job is no longer to be leased, as its workflow is ending: the draw skips only
// doomedLooks of them.
func (d *decision) doomed(p sched.Pair) bool {
	if d.m.flows.workflows.Len() == 0 {
		return false
	}
	j := d.m.JobTable.Get(p.Item.ID) // the jobs that come with the entry have no rows
	return j != nil && d.m.flows.doomed(j)
}

// early adds a pair that goes before all rounds, in an operation before theirs: the rest of the entry is decided, and
// checked, after it.
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

// round starts the next round.
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
		return // The round is included anyway. With many queues, most are such.
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

// limit returns the maximum number of pairs of a queue's round. batch_size may exceed the maximum of an entry (SPEC
// §7.3).
func (d *decision) limit(p *rota.QueuePolicy) int {
	batch := int(p.BatchSize)
	return min(batch, max(d.most, batch)-d.placed)
}

// changeHolds adds the changes of holds to the last round.
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

// sinceInterleave counts a queue's assignments since its last interleaved one, including earlier ones in the entry.
func (d *decision) sinceInterleave(q *state.QueueRow) uint64 {
	if since, ok := d.since[q.Name]; ok {
		return since
	}
	return q.SinceInterleave + d.before[q.Name]
}

// DispatchMs returns the shortest dispatch_interval in ms of the queues that have QUEUED jobs, 0 if none has.
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

// ReenactRound repeats the decision on the same state, with an entry's arrivals if there are any. It returns the round
// of an epoch, nil if none of it is decided, and what it looked at. A job placed before its queue's draw is in no
// sight. The state must not be read meanwhile.
func (m *Machine) ReenactRound(epoch uint64, a *Arrivals,
	most int) (round *fsmpb.Round, sight sched.Sight, seed sched.Hash) {
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
