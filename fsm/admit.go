package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// insert makes the row of an admitted job; the caller starts it.
func (m *lifecycle) insert(spec *keptSpec, q *queueRow) *jobRow {
	m.s.head.jobSeq++
	j := m.s.newJob()
	j.spec, j.seq = spec, m.s.head.jobSeq
	j.specHash = m.s.specs.hash(&m.s.ledger.enc, j.spec)
	j.submitted, j.submittedDate = m.s.head.clock, m.s.head.date()
	ttl := spec.TTL.Milliseconds()
	if ttl == 0 {
		ttl = q.policy.TTLAbsMs
	}
	if ttl > 0 {
		j.expireAbs = m.s.head.clock + planted.ttlOffset(m.s) + rota.Clock(ttl)
	}
	m.s.timers.expire.set(string(spec.ID), 0, int64(j.expires()))
	m.s.jobs.insert(spec.ID, j)
	m.placement.classify(j)
	m.keyring.enter(j)
	q = m.s.queues.edit(spec.Queue)
	q.submitted++
	m.typeStats.declareType(j.spec, q)
	return j
}

// takes reports whether the job, whose spec was kept last, is one that there is a queue and a batch for: the checks of SPEC §4 before
// those that it may be merged into another one without.
func (m *Machine) takes(spec *rota.JobSpec, q *queueRow) error {
	if err := m.specs.check(spec, payloadMax(q)); err != nil {
		return err
	}
	if err := m.placed(spec, q); err != nil {
		return err
	}
	return m.batches.admit(spec)
}

// payloadMax is how large a payload may be in a queue, or in one that is not there.
func payloadMax(q *queueRow) int64 {
	if q == nil {
		return rota.MaxPayloadBytes
	}
	return q.policy.PayloadMaxBytes
}

// placed reports whether there is a queue for a job.
func (m *lifecycle) placed(spec *rota.JobSpec, q *queueRow) error {
	if m.s.head.cluster == "" {
		return rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: submit again")
	}
	if q == nil {
		return noQueue(spec.Queue)
	}
	if q.drainTo != "" {
		return leaving(q)
	}
	return nil
}

// admit holds the other checks of SPEC §4 in their order; the job's spec takes so many bytes.
func (m *lifecycle) admit(spec *rota.JobSpec, bytes int64, q *queueRow) error {
	if err := m.admitRoom(spec, bytes, q); err != nil {
		return err
	}
	if err := m.admission.admitRate(spec, q); err != nil {
		return err
	}
	return m.admitFit(spec, q)
}

// admitRun is takes and admit for a job that is nobody's submission now: rates do not bound it.
func (m *lifecycle) admitRun(spec *rota.JobSpec, q *queueRow) error {
	if err := spec.CheckTemplate(payloadMax(q)); err != nil { // its id was made here
		return err
	}
	if err := m.placed(spec, q); err != nil {
		return err
	}
	if err := m.admitRoom(spec, m.s.specs.size(spec), q); err != nil {
		return err
	}
	return m.admitFit(spec, q)
}

// admitRoom asks whether the mode takes the job, and the queue has room.
func (m *lifecycle) admitRoom(spec *rota.JobSpec, bytes int64, q *queueRow) error {
	if err := m.admission.admitMode(spec); err != nil {
		return err
	}
	if err := m.admission.admitCap(q); err != nil {
		return err
	}
	return m.admission.admitBytes(q, spec.Tenant, bytes)
}

// admitFit asks how full the queue and its workers are, and whether the job's class has room.
func (m *lifecycle) admitFit(spec *rota.JobSpec, q *queueRow) error {
	if err := m.admission.admitPressure(spec, q); err != nil {
		return err
	}
	if err := m.keyring.admit(spec); err != nil {
		return err
	}
	return m.admitClass(spec)
}

// leaving refuses what would bring jobs to a queue that is being drained.
func leaving(q *queueRow) *rota.Error {
	return rota.Refusef(rota.KindConflict, "queue", "queue %q is being deleted, its jobs move to %q: submit there, or keep it with `rota queue set %s`",
		q.name, q.drainTo, q.name)
}

func noQueue(name rota.QueueName) error {
	return rota.Refusef(rota.KindNotFound, "queue", "queue %q does not exist: create it with `rota queue set %s`", name, name)
}

// again answers a submission whose id is known: the same content is the same submission
// once more, another one is refused (SPEC §16.5); nil where the id is free.
func (m *Machine) again(spec *rota.JobSpec) *fsmpb.Outcome {
	var state rota.JobState
	var content rota.Digest
	if j := m.jobs.get(spec.ID); j != nil {
		state, content = j.state, j.firstContent()
	} else if t := m.ended.tombs.get(spec.ID); t != nil {
		state, content = t.state, t.content
	} else {
		return m.uniques.repeated(spec)
	}
	return againOutcome(spec.ID, state, m.specs.content(spec) == content)
}
