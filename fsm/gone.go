package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

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
