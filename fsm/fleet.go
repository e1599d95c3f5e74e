package fsm

import (
	"slices"
	"strconv"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// fleet holds the workers: who they are, whether they are heard of, what they earned.
type fleet struct {
	s         *state
	access    *authority
	admission *admission
	leasing   *leasing
	placement *placement
	typeStats *typeStats
	workers   table[rota.WorkerID, workerRow, *workerRow]
	// offered says that a worker offered slots in the entry that is being applied.
	offered bool
}

// enter changes a worker's status and all that hangs on it; w is editable. JAILED
// goes back to what the worker was, or will be once it is heard.
func (fl *fleet) enter(w *workerRow, status rota.WorkerStatus) {
	was := w.before
	if w.status == rota.WorkerActive || w.status == rota.WorkerDraining {
		was = w.status
	}
	suspended := w.status == rota.WorkerSuspended || w.status == rota.WorkerRetired && was == rota.WorkerSuspended
	if w.status != status {
		w.status, w.since = status, fl.s.head.now()
	}
	if status != rota.WorkerUnreachable {
		w.silentSince, w.before = rota.Moment{}, rota.WorkerNone
	}
	switch {
	case status == rota.WorkerJailed && was == rota.WorkerDraining:
		w.before = rota.WorkerDraining
	case status == rota.WorkerJailed:
		w.before = rota.WorkerActive
	case status == rota.WorkerRetired && suspended:
		w.before = rota.WorkerSuspended
	}
	fl.reviewWorker(w)
	fl.placement.trimHolds()
}

// change enters a status and tells so.
func (fl *fleet) change(w *workerRow, status rota.WorkerStatus) {
	fl.enter(w, status)
	e := rota.Event{Kind: rota.EventProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: status}
	if status == rota.WorkerJailed {
		e.Deadline = fl.s.head.now().At(w.jailedUntil)
	}
	fl.s.journal.emit(e)
}

// heard clears UNREACHABLE: the worker goes back to what it was, and the
// silence ends none of its leases any more.
func (fl *fleet) heard(w *workerRow) {
	back := w.before
	fl.enter(w, back)
	fl.retimeLeases(w)
	fl.s.journal.emit(rota.Event{Kind: rota.EventProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: back})
}

func (fl *fleet) retimeLeases(w *workerRow) {
	for _, id := range w.openLeases() {
		fl.leasing.timeLease(fl.leasing.leases.edit(id))
	}
}

// disprove is what an invalid proof costs its worker where the queue's health_steps
// are on (SPEC §6.2): health, a tenth of the attested stake left, and jail on every third. The
// event tells the penalty and the stake left after it; w is editable. A lease that the event names ends by the
// caller's hand.
func (fl *fleet) disprove(w *workerRow, p *rota.QueuePolicy, e rota.Event) {
	e.Kind, e.Worker, e.Session = rota.EventProviderSlashed, w.spec.ID, w.session
	if !p.HealthSteps {
		e.Payload = slashPayload(0, w.stakeLeft(), e.Reason)
		fl.s.journal.emit(e)
		return
	}
	w.addHealth(fl.s.head.clock, outcomeProofInvalid.health(p))
	penalty := w.stakeLeft() / slashPart
	w.slashed += penalty
	w.invalidProofs = min(w.invalidProofs, maxInvalidProofs) + 1
	e.Payload = slashPayload(penalty, w.stakeLeft(), e.Reason)
	fl.s.journal.emit(e)
	if w.invalidProofs%jailEvery == 0 {
		fl.jail(w, e.Lease)
	}
	fl.reviewWorker(w)
}

// jail ends a worker's leases at once but for the one that ends anyway, and gives
// it nothing for a while. One that is SUSPENDED or RETIRED stays so: it is JAILED
// if it comes back before the time is over.
func (fl *fleet) jail(w *workerRow, ending rota.LeaseID) {
	w.jailedUntil = fl.s.head.clock + limits.JailMs
	if w.status == rota.WorkerSuspended || w.status == rota.WorkerRetired {
		return
	}
	fl.change(w, rota.WorkerJailed)
	fl.cancelLeases(w, rota.ReasonWorkerJailed, ending)
}

// release ends a jail.
func (fl *fleet) release(w *workerRow) {
	w.jailedUntil = 0
	if w.status == rota.WorkerJailed {
		fl.change(w, w.before)
	}
}

// cancelLeases ends every lease of a worker at once (SPEC §8.5), but for one that
// its caller ends.
func (fl *fleet) cancelLeases(w *workerRow, why rota.Reason, but rota.LeaseID) {
	for _, id := range w.openLeases() {
		if l := fl.leasing.leases.get(id); l.ID != but {
			fl.leasing.endLease(l, why, "")
		}
	}
}

// fireForget takes a worker that is long gone out of the state, by itself or when it is deleted.
func (fl *fleet) fireForget(id string) {
	w := fl.workers.get(rota.WorkerID(id))
	fl.s.timers.forget.set(id, w.forgetDue, 0)
	fl.s.timers.reputation.set(id, int64(w.reputationDue), 0)
	fl.s.timers.attest.set(id, int64(w.attestDue), 0)
	fl.s.timers.offer.set(id, int64(w.offersUntil), 0)
	fl.s.timers.disowned.set(id, fl.access.disownedAt(w), 0)
	fl.placement.registry.supply.Remove(w.spec.ID)
	fl.access.hold(w.by, access.OwnsWorker, -1)
	fl.workers.drop(w.spec.ID)
}

// timeWorker sets or clears when a worker leaves the state.
func (fl *fleet) timeWorker(w *workerRow) {
	at := w.forgetAt()
	fl.s.timers.forget.set(string(w.spec.ID), w.forgetDue, at)
	w.forgetDue = at
}

// slashPayload is what providerSlashed carries: the penalty, the stake left after
// it, and why.
func slashPayload(penalty, stake int64, why rota.Reason) string {
	return `{"penalty":` + strconv.FormatInt(penalty, 10) + `,"stake":` + strconv.FormatInt(stake, 10) +
		`,"reason":"` + why.String() + `"}`
}

// slashPart of the stake left is one penalty; jailEvery invalid proofs jail: the
// third, the sixth, and so on, so that the count may stay what it is. It stops
// counting at maxInvalidProofs + 1.
const (
	slashPart        = 10
	jailEvery        = 3
	maxInvalidProofs = 1 << 30
)

// maxAttested bounds the expiry of an attestation, as rota.Attest does.
const maxAttested rota.Date = 1 << 46

// attestation is what an attestation says that was verified before the log
// (SPEC §6.5): zero for none.
type attestation struct {
	until rota.Date
	stake int64
}

// check refuses what no attestation says.
func (a attestation) check() error {
	if a.until < 0 || a.until > maxAttested {
		return rota.Refusef(rota.KindInvalid, "attested_until_ms", "attested_until_ms is %d: 0 to %d is wanted", a.until,
			int64(maxAttested))
	}
	if a.stake < 0 || a.stake > rota.MaxFee {
		return rota.Refusef(rota.KindInvalid, "attested_stake", "attested_stake is %d: 0 to %d is wanted", a.stake,
			int64(rota.MaxFee))
	}
	if a.stake > 0 && a.until == 0 {
		return rota.Refusef(rota.KindInvalid, "attested_stake", "attested_stake is %d without an attestation: 0 is wanted", a.stake)
	}
	return nil
}

// attest takes a worker's attestation; w is editable. Each registration says it anew:
// one without an attestation has none from then on. The stake stays in the row, for
// penalties: no worker escapes them by registering without.
func (fl *fleet) attest(w *workerRow, a attestation) {
	w.attestedUntil, w.lapsed = a.until, a.until != 0 && a.until <= fl.s.head.date()
	if a.until != 0 {
		w.attestedStake = a.stake
	}
}

// fireAttestation notes that a worker's attestation has expired. It ends no lease
// (SPEC §8.5): the worker gets no more of queues that ask for one.
func (fl *fleet) fireAttestation(id string) {
	w := fl.workers.edit(rota.WorkerID(id))
	w.lapsed = true
	fl.reviewWorker(w)
}

// reputation checks the ranges of the workers' reputation, and that all of it that
// ends by itself is timed. Invariant I3.
func (c *checker) reputation() {
	m, now := c.m, c.m.head.clock
	m.fleet.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		switch {
		case w.health < 0 || w.health > healthFull || w.healthAt < 0 || w.healthAt > now ||
			(w.health == healthFull) != (w.healthAt == 0):
			c.fault("I3: worker %s has health %d since %d", id, w.health, w.healthAt)
		case w.disconnected.Clock < 0 || w.disconnected.Clock > now || w.connection == 0 && (w.grace || !w.disconnected.IsZero()):
			c.fault("I6: worker %s has connection %d, broken since %d", id, w.connection, w.disconnected.Clock)
		case w.attestedStake < 0 || w.attestedStake > rota.MaxFee:
			c.fault("I3: worker %s has an attested stake of %d", id, w.attestedStake)
		case w.free < 0 || w.free > rota.MaxSlots || (w.free > 0) != (w.offersUntil != 0) || w.offersUntil > now+limits.OfferMost ||
			!w.polls && (w.poll != 0 || w.free != 0):
			c.fault("I3: worker %s offers %d slots until %d, polls: %v", id, w.free, w.offersUntil, w.polls)
		case w.dismissed && w.status != rota.WorkerRetired:
			c.fault("I3: worker %s is %s and was retired by an operator", id, w.status)
		case w.slashed < 0 || w.invalidProofs < 0:
			c.fault("I3: worker %s was slashed by %d for %d invalid proofs", id, w.slashed, w.invalidProofs)
		case w.jailedUntil < 0 || w.jailedUntil > now+limits.JailMs:
			c.fault("I6: worker %s is jailed until %d", id, w.jailedUntil)
		case w.lapsed && (w.attestedUntil == 0 || w.attestedUntil > m.head.date()) || w.attestedUntil < 0:
			c.fault("I3: worker %s is attested until %d, lapsed: %v", id, w.attestedUntil, w.lapsed)
		}
		if work := m.access.work(w.by, w.spec.Queues); !work.Equal(w.grants) {
			c.fault("I4: worker %s of %s is kept with grants %v: %v is right", id, w.by, w.grants, work)
		}
		c.bars(w)
		for i, u := range w.units {
			if u.Used < 0 || u.Since.Clock < 0 || u.Since.Clock > now || u.Until.Clock <= u.Since.Clock ||
				u.Since.Clock%(u.Until.Clock-u.Since.Clock) != 0 ||
				i > 0 && w.units[i-1].Queue >= u.Queue {
				c.fault("I9: worker %s used %d units of queue %s since %d until %d", id, u.Used, u.Queue, u.Since.Clock, u.Until.Clock)
			}
		}
		if told := m.placement.registry.supply.Data(id); !slices.Equal(told, w.held) {
			c.fault("I4: supply has worker %s hold the data %q, its row says %q", id, told, w.held)
		}
		if due, ends := m.fleet.reputationAt(w), w.attestationEnds(); w.reputationDue != due || w.attestDue != ends || w.forgetDue != w.forgetAt() {
			c.fault("I4: worker %s stands in the timers at %d and on %d: at %d and on %d is right", id, w.reputationDue,
				w.attestDue, due, ends)
		}
		return true
	})
}

