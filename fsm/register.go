package fsm

import (
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

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
	switch {
	case old == nil:
		if fl.workers.len() >= limits.MaxWorkers {
			return entry.Refused(exhausted("worker", "%d workers are registered: no more are taken", limits.MaxWorkers))
		}
		w := &workerRow{spec: spec, secretHash: hash, health: healthFull, leases: make(map[string]struct{})}
		fl.workers.insert(spec.ID, w)
		fl.attest(w, attested)
		fl.connected(w, op)
		fl.newSession(w)
	case old.secretHash == hash && old.status != rota.WorkerRetired:
		if old.outdated(op) {
			return entry.Refused(rota.Refusef(rota.KindStale, "connection", "connection %d of worker %s is over: it has opened %d since",
				op.GetConnection(), spec.ID, old.connection))
		}
		w := fl.workers.edit(spec.ID)
		fl.attest(w, attested)
		if w.connection == 0 || w.connection != op.GetConnection() { // else it is the same one, proposed twice
			fl.connected(w, op)
			fl.retimeLeases(w)
		}
		fl.resume(w, spec)
	case old.live() && !op.GetTakeover():
		return entry.Refused(rota.Refusef(rota.KindConflict, "worker",
			"worker id %s is registered by another process (status %s, %d open leases): stop that one, choose another --id, "+
				"or take it over with --takeover", spec.ID, old.status, old.open))
	default:
		w := fl.workers.edit(spec.ID)
		fl.connected(w, op) // the old session's leases have no stream to break any more
		fl.supersede(w)
		w = fl.workers.edit(spec.ID)
		w.spec, w.secretHash = spec, hash
		fl.attest(w, attested)
		fl.newSession(w)
	}
	return &fsmpb.Outcome{Session: uint64(fl.workers.get(spec.ID).session)}
}

// supersede revokes the leases of a session that another one takes the place of
// (SPEC §6.4). No beat of the old session is answered from now on, so its
// silence counts from here, or from where it counts already.
func (fl *fleet) supersede(w *workerRow) {
	since := fl.m.head.clock
	if w.status == rota.WorkerUnreachable {
		since = min(since, w.silentSince.Clock)
	}
	for _, id := range w.openLeases() {
		l := fl.m.leasing.leases.edit(id)
		fl.revoke(l, rota.ReasonTakenOver)
		if l.silentSince == 0 {
			l.silentSince = max(since, 1)
		}
		fl.m.leasing.timeLease(l)
	}
}

// live reports whether the id is somebody's: only RETIRED workers, and UNREACHABLE
// ones without a lease, give it up to another secret.
func (r *workerRow) live() bool {
	switch r.status {
	case rota.WorkerRetired:
		return false
	case rota.WorkerUnreachable:
		return r.open > 0
	default:
		return true
	}
}

// newSession gives a worker its next session. What its id brought upon itself
// stays with the id: whoever is SUSPENDED or JAILED is so under any secret, and
// after retiring too.
func (fl *fleet) newSession(w *workerRow) {
	fl.m.head.sessions++
	w.session = rota.Session(fl.m.head.sessions)
	fl.enter(w, w.barredStatus(rota.WorkerActive))
	if w.status == rota.WorkerJailed {
		w.before = rota.WorkerActive // whoever drained was another process
	}
	fl.m.journal.emit(rota.Event{Kind: rota.EventProviderRegistered, Worker: w.spec.ID, Session: w.session, Status: w.status})
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
		fl.restand(w)
	}
	// Only what is less than before cuts: leases that one queue's cap would not allow
	// may be open in others, and to reconnect gives all of them back (SPEC §6.4).
	if most := int64(spec.Slots) + int64(spec.Prefetch); most < int64(old.Slots)+int64(old.Prefetch) {
		fl.cutQuota(w, most, "")
	}
	for _, name := range spec.Queues {
		if q := fl.m.queues.get(name); q != nil {
			rules := sched.RulesOf(&q.policy)
			if most := capOf(spec, &rules); most < capOf(old, &rules) {
				fl.cutQuota(w, most, name)
			}
		}
	}
}

func sameWorker(a, b *rota.WorkerSpec) bool {
	return a.ID == b.ID && a.Slots == b.Slots && a.Prefetch == b.Prefetch && a.Region == b.Region && a.Zone == b.Zone &&
		a.CPUMilli == b.CPUMilli && a.MemoryBytes == b.MemoryBytes && a.IOBytesPerS == b.IOBytesPerS && a.Stake == b.Stake &&
		slices.Equal(a.Queues, b.Queues) && slices.Equal(a.Capabilities, b.Capabilities) && maps.Equal(a.Limits, b.Limits) &&
		slices.Equal(a.Types, b.Types)
}
