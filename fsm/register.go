package fsm

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/tidwall/btree"
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
	hash := [32]byte(op.GetSecretHash())
	old := m.workers.get(spec.ID)
	switch {
	case old == nil:
		if m.workers.len() >= rota.MaxWorkers {
			return refused(exhausted("worker", "%d workers are registered: no more are taken", rota.MaxWorkers))
		}
		w := &workerRow{spec: spec, secretHash: hash, health: 1000, leases: &btree.Set[string]{}}
		m.workers.insert(spec.ID, w)
		m.newSession(w)
	case old.secretHash == hash && old.status != rota.WorkerRetired:
		m.resume(m.workers.edit(spec.ID), spec)
	case old.live() && !op.GetTakeover():
		return refused(rota.Refusef(rota.Conflict, "worker",
			"worker id %s is registered by another process (status %s, %d open leases): stop that one, choose another --id, "+
				"or take it over with --takeover", spec.ID, old.status, old.open))
	default:
		m.supersede(m.workers.edit(spec.ID))
		w := m.workers.edit(spec.ID)
		w.spec, w.secretHash = spec, hash
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
		since = min(since, w.silentSince)
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

func (m *Machine) newSession(w *workerRow) {
	m.head.sessions++
	w.session = rota.Session(m.head.sessions)
	m.enter(w, rota.WorkerActive)
	m.emit(rota.Event{Kind: rota.ProviderRegistered, Worker: w.spec.ID, Session: w.session, Status: w.status})
}

// resume continues a live session; the worker may have changed what it offers.
func (m *Machine) resume(w *workerRow, spec *rota.WorkerSpec) {
	if sameWorker(w.spec, spec) {
		spec = w.spec // the pointer too: nothing hangs on it anew
	}
	w.spec = spec
	if w.status == rota.WorkerUnreachable {
		m.heard(w)
	} else {
		m.supplyOf(w)
		m.reviewHold(w.spec.ID)
	}
	m.cutQuota(w, int64(spec.Slots)+int64(spec.Prefetch), "")
}

func sameWorker(a, b *rota.WorkerSpec) bool {
	return a.ID == b.ID && a.Slots == b.Slots && a.Prefetch == b.Prefetch && a.Region == b.Region && a.Zone == b.Zone &&
		a.CPUMilli == b.CPUMilli && a.MemoryBytes == b.MemoryBytes && a.Stake == b.Stake &&
		slices.Equal(a.Queues, b.Queues) && slices.Equal(a.Capabilities, b.Capabilities)
}

// enter changes a worker's status and all that hangs on it; w is editable.
func (m *Machine) enter(w *workerRow, status rota.WorkerStatus) {
	old := w.forgetAt()
	if w.status != status {
		w.status, w.since = status, m.head.clock
	}
	if status != rota.WorkerUnreachable {
		w.silentSince, w.before = 0, rota.WorkerNone
	}
	m.timeWorker(w, old)
	m.supplyOf(w)
	m.reviewHold(w.spec.ID)
	m.trimHolds()
}

// heard clears UNREACHABLE: the worker goes back to what it was, and the
// silence ends none of its leases any more.
func (m *Machine) heard(w *workerRow) {
	m.enter(w, w.before)
	m.retimeLeases(w)
	m.emit(rota.Event{Kind: rota.ProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: w.status})
}

func (m *Machine) retimeLeases(w *workerRow) {
	w.leases.Scan(func(id string) bool {
		m.timeLease(m.leases.edit(id))
		return true
	})
}

// reach is the leader's word on a worker's silence (SPEC §3.10).
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
	w.silentSince = min(max(rota.Clock(op.GetLastSignMs()), 0), m.head.clock)
	m.retimeLeases(w)
	m.emit(rota.Event{Kind: rota.ProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: w.status})
	return &fsmpb.Outcome{}
}

// setStatus is an operator's drain, or a worker's own drain or goodbye.
func (m *Machine) setStatus(op *fsmpb.SetStatus) *fsmpb.Outcome {
	status := rota.WorkerStatus(op.GetStatus())
	w := m.workers.get(rota.WorkerID(op.GetWorker()))
	if w == nil {
		return refused(rota.Refusef(rota.NotFound, "worker", "worker %q is not registered", op.GetWorker()))
	}
	if s := rota.Session(op.GetSession()); s != 0 && s != w.session {
		return refused(rota.Refusef(rota.Stale, "session", "session %d of worker %s is over", s, w.spec.ID))
	}
	if status != rota.WorkerDraining && status != rota.WorkerRetired {
		return refused(rota.Refusef(rota.Invalid, "status", "status %s cannot be set: DRAINING or RETIRED is wanted", status))
	}
	if w.status == status {
		return &fsmpb.Outcome{}
	}
	if w.status == rota.WorkerRetired {
		return refused(rota.Refusef(rota.Conflict, "worker", "worker %s is RETIRED", w.spec.ID))
	}
	w = m.workers.edit(w.spec.ID)
	if w.status == rota.WorkerUnreachable && status == rota.WorkerDraining {
		w.before = status
		return &fsmpb.Outcome{}
	}
	m.enter(w, status)
	m.emit(rota.Event{Kind: rota.ProviderStatusChanged, Worker: w.spec.ID, Session: w.session, Status: status})
	if status == rota.WorkerRetired {
		m.cancelLeases(w, rota.WorkerRetiredReason)
	}
	return &fsmpb.Outcome{}
}

// openLeases copies a worker's lease ids: what ends a lease changes the set.
func (r *workerRow) openLeases() []string { return r.leases.Keys() }

// revoke asks a worker to give up a lease (SPEC §8.5); l is editable.
func (m *Machine) revoke(l *leaseRow, why rota.Reason) {
	if l.Revoked != rota.ReasonNone {
		return
	}
	l.Revoked = why
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
		m.revoke(m.leases.edit(string(l.ID[:])), rota.QuotaCut)
	}
}

// cancelLeases ends every lease of a worker at once (SPEC §8.5).
func (m *Machine) cancelLeases(w *workerRow, why rota.Reason) {
	for _, id := range w.openLeases() {
		m.endLease(m.leases.get(id), why, "")
	}
}
