package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// mayReturn reports whether the row's way back is one that there is. Invariant I3.
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

// reach is the leader's word on a worker's silence (SPEC §3.10). It says nothing
// of one that is SUSPENDED, JAILED or RETIRED: that has no lease to lose.
func (fl *fleet) reach(op *fsmpb.Reach) *fsmpb.Outcome {
	if o := fl.m.internal(); o != nil {
		return o
	}
	w := fl.workers.get(rota.WorkerID(op.GetWorker()))
	if w == nil || w.session != rota.Session(op.GetSession()) {
		return entry.Refused(rota.Refusef(rota.KindStale, "session", "worker %s has no such session", op.GetWorker()))
	}
	if op.GetReachable() {
		if w.status == rota.WorkerUnreachable {
			fl.heard(fl.workers.edit(w.spec.ID))
		}
		return &fsmpb.Outcome{}
	}
	if w.status != rota.WorkerActive && w.status != rota.WorkerDraining {
		return &fsmpb.Outcome{}
	}
	w = fl.workers.edit(w.spec.ID)
	before := w.status
	fl.enter(w, rota.WorkerUnreachable)
	w.before = before
	w.silentSince = fl.m.head.now().At(min(max(rota.Clock(op.GetLastSignMs()), 0), fl.m.head.clock))
	fl.retimeLeases(w)
	fl.m.journal.emit(rota.Event{Kind: rota.EventProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: w.status})
	return &fsmpb.Outcome{}
}

// setStatus is an operator's word on a worker, or a worker's own drain or goodbye
// (SPEC §6.3).
func (fl *fleet) setStatus(op *fsmpb.SetStatus) *fsmpb.Outcome {
	status, own := rota.WorkerStatus(op.GetStatus()), op.GetSession() != 0
	w := fl.workers.get(rota.WorkerID(op.GetWorker()))
	if w == nil {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "worker", "worker %q is not registered", op.GetWorker()))
	}
	if s := rota.Session(op.GetSession()); own && s != w.session {
		return entry.Refused(rota.Refusef(rota.KindStale, "session", "session %d of worker %s is over", s, w.spec.ID))
	}
	switch status {
	case rota.WorkerDraining, rota.WorkerRetired:
	case rota.WorkerActive, rota.WorkerSuspended:
		if own {
			return entry.Refused(rota.Refusef(rota.KindDenied, "status",
				"worker %s cannot make itself %s: DRAINING or RETIRED is wanted", w.spec.ID, status))
		}
	default:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "status",
			"status %s cannot be set: ACTIVE, DRAINING, SUSPENDED or RETIRED is wanted", status))
	}
	if w.status == status {
		return &fsmpb.Outcome{}
	}
	if err := fl.settable(w, status, own); err != nil {
		return entry.Refused(err)
	}
	w = fl.workers.edit(w.spec.ID)
	switch status {
	case rota.WorkerActive:
		fl.resumeWork(w)
	case rota.WorkerDraining:
		fl.drain(w)
	case rota.WorkerSuspended:
		fl.change(w, status)
		fl.cancelLeases(w, rota.ReasonWorkerSuspended, rota.LeaseID{})
	case rota.WorkerRetired:
		fl.change(w, status)
		for _, id := range w.openLeases() {
			// A worker that says goodbye speaks for its own process alone: the one that it
			// took the id from may still be at work.
			if l := fl.m.leasing.leases.get(id); !own || l.Session == w.session {
				fl.m.leasing.endLease(l, rota.ReasonWorkerRetired, "")
			}
		}
	}
	return &fsmpb.Outcome{}
}

// settable refuses what a worker's present status does not allow.
func (fl *fleet) settable(w *workerRow, status rota.WorkerStatus, own bool) error {
	switch {
	case w.status == rota.WorkerRetired:
		return rota.Refusef(rota.KindConflict, "worker", "worker %s is RETIRED: it must register again", w.spec.ID)
	case w.status == rota.WorkerJailed && status == rota.WorkerActive:
		return rota.Refusef(rota.KindConflict, "worker",
			"worker %s is JAILED until %s, for %d ms more: it is %s again by itself then", w.spec.ID, fl.m.head.now().At(w.jailedUntil).Date,
			max(0, w.jailedUntil-fl.m.head.clock), w.before)
	case w.status == rota.WorkerSuspended && status == rota.WorkerDraining && !own:
		return rota.Refusef(rota.KindConflict, "worker",
			"worker %s is SUSPENDED and has no lease to finish: resume or retire it", w.spec.ID)
	}
	return nil
}

