package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// reach applies the leader's report on a worker's silence (SPEC §3.10). It does not concern a worker that is SUSPENDED,
// JAILED or RETIRED: that has no lease to lose.
func (fl *fleet) reach(op *fsmpb.Reach) *fsmpb.Outcome {
	if o := fl.s.Internal(); o != nil {
		return o
	}
	w := fl.workers.Get(rota.WorkerID(op.GetWorker()))
	if w == nil || w.Session != rota.Session(op.GetSession()) {
		return entry.Refused(rota.Refusef(rota.KindStale, "session", "worker %s has no such session", op.GetWorker()))
	}
	if op.GetReachable() {
		if w.Status == rota.WorkerUnreachable {
			fl.heard(fl.workers.Edit(w.Spec.ID))
		}
		return &fsmpb.Outcome{}
	}
	if w.Status != rota.WorkerActive && w.Status != rota.WorkerDraining {
		return &fsmpb.Outcome{}
	}
	w = fl.workers.Edit(w.Spec.ID)
	before := w.Status
	fl.enter(w, rota.WorkerUnreachable)
	w.Before = before
	w.SilentSince = fl.s.Header.Now().At(min(max(rota.Clock(op.GetLastSignMs()), 0), fl.s.Header.Clock))
	fl.retimeLeases(w)
	fl.s.Journal.Emit(rota.Event{Kind: rota.EventProviderStatusChanged, Worker: w.Spec.ID, Session: w.Session,
		Status: w.Status})
	return &fsmpb.Outcome{}
}

// setStatus applies an operator's change of a worker's status, or a worker's own drain or goodbye (SPEC §6.3).
func (fl *fleet) setStatus(op *fsmpb.SetStatus) *fsmpb.Outcome {
	status, own := rota.WorkerStatus(op.GetStatus()), op.GetSession() != 0
	w := fl.workers.Get(rota.WorkerID(op.GetWorker()))
	if w == nil {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "worker", "worker %q is not registered", op.GetWorker()))
	}
	if s := rota.Session(op.GetSession()); own && s != w.Session {
		return entry.Refused(rota.Refusef(rota.KindStale, "session", "session %d of worker %s is over", s, w.Spec.ID))
	}
	switch status {
	case rota.WorkerDraining, rota.WorkerRetired:
	case rota.WorkerActive, rota.WorkerSuspended:
		if own {
			return entry.Refused(rota.Refusef(rota.KindDenied, "status",
				"worker %s cannot set its own status to %s: use DRAINING or RETIRED", w.Spec.ID, status))
		}
	default:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "status",
			"status: got %s; use ACTIVE, DRAINING, SUSPENDED or RETIRED", status))
	}
	if w.Status == status {
		if status == rota.WorkerRetired && !own && !w.Dismissed {
			fl.workers.Edit(w.Spec.ID).Dismissed = true
		}
		return &fsmpb.Outcome{}
	}
	if err := fl.settable(w, status, own); err != nil {
		return entry.Refused(err)
	}
	w = fl.workers.Edit(w.Spec.ID)
	switch status {
	case rota.WorkerActive:
		fl.resumeWork(w)
	case rota.WorkerDraining:
		fl.drain(w)
	case rota.WorkerSuspended:
		fl.change(w, status)
		fl.cancelLeases(w, rota.ReasonWorkerSuspended, rota.LeaseID{})
	case rota.WorkerRetired:
		w.Dismissed = !own
		fl.change(w, status)
		for _, id := range w.OpenLeases() {
			// A worker's goodbye concerns only its own process: the one that it took the id from may still be running.
			if l := fl.leasing.leases.Get(id); !own || l.Session == w.Session {
				fl.leasing.endLease(l, rota.ReasonWorkerRetired, "")
			}
		}
	}
	return &fsmpb.Outcome{}
}

