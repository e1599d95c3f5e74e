package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// sweepDue fires what is due, and only a sweep does (SPEC §3.6): by kind, then
// by due time, then by id; at most MaxFiringsPerSweep an entry.
func (m *Machine) sweepDue() *fsmpb.Outcome {
	if o := m.internal(); o != nil {
		return o
	}
	left := rota.MaxFiringsPerSweep - m.sweep.Fired
	now, date := int64(m.head.clock), int64(m.head.date())
	fired := 0
	fire := func(s timerSet, moment int64, f func(id string)) {
		for fired < left {
			t, due := s.first(moment)
			if !due {
				return
			}
			f(t.id)
			fired++
		}
	}
	fire(m.timers.lease, now, m.fireLease)
	fire(m.timers.expire, now+int64(planted.ttlOffset(m)), m.fireTTL)
	fire(m.timers.wake, now, func(id string) { m.wakeOrDate(m.jobs.edit(rota.JobID(id))) })
	fire(m.timers.dated, date, func(id string) { m.wakeOrDate(m.jobs.edit(rota.JobID(id))) })
	fire(m.timers.standing, now, m.fireStanding)
	fire(m.timers.attest, date, m.fireAttestation)
	fire(m.timers.mode, now, m.fireMode)
	fire(m.timers.penalty, now, m.firePenalty)
	fire(m.timers.meter, now, m.fireMeter)
	fire(m.timers.domain, now, m.fireDomain)
	fire(m.timers.promote, now, m.firePromote)
	fire(m.timers.forget, now, m.fireForget)
	fire(m.timers.upload, now, m.fireUpload)
	fire(m.timers.ended, date, m.fireEnded)
	for fired < left {
		seq, t, ok := m.tombs.order.earliest()
		if !ok || int64(t.due) > date {
			break
		}
		m.dropTomb(t.id, seq)
		m.head.droppedTombs++
		fired++
	}
	m.sweep.Fired += fired
	m.sweep.More = fired == left
	return &fsmpb.Outcome{}
}

// fireLease ends a lease whose time is up.
func (m *Machine) fireLease(key string) {
	l := m.leases.get(key)
	if l.Revoked != rota.ReasonNone {
		m.endLease(l, l.Revoked, "") // uncounted, as if its worker had confirmed
		return
	}
	// What came first ended it, however late the sweep is.
	switch {
	case l.Acked.IsZero() && l.due == l.AckBy.Clock:
		m.outcome(l, outcomeAckTimeout)
		m.endLease(l, rota.AckTimeout, "")
	case l.due == l.endsBy:
		m.timeOut(l, "", "")
	default:
		m.outcome(l, outcomeExpired)
		m.endLease(l, rota.LeaseExpiredReason, "")
	}
}

// fireTTL ends a job whose time to live has elapsed (SPEC §9.3).
func (m *Machine) fireTTL(id string) {
	j := m.jobs.edit(rota.JobID(id))
	why := rota.TTLAbsolute
	if j.expireAbs == 0 || j.expireRel != 0 && j.expireRel < j.expireAbs {
		why = rota.TTLRelative
	}
	m.expel(j, rota.Expired, why)
}

// fireForget takes a worker that is long gone out of the state.
func (m *Machine) fireForget(id string) {
	w := m.workers.get(rota.WorkerID(id))
	m.timers.forget.set(id, w.forgetDue, 0)
	m.timers.standing.set(id, int64(w.standingDue), 0)
	m.timers.attest.set(id, int64(w.attestDue), 0)
	m.registry.supply.Remove(w.spec.ID)
	m.workers.drop(w.spec.ID)
}

// AtRest says that no sweep is needed for the state's own sake: no lease is
// open, nothing waits for a moment on the clock (SPEC §3.6), and no workflow has
// work left for the next entry. Connected workers are the leader's to know.
func (m *Machine) AtRest() bool {
	t := &m.timers
	return m.leases.len() == 0 && t.wake.Len() == 0 && m.registry.busy.Len() == 0 && t.standing.Len() == 0 &&
		t.mode.Len() == 0 && t.penalty.Len() == 0 && t.meter.Len() == 0 && t.domain.Len() == 0 && t.promote.Len() == 0 &&
		t.upload.Len() == 0 && !m.flows.pending()
}

// NextDate is when something waits for a date; ok is false if nothing does.
func (m *Machine) NextDate() (date rota.Date, ok bool) {
	job, jobs := m.timers.dated.Min()
	worker, workers := m.timers.attest.Min()
	if !jobs || workers && worker.due < job.due {
		job = worker
	}
	return rota.Date(job.due), jobs || workers
}
