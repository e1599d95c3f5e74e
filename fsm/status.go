package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// enter changes a worker's status and all that hangs on it; w is editable. JAILED
// goes back to what the worker was, or will be once it is heard.
func (m *Machine) enter(w *workerRow, status rota.WorkerStatus) {
	was := w.before
	if w.status == rota.WorkerActive || w.status == rota.WorkerDraining {
		was = w.status
	}
	suspended := w.status == rota.WorkerSuspended || w.status == rota.WorkerRetired && was == rota.WorkerSuspended
	if w.status != status {
		w.status, w.since = status, m.head.now()
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
	m.restand(w)
	m.trimHolds()
}

// mayReturn says that the row's way back is one that there is. Invariant I3.
func (r *workerRow) mayReturn() bool {
	up := r.before == rota.WorkerActive || r.before == rota.WorkerDraining
	switch r.status {
	case rota.WorkerUnreachable:
		return up && r.jailedUntil == 0
	case rota.WorkerJailed:
		return up && r.jailedUntil != 0
	case rota.WorkerSuspended:
		return r.before == rota.WorkerNone
	case rota.WorkerRetired:
		return r.before == rota.WorkerNone || r.before == rota.WorkerSuspended
	default:
		return r.before == rota.WorkerNone && r.jailedUntil == 0
	}
}

// barredStatus is SUSPENDED or JAILED where the worker is that beneath all else,
// and otherwise what is asked for.
func (r *workerRow) barredStatus(otherwise rota.WorkerStatus) rota.WorkerStatus {
	switch {
	case r.status == rota.WorkerSuspended || r.status == rota.WorkerRetired && r.before == rota.WorkerSuspended:
		return rota.WorkerSuspended
	case r.jailedUntil != 0:
		return rota.WorkerJailed
	default:
		return otherwise
	}
}

// change enters a status and tells so.
func (m *Machine) change(w *workerRow, status rota.WorkerStatus) {
	m.enter(w, status)
	e := rota.Event{Kind: rota.ProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: status}
	if status == rota.WorkerJailed {
		e.Deadline = m.head.now().At(w.jailedUntil)
	}
	m.emit(e)
}

// heard clears UNREACHABLE: the worker goes back to what it was, and the
// silence ends none of its leases any more.
func (m *Machine) heard(w *workerRow) {
	back := w.before
	m.enter(w, back)
	m.retimeLeases(w)
	m.emit(rota.Event{Kind: rota.ProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: back})
}

func (m *Machine) retimeLeases(w *workerRow) {
	for _, id := range w.openLeases() {
		m.timeLease(m.leases.edit(id))
	}
}

// reach is the leader's word on a worker's silence (SPEC §3.10). It says nothing
// of one that is SUSPENDED, JAILED or RETIRED: that has no lease to lose.
func (m *Machine) reach(op *fsmpb.Reach) *fsmpb.Outcome {
	if o := m.internal(); o != nil {
		return o
	}
	w := m.workers.get(rota.WorkerID(op.GetWorker()))
	if w == nil || w.session != rota.Session(op.GetSession()) {
		return refused(rota.Refusef(rota.Stale, "session", "worker %s has no such session", op.GetWorker()))
	}
	if op.GetReachable() {
		if w.status == rota.WorkerUnreachable {
			m.heard(m.workers.edit(w.spec.ID))
		}
		return &fsmpb.Outcome{}
	}
	if w.status != rota.WorkerActive && w.status != rota.WorkerDraining {
		return &fsmpb.Outcome{}
	}
	w = m.workers.edit(w.spec.ID)
	before := w.status
	m.enter(w, rota.WorkerUnreachable)
	w.before = before
	w.silentSince = m.head.now().At(min(max(rota.Clock(op.GetLastSignMs()), 0), m.head.clock))
	m.retimeLeases(w)
	m.emit(rota.Event{Kind: rota.ProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: w.status})
	return &fsmpb.Outcome{}
}

// setStatus is an operator's word on a worker, or a worker's own drain or goodbye
// (SPEC §6.3).
func (m *Machine) setStatus(op *fsmpb.SetStatus) *fsmpb.Outcome {
	status, own := rota.WorkerStatus(op.GetStatus()), op.GetSession() != 0
	w := m.workers.get(rota.WorkerID(op.GetWorker()))
	if w == nil {
		return refused(rota.Refusef(rota.NotFound, "worker", "worker %q is not registered", op.GetWorker()))
	}
	if s := rota.Session(op.GetSession()); own && s != w.session {
		return refused(rota.Refusef(rota.Stale, "session", "session %d of worker %s is over", s, w.spec.ID))
	}
	switch status {
	case rota.WorkerDraining, rota.WorkerRetired:
	case rota.WorkerActive, rota.WorkerSuspended:
		if own {
			return refused(rota.Refusef(rota.Denied, "status",
				"worker %s cannot make itself %s: DRAINING or RETIRED is wanted", w.spec.ID, status))
		}
	default:
		return refused(rota.Refusef(rota.Invalid, "status",
			"status %s cannot be set: ACTIVE, DRAINING, SUSPENDED or RETIRED is wanted", status))
	}
	if w.status == status {
		return &fsmpb.Outcome{}
	}
	if err := m.settable(w, status, own); err != nil {
		return refused(err)
	}
	w = m.workers.edit(w.spec.ID)
	switch status {
	case rota.WorkerActive:
		m.resumeWork(w)
	case rota.WorkerDraining:
		m.drain(w)
	case rota.WorkerSuspended:
		m.change(w, status)
		m.cancelLeases(w, rota.WorkerSuspendedReason, rota.LeaseID{})
	case rota.WorkerRetired:
		m.change(w, status)
		for _, id := range w.openLeases() {
			// A worker that says goodbye speaks for its own process alone: the one that it
			// took the id from may still be at work.
			if l := m.leases.get(id); !own || l.Session == w.session {
				m.endLease(l, rota.WorkerRetiredReason, "")
			}
		}
	}
	return &fsmpb.Outcome{}
}

// settable refuses what a worker's present status does not allow.
func (m *Machine) settable(w *workerRow, status rota.WorkerStatus, own bool) error {
	switch {
	case w.status == rota.WorkerRetired:
		return rota.Refusef(rota.Conflict, "worker", "worker %s is RETIRED: it must register again", w.spec.ID)
	case w.status == rota.WorkerJailed && status == rota.WorkerActive:
		return rota.Refusef(rota.Conflict, "worker",
			"worker %s is JAILED until %s, for %d ms more: it is %s again by itself then", w.spec.ID, m.head.now().At(w.jailedUntil).Date,
			max(0, w.jailedUntil-m.head.clock), w.before)
	case w.status == rota.WorkerSuspended && status == rota.WorkerDraining && !own:
		return rota.Refusef(rota.Conflict, "worker",
			"worker %s is SUSPENDED and has no lease to finish: resume or retire it", w.spec.ID)
	}
	return nil
}

// drain lets a worker finish what it has. One that is UNREACHABLE or JAILED drains
// once that is over; SUSPENDED, the stronger, stays, so that no worker frees itself.
func (m *Machine) drain(w *workerRow) {
	switch w.status {
	case rota.WorkerUnreachable, rota.WorkerJailed:
		w.before = rota.WorkerDraining
	case rota.WorkerActive:
		m.change(w, rota.WorkerDraining)
	}
}

// resumeWork takes a drain or a suspension back; a jail that lasts still holds.
func (m *Machine) resumeWork(w *workerRow) {
	switch {
	case w.status == rota.WorkerUnreachable:
		w.before = rota.WorkerActive
	case w.jailedUntil != 0:
		m.change(w, rota.WorkerJailed)
	default:
		m.change(w, rota.WorkerActive)
	}
}

// disprove is what an invalid proof costs its worker where the queue's health_steps
// are on (SPEC §6.2): health, a tenth of the attested stake left, and jail on every third. The
// event tells the penalty and the stake left after it; w is editable. A lease that the event names ends by the
// caller's hand.
func (m *Machine) disprove(w *workerRow, p *rota.QueuePolicy, e rota.Event) {
	e.Kind, e.Worker, e.Session = rota.ProviderSlashed, w.spec.ID, w.session
	if !p.HealthSteps {
		e.Payload = slashPayload(0, w.stakeLeft(), e.Reason)
		m.emit(e)
		return
	}
	w.addHealth(m.head.clock, outcomeProofInvalid.health(p))
	penalty := w.stakeLeft() / slashPart
	w.slashed += penalty
	w.invalidProofs = min(w.invalidProofs, maxInvalidProofs) + 1
	e.Payload = slashPayload(penalty, w.stakeLeft(), e.Reason)
	m.emit(e)
	if w.invalidProofs%jailEvery == 0 {
		m.jail(w, e.Lease)
	}
	m.restand(w)
}

// slashPart of the stake left is one penalty; jailEvery invalid proofs jail: the
// third, the sixth, and so on, so that the count may stay what it is. It stops
// counting at maxInvalidProofs + 1.
const (
	slashPart        = 10
	jailEvery        = 3
	maxInvalidProofs = 1 << 30
)

// jail ends a worker's leases at once but for the one that ends anyway, and gives
// it nothing for a while. One that is SUSPENDED or RETIRED stays so: it is JAILED
// if it comes back before the time is over.
func (m *Machine) jail(w *workerRow, ending rota.LeaseID) {
	w.jailedUntil = m.head.clock + rota.JailMs
	if w.status == rota.WorkerSuspended || w.status == rota.WorkerRetired {
		return
	}
	m.change(w, rota.WorkerJailed)
	m.cancelLeases(w, rota.WorkerJailedReason, ending)
}

// release ends a jail.
func (m *Machine) release(w *workerRow) {
	w.jailedUntil = 0
	if w.status == rota.WorkerJailed {
		m.change(w, w.before)
	}
}

// cancelLeases ends every lease of a worker at once (SPEC §8.5), but for one that
// its caller ends.
func (m *Machine) cancelLeases(w *workerRow, why rota.Reason, but rota.LeaseID) {
	for _, id := range w.openLeases() {
		if l := m.leases.get(id); l.ID != but {
			m.endLease(l, why, "")
		}
	}
}