// settable refuses a change that a worker's present status does not allow.
func (fl *fleet) settable(w *state.WorkerRow, status rota.WorkerStatus, own bool) error {
	switch {
	case w.Status == rota.WorkerRetired:
		return rota.Refusef(rota.KindConflict, "worker", "worker %s is RETIRED: it must register again", w.Spec.ID)
	case w.Status == rota.WorkerJailed && status == rota.WorkerActive:
		return rota.Refusef(rota.KindConflict, "worker",
			"worker %s is JAILED until %s, for %d ms more: it is %s again by itself then", w.Spec.ID,
			fl.s.Header.Now().At(w.JailedUntil).Date, max(0, w.JailedUntil-fl.s.Header.Clock), w.Before)
	case w.Status == rota.WorkerSuspended && status == rota.WorkerDraining && !own:
		return rota.Refusef(rota.KindConflict, "worker",
			"worker %s is SUSPENDED and has no lease to finish: resume or retire it", w.Spec.ID)
	}
	return nil
}

// drain lets a worker finish its leases. An UNREACHABLE or JAILED worker drains once that is over. SUSPENDED, the
// stronger status, stays, so that no worker frees itself.
func (fl *fleet) drain(w *state.WorkerRow) {
	switch w.Status {
	case rota.WorkerUnreachable, rota.WorkerJailed:
		w.Before = rota.WorkerDraining
	case rota.WorkerActive:
		fl.change(w, rota.WorkerDraining)
	}
}

// resumeWork ends a drain or a suspension; a jail that is not over still applies.
func (fl *fleet) resumeWork(w *state.WorkerRow) {
	switch {
	case w.Status == rota.WorkerUnreachable:
		w.Before = rota.WorkerActive
	case w.JailedUntil != 0:
		fl.change(w, rota.WorkerJailed)
	default:
		fl.change(w, rota.WorkerActive)
	}
}

// goneText is the text of an attempt that its worker's guard ended.
const goneText = "its worker died: the guard has ended all that was left of it"

// gone applies a guard's report that a worker's process has died and that nothing of it runs any longer (SPEC §16.7).
// Its leases end at once, as they would have by silence; the worker is RETIRED. The report concerns only its own
// session: leases from before a takeover belong to another process. Repeating it changes nothing.
func (fl *fleet) gone(op *fsmpb.Gone) *fsmpb.Outcome {
	if n := len(op.GetSecretHash()); n != 32 {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "secret", "secret hash: got %d bytes, want 32", n))
	}
	w := fl.workers.Get(rota.WorkerID(op.GetWorker()))
	if w == nil {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "worker", "worker %q is not registered", op.GetWorker()))
	}
	if w.Session != rota.Session(op.GetSession()) {
		return entry.Refused(rota.Refusef(rota.KindStale, "session", "session %d of worker %s is over", op.GetSession(),
			w.Spec.ID))
	}
	if w.SecretHash != [32]byte(op.GetSecretHash()) {
		return entry.Refused(rota.Refusef(rota.KindDenied, "secret", "the secret is not that of worker %s", w.Spec.ID))
	}
	if w.Status == rota.WorkerRetired {
		return &fsmpb.Outcome{}
	}
	w = fl.workers.Edit(w.Spec.ID)
	fl.change(w, rota.WorkerRetired)
	for _, id := range w.OpenLeases() {
		switch l := fl.leasing.leases.Get(id); {
		case l.Session != w.Session:
		case l.Revoked != rota.ReasonNone:
			fl.leasing.endLease(l, l.Revoked, "") // uncounted, as if its worker had confirmed
		default:
			fl.leasing.lose(l, goneText)
		}
	}
	return &fsmpb.Outcome{}
}

