package fsm

import (
	"cmp"
	"math"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// healthOf returns the change of a worker's health by an outcome under a queue's policy, in permille (SPEC §6.2); 0 if
// the queue has no health_steps.
func healthOf(what state.Outcome, p *rota.QueuePolicy) int32 {
	by := int64(0)
	switch what {
	case state.OutcomeSuccess:
		by = p.HealthSuccess
	case state.OutcomeLateRenewal:
		by = -p.HealthLateRenewal
	case state.OutcomeAckTimeout:
		by = -p.HealthAckTimeout
	case state.OutcomeExpired:
		by = -p.HealthLeaseExpired
	case state.OutcomeProofInvalid:
		by = -p.HealthProofInvalid
	case state.OutcomeFailure:
		by = -p.HealthProviderFail
	}
	if !p.HealthSteps {
		return 0
	}
	return int32(by)
}

// countReputation changes a worker's health and what it may get (SPEC §6.2), as far as the queue's policy requires
// (SPEC §16.1); w is editable, and its lease is still open.
func (fl *fleet) countReputation(w *state.WorkerRow, l *state.LeaseRow, what state.Outcome) {
	now, p := fl.s.Header.Clock, &fl.s.QueueTable.Get(l.Queue).Policy
	changed := false
	if by := healthOf(what, p); by != 0 && what != state.OutcomeProofInvalid {
		changed = w.AddHealth(now, by)
	}
	switch what {
	case state.OutcomeSuccess:
		w.Succeeds(l.Typ)
		learned := w.Executes(l.Typ)
		fetched := w.HoldsData(fl.s.JobTable.Get(l.Job).Spec.DataKeys)
		changed = changed || learned || fetched // nearly never: a healthy worker's success costs nothing here
	case state.OutcomeExpired:
		if p.DenyMs > 0 {
			w.Denied = state.Bar(w.Denied, rota.TypeUntil{Type: l.Typ,
				Until: rota.Moment{Clock: now + rota.Clock(p.DenyMs)}, Cause: rota.ReasonLeaseExpired})
			changed = true
		}
	case state.OutcomeProofInvalid:
		fl.disprove(w, p, rota.Event{Job: l.Job, Queue: l.Queue, Tenant: l.Tenant, Lease: l.ID, Attempt: l.Attempt,
			Reason: rota.ReasonProofInvalid})
		return
	case state.OutcomeDeclined:
		changed = declineCools(p) && w.Cools(l.Typ, p, now, rota.ReasonDeclined)
	case state.OutcomeTimedOut: // the job took too long, which does not count against its worker (SPEC §20.2)
	case state.OutcomeFailure:
		cooled := w.Cools(l.Typ, p, now, rota.ReasonProviderFail)
		changed = changed || cooled
	}
	if changed {
		fl.reviewWorker(w)
	}
}

// reviewWorker updates everything that depends on a worker's reputation; w is editable.
func (fl *fleet) reviewWorker(w *state.WorkerRow) {
	fl.timeReputation(w)
	fl.placement.supplyOf(w)
	fl.placement.reviewHold(w.Spec.ID)
}

// timeReputation sets when the worker's reputation changes by itself, and when it leaves the state, which waits for
// that.
func (fl *fleet) timeReputation(w *state.WorkerRow) {
	id, due, ends := string(w.Spec.ID), fl.reputationAt(w), w.AttestationEnds()
	fl.s.Timers.Reputation.Refile(id, int64(w.ReputationDue), int64(due))
	fl.s.Timers.Attest.Refile(id, int64(w.AttestDue), int64(ends))
	w.ReputationDue, w.AttestDue = due, ends
	fl.timeWorker(w)
}

// reputationAt returns when fireReputation is due, 0 for never: a function of the row and of the rules of the queues
// that it serves. Health matters until it is full, and at each min_health on the way (SPEC §3.6).
func (fl *fleet) reputationAt(r *state.WorkerRow) rota.Clock {
	due := rota.Clock(math.MaxInt64)
	until := func(at rota.Clock) {
		if at != 0 {
			due = min(due, at)
		}
	}
	until(r.JailedUntil)
	for _, t := range r.Cooling {
		until(t.Until.Clock)
	}
	for _, t := range r.Denied {
		until(t.Until.Clock)
	}
	for _, u := range r.Units {
		until(u.Until.Clock)
	}
	if r.Health < state.HealthFull {
		next := int64(state.HealthFull)
		for _, name := range r.Spec.Queues {
			if q := fl.s.QueueTable.Get(name); q != nil && q.Policy.MinHealth > int64(r.Health) {
				next = min(next, q.Policy.MinHealth)
			}
		}
		until(r.HealthAt + rota.Clock(next-int64(r.Health))*state.HealthStep)
	}
	if due == math.MaxInt64 {
		return 0
	}
	return due
}

// fireReputation removes a worker's expired cooldowns, denials, jail and periods, and stores its health. Until it is
// called the old reputation applies, for rounds and for their re-check alike.
func (fl *fleet) fireReputation(id string) {
	w, now := fl.workers.Edit(rota.WorkerID(id)), fl.s.Header.Clock
	w.SettleHealth(now)
	w.Cooling, w.Denied = lasting(w.Cooling, now), lasting(w.Denied, now)
	var units []rota.UnitsUsed
	for _, u := range w.Units {
		if u.Until.Clock > now {
			units = append(units, u)
		}
	}
	w.Units = units
	if w.JailedUntil != 0 && w.JailedUntil <= now {
		fl.release(w)
	}
	fl.reviewWorker(w)
}

// takeUnits counts a job's units against its worker (SPEC §6.1); w is editable. They are not returned when the lease
// ends.
func (fl *fleet) takeUnits(w *state.WorkerRow, l *state.LeaseRow, units int64) {
	p := &fl.s.QueueTable.Get(l.Queue).Policy
	if p.UnitsPerPeriod == 0 {
		return
	}
	at, begun := slices.BinarySearchFunc(w.Units, l.Queue, func(u rota.UnitsUsed, q rota.QueueName) int {
		return cmp.Compare(u.Queue, q)
	})
	if begun {
		w.Units = slices.Clone(w.Units)
		w.Units[at].Used += units // far from overflow: nothing exceeds units_per_period
		fl.placement.registry.supply.TakeUnits(w.Spec.ID, l.Queue, units)
		return
	}
	list := make([]rota.UnitsUsed, 0, len(w.Units)+1)
	for _, u := range w.Units { // of queues that it serves: there is room for all of those
		if len(w.Units) < rota.MaxQueuesPerWorker || slices.Contains(w.Spec.Queues, u.Queue) {
			list = append(list, u)
		}
	}
	period := rota.Clock(p.UnitsPeriodMs)
	since := fl.s.Header.Now().At(fl.s.Header.Clock - fl.s.Header.Clock%period)
	list = append(list, rota.UnitsUsed{Queue: l.Queue, Since: since, Until: rota.Moment{Clock: since.Clock + period},
		Used: units})
	slices.SortFunc(list, func(a, b rota.UnitsUsed) int { return cmp.Compare(a.Queue, b.Queue) })
	w.Units = list
	fl.reviewWorker(w)
}

// workerEntry returns a worker as rounds see it: a pure function of its row, so that a restored state gives the same
// rounds at any time.
func workerEntry(w *state.WorkerRow) sched.WorkerEntry {
	e := sched.WorkerEntry{Spec: w.Spec, Active: w.Status == rota.WorkerActive, Retired: w.Status == rota.WorkerRetired,
		Open: w.Open, CPUTaken: w.CPU, MemoryTaken: w.Memory, IOTaken: w.IO, Received: w.SinceTurn, Stake: w.StakeNow(),
		Health:       int64(w.Health),
		Disconnected: !w.Disconnected.IsZero(), Polls: w.Polls, Free: w.Free, Units: w.Units, Executed: w.Executed,
		Grants: w.Grants}
	switch {
	case w.AttestedUntil == 0:
	case w.Lapsed:
		e.Attested = sched.AttestedExpired
	default:
		e.Attested = sched.AttestedNow
	}
	if len(w.Cooling)+len(w.Denied) == 0 {
		return e
	}
	e.Barred = make([]sched.BarredType, 0, len(w.Cooling)+len(w.Denied))
	for _, t := range w.Cooling {
		e.Barred = append(e.Barred, sched.BarredType{Type: t.Type, Why: sched.CoolingDown})
	}
	for _, t := range w.Denied {
		e.Barred = append(e.Barred, sched.BarredType{Type: t.Type, Why: sched.TypeDenylisted})
	}
	slices.SortFunc(e.Barred, func(a, b sched.BarredType) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Why, b.Why))
	})
	return e
}

