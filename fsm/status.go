package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// reach is the leader's word on a worker's silence (SPEC §3.10). It says nothing
// of one that is SUSPENDED, JAILED or RETIRED: that has no lease to lose.
func (fl *fleet) reach(op *fsmpb.Reach) *fsmpb.Outcome {
	if o := fl.s.internal(); o != nil {
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
	w.silentSince = fl.s.head.now().At(min(max(rota.Clock(op.GetLastSignMs()), 0), fl.s.head.clock))
	fl.retimeLeases(w)
	fl.s.journal.emit(rota.Event{Kind: rota.EventProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: w.status})
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
		if status == rota.WorkerRetired && !own && !w.dismissed {
			fl.workers.edit(w.spec.ID).dismissed = true
		}
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
		w.dismissed = !own
		fl.change(w, status)
		for _, id := range w.openLeases() {
			// A worker that says goodbye speaks for its own process alone: the one that it
			// took the id from may still be at work.
			if l := fl.leasing.leases.get(id); !own || l.Session == w.session {
				fl.leasing.endLease(l, rota.ReasonWorkerRetired, "")
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
			"worker %s is JAILED until %s, for %d ms more: it is %s again by itself then", w.spec.ID, fl.s.head.now().At(w.jailedUntil).Date,
			max(0, w.jailedUntil-fl.s.head.clock), w.before)
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
		switch l := fl.leasing.leases.get(id); {
		case l.Session != w.session:
		case l.Revoked != rota.ReasonNone:
			fl.leasing.endLease(l, l.Revoked, "") // uncounted, as if its worker had confirmed
		default:
			fl.leasing.lose(l, goneText)
		}
	}
	return &fsmpb.Outcome{}
}

// disconnect is the leader's word that a worker's stream has ended (SPEC §16.7). From
// here the grace of its leases counts, and it gets no more of them until it registers.
// Another connection than the newest tells nothing.
func (fl *fleet) disconnect(op *fsmpb.Disconnect) *fsmpb.Outcome {
	if o := fl.s.internal(); o != nil {
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
	w.disconnected = fl.s.head.now()
	fl.reviewWorker(w)
	fl.retimeLeases(w)
	fl.s.journal.emit(rota.Event{Kind: rota.EventWorkerDisconnected, Worker: w.spec.ID, Session: w.session, Status: w.status})
	return &fsmpb.Outcome{}
}

// connected takes note of a worker's newest connection; w is editable. What its leases'
// grace had run is forgotten.
func (fl *fleet) connected(w *workerRow, op *fsmpb.Register) {
	w.connection, w.grace, w.disconnected = op.GetConnection(), op.GetGrace() && op.GetConnection() != 0, rota.Moment{}
}

// register makes a worker known, or takes its live session up again (SPEC §6.4).
func (fl *fleet) register(op *fsmpb.Register) *fsmpb.Outcome {
	spec := entry.WorkerWords(op.GetSpec())
	if err := spec.CheckShape(); err != nil {
		return entry.Refused(err)
	}
	if len(op.GetSecretHash()) != 32 {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "secret", "secret hash has %d bytes: 32 are wanted", len(op.GetSecretHash())))
	}
	attested := attestation{rota.Date(op.GetAttestedUntilMs()), op.GetAttestedStake()}
	if err := attested.check(); err != nil {
		return entry.Refused(err)
	}
	hash := [32]byte(op.GetSecretHash())
	old := fl.workers.get(spec.ID)
	if old == nil || old.by != fl.s.journal.owner() {
		if err := fl.access.mayHold(fl.s.journal.owner(), access.OwnsWorker); err != nil {
			return entry.Refused(err)
		}
	}
	switch {
	case old == nil:
		if fl.workers.len() >= limits.MaxWorkers {
			return entry.Refused(exhausted("worker", "%d workers are registered: no more are taken", limits.MaxWorkers))
		}
		if err := fl.admission.admitBytes(nil, "", 1); err != nil {
			return entry.Refused(err)
		}
		w := &workerRow{spec: spec, secretHash: hash, health: healthFull, leases: make(map[string]struct{})}
		fl.workers.insert(spec.ID, w)
		fl.own(w, spec)
		fl.attest(w, attested)
		fl.connected(w, op)
		w.polls = op.GetPolls()
		fl.newSession(w)
	case old.secretHash == hash && old.status != rota.WorkerRetired:
		if old.outdated(op) {
			return entry.Refused(rota.Refusef(rota.KindStale, "connection", "connection %d of worker %s is over: it has opened %d since",
				op.GetConnection(), spec.ID, old.connection))
		}
		w := fl.workers.edit(spec.ID)
		fl.own(w, spec)
		fl.attest(w, attested)
		if w.connection == 0 || w.connection != op.GetConnection() { // else it is the same one, proposed twice
			fl.connected(w, op)
			fl.retimeLeases(w)
		}
		if w.polls != op.GetPolls() {
			fl.withdraw(w)
			w.polls, w.poll = op.GetPolls(), 0
		}
		fl.resume(w, spec)
		fl.revokeDenied(w)
	case old.secretHash == hash && old.dismissed:
		return entry.Refused(rota.Refusef(rota.KindStale, "session", "session %d of worker %s is over: an operator retired it at %s. Start another process, "+
			"which makes a secret of its own, or delete the worker first", old.session, spec.ID, old.since.Date))
	case old.live() && !op.GetTakeover():
		return entry.Refused(rota.Refusef(rota.KindConflict, "worker",
			"worker id %s is registered by another process (status %s, %d open leases): stop that one, choose another --id, "+
				"or take it over with --takeover", spec.ID, old.status, old.open))
	default:
		w := fl.workers.edit(spec.ID)
		fl.connected(w, op) // the old session's leases have no stream to break any more
		fl.supersede(w, rota.ReasonTakenOver)
		w = fl.workers.edit(spec.ID)
		w.spec, w.secretHash = spec, hash
		fl.withdraw(w)
		w.polls, w.poll = op.GetPolls(), 0
		fl.own(w, spec)
		fl.attest(w, attested)
		fl.newSession(w)
	}
	return &fsmpb.Outcome{Session: uint64(fl.workers.get(spec.ID).session)}
}

