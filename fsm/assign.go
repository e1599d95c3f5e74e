package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
)

// round makes leases from a matching decision (SPEC §2.3, §7). Every pair is checked against the present state; one
// that is no longer valid is dropped with an event that gives the reason.
func (pl *placement) round(op *fsmpb.Round) *fsmpb.Outcome {
	if o := pl.s.Internal(); o != nil {
		return o
	}
	name := rota.QueueName(op.GetQueue())
	q := pl.s.QueueTable.Get(name)
	switch {
	case q == nil || op.GetEpoch() != pl.s.Header.Epoch+1:
		return entry.Refused(rota.Refusef(rota.KindStale, "epoch", "round %d of queue %q does not follow round %d",
			op.GetEpoch(), name, pl.s.Header.Epoch))
	case rota.Index(op.GetHeight()) > pl.s.Header.Index:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "height",
			"round %d was decided at height %d, the state is at %d", op.GetEpoch(), op.GetHeight(), pl.s.Header.Index))
	}
	pl.s.Header.Epoch++
	height := rota.Index(op.GetHeight())
	var seed sched.Hash
	if len(op.GetPairs()) > 0 { // with many queues, most rounds of an entry place nothing
		seed = sched.MatchSeed(pl.s.Header.Cluster, op.GetEpoch(), height, pl.s.Header.Beacon)
	}
	placed, since := 0, q.SinceInterleave
	for _, p := range op.GetPairs() {
		j := pl.s.JobTable.Get(rota.JobID(p.GetJob()))
		turn := rota.ReasoningRule(p.GetRule()) == rota.ReasoningByTurnOfTheOldest
		if why := pl.unassignable(j, q, rota.WorkerID(p.GetWorker()), turn); why != "" {
			pl.s.Journal.Emit(rota.Event{Kind: rota.EventAssignmentDropped, Job: rota.JobID(p.GetJob()), Queue: name,
				Worker: rota.WorkerID(p.GetWorker()), Epoch: op.GetEpoch(), Check: why, Text: why})
			continue
		}
		pl.assign(pl.s.JobTable.Change(j.Spec.ID, j), rota.WorkerID(p.GetWorker()), seed, rota.Decision{Seed: seed[:],
			Epoch: op.GetEpoch(), Height: height, Score: rota.Score(p.GetScore()), Rank: p.GetRank(),
			Reasoning: rota.Reasoning{Rule: rota.ReasoningRule(p.GetRule()), N: p.GetN(), Of: p.GetOf()}})
		placed++
		if since++; p.GetInterleaved() {
			since = 0
		}
	}
	if placed > 0 {
		q = pl.s.QueueTable.Edit(name)
		q.SinceInterleave = since
		q.Placed += uint64(placed)
		pl.setTurn(q, q.Turn+uint64(placed))
	}
	for _, p := range op.GetPreempts() {
		pl.preempt(p, op.GetEpoch())
	}
	for _, h := range op.GetHolds() {
		pl.changeHold(h, op.GetEpoch())
	}
	pl.noteRound(name, placed)
	return pl.s.Became(rota.JobNone, false)
}

// noteRound counts what a queue's rounds placed in this entry. A queue may have two rounds; the first is for pairs that
// go before all rounds.
func (pl *placement) noteRound(name rota.QueueName, placed int) {
	// The name shows whether an earlier entry left this value.
	at := &pl.registry.queues[name].round
	if *at < len(pl.rounds) && pl.rounds[*at].queue == name {
		pl.rounds[*at].placed += placed
		return
	}
	*at = len(pl.rounds)
	pl.rounds = append(pl.rounds, roundDone{name, placed})
}

// unassignable returns why a pair is not valid now, "" if it is; turn reports whether it is by a turn of the oldest.
func (pl *placement) unassignable(j *state.JobRow, q *state.QueueRow, worker rota.WorkerID, turn bool) string {
	switch {
	case j == nil:
		return "JOB_GONE"
	case j.State != rota.JobQueued:
		return "JOB_" + j.State.String()
	case j.Spec.Queue != q.Name:
		return "OTHER_QUEUE"
	}
	if why := pl.admission.blocked(j, q, turn); why != "" {
		return why
	}
	if ok, why := pl.registry.supply.Fits(j.Ask(), worker); !ok {
		return why.String()
	}
	if held := pl.registry.heldFor[worker]; held != "" && held != j.Spec.ID {
		return "HELD_FOR_ANOTHER_JOB"
	}
	return ""
}

