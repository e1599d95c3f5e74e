package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// submit admits a job (SPEC §4), idempotent by its id: a known one is answered
// before any admission check.
func (m *Machine) submit(op *fsmpb.Submit) *fsmpb.Outcome {
	if n := len(op.GetSpec().GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return entry.Refused(rota.Refusef(rota.KindInvalid, "labels", "labels are %d: at most %d are taken", n, rota.MaxLabels))
	}
	spec := m.specs.read(op.GetSpec())
	if o := m.again(spec); o != nil {
		return o
	}
	q, kept := m.queues.get(spec.Queue), m.specs.keep(spec)
	if err := m.takes(spec, q); err != nil {
		return entry.Refused(err)
	}
	var key uniqueKey
	if spec.Unique != nil {
		var o *fsmpb.Outcome
		if key, o = m.uniques.judge(spec); o != nil {
			return o
		}
	}
	content := rota.Digest{}
	if spec.Unique.Collects() {
		var err error
		content = m.specs.content(spec)
		if spec, err = collecting(spec, payloadMax(q)); err != nil {
			return entry.Refused(err)
		}
		kept = m.specs.keep(spec)
	}
	if err := m.admit(spec, kept.bytes(), q); err != nil {
		return entry.Refused(err)
	}
	j := m.insert(kept, q)
	if spec.Unique != nil || spec.Batch != "" {
		m.own(j)
		j.past = &jobPast{content: j.specHash, unique: key, batch: m.batches.join(spec.Batch)}
		if spec.Unique.Collects() {
			j.past.content = content
		}
	}
	q = m.queues.get(spec.Queue)
	m.admission.chargeRate(spec, q)
	if spec.Unique != nil && m.uniques.rows.get(string(key[:])) != nil {
		m.uniques.await(j)
	} else {
		m.start(j)
	}
	return m.became(j.state, m.admission.slowDown(q, spec.Tenant))
}