// bars checks the bounded lists of types of a worker.
func (c *checker) bars(w *workerRow) {
	now, longest := c.m.head.clock, rota.Clock(rota.MaxDuration.Milliseconds())
	for _, list := range [][]rota.TypeUntil{w.cooling, w.denied} {
		types := map[rota.JobType]bool{}
		for _, t := range list {
			if t.Until.Clock <= 0 || t.Until.Clock > now+longest || t.Cause == rota.ReasonNone || types[t.Type] {
				c.fault("I6: worker %s gets none of type %s until %d for %s", w.spec.ID, t.Type, t.Until.Clock, t.Cause)
			}
			types[t.Type] = true
		}
	}
	types := map[rota.JobType]bool{}
	for _, s := range w.failing {
		if s.n <= 0 || s.n > maxStreak || types[s.typ] {
			c.fault("I6: worker %s failed %d times in a row of type %s", w.spec.ID, s.n, s.typ)
		}
		types[s.typ] = true
	}
	if len(w.cooling) > limits.MaxTypesPerWorker || len(w.denied) > limits.MaxTypesPerWorker ||
		len(w.failing) > limits.MaxTypesPerWorker {
		c.fault("I6: worker %s has %d types cooling, %d denied, %d failing", w.spec.ID, len(w.cooling), len(w.denied), len(w.failing))
	}
}

