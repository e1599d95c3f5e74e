package fsm

import (
	"strconv"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// fleet holds the workers: who they are, whether they are heard of, what they earned.
type fleet struct {
	m       *Machine
	workers table[rota.WorkerID, workerRow, *workerRow]
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
		w.status, w.since = status, fl.m.head.now()
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
	fl.restand(w)
	fl.m.placement.trimHolds()
}

// change enters a status and tells so.
func (fl *fleet) change(w *workerRow, status rota.WorkerStatus) {
	fl.enter(w, status)
	e := rota.Event{Kind: rota.EventProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: status}
	if status == rota.WorkerJailed {
		e.Deadline = fl.m.head.now().At(w.jailedUntil)
	}
	fl.m.journal.emit(e)
}

// heard clears UNREACHABLE: the worker goes back to what it was, and the
// silence ends none of its leases any more.
func (fl *fleet) heard(w *workerRow) {
	back := w.before
	fl.enter(w, back)
	fl.retimeLeases(w)
	fl.m.journal.emit(rota.Event{Kind: rota.EventProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: back})
}

func (fl *fleet) retimeLeases(w *workerRow) {
	for _, id := range w.openLeases() {
		fl.m.leasing.timeLease(fl.m.leasing.leases.edit(id))
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
		fl.m.journal.emit(e)
		return
	}
	w.addHealth(fl.m.head.clock, outcomeProofInvalid.health(p))
	penalty := w.stakeLeft() / slashPart
	w.slashed += penalty
	w.invalidProofs = min(w.invalidProofs, maxInvalidProofs) + 1
	e.Payload = slashPayload(penalty, w.stakeLeft(), e.Reason)
	fl.m.journal.emit(e)
	if w.invalidProofs%jailEvery == 0 {
		fl.jail(w, e.Lease)
	}
	fl.restand(w)
}

// jail ends a worker's leases at once but for the one that ends anyway, and gives
// it nothing for a while. One that is SUSPENDED or RETIRED stays so: it is JAILED
// if it comes back before the time is over.
func (fl *fleet) jail(w *workerRow, ending rota.LeaseID) {
	w.jailedUntil = fl.m.head.clock + limits.JailMs
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
		if l := fl.m.leasing.leases.get(id); l.ID != but {
			fl.m.leasing.endLease(l, why, "")
		}
	}
}

// fireForget takes a worker that is long gone out of the state.
func (fl *fleet) fireForget(id string) {
	w := fl.workers.get(rota.WorkerID(id))
	fl.m.timers.forget.set(id, w.forgetDue, 0)
	fl.m.timers.standing.set(id, int64(w.standingDue), 0)
	fl.m.timers.attest.set(id, int64(w.attestDue), 0)
	fl.m.placement.registry.supply.Remove(w.spec.ID)
	fl.workers.drop(w.spec.ID)
}

// timeWorker sets or clears when a worker leaves the state.
func (fl *fleet) timeWorker(w *workerRow) {
	at := w.forgetAt()
	fl.m.timers.forget.set(string(w.spec.ID), w.forgetDue, at)
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
