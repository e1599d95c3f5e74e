package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
)

// insert creates the row of an admitted job; the caller starts it.
func (m *lifecycle) insert(spec *state.KeptSpec, q *state.QueueRow) *state.JobRow {
	m.s.Header.JobSeq++
	j := m.s.NewJob()
	j.Spec, j.Seq = spec, m.s.Header.JobSeq
	j.SpecHash = m.s.Specs.Hash(&m.s.Ledger.Enc, j.Spec)
	j.Submitted, j.SubmittedDate = m.s.Header.Clock, m.s.Header.Date()
	ttl := spec.TTL.Milliseconds()
	if ttl == 0 {
		ttl = q.Policy.TTLAbsMs
	}
	if ttl > 0 {
		j.ExpireAbs = m.s.Header.Clock + planted.ttlOffset(m.s) + rota.Clock(ttl)
	}
	m.s.Timers.Expire.Refile(string(spec.ID), 0, int64(j.Expires()))
	m.s.JobTable.Insert(spec.ID, j)
	m.placement.classify(j)
	m.keyring.Enter(j)
	q = m.s.QueueTable.Edit(spec.Queue)
	q.Submitted++
	m.typeStats.DeclareType(j.Spec, q)
	return j
}

// takes checks that a queue and a batch exist for the job whose spec was kept last. These are the checks of SPEC §4
// that also apply to a job that may be merged into another.
func (m *parts) takes(spec *rota.JobSpec, q *state.QueueRow) error {
	if err := m.Specs.Check(spec, state.PayloadMax(q)); err != nil {
		return err
	}
	if err := m.placed(spec, q); err != nil {
		return err
	}
	return m.batches.Admit(spec)
}

// placed checks that a queue exists for a job.
func (m *lifecycle) placed(spec *rota.JobSpec, q *state.QueueRow) error {
	if m.s.Header.Cluster == "" {
		return rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: submit again")
	}
	if q == nil {
		return refuse.NoQueue(spec.Queue)
	}
	if q.DrainTo != "" {
		return refuse.Leaving(q)
	}
	return nil
}

// admit makes the other checks of SPEC §4 in their order; bytes is the size of the job's spec.
func (m *lifecycle) admit(spec *rota.JobSpec, bytes int64, q *state.QueueRow) error {
	if err := m.admitRoom(spec, bytes, q); err != nil {
		return err
	}
	if err := m.admission.admitRate(spec, q); err != nil {
		return err
	}
	return m.admitFit(spec, q)
}

// admitRun is takes and admit for a job that is not a new submission: rates do not bound it.
func (m *lifecycle) admitRun(spec *rota.JobSpec, q *state.QueueRow) error {
	if err := spec.CheckTemplate(state.PayloadMax(q)); err != nil { // its id was created here
		return err
	}
	if err := m.placed(spec, q); err != nil {
		return err
	}
	if err := m.admitRoom(spec, m.s.Specs.Size(spec), q); err != nil {
		return err
	}
	return m.admitFit(spec, q)
}

// admitRoom checks that the mode accepts the job, and that the queue has room.
func (m *lifecycle) admitRoom(spec *rota.JobSpec, bytes int64, q *state.QueueRow) error {
	if err := m.admission.admitMode(spec); err != nil {
		return err
	}
	if err := m.admission.admitCap(q); err != nil {
		return err
	}
	return m.admission.admitBytes(q, spec.Tenant, bytes)
}

// admitFit checks how full the queue and its workers are, and whether the job's class has room.
func (m *lifecycle) admitFit(spec *rota.JobSpec, q *state.QueueRow) error {
	if err := m.admission.admitPressure(spec, q); err != nil {
		return err
	}
	if err := m.keyring.RefuseFull(spec); err != nil {
		return err
	}
	if err := m.budgets.Refuse(spec.ID, spec); err != nil {
		return err
	}
	if err := m.keyring.Admit(spec); err != nil {
		return err
	}
	return m.admitClass(spec)
}

// again answers a submission whose id is known: equal content is a repetition, different content is refused (SPEC
// §16.5); nil if the id is free.
func (m *parts) again(spec *rota.JobSpec) *fsmpb.Outcome {
	var state rota.JobState
	var content rota.Digest
	if j := m.JobTable.Get(spec.ID); j != nil {
		state, content = j.State, j.FirstContent()
	} else if t := m.ended.tombs.Get(spec.ID); t != nil {
		state, content = t.State, t.Content
	} else {
		return m.uniques.Repeated(spec)
	}
	return againOutcome(spec.ID, state, m.Specs.Content(spec) == content)
}

// eachHeld calls yield for each row that counts for its principal.
func (m *lifecycle) eachHeld(yield func(by rota.Principal, what access.Owned)) {
	m.s.QueueTable.Scan(func(_ rota.QueueName, r *state.QueueRow) bool { yield(r.By, access.OwnsQueue); return true })
	m.admission.tenants.Scan(func(_ rota.TenantID, r *state.TenantRow) bool {
		yield(r.By, access.OwnsTenant)
		return true
	})
	m.fleet.workers.Scan(func(_ rota.WorkerID, r *state.WorkerRow) bool { yield(r.By, access.OwnsWorker); return true })
	m.access.Tokens.Scan(func(_ state.TokenID, r *state.TokenRow) bool {
		if r.Parent == "" {
			yield(r.By, access.OwnsToken)
		}
		return true
	})
	m.schedules.Rows.Scan(func(_ rota.ScheduleName, r *state.ScheduleRow) bool {
		yield(r.By, access.OwnsSchedule)
		return true
	})
	m.hooks.Rows.Scan(func(_ rota.WebhookName, r *state.HookRow) bool { yield(r.By, access.OwnsWebhook); return true })
	m.batches.Rows.Scan(func(_ rota.BatchID, r *state.BatchRow) bool {
		if r.Callback != nil {
			yield(r.By, access.OwnsBatch)
		}
		return true
	})
	m.flows.workflows.Scan(func(_ rota.WorkflowID, r *state.WorkflowRow) bool {
		if r.Lives() {
			yield(r.By, access.OwnsWorkflow)
		}
		return true
	})
}