// drain lets a worker finish what it has. One that is UNREACHABLE or JAILED drains
// once that is over; SUSPENDED, the stronger, stays, so that no worker frees itself.
func (fl *fleet) drain(w *workerRow) {
	switch w.status {
	case rota.WorkerUnreachable, rota.WorkerJailed:
		w.before = rota.WorkerDraining
	case rota.WorkerActive:
		fl.change(w, rota.WorkerDraining)
	}
}

// resumeWork takes a drain or a suspension back; a jail that lasts still holds.
func (fl *fleet) resumeWork(w *workerRow) {
	switch {
	case w.status == rota.WorkerUnreachable:
		w.before = rota.WorkerActive
	case w.jailedUntil != 0:
		fl.change(w, rota.WorkerJailed)
	default:
		fl.change(w, rota.WorkerActive)
	}
}

// goneText is what an attempt says that its worker's guard ended.
const goneText = "its worker died: the guard has ended all that was left of it"

// gone takes a guard's word that a worker's process has died and that nothing of it
// runs any more (SPEC §16.7). What it held ends at once, as it would have by silence;
// the worker is RETIRED. It speaks for its own session alone: what the id held before a
// takeover is another process's. Said again, it changes nothing.
func (fl *fleet) gone(op *fsmpb.Gone) *fsmpb.Outcome {
	if n := len(op.GetSecretHash()); n != 32 {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "secret", "secret hash has %d bytes: 32 are wanted", n))
	}
	w := fl.workers.get(rota.WorkerID(op.GetWorker()))
	if w == nil {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "worker", "worker %q is not registered", op.GetWorker()))
	}
	if w.session != rota.Session(op.GetSession()) {
		return entry.Refused(rota.Refusef(rota.KindStale, "session", "session %d of worker %s is over", op.GetSession(), w.spec.ID))
	}
	if w.secretHash != [32]byte(op.GetSecretHash()) {
		return entry.Refused(rota.Refusef(rota.KindDenied, "secret", "the secret is not that of worker %s", w.spec.ID))
	}
	if w.status == rota.WorkerRetired {
		return &fsmpb.Outcome{}
	}
	w = fl.workers.edit(w.spec.ID)
	fl.change(w, rota.WorkerRetired)
	for _, id := range w.openLeases() {
		switch l := fl.m.leasing.leases.get(id); {
		case l.Session != w.session:
		case l.Revoked != rota.ReasonNone:
			fl.m.leasing.endLease(l, l.Revoked, "") // uncounted, as if its worker had confirmed
		default:
			fl.outcome(l, outcomeExpired)
			fl.m.leasing.endLease(l, rota.ReasonLeaseExpired, goneText)
		}
	}
	return &fsmpb.Outcome{}
}

// disconnect is the leader's word that a worker's stream has ended (SPEC §16.7). From
// here the grace of its leases counts, and it gets no more of them until it registers.
// Another connection than the newest tells nothing.
func (fl *fleet) disconnect(op *fsmpb.Disconnect) *fsmpb.Outcome {
	if o := fl.m.internal(); o != nil {
		return o
	}
	w := fl.workers.get(rota.WorkerID(op.GetWorker()))
	switch {
	case w == nil || w.session != rota.Session(op.GetSession()) || w.status == rota.WorkerRetired:
		return entry.Refused(rota.Refusef(rota.KindStale, "session", "worker %s has no such session", op.GetWorker()))
	case w.connection == 0 || w.connection != op.GetConnection():
		return entry.Refused(rota.Refusef(rota.KindStale, "connection", "worker %s has connection %d, not %d", w.spec.ID, w.connection,
			op.GetConnection()))
	case !w.disconnected.IsZero():
		return &fsmpb.Outcome{}
	}
	w = fl.workers.edit(w.spec.ID)
	w.disconnected = fl.m.head.now()
	fl.restand(w)
	fl.retimeLeases(w)
	fl.m.journal.emit(rota.Event{Kind: rota.EventWorkerDisconnected, Worker: w.spec.ID, Session: w.session, Status: w.status})
	return &fsmpb.Outcome{}
}

// connected takes note of a worker's newest connection; w is editable. What its leases'
// grace had run is forgotten.
func (fl *fleet) connected(w *workerRow, op *fsmpb.Register) {
	w.connection, w.grace, w.disconnected = op.GetConnection(), op.GetGrace() && op.GetConnection() != 0, rota.Moment{}
}

// outdated reports whether a registration is not of the worker's newest connection: it was
// long on its way, and a later one has been there.
func (r *workerRow) outdated(op *fsmpb.Register) bool {
	return op.GetConnection() != 0 && op.GetConnection() < r.connection
}