// newSession gives a worker its next session. What its id brought upon itself
// stays with the id: whoever is SUSPENDED or JAILED is so under any secret, and
// after retiring too.
func (fl *fleet) newSession(w *workerRow) {
	fl.s.head.sessions++
	w.session, w.dismissed = rota.Session(fl.s.head.sessions), false
	fl.enter(w, w.barredStatus(rota.WorkerActive))
	if w.status == rota.WorkerJailed {
		w.before = rota.WorkerActive // whoever drained was another process
	}
	fl.s.journal.emit(rota.Event{Kind: rota.EventProviderRegistered, Worker: w.spec.ID, Session: w.session, Status: w.status})
}

// resume continues a live session; the worker may have changed what it offers.
func (fl *fleet) resume(w *workerRow, spec *rota.WorkerSpec) {
	if sameWorker(w.spec, spec) {
		spec = w.spec // the pointer too: nothing hangs on it anew
	}
	old := w.spec
	w.spec = spec
	if w.status == rota.WorkerUnreachable {
		fl.heard(w)
	} else {
		fl.reviewWorker(w)
	}
	// Only what is less than before cuts: leases that one queue's cap would not allow
	// may be open in others, and to reconnect gives all of them back (SPEC §6.4).
	if most := int64(spec.Slots) + int64(spec.Prefetch); most < int64(old.Slots)+int64(old.Prefetch) {
		fl.cutQuota(w, most, "")
	}
	for _, name := range spec.Queues {
		if q := fl.s.queues.get(name); q != nil {
			rules := sched.RulesOf(&q.policy)
			if most := capOf(spec, &rules); most < capOf(old, &rules) {
				fl.cutQuota(w, most, name)
			}
		}
	}
}

// deleteWorker forgets a worker that is RETIRED, or UNREACHABLE, without a lease.
func (fl *fleet) deleteWorker(op *fsmpb.DeleteWorker) *fsmpb.Outcome {
	id := rota.WorkerID(op.GetId())
	if err := rota.CheckID("worker", id); err != nil {
		return entry.Refused(err)
	}
	w := fl.workers.get(id)
	switch {
	case w == nil:
		return &fsmpb.Outcome{Existed: true}
	case w.open > 0:
		return entry.Refused(rota.Refusef(rota.KindConflict, "worker", "worker %s has %d leases: suspend it, or wait for their end", id, w.open))
	case w.status != rota.WorkerRetired && w.status != rota.WorkerUnreachable:
		return entry.Refused(rota.Refusef(rota.KindConflict, "worker", "worker %s is %s: retire it first", id, w.status))
	}
	fl.fireForget(string(id))
	fl.placement.trimHolds()
	fl.s.journal.emit(rota.Event{Kind: rota.EventWorkerDeleted, Worker: id})
	return &fsmpb.Outcome{}
}