// own notes whose worker it is that registers to work as a spec says; w is editable.
func (fl *fleet) own(w *workerRow, spec *rota.WorkerSpec) {
	fl.s.timers.disowned.set(string(w.spec.ID), fl.access.disownedAt(w), 0)
	fl.access.hold(w.by, access.OwnsWorker, -1)
	w.by = fl.s.journal.owner()
	fl.access.hold(w.by, access.OwnsWorker, 1)
	w.grants = fl.access.work(w.by, spec.Queues)
}

// disown looks at the workers of principals whose credentials changed: the next sweeps end the
// sessions of those whose credential counts no more. What such a worker asks for until then is
// refused (judge.go).
func (fl *fleet) disown(whose func(rota.Principal) bool) {
	fl.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		if whose(w.by) {
			fl.s.timers.disowned.Delete(timer{1, string(id)})
			fl.s.timers.disowned.set(string(id), 0, fl.access.disownedAt(w))
		}
		return true
	})
	fl.regrant(whose)
}

// regrant follows a change of what some principals may work for: the next rounds follow it, and holds on workers that can
// no longer take their jobs end.
func (fl *fleet) regrant(whose func(rota.Principal) bool) {
	changed := make(map[rota.WorkerID]*sched.Grants)
	var ids []rota.WorkerID
	fl.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		if w.by == "" || !whose(w.by) {
			return true
		}
		if g := fl.access.work(w.by, w.spec.Queues); !g.Equal(w.grants) {
			changed[id], ids = g, append(ids, id)
		}
		return true
	})
	for _, id := range ids {
		w := fl.workers.edit(id)
		w.grants = changed[id]
		fl.reviewWorker(w)
	}
}

