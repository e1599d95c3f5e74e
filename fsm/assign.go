package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/sched"
)

// round makes leases of a matching decision (SPEC §2.3, §7). Every pair is
// checked against the state of this moment; one that no longer holds is dropped
// with an event that says why.
func (pl *placement) round(op *fsmpb.Round) *fsmpb.Outcome {
	if o := pl.s.internal(); o != nil {
		return o
	}
	name := rota.QueueName(op.GetQueue())
	q := pl.s.queues.get(name)
	switch {
	case q == nil || op.GetEpoch() != pl.s.head.epoch+1:
		return entry.Refused(rota.Refusef(rota.KindStale, "epoch", "round %d of queue %q does not follow round %d",
			op.GetEpoch(), name, pl.s.head.epoch))
	case rota.Index(op.GetHeight()) > pl.s.head.index:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "height", "round %d was decided at height %d, the state is at %d",
			op.GetEpoch(), op.GetHeight(), pl.s.head.index))
	}
	pl.s.head.epoch++
	height := rota.Index(op.GetHeight())
	var seed sched.Hash
	if len(op.GetPairs()) > 0 { // where queues are many, most rounds of an entry place nothing
		seed = sched.MatchSeed(pl.s.head.cluster, op.GetEpoch(), height, pl.s.head.beacon)
	}
	placed, since := 0, q.sinceInterleave
	for _, p := range op.GetPairs() {
		j := pl.s.jobs.get(rota.JobID(p.GetJob()))
		turn := rota.ReasoningRule(p.GetRule()) == rota.ReasoningByTurnOfTheOldest
		if why := pl.unassignable(j, q, rota.WorkerID(p.GetWorker()), turn); why != "" {
			pl.s.journal.emit(rota.Event{Kind: rota.EventAssignmentDropped, Job: rota.JobID(p.GetJob()), Queue: name,
				Worker: rota.WorkerID(p.GetWorker()), Epoch: op.GetEpoch(), Check: why, Text: why})
			continue
		}
		pl.assign(pl.s.jobs.change(j.spec.ID, j), rota.WorkerID(p.GetWorker()), seed, rota.Decision{Seed: seed[:],
			Epoch: op.GetEpoch(), Height: height, Score: rota.Score(p.GetScore()), Rank: p.GetRank(),
			Reasoning: rota.Reasoning{Rule: rota.ReasoningRule(p.GetRule()), N: p.GetN(), Of: p.GetOf()}})
		placed++
		if since++; p.GetInterleaved() {
			since = 0
		}
	}
	if placed > 0 {
		q = pl.s.queues.edit(name)
		q.sinceInterleave = since
		q.placed += uint64(placed)
		pl.setTurn(q, q.turn+uint64(placed))
	}
	for _, p := range op.GetPreempts() {
		pl.preempt(p, op.GetEpoch())
	}
	for _, h := range op.GetHolds() {
		pl.changeHold(h, op.GetEpoch())
	}
	pl.noteRound(name, placed)
	return pl.s.became(rota.JobNone, false)
}

// noteRound counts what a queue's rounds placed in this entry: it may have two,
// the first of them for those that go before all rounds.
func (pl *placement) noteRound(name rota.QueueName, placed int) {
	// What an earlier entry left there is told by the name.
	at := &pl.registry.queues[name].round
	if *at < len(pl.rounds) && pl.rounds[*at].queue == name {
		pl.rounds[*at].placed += placed
		return
	}
	*at = len(pl.rounds)
	pl.rounds = append(pl.rounds, roundDone{name, placed})
}

// unassignable says why a pair, by a turn of the oldest or not, does not hold now,
// "" if it does.
func (pl *placement) unassignable(j *jobRow, q *queueRow, worker rota.WorkerID, turn bool) string {
	switch {
	case j == nil:
		return "JOB_GONE"
	case j.state != rota.JobQueued:
		return "JOB_" + j.state.String()
	case j.spec.Queue != q.name:
		return "OTHER_QUEUE"
	}
	if why := pl.admission.blocked(j, q, turn); why != "" {
		return why
	}
	if ok, why := pl.registry.supply.Fits(j.ask(), worker); !ok {
		return why.String()
	}
	if held := pl.registry.heldFor[worker]; held != "" && held != j.spec.ID {
		return "HELD_FOR_ANOTHER_JOB"
	}
	return ""
}

