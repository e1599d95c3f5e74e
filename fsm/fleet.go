package fsm

import (
	"slices"
	"strconv"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/fsm/internal/learn"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// fleet holds the workers: their identity, their reachability, and their reputation.
type fleet struct {
	s         *state.State
	access    *authz.Authority
	admission *admission
	leasing   *leasing
	placement *placement
	typeStats *learn.Stats
	workers   state.Table[rota.WorkerID, state.WorkerRow, *state.WorkerRow]
	// offered reports whether a worker offered slots in the entry being applied.
	offered bool
}

// enter changes a worker's status and everything that depends on it; w is editable. JAILED returns to the worker's
// previous status, or to the one that it will have once it is heard from.
func (fl *fleet) enter(w *state.WorkerRow, status rota.WorkerStatus) {
	was := w.Before
	if w.Status == rota.WorkerActive || w.Status == rota.WorkerDraining {
		was = w.Status
	}
	suspended := w.Status == rota.WorkerSuspended || w.Status == rota.WorkerRetired && was == rota.WorkerSuspended
	if w.Status != status {
		w.Status, w.Since = status, fl.s.Header.Now()
	}
	if status != rota.WorkerUnreachable {
		w.SilentSince, w.Before = rota.Moment{}, rota.WorkerNone
	}
	switch {
	case status == rota.WorkerJailed && was == rota.WorkerDraining:
		w.Before = rota.WorkerDraining
	case status == rota.WorkerJailed:
		w.Before = rota.WorkerActive
	case status == rota.WorkerRetired && suspended:
		w.Before = rota.WorkerSuspended
	}
	fl.reviewWorker(w)
	fl.placement.trimHolds()
}

// change enters a status and emits an event.
func (fl *fleet) change(w *state.WorkerRow, status rota.WorkerStatus) {
	fl.enter(w, status)
	e := rota.Event{Kind: rota.EventProviderStatusChanged, Worker: w.Spec.ID, Session: w.Session, Status: status}
	if status == rota.WorkerJailed {
		e.Deadline = fl.s.Header.Now().At(w.JailedUntil)
	}
	fl.s.Journal.Emit(e)
}

// heard clears UNREACHABLE: the worker returns to its previous status, and the silence no longer ends its leases.
func (fl *fleet) heard(w *state.WorkerRow) {
	back := w.Before
	fl.enter(w, back)
	fl.retimeLeases(w)
	fl.s.Journal.Emit(rota.Event{Kind: rota.EventProviderStatusChanged, Worker: w.Spec.ID, Session: w.Session,
		Status: back})
}

func (fl *fleet) retimeLeases(w *state.WorkerRow) {
	for _, id := range w.OpenLeases() {
		fl.leasing.timeLease(fl.leasing.leases.Edit(id))
	}
}

// disprove applies the penalty for an invalid proof if the queue's health_steps are on (SPEC §6.2): health, a tenth of
// the remaining attested stake, and jail on every third. The event carries the penalty and the stake left; w is
// editable. The caller ends a lease that the event names.
func (fl *fleet) disprove(w *state.WorkerRow, p *rota.QueuePolicy, e rota.Event) {
	e.Kind, e.Worker, e.Session = rota.EventProviderSlashed, w.Spec.ID, w.Session
	if !p.HealthSteps {
		e.Payload = slashPayload(0, w.StakeLeft(), e.Reason)
		fl.s.Journal.Emit(e)
		return
	}
	w.AddHealth(fl.s.Header.Clock, healthOf(state.OutcomeProofInvalid, p))
	penalty := w.StakeLeft() / slashPart
	w.Slashed += penalty
	w.InvalidProofs = min(w.InvalidProofs, maxInvalidProofs) + 1
	e.Payload = slashPayload(penalty, w.StakeLeft(), e.Reason)
	fl.s.Journal.Emit(e)
	if w.InvalidProofs%jailEvery == 0 {
		fl.jail(w, e.Lease)
	}
	fl.reviewWorker(w)
}

// jail ends a worker's leases at once, except for one that ends anyway, and assigns it nothing for a while. A worker
// that is SUSPENDED or RETIRED stays so: it is JAILED if it comes back before the time is over.
func (fl *fleet) jail(w *state.WorkerRow, ending rota.LeaseID) {
	w.JailedUntil = fl.s.Header.Clock + limits.JailMs
	if w.Status == rota.WorkerSuspended || w.Status == rota.WorkerRetired {
		return
	}
	fl.change(w, rota.WorkerJailed)
	fl.cancelLeases(w, rota.ReasonWorkerJailed, ending)
}

// release ends a jail.
func (fl *fleet) release(w *state.WorkerRow) {
	w.JailedUntil = 0
	if w.Status == rota.WorkerJailed {
		fl.change(w, w.Before)
	}
}

// cancelLeases ends every lease of a worker at once (SPEC §8.5), except for one that the caller ends.
func (fl *fleet) cancelLeases(w *state.WorkerRow, why rota.Reason, but rota.LeaseID) {
	for _, id := range w.OpenLeases() {
		if l := fl.leasing.leases.Get(id); l.ID != but {
			fl.leasing.endLease(l, why, "")
		}
	}
}

// fireForget removes a worker that is long gone from the state, by timer or when it is deleted.
func (fl *fleet) fireForget(id string) {
	w := fl.workers.Get(rota.WorkerID(id))
	fl.s.Timers.Forget.Refile(id, w.ForgetDue, 0)
	fl.s.Timers.Reputation.Refile(id, int64(w.ReputationDue), 0)
	fl.s.Timers.Attest.Refile(id, int64(w.AttestDue), 0)
	fl.s.Timers.Offer.Refile(id, int64(w.OffersUntil), 0)
	fl.s.Timers.Disowned.Refile(id, fl.access.DisownedAt(w), 0)
	fl.placement.registry.supply.Remove(w.Spec.ID)
	fl.access.Hold(w.By, access.OwnsWorker, -1)
	fl.workers.Drop(w.Spec.ID)
}

// timeWorker sets or clears the time when a worker leaves the state.
func (fl *fleet) timeWorker(w *state.WorkerRow) {
	at := w.ForgetAt()
	fl.s.Timers.Forget.Refile(string(w.Spec.ID), w.ForgetDue, at)
	w.ForgetDue = at
}

// slashPayload returns the payload of providerSlashed: the penalty, the stake left after it, and why.
func slashPayload(penalty, stake int64, why rota.Reason) string {
	return `{"penalty":` + strconv.FormatInt(penalty, 10) + `,"stake":` + strconv.FormatInt(stake, 10) +
		`,"reason":"` + why.String() + `"}`
}

// slashPart of the remaining stake is one penalty. Every jailEvery-th invalid proof jails: the third, the sixth, and so
// on, so that the count need not be reset. It stops counting at maxInvalidProofs + 1.
const (
	slashPart        = 10
	jailEvery        = 3
	maxInvalidProofs = 1 << 30
)

// maxAttested bounds the expiry of an attestation, as rota.Attest does.
const maxAttested rota.Date = 1 << 46

// attestation is the content of an attestation that was verified before the log (SPEC §6.5): zero for none.
type attestation struct {
	until rota.Date
	stake int64
}

// check refuses impossible values.
func (a attestation) check() error {
	if a.until < 0 || a.until > maxAttested {
		return rota.Refusef(rota.KindInvalid, "attested_until_ms", "attested_until_ms: got %d, want 0 to %d", a.until,
			int64(maxAttested))
	}
	if a.stake < 0 || a.stake > rota.MaxFee {
		return rota.Refusef(rota.KindInvalid, "attested_stake", "attested_stake: got %d, want 0 to %d", a.stake,
			int64(rota.MaxFee))
	}
	if a.stake > 0 && a.until == 0 {
		return rota.Refusef(rota.KindInvalid, "attested_stake", "attested_stake: got %d without an attestation, want 0",
			a.stake)
	}
	return nil
}

// attest applies a worker's attestation; w is editable. Each registration replaces it: a registration without one
// removes it. The stake stays in the row, for penalties, so that registering without an attestation does not avoid
// them.
func (fl *fleet) attest(w *state.WorkerRow, a attestation) {
	w.AttestedUntil, w.Lapsed = a.until, a.until != 0 && a.until <= fl.s.Header.Date()
	if a.until != 0 {
		w.AttestedStake = a.stake
	}
}

// fireAttestation records that a worker's attestation has expired. It ends no lease (SPEC §8.5), but the worker no
// longer gets leases of queues that require one.
func (fl *fleet) fireAttestation(id string) {
	w := fl.workers.Edit(rota.WorkerID(id))
	w.Lapsed = true
	fl.reviewWorker(w)
}

// reputation checks the ranges of the workers' reputation, and that everything in it that ends by itself has a timer.
// Invariant I3.
func (c *checker) reputation() {
	m, now := c.m, c.m.Header.Clock
	m.fleet.workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		switch {
		case w.Health < 0 || w.Health > state.HealthFull || w.HealthAt < 0 || w.HealthAt > now ||
			(w.Health == state.HealthFull) != (w.HealthAt == 0):
			c.fault("I3: worker %s has health %d since %d", id, w.Health, w.HealthAt)
		case w.Disconnected.Clock < 0 || w.Disconnected.Clock > now || w.Connection == 0 &&
			(w.Grace || !w.Disconnected.IsZero()):
			c.fault("I6: worker %s has connection %d, broken since %d", id, w.Connection, w.Disconnected.Clock)
		case w.AttestedStake < 0 || w.AttestedStake > rota.MaxFee:
			c.fault("I3: worker %s has an attested stake of %d", id, w.AttestedStake)
		case w.Free < 0 || w.Free > rota.MaxSlots || (w.Free > 0) != (w.OffersUntil != 0) ||
			w.OffersUntil > now+limits.MaxOffer ||
			!w.Polls && (w.Poll != 0 || w.Free != 0):
			c.fault("I3: worker %s offers %d slots until %d, polls: %v", id, w.Free, w.OffersUntil, w.Polls)
		case w.Dismissed && w.Status != rota.WorkerRetired:
			c.fault("I3: worker %s is %s and was retired by an operator", id, w.Status)
		case w.Slashed < 0 || w.InvalidProofs < 0:
			c.fault("I3: worker %s was slashed by %d for %d invalid proofs", id, w.Slashed, w.InvalidProofs)
		case w.JailedUntil < 0 || w.JailedUntil > now+limits.JailMs:
			c.fault("I6: worker %s is jailed until %d", id, w.JailedUntil)
		case w.Lapsed && (w.AttestedUntil == 0 || w.AttestedUntil > m.Header.Date()) || w.AttestedUntil < 0:
			c.fault("I3: worker %s is attested until %d, lapsed: %v", id, w.AttestedUntil, w.Lapsed)
		}
		if work := m.access.Work(w.By, w.Spec.Queues); !work.Equal(w.Grants) {
			c.fault("I4: worker %s of %s is kept with grants %v: %v is right", id, w.By, w.Grants, work)
		}
		c.bars(w)
		for i, u := range w.Units {
			if u.Used < 0 || u.Since.Clock < 0 || u.Since.Clock > now || u.Until.Clock <= u.Since.Clock ||
				u.Since.Clock%(u.Until.Clock-u.Since.Clock) != 0 ||
				i > 0 && w.Units[i-1].Queue >= u.Queue {
				c.fault("I9: worker %s used %d units of queue %s since %d until %d", id, u.Used, u.Queue, u.Since.Clock,
					u.Until.Clock)
			}
		}
		if told := m.placement.registry.supply.Data(id); !slices.Equal(told, w.Held) {
			c.fault("I4: supply has worker %s hold the data %q, its row says %q", id, told, w.Held)
		}
		if due, ends := m.fleet.reputationAt(w), w.AttestationEnds(); w.ReputationDue != due || w.AttestDue != ends ||
			w.ForgetDue != w.ForgetAt() {
			c.fault("I4: worker %s stands in the timers at %d and on %d: at %d and on %d is right", id, w.ReputationDue,
				w.AttestDue, due, ends)
		}
		return true
	})
}