// disconnect applies the leader's report that a worker's stream has ended (SPEC §16.7). From now on the grace of its
// leases counts, and it gets no new ones until it registers. A report on another connection than the newest is ignored.
func (fl *fleet) disconnect(op *fsmpb.Disconnect) *fsmpb.Outcome {
	if o := fl.s.Internal(); o != nil {
		return o
	}
	w := fl.workers.Get(rota.WorkerID(op.GetWorker()))
	switch {
	case w == nil || w.Session != rota.Session(op.GetSession()) || w.Status == rota.WorkerRetired:
		return entry.Refused(rota.Refusef(rota.KindStale, "session", "worker %s has no such session", op.GetWorker()))
	case w.Connection == 0 || w.Connection != op.GetConnection():
		return entry.Refused(rota.Refusef(rota.KindStale, "connection", "worker %s has connection %d, not %d",
			w.Spec.ID, w.Connection,
			op.GetConnection()))
	case !w.Disconnected.IsZero():
		return &fsmpb.Outcome{}
	}
	w = fl.workers.Edit(w.Spec.ID)
	w.Disconnected = fl.s.Header.Now()
	fl.reviewWorker(w)
	fl.retimeLeases(w)
	fl.s.Journal.Emit(rota.Event{Kind: rota.EventWorkerDisconnected, Worker: w.Spec.ID, Session: w.Session,
		Status: w.Status})
	return &fsmpb.Outcome{}
}

// connected records a worker's newest connection; w is editable. The elapsed grace of its leases is forgotten.
func (fl *fleet) connected(w *state.WorkerRow, op *fsmpb.Register) {
	w.Connection, w.Grace, w.Disconnected = op.GetConnection(), op.GetGrace() && op.GetConnection() != 0, rota.Moment{}
}

// register registers a worker, or resumes its live session (SPEC §6.4).
func (fl *fleet) register(op *fsmpb.Register) *fsmpb.Outcome {
	spec := entry.WorkerWords(op.GetSpec())
	if err := spec.CheckShape(); err != nil {
		return entry.Refused(err)
	}
	if len(op.GetSecretHash()) != 32 {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "secret", "secret hash: got %d bytes, want 32",
			len(op.GetSecretHash())))
	}
	attested := attestation{rota.Date(op.GetAttestedUntilMs()), op.GetAttestedStake()}
	if err := attested.check(); err != nil {
		return entry.Refused(err)
	}
	hash := [32]byte(op.GetSecretHash())
	old := fl.workers.Get(spec.ID)
	if old == nil || old.By != fl.s.Journal.Owner() {
		if err := fl.access.MayHold(fl.s.Journal.Owner(), access.OwnsWorker); err != nil {
			return entry.Refused(err)
		}
	}
	switch {
	case old == nil:
		if fl.workers.Len() >= limits.MaxWorkers {
			return entry.Refused(refuse.Exhausted("worker", "%d workers are registered: no more are taken",
				limits.MaxWorkers))
		}
		if err := fl.admission.admitBytes(nil, "", 1); err != nil {
			return entry.Refused(err)
		}
		w := &state.WorkerRow{Spec: spec, SecretHash: hash, Health: state.HealthFull, Leases: make(map[string]struct{})}
		fl.workers.Insert(spec.ID, w)
		fl.own(w, spec)
		fl.attest(w, attested)
		fl.connected(w, op)
		w.Polls = op.GetPolls()
		fl.newSession(w)
	case old.SecretHash == hash && old.Status != rota.WorkerRetired:
		if old.Outdated(op) {
			return entry.Refused(rota.Refusef(rota.KindStale, "connection",
				"connection %d of worker %s is over: it has opened %d since",
				op.GetConnection(), spec.ID, old.Connection))
		}
		w := fl.workers.Edit(spec.ID)
		fl.own(w, spec)
		fl.attest(w, attested)
		if w.Connection == 0 || w.Connection != op.GetConnection() { // otherwise it is the same one, proposed twice
			fl.connected(w, op)
			fl.retimeLeases(w)
		}
		if w.Polls != op.GetPolls() {
			fl.withdraw(w)
			w.Polls, w.Poll = op.GetPolls(), 0
		}
		fl.resume(w, spec)
		fl.revokeDenied(w)
	case old.SecretHash == hash && old.Dismissed:
		return entry.Refused(rota.Refusef(rota.KindStale, "session",
			"session %d of worker %s is over: an operator retired it at %s. Start another process, "+
				"which makes a secret of its own, or delete the worker first", old.Session, spec.ID, old.Since.Date))
	case old.Live() && !op.GetTakeover():
		return entry.Refused(rota.Refusef(rota.KindConflict, "worker",
			"worker id %s is registered by another process (status %s, %d open leases): stop that one, choose another --id, "+
				"or take it over with --takeover", spec.ID, old.Status, old.Open))
	default:
		w := fl.workers.Edit(spec.ID)
		fl.connected(w, op) // the old session's leases no longer have a stream that can break
		fl.supersede(w, rota.ReasonTakenOver)
		w = fl.workers.Edit(spec.ID)
		w.Spec, w.SecretHash = spec, hash
		fl.withdraw(w)
		w.Polls, w.Poll = op.GetPolls(), 0
		fl.own(w, spec)
		fl.attest(w, attested)
		fl.newSession(w)
	}
	return &fsmpb.Outcome{Session: uint64(fl.workers.Get(spec.ID).Session)}
}