// revokeDenied revokes the leases that a worker's principal may not work, to which its session has just moved (SPEC §4.11).
func (fl *fleet) revokeDenied(w *workerRow) {
	if fl.s.head.rules < moveRules {
		return
	}
	may := fl.access.mayWork(w)
	for _, id := range w.openLeases() {
		if l := fl.leasing.leases.get(id); !may(l.tenant, l.queue) {
			fl.revoke(fl.leasing.leases.edit(id), rota.ReasonAccessEnded)
		}
	}
}

// moveRules are the first rules under which a session that moves to another principal has leases revoked.
const moveRules = 2

// mayWork returns whether a worker's principal may work for a tenant in a queue, whether the worker serves the queue or
// not: its leases outlive a change of its queues. Like work it follows from the rows alone.
func (ac *authority) mayWork(w *workerRow) func(rota.TenantID, rota.QueueName) bool {
	var rights *access.Rights
	known := false
	return func(tenant rota.TenantID, queue rota.QueueName) bool {
		if w.by == "" || w.grants == nil && slices.Contains(w.spec.Queues, queue) {
			return true
		}
		if !known {
			known = true
			if r, _, refusal := ac.here().resolve(w.by, 0); refusal == nil {
				rights = r
			}
		}
		return rights != nil && rights.Allow(rota.RightWork, tenant, queue)
	}
}

// anybody is whoever a change of roles may be about.
func anybody(rota.Principal) bool { return true }

func only(by rota.Principal) func(rota.Principal) bool {
	return func(p rota.Principal) bool { return p == by }
}

// nobody is whose workers are that lost their credential: it may do nothing.
const nobody rota.Principal = "nobody"

// fireDisowned ends the session of a worker whose credential is gone, as a takeover does (SPEC
// §8.5): its leases are revoked and end by silence, and it gets no more. The worker's own
// secret, under a credential that counts, takes the id up again.
func (fl *fleet) fireDisowned(id string) {
	w := fl.workers.edit(rota.WorkerID(id))
	fl.s.timers.disowned.set(id, 1, 0)
	fl.access.hold(w.by, access.OwnsWorker, -1)
	w.by = nobody
	w.grants = fl.access.work(w.by, w.spec.Queues)
	if w.status == rota.WorkerRetired {
		return
	}
	w.connection, w.grace, w.disconnected = 0, false, rota.Moment{}
	fl.withdraw(w)
	fl.supersede(w, rota.ReasonAccessEnded)
	w = fl.workers.edit(rota.WorkerID(id))
	fl.s.head.sessions++
	w.session = rota.Session(fl.s.head.sessions)
	if up := w.status; up == rota.WorkerActive || up == rota.WorkerDraining {
		fl.enter(w, rota.WorkerUnreachable)
		w.before, w.silentSince = up, fl.s.head.now()
	}
	fl.s.journal.emit(rota.Event{Kind: rota.EventProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: w.status})
}

// supersede revokes the leases of a session that another one takes the place of
// (SPEC §6.4), or that its credential's end ends. No beat of the old session is answered from now on, so its
// silence counts from here, or from where it counts already.
func (fl *fleet) supersede(w *workerRow, why rota.Reason) {
	since := fl.s.head.clock
	if w.status == rota.WorkerUnreachable {
		since = min(since, w.silentSince.Clock)
	}
	for _, id := range w.openLeases() {
		l := fl.leasing.leases.edit(id)
		fl.revoke(l, why)
		if l.silentSince == 0 {
			l.silentSince = max(since, 1)
		}
		fl.leasing.timeLease(l)
	}
}