// assign opens a lease; j is editable. It cannot fail.
func (pl *placement) assign(j *state.JobRow, worker rota.WorkerID, seed sched.Hash, why rota.Decision) {
	h := &pl.s.Header
	p := &pl.s.QueueTable.Get(j.Spec.Queue).Policy
	w := pl.fleet.workers.Edit(worker)
	h.Tokens++
	l := pl.leasing.leases.Fresh()
	l.Queue, l.Tenant, l.Domain, l.Typ = j.Spec.Queue, j.Spec.Tenant, j.Spec.Domain, j.Spec.Type
	l.CPU, l.Memory, l.IO, l.Index = j.Spec.CPUMilli, j.Spec.MemoryBytes, j.Spec.IOBytesPerS, pl.s.At
	l.ID = sched.LeaseID(j.Spec.ID, worker, j.Attempt, seed)
	l.Key = pl.s.Keys.Keep(l.ID[:])
	l.Token = rota.Token{Incarnation: h.Incarnation, Counter: h.Tokens}
	l.Job, l.Worker, l.Session, l.Attempt, l.State = j.Spec.ID, w.Spec.ID, w.Session, j.Attempt, rota.LeaseActive
	l.Started = h.Now()
	l.AckBy.Clock, l.Deadline.Clock = h.Clock+rota.Clock(p.AckTimeoutMs), h.Clock+rota.Clock(p.LeaseMs)
	l.Decision = why
	if w.Grace {
		l.Grace = p.LeaseGraceMs
	}
	if runtime := maxRuntime(j.Spec, p); runtime > 0 {
		l.EndsBy = h.Clock + rota.Clock(runtime)
		l.Deadline.Clock = min(l.Deadline.Clock, l.EndsBy)
	}
	l.RenewBy.Clock = l.Deadline.Clock - rota.Clock(p.LeaseMs*(1000-p.RenewAlphaPermille)/1000)
	pl.leasing.leases.Insert(l.Key, l)

	w.Open++
	w.CPU += l.CPU
	w.Memory += l.Memory
	w.IO += l.IO
	w.Assigned++
	pl.fleet.takeOffered(w)
	if why.Reasoning.Rule == rota.ReasoningByTurnOfTheOldest {
		w.SinceTurn = sched.AfterTurn(w.SinceTurn, p.OldestEvery, w.Spec.Slots+w.Spec.Prefetch)
	} else {
		w.SinceTurn++
	}
	w.Leases[l.Key] = struct{}{}
	pl.fleet.timeWorker(w)
	pl.leasing.timeLease(l)
	pl.noteGoing(l)
	pl.registry.supply.Take(worker, l.Takes())
	pl.registry.supply.Received(worker, w.SinceTurn)
	if j.Isolated() {
		pl.registry.supply.Isolate(worker, true)
	}
	pl.countEndless(l, p, 1)
	pl.registry.supply.Began(worker, pl.runOf(l))
	pl.fleet.takeUnits(w, l, max(j.Spec.Units, 1))
	pl.admission.openTenant(l)
	pl.admission.countWindow(l)
	pl.admission.takeDomain(l)
	pl.keyring.Opened(l, &j.Spec.JobSpec, 1, rota.ReasonNone)
	if pl.keyring.Groups[j.Spec.Queue] != nil {
		pl.keyring.HadTurn(j)
	}

	pl.move(j, rota.JobAssigned)
	pl.budgets.Opened(l.Job, &j.Spec.JobSpec) // it waits no longer
	pl.share(l.Queue, l.Tenant, 1)            // its lane, often its tenant's last, is out of the order by now
	pl.life.own(j)
	j.Lease = l.ID
	j.Progress, j.Note, j.ProgressAt = 0, "", 0 // of an earlier attempt
	if j.FirstLease.IsZero() {
		before := j.Expires()
		j.FirstLease = h.Now()
		if p.TTLRelMaxMs > 0 {
			j.ExpireRel = h.Clock + planted.ttlOffset(pl.s) + rota.Clock(p.TTLRelMaxMs)
		}
		pl.s.Timers.Expire.Refile(string(j.Spec.ID), int64(before), int64(j.Expires()))
	}
	pl.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobAssigned, Job: l.Job, Queue: l.Queue, Tenant: l.Tenant,
		Worker:  l.Worker,
		Session: l.Session, Lease: l.ID, Attempt: l.Attempt, Deadline: h.Now().At(l.Deadline.Clock), Epoch: why.Epoch,
		Check: checkFit, Payload: pl.s.Journal.Placing(&l.Decision, l.Worker)})
}

// checkFit is the result of an assignment's re-check if no rule failed.
const checkFit = "FIT"

func maxRuntime(s *state.KeptSpec, p *rota.QueuePolicy) int64 {
	if s.MaxRuntime > 0 {
		return s.MaxRuntime.Milliseconds()
	}
	return p.MaxRuntimeMs
}

// settleTurns raises the turn of queues whose rounds placed nothing (SPEC §7.2): to the least value among those that
// placed, minus batch_size ÷ weight. So a queue with jobs that cannot be placed does not accumulate a claim on the
// others.
func (pl *placement) settleTurns() {
	if len(pl.rounds) < 2 {
		return
	}
	var least *state.QueueRow
	for _, r := range pl.rounds {
		if r.placed == 0 {
			continue
		}
		q := pl.s.QueueTable.Get(r.queue)
		if q == nil {
			continue // deleted in the same entry
		}
		if least == nil || turnLess(turn{q.Turn, uint64(q.Policy.Weight), ""},
			turn{least.Turn, uint64(least.Policy.Weight), ""}) {
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
		q := pl.s.QueueTable.Get(r.queue)
		if q == nil {
			continue
		}
		floor := rescale(least.Turn, uint64(q.Policy.Weight), uint64(least.Policy.Weight))
		floor -= min(floor, uint64(q.Policy.BatchSize))
		if floor > q.Turn {
			pl.setTurn(pl.s.QueueTable.Edit(r.queue), floor)
		}
	}
}
