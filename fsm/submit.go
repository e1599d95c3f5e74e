package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// submit admits a job (SPEC §4), idempotent by its id: a known one is answered
// before any admission check.
func (m *Machine) submit(op *fsmpb.Submit) *fsmpb.Outcome {
	id := rota.JobID(op.GetSpec().GetId())
	if n := len(op.GetSpec().GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return entry.Refused(rota.Refusef(rota.KindInvalid, "labels", "labels are %d: at most %d are taken", n, rota.MaxLabels))
	}
	spec := m.specs.read(op.GetSpec())
	if o := m.again(spec); o != nil {
		return o
	}
	q := m.queues.get(spec.Queue)
	if err := m.admit(spec, q); err != nil {
		return entry.Refused(err)
	}
	m.head.jobSeq++
	j := m.newJob()
	j.spec, j.seq = m.specs.keep(spec), m.head.jobSeq
	j.specHash = hashSpec(&m.ledger.enc, j.spec)
	j.submitted, j.submittedDate = m.head.clock, m.head.date()
	ttl := spec.TTL.Milliseconds()
	if ttl == 0 {
		ttl = q.policy.TTLAbsMs
	}
	if ttl > 0 {
		j.expireAbs = m.head.clock + planted.ttlOffset(m) + rota.Clock(ttl)
		m.timers.expire.set(string(id), 0, int64(j.expireAbs))
	}
	m.jobs.insert(id, j)
	m.placement.classify(j)
	q = m.queues.edit(spec.Queue)
	q.submitted++
	m.admission.chargeRate(spec, q)
	m.typeStats.declareType(j.spec, q)
	m.start(j)
	return m.became(j.state, m.admission.slowDown(q, spec.Tenant))
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
		return nil
	}
	return againOutcome(spec.ID, state, m.specs.content(spec) == content)
}

// became answers that a job is in a state now. Outcomes never change once given, so all
// that say the same are one.
func (m *Machine) became(state rota.JobState, throttle bool) *fsmpb.Outcome {
	at := 0
	if throttle {
		at = 1
	}
	o := &m.answers[at][state]
	if *o == nil {
		*o = &fsmpb.Outcome{JobState: uint32(state), Throttle: throttle}
	}
	return *o
}

// admit holds the checks of SPEC §4 in their order.
func (m *Machine) admit(spec *rota.JobSpec, q *queueRow) error {
	payloadMax := int64(rota.MaxPayloadBytes)
	if q != nil {
		payloadMax = q.policy.PayloadMaxBytes
	}
	if err := spec.CheckShape(payloadMax); err != nil {
		return err
	}
	if m.head.cluster == "" {
		return rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: submit again")
	}
	if q == nil {
		return rota.Refusef(rota.KindNotFound, "queue", "queue %q does not exist: create it with `rota queue set %s`",
			spec.Queue, spec.Queue)
	}
	if q.drainTo != "" {
		return leaving(q)
	}
	if err := m.admission.admitMode(spec); err != nil {
		return err
	}
	if err := m.admission.admitCap(q); err != nil {
		return err
	}
	if err := m.admission.admitBytes(q, spec.Tenant, m.specs.size(spec)); err != nil {
		return err
	}
	if err := m.admission.admitRate(spec, q); err != nil {
		return err
	}
	if err := m.admission.admitPressure(spec, q); err != nil {
		return err
	}
	return m.admitClass(spec)
}