// outcome passes an outcome to everything that counts it. It is called while the lease is still open.
func (fl *fleet) outcome(l *state.LeaseRow, what state.Outcome) {
	w := fl.workers.Edit(l.Worker)
	switch what {
	case state.OutcomeSuccess:
		w.Completed++
	case state.OutcomeFailure, state.OutcomeProofInvalid, state.OutcomeTimedOut:
		w.Failed++
	}
	fl.countReputation(w, l, what)
	fl.typeStats.CountType(l, what)
	fl.typeStats.Learn(l, what)
	fl.admission.countDomain(l, what)
}

// declineCools reports whether a decline bars its type. Otherwise it costs its worker nothing, and its job waits a
// moment.
func declineCools(p *rota.QueuePolicy) bool { return p.DeclineCools && p.CoolAfter > 0 }

// lasting returns the bars that are not over; nil if there are none.
func lasting(list []rota.TypeUntil, now rota.Clock) (left []rota.TypeUntil) {
	for _, t := range list {
		if t.Until.Clock > now {
			left = append(left, t)
		}
	}
	return left
}

// declineDelay returns how long a job waits after the n-th decline in its attempt (SPEC §16.1).
func declineDelay(n int32) rota.Clock {
	return min(limits.MaxDeclineDelay, limits.DeclineDelay<<min(n-1, 20))
}
