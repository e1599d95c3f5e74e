package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/internal/unique"
)

// submit admits a job (SPEC §4). It is idempotent by id: a known job is answered before any admission check.
func (m *Machine) submit(op *fsmpb.Submit) *fsmpb.Outcome {
	if n := len(op.GetSpec().GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return entry.Refused(rota.Refusef(rota.KindInvalid, "labels", "too many labels: got %d, maximum %d", n,
			rota.MaxLabels))
	}
	spec := m.Specs.Read(op.GetSpec())
	if o := m.again(spec); o != nil {
		return o
	}
	q, kept := m.QueueTable.Get(spec.Queue), m.Specs.Keep(spec)
	if err := m.takes(spec, q); err != nil {
		return entry.Refused(err)
	}
	var key state.UniqueKey
	if spec.Unique != nil {
		var o *fsmpb.Outcome
		if key, o = m.uniques.Judge(spec); o != nil {
			return o
		}
	}
	content := rota.Digest{}
	if spec.Unique.Collects() {
		var err error
		content = m.Specs.Content(spec)
		if spec, err = unique.Collecting(spec, state.PayloadMax(q)); err != nil {
			return entry.Refused(err)
		}
		kept = m.Specs.Keep(spec)
	}
	if err := m.admit(spec, kept.Bytes(), q); err != nil {
		return entry.Refused(err)
	}
	j := m.insert(kept, q)
	if spec.Unique != nil || spec.Batch != "" {
		m.own(j)
		j.Past = &state.JobPast{Content: j.SpecHash, Unique: key, Batch: m.batches.Join(spec.Batch)}
		if spec.Unique.Collects() {
			j.Past.Content = content
		}
	}
	q = m.QueueTable.Get(spec.Queue)
	m.admission.chargeRate(spec, q)
	if spec.Unique != nil && m.uniques.Rows.Get(string(key[:])) != nil {
		m.uniques.Await(j)
	} else {
		m.start(j)
	}
	return m.Became(j.State, m.admission.slowDown(q, spec.Tenant))
}
