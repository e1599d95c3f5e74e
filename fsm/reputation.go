package fsm

import (
	"cmp"
	"math"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// health is what an outcome does to its worker's health by a queue's policy, in
// permille (SPEC §6.2); nothing where the queue has no health_steps.
func (what outcome) health(p *rota.QueuePolicy) int32 {
	by := int64(0)
	switch what {
	case outcomeSuccess:
		by = p.HealthSuccess
	case outcomeLateRenewal:
		by = -p.HealthLateRenewal
	case outcomeAckTimeout:
		by = -p.HealthAckTimeout
	case outcomeExpired:
		by = -p.HealthLeaseExpired
	case outcomeProofInvalid:
		by = -p.HealthProofInvalid
	case outcomeFailure:
		by = -p.HealthProviderFail
	}
	if !p.HealthSteps {
		return 0
	}
	return int32(by)
}

// countReputation changes a worker's health and what it may get (SPEC §6.2), as far as
// the queue's policy asks for that (SPEC §16.1); w is editable, and its lease is open
// still.
func (fl *fleet) countReputation(w *workerRow, l *leaseRow, what outcome) {
	now, p := fl.s.head.clock, &fl.s.queues.get(l.queue).policy
	changed := false
	if by := what.health(p); by != 0 && what != outcomeProofInvalid {
		changed = w.addHealth(now, by)
	}
	switch what {
	case outcomeSuccess:
		w.succeeds(l.typ)
		learned := w.executes(l.typ)
		fetched := w.holdsData(fl.s.jobs.get(l.Job).spec.DataKeys)
		changed = changed || learned || fetched // nearly never: a sound worker's success costs nothing here
	case outcomeExpired:
		if p.DenyMs > 0 {
			w.denied = bar(w.denied, rota.TypeUntil{Type: l.typ, Until: rota.Moment{Clock: now + rota.Clock(p.DenyMs)}, Cause: rota.ReasonLeaseExpired})
			changed = true
		}
	case outcomeProofInvalid:
		fl.disprove(w, p, rota.Event{Job: l.Job, Queue: l.queue, Tenant: l.tenant, Lease: l.ID, Attempt: l.Attempt,
			Reason: rota.ReasonProofInvalid})
		return
	case outcomeDeclined:
		changed = declineCools(p) && w.cools(l.typ, p, now, rota.ReasonDeclined)
	case outcomeTimedOut: // the job took too long, which says nothing of its worker (SPEC §20.2)
	case outcomeFailure:
		cooled := w.cools(l.typ, p, now, rota.ReasonProviderFail)
		changed = changed || cooled
	}
	if changed {
		fl.reviewWorker(w)
	}
}

// healthNow is the present health: what the row holds, and one more for each
// second since.
func (r *workerRow) healthNow(now rota.Clock) int32 {
	if r.health >= healthFull || now <= r.healthAt {
		return r.health
	}
	return int32(min(healthFull, rota.Clock(r.health)+(now-r.healthAt)/healthStep))
}

// settleHealth writes the present health back. The part of a second that is left
// over stays in healthAt; full health needs no moment.
func (r *workerRow) settleHealth(now rota.Clock) {
	if r.health >= healthFull {
		return
	}
	health := r.healthNow(now)
	r.healthAt += rota.Clock(health-r.health) * healthStep
	if r.health = health; health == healthFull {
		r.healthAt = 0
	}
}

// addHealth changes the present health, and says whether the row changed.
func (r *workerRow) addHealth(now rota.Clock, by int32) bool {
	before := r.health
	r.settleHealth(now)
	if r.health >= healthFull {
		if by >= 0 {
			return before != r.health
		}
		r.healthAt = now
	}
	r.health = max(0, min(healthFull, r.health+by))
	if r.health == healthFull {
		r.healthAt = 0
	}
	return true
}

// executes remembers that the worker completed a type, and says whether the list
// changed. One in its newer half stays where it is, so that a worker of few types
// pays nothing for it: a type is forgotten after MaxTypesPerWorker/2 others at the
// earliest.
func (r *workerRow) executes(typ rota.JobType) bool {
	at := slices.Index(r.executed, typ)
	if at >= max(0, len(r.executed)-limits.MaxTypesPerWorker/2) {
		return false
	}
	list := make([]rota.JobType, 0, len(r.executed)+1)
	for i, t := range r.executed {
		if i != at && (at >= 0 || i > 0 || len(r.executed) < limits.MaxTypesPerWorker) {
			list = append(list, t)
		}
	}
	r.executed = append(list, typ)
	return true
}

// holdsData remembers the data keys of a job that the worker completed, and says
// whether the list changed. As with types, a key in its newer half stays where it
// is: a key is forgotten after MaxDataHeld/2 others at the earliest.
func (r *workerRow) holdsData(keys []string) (changed bool) {
	for _, key := range keys {
		at := slices.Index(r.held, key)
		if at >= max(0, len(r.held)-limits.MaxDataHeld/2) {
			continue
		}
		if !changed { // older copies of the row share the list
			r.held, changed = append(make([]string, 0, len(r.held)+len(keys)), r.held...), true
		}
		if at >= 0 || len(r.held) >= limits.MaxDataHeld {
			r.held = slices.Delete(r.held, max(at, 0), max(at, 0)+1)
		}
		r.held = append(r.held, key)
	}
	return changed
}

// reviewWorker brings all that hangs on a worker's reputation up to date; w is editable.
func (fl *fleet) reviewWorker(w *workerRow) {
	fl.timeReputation(w)
	fl.placement.supplyOf(w)
	fl.placement.reviewHold(w.spec.ID)
}

// timeReputation sets when the worker's reputation changes by itself, and when it leaves the
// state, which waits for that.
func (fl *fleet) timeReputation(w *workerRow) {
	id, due, ends := string(w.spec.ID), fl.reputationAt(w), w.attestationEnds()
	fl.s.timers.reputation.set(id, int64(w.reputationDue), int64(due))
	fl.s.timers.attest.set(id, int64(w.attestDue), int64(ends))
	w.reputationDue, w.attestDue = due, ends
	fl.timeWorker(w)
}

// reputationAt is when fireReputation is due, 0 for never: a function of the row and
// of the rules of the queues that it serves. Health counts until it is full, and
// at each min_health on the way (SPEC §3.6).
func (fl *fleet) reputationAt(r *workerRow) rota.Clock {
	due := rota.Clock(math.MaxInt64)
	until := func(at rota.Clock) {
		if at != 0 {
			due = min(due, at)
		}
	}
	until(r.jailedUntil)
	for _, t := range r.cooling {
		until(t.Until.Clock)
	}
	for _, t := range r.denied {
		until(t.Until.Clock)
	}
	for _, u := range r.units {
		until(u.Until.Clock)
	}
	if r.health < healthFull {
		next := int64(healthFull)
		for _, name := range r.spec.Queues {
			if q := fl.s.queues.get(name); q != nil && q.policy.MinHealth > int64(r.health) {
				next = min(next, q.policy.MinHealth)
			}
		}
		until(r.healthAt + rota.Clock(next-int64(r.health))*healthStep)
	}
	if due == math.MaxInt64 {
		return 0
	}
	return due
}

// fireReputation takes away what is over of a worker's cooldowns, denials, jail and
// periods, and writes back its health. Until it is called the old reputation lasts,
// for rounds and for their re-check alike.
func (fl *fleet) fireReputation(id string) {
	w, now := fl.workers.edit(rota.WorkerID(id)), fl.s.head.clock
	w.settleHealth(now)
	w.cooling, w.denied = lasting(w.cooling, now), lasting(w.denied, now)
	var units []rota.UnitsUsed
	for _, u := range w.units {
		if u.Until.Clock > now {
			units = append(units, u)
		}
	}
	w.units = units
	if w.jailedUntil != 0 && w.jailedUntil <= now {
		fl.release(w)
	}
	fl.reviewWorker(w)
}

// takeUnits counts a job's units against its worker (SPEC §6.1); w is editable.
// They are not given back when the lease ends.
func (fl *fleet) takeUnits(w *workerRow, l *leaseRow, units int64) {
	p := &fl.s.queues.get(l.queue).policy
	if p.UnitsPerPeriod == 0 {
		return
	}
	at, begun := slices.BinarySearchFunc(w.units, l.queue, func(u rota.UnitsUsed, q rota.QueueName) int {
		return cmp.Compare(u.Queue, q)
	})
	if begun {
		w.units = slices.Clone(w.units)
		w.units[at].Used += units // far from overflow: nothing is taken beyond units_per_period
		fl.placement.registry.supply.TakeUnits(w.spec.ID, l.queue, units)
		return
	}
	list := make([]rota.UnitsUsed, 0, len(w.units)+1)
	for _, u := range w.units { // of queues that it serves: there is room for all of those
		if len(w.units) < rota.MaxQueuesPerWorker || slices.Contains(w.spec.Queues, u.Queue) {
			list = append(list, u)
		}
	}
	period := rota.Clock(p.UnitsPeriodMs)
	since := fl.s.head.now().At(fl.s.head.clock - fl.s.head.clock%period)
	list = append(list, rota.UnitsUsed{Queue: l.queue, Since: since, Until: rota.Moment{Clock: since.Clock + period}, Used: units})
	slices.SortFunc(list, func(a, b rota.UnitsUsed) int { return cmp.Compare(a.Queue, b.Queue) })
	w.units = list
	fl.reviewWorker(w)
}

// workerEntry is a worker as rounds see it: a pure function of its row, so that a
// restored state gives the same rounds whatever moment it is.
func workerEntry(w *workerRow) sched.WorkerEntry {
	e := sched.WorkerEntry{Spec: w.spec, Active: w.status == rota.WorkerActive, Retired: w.status == rota.WorkerRetired,
		Open: w.open, CPUTaken: w.cpu, MemoryTaken: w.memory, IOTaken: w.io, Received: w.sinceTurn, Stake: w.stakeNow(), Health: int64(w.health),
		Disconnected: !w.disconnected.IsZero(), Polls: w.polls, Free: w.free, Units: w.units, Executed: w.executed,
		Grants: w.grants}
	switch {
	case w.attestedUntil == 0:
	case w.lapsed:
		e.Attested = sched.AttestedExpired
	default:
		e.Attested = sched.AttestedNow
	}
	if len(w.cooling)+len(w.denied) == 0 {
		return e
	}
	e.Barred = make([]sched.BarredType, 0, len(w.cooling)+len(w.denied))
	for _, t := range w.cooling {
		e.Barred = append(e.Barred, sched.BarredType{Type: t.Type, Why: sched.CoolingDown})
	}
	for _, t := range w.denied {
		e.Barred = append(e.Barred, sched.BarredType{Type: t.Type, Why: sched.TypeDenylisted})
	}
	slices.SortFunc(e.Barred, func(a, b sched.BarredType) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Why, b.Why))
	})
	return e
}

