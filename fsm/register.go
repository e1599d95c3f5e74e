package fsm

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/sched"
)

// register makes a worker known, or takes its live session up again (SPEC §6.4).
func (m *Machine) register(op *fsmpb.Register) *fsmpb.Outcome {
	spec := workerWords(op.GetSpec())
	if err := spec.CheckShape(); err != nil {
		return refused(err)
	}
	if len(op.GetSecretHash()) != 32 {
		return refused(rota.Refusef(rota.Invalid, "secret", "secret hash has %d bytes: 32 are wanted", len(op.GetSecretHash())))
	}
	attested := attestation{rota.Date(op.GetAttestedUntilMs()), op.GetAttestedStake()}
	if err := attested.check(); err != nil {
		return refused(err)
	}
	hash := [32]byte(op.GetSecretHash())
	old := m.workers.get(spec.ID)
	switch {
	case old == nil:
		if m.workers.len() >= rota.MaxWorkers {
			return refused(exhausted("worker", "%d workers are registered: no more are taken", rota.MaxWorkers))
		}
		w := &workerRow{spec: spec, secretHash: hash, health: healthFull, leases: make(map[string]struct{})}
		m.workers.insert(spec.ID, w)
		m.attest(w, attested)
		m.connected(w, op)
		m.newSession(w)
	case old.secretHash == hash && old.status != rota.WorkerRetired:
		if old.outdated(op) {
			return refused(rota.Refusef(rota.Stale, "connection", "connection %d of worker %s is over: it has opened %d since",
				op.GetConnection(), spec.ID, old.connection))
		}
		w := m.workers.edit(spec.ID)
		m.attest(w, attested)
		if w.connection == 0 || w.connection != op.GetConnection() { // else it is the same one, proposed twice
			m.connected(w, op)
			m.retimeLeases(w)
		}
		m.resume(w, spec)
	case old.live() && !op.GetTakeover():
		return refused(rota.Refusef(rota.Conflict, "worker",
			"worker id %s is registered by another process (status %s, %d open leases): stop that one, choose another --id, "+
				"or take it over with --takeover", spec.ID, old.status, old.open))
	default:
		w := m.workers.edit(spec.ID)
		m.connected(w, op) // the old session's leases have no stream to break any more
		m.supersede(w)
		w = m.workers.edit(spec.ID)
		w.spec, w.secretHash = spec, hash
		m.attest(w, attested)
		m.newSession(w)
	}
	return &fsmpb.Outcome{Session: uint64(m.workers.get(spec.ID).session)}
}

// supersede revokes the leases of a session that another one takes the place of
// (SPEC §6.4). No beat of the old session is answered from now on, so its
// silence counts from here, or from where it counts already.
func (m *Machine) supersede(w *workerRow) {
	since := m.head.clock
	if w.status == rota.WorkerUnreachable {
		since = min(since, w.silentSince.Clock)
	}
	for _, id := range w.openLeases() {
		l := m.leases.edit(id)
		m.revoke(l, rota.TakenOver)
		if l.silentSince == 0 {
			l.silentSince = max(since, 1)
		}
		m.timeLease(l)
	}
}

// live says that the id is somebody's: only RETIRED workers, and UNREACHABLE
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
func (m *Machine) newSession(w *workerRow) {
	m.head.sessions++
	w.session = rota.Session(m.head.sessions)
	m.enter(w, w.barredStatus(rota.WorkerActive))
	if w.status == rota.WorkerJailed {
		w.before = rota.WorkerActive // whoever drained was another process
	}
	m.emit(rota.Event{Kind: rota.ProviderRegistered, Worker: w.spec.ID, Session: w.session, Status: w.status})
}

// resume continues a live session; the worker may have changed what it offers.
func (m *Machine) resume(w *workerRow, spec *rota.WorkerSpec) {
	if sameWorker(w.spec, spec) {
		spec = w.spec // the pointer too: nothing hangs on it anew
	}
	old := w.spec
	w.spec = spec
	if w.status == rota.WorkerUnreachable {
		m.heard(w)
	} else {
		m.restand(w)
	}
	// Only what is less than before cuts: leases that one queue's cap would not allow
	// may be open in others, and to reconnect gives all of them back (SPEC §6.4).
	if most := int64(spec.Slots) + int64(spec.Prefetch); most < int64(old.Slots)+int64(old.Prefetch) {
		m.cutQuota(w, most, "")
	}
	for _, name := range spec.Queues {
		if q := m.queues.get(name); q != nil {
			rules := sched.RulesOf(&q.policy)
			if most := capOf(spec, &rules); most < capOf(old, &rules) {
				m.cutQuota(w, most, name)
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

// openLeases lists a worker's lease ids in their order; what ends a lease changes the set.
func (r *workerRow) openLeases() []string { return slices.Sorted(maps.Keys(r.leases)) }

// revoke asks a worker to give up a lease (SPEC §8.5); l is editable.
func (m *Machine) revoke(l *leaseRow, why rota.Reason) {
	if l.Revoked != rota.ReasonNone {
		return
	}
	l.Revoked = why
	m.noteGoing(l)
	m.emit(rota.Event{Kind: rota.LeaseRevoked, Job: l.Job, Queue: l.queue, Worker: l.Worker, Session: l.Session,
		Lease: l.ID, Attempt: l.Attempt, Reason: why, Deadline: l.Deadline})
}

// cutQuota revokes the newest leases beyond what a worker may now hold, of one
// queue or of all; those that were revoked before count as going already.
func (m *Machine) cutQuota(w *workerRow, most int64, queue rota.QueueName) {
	over := int64(w.open) - most
	if over <= 0 {
		return
	}
	var newest []*leaseRow
	for _, id := range w.openLeases() {
		l := m.leases.get(id)
		switch {
		case l.Revoked != rota.ReasonNone:
			over--
		case queue == "" || l.queue == queue:
			newest = append(newest, l)
		}
	}
	slices.SortFunc(newest, func(a, b *leaseRow) int {
		return cmp.Compare(b.Token.Counter, a.Token.Counter)
	})
	for _, l := range newest[:max(0, min(over, int64(len(newest))))] {
		m.revoke(m.leases.edit(l.key), rota.QuotaCut)
	}
}