// bars checks the bounded lists of types of a worker.
func (c *checker) bars(w *state.WorkerRow) {
	now, longest := c.m.Header.Clock, rota.Clock(rota.MaxDuration.Milliseconds())
	for _, list := range [][]rota.TypeUntil{w.Cooling, w.Denied} {
		types := map[rota.JobType]bool{}
		for _, t := range list {
			if t.Until.Clock <= 0 || t.Until.Clock > now+longest || t.Cause == rota.ReasonNone || types[t.Type] {
				c.fault("I6: worker %s gets none of type %s until %d for %s", w.Spec.ID, t.Type, t.Until.Clock, t.Cause)
			}
			types[t.Type] = true
		}
	}
	types := map[rota.JobType]bool{}
	for _, s := range w.Failing {
		if s.N <= 0 || s.N > state.MaxStreak || types[s.Typ] {
			c.fault("I6: worker %s failed %d times in a row of type %s", w.Spec.ID, s.N, s.Typ)
		}
		types[s.Typ] = true
	}
	if len(w.Cooling) > limits.MaxTypesPerWorker || len(w.Denied) > limits.MaxTypesPerWorker ||
		len(w.Failing) > limits.MaxTypesPerWorker {
		c.fault("I6: worker %s has %d types cooling, %d denied, %d failing", w.Spec.ID, len(w.Cooling), len(w.Denied),
			len(w.Failing))
	}
}