// assign opens a lease; j is editable. It cannot fail.
func (pl *placement) assign(j *jobRow, worker rota.WorkerID, seed sched.Hash, why rota.Decision) {
	h := &pl.s.head
	p := &pl.s.queues.get(j.spec.Queue).policy
	w := pl.fleet.workers.edit(worker)
	h.tokens++
	l := pl.leasing.leases.fresh()
	l.queue, l.tenant, l.domain, l.typ = j.spec.Queue, j.spec.Tenant, j.spec.Domain, j.spec.Type
	l.cpu, l.memory, l.io, l.index = j.spec.CPUMilli, j.spec.MemoryBytes, j.spec.IOBytesPerS, pl.s.at
	l.ID = sched.LeaseID(j.spec.ID, worker, j.attempt, seed)
	l.key = pl.s.keys.Keep(l.ID[:])
	l.Token = rota.Token{Incarnation: h.incarnation, Counter: h.tokens}
	l.Job, l.Worker, l.Session, l.Attempt, l.State = j.spec.ID, w.spec.ID, w.session, j.attempt, rota.LeaseActive
	l.Started = h.now()
	l.AckBy.Clock, l.Deadline.Clock = h.clock+rota.Clock(p.AckTimeoutMs), h.clock+rota.Clock(p.LeaseMs)
	l.Decision = why
	if w.grace {
		l.grace = p.LeaseGraceMs
	}
	if runtime := maxRuntime(j.spec, p); runtime > 0 {
		l.endsBy = h.clock + rota.Clock(runtime)
		l.Deadline.Clock = min(l.Deadline.Clock, l.endsBy)
	}
	l.RenewBy.Clock = l.Deadline.Clock - rota.Clock(p.LeaseMs*(1000-p.RenewAlphaPermille)/1000)
	pl.leasing.leases.insert(l.key, l)

	w.open++
	w.cpu += l.cpu
	w.memory += l.memory
	w.io += l.io
	w.assigned++
	pl.fleet.takeOffered(w)
	if why.Reasoning.Rule == rota.ReasoningByTurnOfTheOldest {
		w.sinceTurn = sched.AfterTurn(w.sinceTurn, p.OldestEvery, w.spec.Slots+w.spec.Prefetch)
	} else {
		w.sinceTurn++
	}
	w.leases[l.key] = struct{}{}
	pl.fleet.timeWorker(w)
	pl.leasing.timeLease(l)
	pl.noteGoing(l)
	pl.registry.supply.Take(worker, l.takes())
	pl.registry.supply.Received(worker, w.sinceTurn)
	if j.isolated() {
		pl.registry.supply.Isolate(worker, true)
	}
	pl.countEndless(l, p, 1)
	pl.registry.supply.Began(worker, pl.runOf(l))
	pl.fleet.takeUnits(w, l, max(j.spec.Units, 1))
	pl.admission.openTenant(l)
	pl.admission.countWindow(l)
	pl.admission.takeDomain(l)
	pl.keyring.opened(&j.spec.JobSpec, 1)
	if pl.keyring.groups[j.spec.Queue] != nil {
		pl.keyring.hadTurn(j)
	}

	pl.move(j, rota.JobAssigned)
	pl.share(l.queue, l.tenant, 1) // now that its lane, often its tenant's last, is out of the order
	pl.life.own(j)
	j.lease = l.ID
	j.progress, j.note, j.progressAt = 0, "", 0 // an earlier attempt's
	if j.firstLease.IsZero() {
		before := j.expires()
		j.firstLease = h.now()
		if p.TTLRelMaxMs > 0 {
			j.expireRel = h.clock + planted.ttlOffset(pl.s) + rota.Clock(p.TTLRelMaxMs)
		}
		pl.s.timers.expire.set(string(j.spec.ID), int64(before), int64(j.expires()))
	}
	pl.s.journal.emitFor(j, &rota.Event{Kind: rota.EventJobAssigned, Job: l.Job, Queue: l.queue, Tenant: l.tenant, Worker: l.Worker,
		Session: l.Session, Lease: l.ID, Attempt: l.Attempt, Deadline: h.now().At(l.Deadline.Clock), Epoch: why.Epoch,
		Check: checkFit, Payload: pl.s.journal.placing(&l.Decision, l.Worker)})
}

// checkFit is what the re-check of an assignment says where no rule failed.
const checkFit = "FIT"

func maxRuntime(s *keptSpec, p *rota.QueuePolicy) int64 {
	if s.MaxRuntime > 0 {
		return s.MaxRuntime.Milliseconds()
	}
	return p.MaxRuntimeMs
}

// settleTurns raises the queues whose rounds placed nothing (SPEC §7.2): to the
// least value among those that placed, minus batch_size ÷ weight, so that an
// impossible queue saves up no claim on the others.
func (pl *placement) settleTurns() {
	if len(pl.rounds) < 2 {
		return
	}
	var least *queueRow
	for _, r := range pl.rounds {
		if r.placed == 0 {
			continue
		}
		q := pl.s.queues.get(r.queue)
		if q == nil {
			continue // deleted in the same entry
		}
		if least == nil || turnLess(turn{q.turn, uint64(q.policy.Weight), ""}, turn{least.turn, uint64(least.policy.Weight), ""}) {
			least = q
		}
	}
	if least == nil {
		return
	}
	for _, r := range pl.rounds {
		if r.placed > 0 {
			continue
		}
		q := pl.s.queues.get(r.queue)
		if q == nil {
			continue
		}
		floor := rescale(least.turn, uint64(q.policy.Weight), uint64(least.policy.Weight))
		floor -= min(floor, uint64(q.policy.BatchSize))
		if floor > q.turn {
			pl.setTurn(pl.s.queues.edit(r.queue), floor)
		}
	}
}