// outcome is how a lease ended, or was treated, by its worker: what reputation
// (SPEC §6.2), failure domains (§4.8) and statistics (§5.3) are kept from.
type outcome uint8

const (
	outcomeSuccess outcome = iota + 1
	outcomeFailure
	outcomeAckTimeout
	outcomeExpired
	outcomeProofInvalid
	outcomeDeclined
	outcomeLateRenewal
	outcomeTimedOut
)

// outcome tells all who keep count. It is called while the lease is open still.
func (fl *fleet) outcome(l *leaseRow, what outcome) {
	w := fl.workers.edit(l.Worker)
	switch what {
	case outcomeSuccess:
		w.completed++
	case outcomeFailure, outcomeProofInvalid, outcomeTimedOut:
		w.failed++
	}
	fl.countReputation(w, l, what)
	fl.typeStats.countType(l, what)
	fl.typeStats.learn(l, what)
	fl.admission.countDomain(l, what)
}

// maxStreak is where a streak stops counting: no cool_after is beyond it.
const maxStreak = 1 << 30

// declineCools reports whether a decline bars its type. Else it costs its worker
// nothing, and its job waits a moment.
func declineCools(p *rota.QueuePolicy) bool { return p.DeclineCools && p.CoolAfter > 0 }

// cools counts a failure or a decline of a type, and bars the type where that is too
// many in a row for the queue, or a decline. It says whether a bar was set. Only a
// success begins the count anew: each failure after a cooldown cools down again.
func (r *workerRow) cools(typ rota.JobType, p *rota.QueuePolicy, now rota.Clock, cause rota.Reason) bool {
	if p.CoolAfter == 0 {
		return false
	}
	counted := streak{typ, 1}
	list := make([]streak, 0, len(r.failing)+1) // older copies of the row share the old one
	for _, s := range r.failing {
		if s.typ == typ {
			counted.n = min(s.n+1, maxStreak)
		} else {
			list = append(list, s)
		}
	}
	if len(list) >= limits.MaxTypesPerWorker {
		list = list[1:]
	}
	r.failing = append(list, counted)
	if counted.n < p.CoolAfter && cause != rota.ReasonDeclined {
		return false
	}
	r.cooling = bar(r.cooling, rota.TypeUntil{Type: typ, Until: rota.Moment{Clock: now + rota.Clock(p.CoolMs)}, Cause: cause})
	return true
}