// own records the owner of a worker that registers with a spec; w is editable.
func (fl *fleet) own(w *state.WorkerRow, spec *rota.WorkerSpec) {
	fl.s.Timers.Disowned.Refile(string(w.Spec.ID), fl.access.DisownedAt(w), 0)
	fl.access.Hold(w.By, access.OwnsWorker, -1)
	w.By = fl.s.Journal.Owner()
	fl.access.Hold(w.By, access.OwnsWorker, 1)
	w.Grants = fl.access.Work(w.By, spec.Queues)
}

// disown reviews the workers of principals whose credentials changed: the next sweeps end the sessions of those whose
// credential is no longer valid. Until then requests of such a worker are refused (judge.go).
func (fl *fleet) disown(whose func(rota.Principal) bool) {
	fl.workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		if whose(w.By) {
			fl.s.Timers.Disowned.Delete(state.Timer{Due: 1, ID: string(id)})
			fl.s.Timers.Disowned.Refile(string(id), 0, fl.access.DisownedAt(w))
		}
		return true
	})
	fl.regrant(whose)
}

// regrant applies a change of what some principals may work for: the next rounds follow it, and holds on workers that
// can no longer take their jobs end.
func (fl *fleet) regrant(whose func(rota.Principal) bool) {
	changed := make(map[rota.WorkerID]*sched.Grants)
	var ids []rota.WorkerID
	fl.workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		if w.By == "" || !whose(w.By) {
			return true
		}
		if g := fl.access.Work(w.By, w.Spec.Queues); !g.Equal(w.Grants) {
			changed[id], ids = g, append(ids, id)
		}
		return true
	})
	for _, id := range ids {
		w := fl.workers.Edit(id)
		w.Grants = changed[id]
		fl.reviewWorker(w)
	}
}

