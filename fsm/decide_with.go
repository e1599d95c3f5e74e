package fsm

import (
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// Arrivals are the operations of an entry that a round in the same entry is decided with (SPEC §2.3).
type Arrivals struct {
	// Ops come before the round in the entry; Now is the entry's stamp.
	Ops []*fsmpb.Op
	Now rota.Clock
}

// DecideWith decides rounds for the jobs that an entry submits, to follow their submissions in that entry (SPEC §2.3):
// on this state, with those jobs QUEUED at the entry's stamp. If the entry submits none, it decides for pending jobs,
// with the room that the entry's completions free (refill). It decides nothing if other jobs might have a claim to the
// workers, or if anything in the entry might change the decision; then the rounds after the entry decide. It is a
// function of the state, the operations and the stamp alone. It temporarily files jobs and removes them again, so the
// state must not be read meanwhile.
func (m *Machine) DecideWith(a *Arrivals, most int) []*fsmpb.Round {
	rounds, _ := m.decideWith(a, most, "", nil)
	return rounds
}

// decideWith is DecideWith, or decide if a is nil.
func (m *Machine) decideWith(a *Arrivals, most int, watched rota.JobID,
	sight *roundSight) ([]*fsmpb.Round, *sched.Draft) {
	if a == nil {
		return m.decide(most, watched, sight)
	}
	if m.Header.Cluster == "" || m.Header.Mode != rota.ModeNormal {
		return nil, nil
	}
	if !slices.ContainsFunc(a.Ops, func(op *fsmpb.Op) bool { return op.GetSubmit() != nil }) {
		return refill(&m.parts, a, most, watched, sight)
	}
	s := &m.placement.arriving
	s.arrive(&m.parts, a)
	defer s.leave(watched != "" || sight != nil)
	if !s.takeAll(a.Ops) || len(s.lots) == 0 {
		return nil, nil
	}
	d := newDecision(&m.parts, most, watched, sight)
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
	return waiting <= d.most && d.all() && d.placed == waiting && len(d.before) == 0 &&
		slices.EqualFunc(d.rounds, rounds, sameRound)
}

// sameRound reports whether two rounds place the same jobs at the same workers, and do nothing else.
func sameRound(a, b *fsmpb.Round) bool {
	return a.GetEpoch() == b.GetEpoch() && a.GetHeight() == b.GetHeight() && a.GetQueue() == b.GetQueue() &&
		b.GetWith() == 0 &&
		len(a.GetPreempts())+len(b.GetPreempts())+len(a.GetHolds())+len(b.GetHolds()) == 0 &&
		slices.EqualFunc(a.GetPairs(), b.GetPairs(), func(x, y *fsmpb.Pair) bool {
			return x.GetJob() == y.GetJob() && x.GetWorker() == y.GetWorker()
		})
}

// arriving holds the jobs of an entry's submissions, filed apart from those of the state.
type arriving struct {
	m   *parts
	now rota.Clock
	// count is the number of operations of the entry, admitted the number of jobs that it adds.
	count    int64
	admitted uint64
	ids      map[rota.JobID]bool
	// lots hold the jobs by queue, turns their queues as they become busy; filed are the jobs, whose classes are
	// counted for the call.
	lots  map[rota.QueueName]*sched.Lot
	turns []turn
	filed []filedIn
	// spare are empty lots of earlier calls: most entries submit to the same few queues.
	spare map[rota.QueueName]*sched.Lot
	// before are the rounds that the entry already has, for jobs that were pending. placed counts their pairs by queue,
	// since those after the last interleaved one, leased those of a tenant.
	before        []*fsmpb.Round
	placed, since map[rota.QueueName]uint64
	leased        map[tenantIn]int64
}

// filedIn is a job in the lot of its queue.
type filedIn struct {
	lot  *sched.Lot
	item *sched.Item
}

// spareLots is the number of lots from which on they are not kept for the next call.
const spareLots = 16

// arrive starts a call.
func (s *arriving) arrive(m *parts, a *Arrivals) {
	if s.ids == nil {
		s.ids, s.lots, s.spare = make(map[rota.JobID]bool), make(map[rota.QueueName]*sched.Lot), make(
			map[rota.QueueName]*sched.Lot)
	}
	s.m, s.now, s.count, s.admitted = m, max(a.Now, m.Header.Clock), int64(len(a.Ops)), 0
}

// tenantIn is a tenant in a queue.
type tenantIn struct {
	queue  rota.QueueName
	tenant rota.TenantID
}

// takeAll processes the operations in order until take returns false for one.
func (s *arriving) takeAll(ops []*fsmpb.Op) bool {
	for _, op := range ops { // these rounds use room, wherever they are in the entry
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

// round counts a round that the entry already has; false means that its queue or one of its jobs is missing.
func (s *arriving) round(r *fsmpb.Round) bool {
	if s.placed == nil {
		s.placed, s.since, s.leased = make(map[rota.QueueName]uint64), make(map[rota.QueueName]uint64), make(
			map[tenantIn]int64)
	}
	name := rota.QueueName(r.GetQueue())
	q := s.m.QueueTable.Get(name)
	if q == nil {
		return false
	}
	if _, ok := s.since[name]; !ok {
		s.since[name] = q.SinceInterleave
	}
	for _, p := range r.GetPairs() {
		j := s.m.JobTable.Get(rota.JobID(p.GetJob()))
		if j == nil || j.Spec.Queue != name {
			return false
		}
		s.placed[name]++
		s.leased[tenantIn{name, j.Spec.Tenant}]++
		if s.since[name]++; p.GetInterleaved() {
			s.since[name] = 0
		}
	}
	s.before = append(s.before, r)
	return true
}

// take processes an operation; false means that nothing is decided with it.
func (s *arriving) take(op *fsmpb.Op) bool {
	switch o := op.GetOp().(type) {
	case *fsmpb.Op_Barrier, *fsmpb.Op_KeepLog, *fsmpb.Op_Round:
		return true
	case *fsmpb.Op_Lease: // it may free room, which the rounds after the entry assign
		v := rota.LeaseVerb(o.Lease.GetVerb())
		return v == rota.VerbAck || v == rota.VerbRenew || v == rota.VerbComplete || v == rota.VerbProgress
	case *fsmpb.Op_Submit:
		return s.m.access.Judge(op) == nil && s.submit(o.Submit.GetSpec())
	default:
		return false
	}
}

// submit files the job of a submission if that makes it QUEUED and it may be placed; false means that its state is
// uncertain.
func (s *arriving) submit(p *fsmpb.JobSpec) bool {
	m := s.m
	if len(p.GetLabels()) > rota.MaxLabels {
		return false
	}
	spec := entry.SpecWords(p)
	if s.ids[spec.ID] || m.again(spec) != nil {
		return true // the known job of its id answers it
	}
	q, kept := m.QueueTable.Get(spec.Queue), m.Specs.Keep(spec)
	if spec.Unique != nil || spec.Batch != "" || len(spec.Keys) > 0 || len(m.budgets.Of(spec.ID, spec, nil)) > 0 ||
		rota.DateOf(spec.NotBefore) > 0 ||
		m.takes(spec, q) != nil || m.admit(spec, kept.Bytes(), q) != nil || !s.room(spec, q) {
		return false
	}
	s.ids[spec.ID] = true
	s.admitted++
	if spec.Delay.Milliseconds() > 0 {
		return true // it is DELAYED
	}
	if q.Policy.Ranking == rota.RankAdaptive || m.keyring.Groups[q.Name] != nil {
		return false
	}
	if d := m.admission.domainOf(q.Name, spec.Domain); q.Policy.Paused || m.admission.throttled(q, spec.Tenant) ||
		d != nil && d.Throttled {
		return true // it waits
	}
	s.file(kept, q)
	return true
}

// room reports whether a queue would admit as many jobs as the entry has operations: earlier operations of the entry
// must not decide whether a job is admitted.
func (s *arriving) room(spec *rota.JobSpec, q *state.QueueRow) bool {
	lm, p := &s.m.admission, &q.Policy
	pending := q.Pending() + s.count
	if pending > p.QueueCap ||
		int64(s.m.placement.registry.supply.Classes(q.Name))+s.count > limits.MaxClassesPerQueue {
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
	r := lm.limiters.Get(state.LimiterKey(queue, spec.Tenant))
	if r == nil {
		return rate >= s.count && int64(lm.limiters.Len())+s.count <= limits.MaxRateLimiters
	}
	return state.BucketOf(rate, rate).Tokens(r.Tat, s.m.Header.Clock) >= s.count
}

// file files a job as if it had been submitted and queued.
func (s *arriving) file(spec *state.KeptSpec, q *state.QueueRow) {
	pl := &s.m.placement
	lot := s.lots[q.Name]
	if lot == nil {
		if lot = s.spare[q.Name]; lot == nil || lot.Pending.FairShare() != q.Policy.FairShare {
			lot = &sched.Lot{Pending: sched.NewPending(q.Policy.FairShare), Queue: q.Name}
		}
		lot.Policy, lot.Stats, lot.Expects = &q.Policy, s.m.typeStats.StatsOf(q), q.ExpectsOf()
		s.lots[q.Name] = lot
		s.join(q)
	}
	class := pl.registry.supply.Intern(sched.RequirementsOf(&spec.JobSpec))
	j := state.JobRow{JobLife: state.NoLife, Spec: spec, Class: class, Seq: s.m.Header.JobSeq + s.admitted,
		Enqueued: s.now, QueuedAt: s.now}
	if estimate, part := s.m.typeStats.Foretell(j.Spec, &q.Policy); estimate|part != 0 {
		j.JobLife = &state.JobLife{LifeWords: state.LifeWords{Past: &state.JobPast{Estimate: estimate, Part: part}}}
	}
	item := pl.itemOf(&j, q)
	if q.Policy.FairShare {
		lot.Pending.SetShare(spec.Tenant, pl.registry.queues[q.Name].open.Get(spec.Tenant)+s.leased[tenantIn{q.Name,
			spec.Tenant}], s.m.admission.limitsOf(spec.Tenant).Weight)
	}
	lot.Pending.Add(&item)
	s.filed = append(s.filed, filedIn{lot, &item})
}

// join adds a queue to the order of queues, as joinTurns does.
func (s *arriving) join(q *state.QueueRow) {
	t := turn{q.Turn + s.placed[q.Name], uint64(q.Policy.Weight), q.Name}
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

// leave removes everything counted for the call. If the draft is still in use (looked), its lots stay unchanged.
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

// refillRules is the first rules version under which the room of leases that end in an entry is assigned again in that
// entry.
const refillRules = 2

// freeing holds leases that an entry ends; their room counts as free while a decision is made.
type freeing struct {
	m     *parts
	ended []*state.LeaseRow
}

// refill decides for pending jobs, with the room of leases that complete in this entry, to follow these completions in
// it (SPEC §2.3): a worker with one slot starts its next job a commit earlier. Everything else is as in the state. So
// it decides nothing if a lease frees anything other than room and a tenant's share, or if the entry may add a job with
// its own claim.
func refill(m *parts, a *Arrivals, most int, watched rota.JobID, sight *roundSight) ([]*fsmpb.Round, *sched.Draft) {
	f := freeing{m: m}
	if m.Header.Rules < refillRules || m.placement.registry.busy.Len() == 0 || m.placement.holds.Len() > 0 ||
		!f.takeAll(a.Ops) || len(f.ended) == 0 {
		return nil, nil
	}
	f.free()
	defer f.takeBack()
	d := newDecision(m, most, watched, sight)
	d.with = uint32(len(a.Ops))
	if !d.all() || d.placed == 0 || slices.ContainsFunc(d.rounds,
		func(r *fsmpb.Round) bool { return len(r.GetHolds())+len(r.GetPreempts()) > 0 }) {
		return nil, d.draft
	}
	return d.rounds, d.draft
}

// takeAll collects the leases that the operations end. It is false if an operation may add a job with its own claim.
func (f *freeing) takeAll(ops []*fsmpb.Op) bool {
	for _, op := range ops {
		switch o := op.GetOp().(type) {
		case *fsmpb.Op_Barrier, *fsmpb.Op_KeepLog:
		case *fsmpb.Op_Lease:
			switch rota.LeaseVerb(o.Lease.GetVerb()) {
			case rota.VerbAck, rota.VerbRenew, rota.VerbProgress:
			case rota.VerbComplete:
				if !f.take(op, o.Lease) {
					return false
				}
			default:
				return false // its job may be QUEUED again
			}
		default:
			return false
		}
	}
	return true
}

// take records the lease that a completion ends, if it ends one. It is false if more than room may become free: a key,
// a place under its tenant's limit, a workflow node, a callback, another run; or less, as at a polling worker, which
// offers nothing when a job ends.
func (f *freeing) take(whole *fsmpb.Op, op *fsmpb.LeaseOp) bool {
	m := f.m
	w, l := m.fleet.workers.Get(rota.WorkerID(op.GetWorker())), m.leasing.leases.Get(string(op.GetLease()))
	if w == nil || l == nil || w.Session != rota.Session(op.GetSession()) || l.Worker != w.Spec.ID ||
		l.Session != w.Session ||
		m.access.Judge(whole) != nil || slices.Contains(f.ended, l) {
		return true // it is refused, or answered as before
	}
	if l.Ended != nil {
		return false
	}
	j := m.JobTable.Get(l.Job)
	if _, run := rota.SplitRunID(l.Job); run || j.Isolated() || j.Workflow != "" || j.History().Batch != 0 ||
		len(j.Spec.Keys) > 0 || len(m.budgets.Of(l.Job, &j.Spec.JobSpec, nil)) > 0 || len(j.Spec.ExpectedDigest) > 0 {
		return false
	}
	if w.Polls || l.Revoked != rota.ReasonNone || l.Domain != "" || m.admission.limitsOf(l.Tenant).MaxConcurrent > 0 ||
		whole.GetIfMatch() != "" {
		return false
	}
	f.ended = append(f.ended, l)
	return true
}

// free frees the leases' room, and no longer counts them for their tenants.
func (f *freeing) free() {
	pl := &f.m.placement
	for _, l := range f.ended {
		pl.registry.supply.Give(l.Worker, l.Takes())
		pl.registry.supply.Ended(l.Worker, pl.runOf(l))
		pl.share(l.Queue, l.Tenant, -1)
	}
}

// takeBack undoes free.
func (f *freeing) takeBack() {
	pl := &f.m.placement
	for _, l := range f.ended {
		pl.registry.supply.Take(l.Worker, l.Takes())
		pl.registry.supply.Began(l.Worker, pl.runOf(l))
		pl.share(l.Queue, l.Tenant, 1)
	}
}