// succeeds begins the count of a type's failures anew.
func (r *workerRow) succeeds(typ rota.JobType) {
	at := slices.IndexFunc(r.failing, func(s streak) bool { return s.typ == typ })
	if at >= 0 {
		r.failing = slices.Delete(slices.Clone(r.failing), at, at+1)
	}
}

// bar puts a type at the end of a list, until a moment; the oldest gives way. What
// bars the type already bars it no shorter. The list is a new one: older copies of
// the row share the old one.
func bar(list []rota.TypeUntil, b rota.TypeUntil) []rota.TypeUntil {
	barred := make([]rota.TypeUntil, 0, len(list)+1)
	for _, t := range list {
		switch {
		case t.Type != b.Type:
			barred = append(barred, t)
		case t.Until.Clock > b.Until.Clock:
			b = t
		}
	}
	if len(barred) >= limits.MaxTypesPerWorker {
		barred = barred[1:]
	}
	return append(barred, b)
}

// lasting are the bars that are not over; nil where none is.
func lasting(list []rota.TypeUntil, now rota.Clock) (left []rota.TypeUntil) {
	for _, t := range list {
		if t.Until.Clock > now {
			left = append(left, t)
		}
	}
	return left
}

// declineDelay is what a job waits that a worker declined, for the n-th time in its
// attempt (SPEC §16.1).
func declineDelay(n int32) rota.Clock {
	return min(limits.DeclineDelayMost, limits.DeclineDelay<<min(n-1, 20))
}