// revokeDenied revokes the leases that a worker's new principal may not work, after its session moved to that principal
// (SPEC §4.11).
func (fl *fleet) revokeDenied(w *state.WorkerRow) {
	if fl.s.Header.Rules < moveRules {
		return
	}
	may := fl.access.MayWork(w)
	for _, id := range w.OpenLeases() {
		if l := fl.leasing.leases.Get(id); !may(l.Tenant, l.Queue) {
			fl.revoke(fl.leasing.leases.Edit(id), rota.ReasonAccessEnded)
		}
	}
}

// moveRules is the first rules version under which leases are revoked when a session moves to another principal.
const moveRules = 2

// fireDisowned ends the session of a worker whose credential is gone, as a takeover does (SPEC §8.5): its leases are
// revoked and end by silence, and it gets no new ones. The worker's own secret, under a valid credential, can use the
// id again.
func (fl *fleet) fireDisowned(id string) {
	w := fl.workers.Edit(rota.WorkerID(id))
	fl.s.Timers.Disowned.Refile(id, 1, 0)
	fl.access.Hold(w.By, access.OwnsWorker, -1)
	w.By = authz.Nobody
	w.Grants = fl.access.Work(w.By, w.Spec.Queues)
	if w.Status == rota.WorkerRetired {
		return
	}
	w.Connection, w.Grace, w.Disconnected = 0, false, rota.Moment{}
	fl.withdraw(w)
	fl.supersede(w, rota.ReasonAccessEnded)
	w = fl.workers.Edit(rota.WorkerID(id))
	fl.s.Header.Sessions++
	w.Session = rota.Session(fl.s.Header.Sessions)
	if up := w.Status; up == rota.WorkerActive || up == rota.WorkerDraining {
		fl.enter(w, rota.WorkerUnreachable)
		w.Before, w.SilentSince = up, fl.s.Header.Now()
	}
	fl.s.Journal.Emit(rota.Event{Kind: rota.EventProviderStatusChanged, Worker: w.Spec.ID, Session: w.Session,
		Status: w.Status})
}

// supersede revokes the leases of a session that another one replaces (SPEC §6.4), or whose credential ended.
// Heartbeats of the old session are no longer answered, so its silence counts from now, or from an earlier start.
func (fl *fleet) supersede(w *state.WorkerRow, why rota.Reason) {
	since := fl.s.Header.Clock
	if w.Status == rota.WorkerUnreachable {
		since = min(since, w.SilentSince.Clock)
	}
	for _, id := range w.OpenLeases() {
		l := fl.leasing.leases.Edit(id)
		fl.revoke(l, why)
		if l.SilentSince == 0 {
			l.SilentSince = max(since, 1)
		}
		fl.leasing.timeLease(l)
	}
}
