package fsm

import (
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// decision is the next entry of rounds in the making.
type decision struct {
	m      *Machine
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
	if vw.m.head.mode == rota.ModeReadOnly {
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
		if q := d.m.queues.get(t.name); !q.policy.Paused {
			d.lots = append(d.lots, sched.Lot{Pending: pl.registry.queues[t.name].pending, Policy: &q.policy, Queue: t.name,
				Stats: d.m.typeStats.statsOf(q), Expects: q.expectsOf()})
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
func newDecision(m *Machine, most int, watched rota.JobID, sight *roundSight) *decision {
	d := &decision{m: m, draft: sched.NewDraft(m.placement.registry.supply, caps{m}), epoch: m.head.epoch, now: m.head.clock,
		most: most, sight: sight}
	if watched != "" {
		d.draft.Watch(watched)
	}
	return d
}

// keptRoom places the jobs that hold a worker, and takes the turns of the oldest.
func (d *decision) keptRoom() {
	for _, h := range d.holds {
		if d.m.flows.doomed(d.m.jobs.get(h.Item.ID)) {
			continue
		}
		if pair, ok := d.draft.PlaceHeld(h, d.now); ok {
			if row := d.m.placement.holds.get(h.Item.ID); row.preempted {
				pair.Reasoning = rota.Reasoning{Rule: rota.ReasoningByPreemption, N: row.revoked}
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
		if left == 0 || !d.m.flows.doomed(d.m.jobs.get(it.ID)) {
			return false
		}
		left--
		return true
	})
}

// doomed says of a pair that its job is not to be leased any more, as its workflow is
// ending: the draw passes over so many of them and no more.
func (d *decision) doomed(p sched.Pair) bool {
	if d.m.flows.workflows.len() == 0 {
		return false
	}
	j := d.m.jobs.get(p.Item.ID) // none of those that come with the entry has a row
	return j != nil && d.m.flows.doomed(j)
}

// early adds a pair that goes before all rounds, in an operation before theirs:
// what follows in the entry is decided, and checked, after it.
func (d *decision) early(pair sched.Pair) {
	queue := d.m.jobs.get(pair.Item.ID).spec.Queue
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
	r.Epoch, r.Height, r.Queue, r.With = d.epoch, uint64(d.m.head.index), string(queue), d.with
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
	m, q := d.m, d.m.queues.get(lot.Queue)
	pairs := d.draft.Round(lot.Pending, sched.RoundInput{
		Queue: lot.Queue, Stats: lot.Stats, Expects: lot.Expects,
		Seed: sched.MatchSeed(m.head.cluster, d.epoch, m.head.index, m.head.beacon), Now: d.now,
		Policy: &q.policy, Cursor: q.placed + d.before[lot.Queue], Limit: min(int(q.policy.BatchSize), d.most-d.placed),
		Interleave: q.interleaves(d.sinceInterleave(q))})
	for i := range pairs {
		if why := &pairs[i].Reasoning; why.Rule == rota.ReasoningBackfilled {
			why.N = int64(m.head.now().At(rota.Clock(why.N)).Date)
			if m.head.rules < 2 {
				why.Of = 0
			}
		}
		if !d.doomed(pairs[i]) {
			r.Pairs = append(r.Pairs, pairOp(&pairs[i]))
			d.placed++
		}
	}
}

// changeHolds adds what changes among the holds to the last round.
func (d *decision) changeHolds() bool {
	changes := d.draft.Keep(d.lots, d.holds, d.now)
	if len(changes) == 0 {
		return false
	}
	if len(d.rounds) == 0 {
		d.round(d.m.jobs.get(changes[0].Item.ID).spec.Queue)
	}
	last := d.rounds[len(d.rounds)-1]
	for _, c := range changes {
		last.Holds = append(last.Holds, &fsmpb.Hold{Job: string(c.Item.ID), Worker: string(c.Worker), Turn: c.Turn})
	}
	return true
}

// sinceInterleave counts a queue's assignments since its last interleaved one, those before in the entry
// among them.
func (d *decision) sinceInterleave(q *queueRow) uint64 {
	if since, ok := d.since[q.name]; ok {
		return since
	}
	return q.sinceInterleave + d.before[q.name]
}

// interleaves reports whether the next round, so many assignments after the last interleaved one, begins
// with the oldest job (SPEC §5.1).
func (r *queueRow) interleaves(since uint64) bool {
	k := r.policy.StarvationInterleave
	return k > 0 && since >= uint64(k-1)
}

// DispatchMs is the shortest dispatch_interval of the queues that have QUEUED jobs,
// 0 if none has.
func (vw *View) DispatchMs() (least int64) {
	vw.m.placement.registry.busy.Scan(func(t turn) bool {
		if ms := vw.m.queues.get(t.name).policy.DispatchIntervalMs; least == 0 || ms < least {
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
	return round, looked.Sight, sched.MatchSeed(m.head.cluster, epoch, m.head.index, m.head.beacon)
}

// Arrivals are the operations of an entry that a round of that very entry is decided with (SPEC §2.3).
type Arrivals struct {
	// Ops stand before the round; Now is the entry's stamp.
	Ops []*fsmpb.Op
	Now rota.Clock
}

// DecideWith decides rounds for the jobs that an entry submits, to stand behind their submissions in that
// entry (SPEC §2.3): on this state, with those jobs QUEUED by the entry's stamp; or where it submits none, for
// those who wait, with the room that its completions leave (refill). It decides nothing where
// anybody else might have a claim to the workers, or anything in the entry might make the decision another
// one: then the rounds after the entry decide. A function of the state, the operations and the stamp alone.
// What it files for the call it takes out again: nobody may read the state meanwhile.
func (m *Machine) DecideWith(a *Arrivals, most int) []*fsmpb.Round {
	rounds, _ := m.decideWith(a, most, "", nil)
	return rounds
}

// decideWith is DecideWith, or decide where a is nil.
func (m *Machine) decideWith(a *Arrivals, most int, watched rota.JobID, sight *roundSight) ([]*fsmpb.Round, *sched.Draft) {
	if a == nil {
		return m.decide(most, watched, sight)
	}
	if m.head.cluster == "" || m.head.mode != rota.ModeNormal {
		return nil, nil
	}
	if !slices.ContainsFunc(a.Ops, func(op *fsmpb.Op) bool { return op.GetSubmit() != nil }) {
		return refill(m, a, most, watched, sight)
	}
	s := &m.placement.arriving
	s.arrive(m, a)
	defer s.leave(watched != "" || sight != nil)
	if !s.takeAll(a.Ops) || len(s.lots) == 0 {
		return nil, nil
	}
	d := newDecision(m, most, watched, sight)
	if !d.serves(s.before) {
		return nil, nil
	}
	d.draft.Served()
	waited := len(d.rounds)
	d.now, d.with = s.now, uint32(len(a.Ops))
	d.since = s.since
	if len(s.placed) > 0 {
		d.before = maps.Clone(s.placed)
	}
	slices.SortFunc(s.turns, func(x, y turn) int {
		return sched.CompareTurn(x.count, x.weight, x.name, y.count, y.weight, y.name)
	})
	placed := d.placed
	lots := make([]sched.Lot, 0, len(s.turns))
	for _, t := range s.turns {
		lots = append(lots, *s.lots[t.name])
	}
	d.draft.Foresee(lots...)
	d.draft.ReserveFirst(lots, d.now)
	for _, t := range s.turns {
		if d.placed < most && m.placement.registry.supply.HasRoom(t.name) {
			d.queue(s.lots[t.name])
		}
	}
	if d.placed == placed {
		return nil, d.draft
	}
	d.tellReservations()
	return d.rounds[waited:], d.draft
}

// serves reports whether the jobs of the entry are the only ones with a claim to a free worker: no job waits,
// or the rounds that the entry already contains are the ones that this state decides, and place every waiting
// job. It is false where one of them keeps a hold, takes the turn of the oldest or preempts a lease.
func (d *decision) serves(rounds []*fsmpb.Round) bool {
	waiting := 0
	d.m.placement.registry.busy.Scan(func(t turn) bool {
		waiting += d.m.placement.registry.queues[t.name].pending.Len()
		return waiting <= d.most
	})
	if len(rounds) == 0 {
		return waiting == 0
	}
	return waiting <= d.most && d.all() && d.placed == waiting && len(d.before) == 0 && slices.EqualFunc(d.rounds, rounds, sameRound)
}

// sameRound reports whether two rounds place the same jobs at the same workers, and do nothing else.
func sameRound(a, b *fsmpb.Round) bool {
	return a.GetEpoch() == b.GetEpoch() && a.GetHeight() == b.GetHeight() && a.GetQueue() == b.GetQueue() && b.GetWith() == 0 &&
		len(a.GetPreempts())+len(b.GetPreempts())+len(a.GetHolds())+len(b.GetHolds()) == 0 &&
		slices.EqualFunc(a.GetPairs(), b.GetPairs(), func(x, y *fsmpb.Pair) bool {
			return x.GetJob() == y.GetJob() && x.GetWorker() == y.GetWorker()
		})
}

// arriving are the jobs of an entry's submissions, filed apart from those of the state.
type arriving struct {
	m   *Machine
	now rota.Clock
	// count is how many operations the entry has, admitted how many jobs it brings.
	count    int64
	admitted uint64
	ids      map[rota.JobID]bool
	// lots have the jobs by queue, turns their queues as they become busy; filed are the jobs, whose classes are counted for the call.
	lots  map[rota.QueueName]*sched.Lot
	turns []turn
	filed []filedIn
	// spare are lots of calls before, empty: most entries submit to the same few queues.
	spare map[rota.QueueName]*sched.Lot
	// before are the rounds that the entry has already, for those who waited; placed counts their pairs by
	// queue, since those after the last interleaved one, leased those of a tenant.
	before        []*fsmpb.Round
	placed, since map[rota.QueueName]uint64
	leased        map[tenantIn]int64
}

// filedIn is a job in the lot of its queue.
type filedIn struct {
	lot  *sched.Lot
	item *sched.Item
}

// spareLots is from how many on lots are not kept for the next call.
const spareLots = 16

// arrive begins a call.
func (s *arriving) arrive(m *Machine, a *Arrivals) {
	if s.ids == nil {
		s.ids, s.lots, s.spare = make(map[rota.JobID]bool), make(map[rota.QueueName]*sched.Lot), make(map[rota.QueueName]*sched.Lot)
	}
	s.m, s.now, s.count, s.admitted = m, max(a.Now, m.head.clock), int64(len(a.Ops)), 0
}

// tenantIn is a tenant in a queue.
type tenantIn struct {
	queue  rota.QueueName
	tenant rota.TenantID
}

// takeAll takes the operations in their order, until one of which take says false.
func (s *arriving) takeAll(ops []*fsmpb.Op) bool {
	for _, op := range ops { // their room is taken, wherever they stand
		if r := op.GetRound(); r != nil && !s.round(r) {
			return false
		}
	}
	for _, op := range ops {
		if !s.take(op) {
			return false
		}
	}
	return true
}

// round counts a round that the entry has already; false says that there is none of its jobs.
func (s *arriving) round(r *fsmpb.Round) bool {
	if s.placed == nil {
		s.placed, s.since, s.leased = make(map[rota.QueueName]uint64), make(map[rota.QueueName]uint64), make(map[tenantIn]int64)
	}
	name := rota.QueueName(r.GetQueue())
	q := s.m.queues.get(name)
	if q == nil {
		return false
	}
	if _, ok := s.since[name]; !ok {
		s.since[name] = q.sinceInterleave
	}
	for _, p := range r.GetPairs() {
		j := s.m.jobs.get(rota.JobID(p.GetJob()))
		if j == nil || j.spec.Queue != name {
			return false
		}
		s.placed[name]++
		s.leased[tenantIn{name, j.spec.Tenant}]++
		if s.since[name]++; p.GetInterleaved() {
			s.since[name] = 0
		}
	}
	s.before = append(s.before, r)
	return true
}

// take takes an operation; false says that nothing is decided with it.
func (s *arriving) take(op *fsmpb.Op) bool {
	switch o := op.GetOp().(type) {
	case *fsmpb.Op_Barrier, *fsmpb.Op_KeepLog, *fsmpb.Op_Round:
		return true
	case *fsmpb.Op_Lease: // it may free room, which the rounds after the entry give
		v := rota.LeaseVerb(o.Lease.GetVerb())
		return v == rota.VerbAck || v == rota.VerbRenew || v == rota.VerbComplete || v == rota.VerbProgress
	case *fsmpb.Op_Submit:
		return s.m.access.judge(op) == nil && s.submit(o.Submit.GetSpec())
	default:
		return false
	}
}

// submit files the job of a submission, if it is QUEUED by that and may be placed; false says that it is
// not sure what becomes of it.
func (s *arriving) submit(p *fsmpb.JobSpec) bool {
	m := s.m
	if len(p.GetLabels()) > rota.MaxLabels {
		return false
	}
	spec := entry.SpecWords(p)
	if s.ids[spec.ID] || m.again(spec) != nil {
		return true // it is answered by what is known of its id
	}
	q := m.queues.get(spec.Queue)
	if spec.Unique != nil || spec.Batch != "" || len(spec.Keys) > 0 || rota.DateOf(spec.NotBefore) > 0 || m.takes(spec, q) != nil || m.admit(spec, q) != nil || !s.room(spec, q) {
		return false
	}
	s.ids[spec.ID] = true
	s.admitted++
	if spec.Delay.Milliseconds() > 0 {
		return true // it is DELAYED
	}
	if q.policy.Ranking == rota.RankAdaptive || m.keyring.groups[q.name] != nil {
		return false
	}
	if d := m.admission.domainOf(q.name, spec.Domain); q.policy.Paused || m.admission.throttled(q, spec.Tenant) || d != nil && d.throttled {
		return true // it waits
	}
	s.file(spec, q)
	return true
}

// room reports whether a queue would admit as many jobs as the entry has operations: what comes before in
// it must not decide whether a job is admitted.
func (s *arriving) room(spec *rota.JobSpec, q *queueRow) bool {
	lm, p := &s.m.admission, &q.policy
	pending := q.pending() + s.count
	if pending > p.QueueCap || int64(s.m.placement.registry.supply.Classes(q.name))+s.count > limits.MaxClassesPerQueue {
		return false
	}
	if least := p.RejectThresholdPermille; least > 0 {
		ready, room := lm.backlog(q)
		if pending*1000 >= p.QueueCap*least || room > 0 && (ready+s.count)*1000 >= room*least {
			return false
		}
	}
	queue, rate := lm.rateOf(spec.Tenant, q)
	if rate == 0 {
		return true
	}
	r := lm.limiters.get(limiterKey(queue, spec.Tenant))
	if r == nil {
		return rate >= s.count && int64(lm.limiters.len())+s.count <= limits.MaxRateLimiters
	}
	return bucketOf(rate, rate).tokens(r.tat, s.m.head.clock) >= s.count
}

// file files a job as if it had been submitted and queued.
func (s *arriving) file(spec *rota.JobSpec, q *queueRow) {
	pl := &s.m.placement
	lot := s.lots[q.name]
	if lot == nil {
		if lot = s.spare[q.name]; lot == nil || lot.Pending.FairShare() != q.policy.FairShare {
			lot = &sched.Lot{Pending: sched.NewPending(q.policy.FairShare), Queue: q.name}
		}
		lot.Policy, lot.Stats, lot.Expects = &q.policy, s.m.typeStats.statsOf(q), q.expectsOf()
		s.lots[q.name] = lot
		s.join(q)
	}
	class := pl.registry.supply.Intern(sched.RequirementsOf(spec))
	j := jobRow{jobLife: noLife, spec: s.m.specs.keep(spec), class: class, seq: s.m.head.jobSeq + s.admitted, enqueued: s.now, queuedAt: s.now}
	if estimate, part := s.m.typeStats.foretell(j.spec, &q.policy); estimate|part != 0 {
		j.jobLife = &jobLife{lifeWords: lifeWords{past: &jobPast{estimate: estimate, part: part}}}
	}
	item := pl.itemOf(&j, q)
	if q.policy.FairShare {
		lot.Pending.SetShare(spec.Tenant, pl.registry.queues[q.name].open[spec.Tenant]+s.leased[tenantIn{q.name, spec.Tenant}], s.m.admission.limitsOf(spec.Tenant).Weight)
	}
	lot.Pending.Add(&item)
	s.filed = append(s.filed, filedIn{lot, &item})
}

// join takes a queue into the order of queues, as joinTurns does.
func (s *arriving) join(q *queueRow) {
	t := turn{q.turn + s.placed[q.name], uint64(q.policy.Weight), q.name}
	if len(s.turns) > 0 {
		least := s.turns[0]
		for _, o := range s.turns[1:] {
			if turnLess(o, least) {
				least = o
			}
		}
		t.count = max(t.count, rescale(least.count, t.weight, least.weight))
	}
	s.turns = append(s.turns, t)
}

// leave takes out what was counted for the call. Where somebody looks at the draft yet, its lots stay as they are.
func (s *arriving) leave(looked bool) {
	for _, f := range s.filed {
		s.m.placement.registry.supply.Release(f.item.Class)
		if !looked {
			f.lot.Pending.Remove(f.item)
			f.lot.Pending.SetShare(f.item.Tenant, 0, 1)
		}
	}
	if looked || len(s.spare) >= spareLots {
		clear(s.spare)
	}
	for _, t := range s.turns {
		if !looked {
			s.spare[t.name] = s.lots[t.name]
		}
	}
	clear(s.ids)
	clear(s.lots)
	clear(s.filed)
	s.filed, s.turns, s.before = s.filed[:0], s.turns[:0], nil
	s.placed, s.since, s.leased = nil, nil, nil
}