// newSession gives a worker its next session. Penalties stay with the id: a SUSPENDED or JAILED worker remains so under
// any secret, and after retiring too.
func (fl *fleet) newSession(w *state.WorkerRow) {
	fl.s.Header.Sessions++
	w.Session, w.Dismissed = rota.Session(fl.s.Header.Sessions), false
	fl.enter(w, w.BarredStatus(rota.WorkerActive))
	if w.Status == rota.WorkerJailed {
		w.Before = rota.WorkerActive // another process was draining
	}
	fl.s.Journal.Emit(rota.Event{Kind: rota.EventProviderRegistered, Worker: w.Spec.ID, Session: w.Session,
		Status: w.Status})
}

// resume continues a live session; the worker may have changed what it offers.
func (fl *fleet) resume(w *state.WorkerRow, spec *rota.WorkerSpec) {
	if sameWorker(w.Spec, spec) {
		spec = w.Spec // the same pointer too: nothing that depends on it changes
	}
	old := w.Spec
	w.Spec = spec
	if w.Status == rota.WorkerUnreachable {
		fl.heard(w)
	} else {
		fl.reviewWorker(w)
	}
	// Only a decrease revokes leases: leases beyond one queue's cap may be open in others, and reconnecting returns all
	// of them (SPEC §6.4).
	if most := int64(spec.Slots) + int64(spec.Prefetch); most < int64(old.Slots)+int64(old.Prefetch) {
		fl.cutQuota(w, most, "")
	}
	for _, name := range spec.Queues {
		if q := fl.s.QueueTable.Get(name); q != nil {
			rules := sched.RulesOf(&q.Policy)
			if most := capOf(spec, &rules); most < capOf(old, &rules) {
				fl.cutQuota(w, most, name)
			}
		}
	}
}

// deleteWorker deletes a worker that has no leases and is RETIRED or UNREACHABLE.
func (fl *fleet) deleteWorker(op *fsmpb.DeleteWorker) *fsmpb.Outcome {
	id := rota.WorkerID(op.GetId())
	if err := rota.CheckID("worker", id); err != nil {
		return entry.Refused(err)
	}
	w := fl.workers.Get(id)
	switch {
	case w == nil:
		return &fsmpb.Outcome{Existed: true}
	case w.Open > 0:
		return entry.Refused(rota.Refusef(rota.KindConflict, "worker",
			"worker %s has %d leases: suspend it, or wait for their end", id, w.Open))
	case w.Status != rota.WorkerRetired && w.Status != rota.WorkerUnreachable:
		return entry.Refused(rota.Refusef(rota.KindConflict, "worker", "worker %s is %s: retire it first", id,
			w.Status))
	}
	fl.fireForget(string(id))
	fl.placement.trimHolds()
	fl.s.Journal.Emit(rota.Event{Kind: rota.EventWorkerDeleted, Worker: id})
	return &fsmpb.Outcome{}
}
