package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// sweepDue fires what is due, and only a sweep does (SPEC §3.6): by kind, then
// by due time, then by id; at most MaxFiringsPerSweep an entry.
func (m *Machine) sweepDue() *fsmpb.Outcome {
	if o := m.internal(); o != nil {
		return o
	}
	left := limits.MaxFiringsPerSweep - m.sweep.Fired
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
	fire(m.timers.lease, now, m.leasing.fireLease)
	fire(m.timers.expire, now+int64(planted.ttlOffset(m)), m.fireTTL)
	fire(m.timers.wake, now, func(id string) { m.wakeOrDate(m.jobs.edit(rota.JobID(id))) })
	fire(m.timers.dated, date, func(id string) { m.wakeOrDate(m.jobs.edit(rota.JobID(id))) })
	fire(m.timers.standing, now, m.fleet.fireStanding)
	fire(m.timers.attest, date, m.fleet.fireAttestation)
	fire(m.timers.mode, now, m.admission.fireMode)
	fire(m.timers.penalty, now, m.admission.firePenalty)
	fire(m.timers.meter, now, m.admission.fireMeter)
	fire(m.timers.domain, now, m.admission.fireDomain)
	fire(m.timers.promote, now, m.placement.firePromote)
	fire(m.timers.forget, now, m.fleet.fireForget)
	fire(m.timers.upload, now, m.flows.fireUpload)
	fire(m.timers.ended, date, m.flows.fireEnded)
	for fired < left {
		seq, t, ok := m.ended.tombs.order.earliest()
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

// fireTTL ends a job whose time to live has elapsed (SPEC §9.3).
func (m *Machine) fireTTL(id string) {
	j := m.jobs.edit(rota.JobID(id))
	why := rota.ReasonTTLAbsolute
	if j.expireAbs == 0 || j.expireRel != 0 && j.expireRel < j.expireAbs {
		why = rota.ReasonTTLRelative
	}
	m.expel(j, rota.JobExpired, why)
}

// AtRest reports whether no sweep is needed for the state's own sake: no lease is
// open, nothing waits for a moment on the clock (SPEC §3.6), and no workflow has
// work left for the next entry. Connected workers are the leader's to know.
func (vw *View) AtRest() bool {
	t := &vw.m.timers
	return vw.m.leasing.leases.len() == 0 && t.wake.Len() == 0 && vw.m.placement.registry.busy.Len() == 0 && t.standing.Len() == 0 &&
		t.mode.Len() == 0 && t.penalty.Len() == 0 && t.meter.Len() == 0 && t.domain.Len() == 0 && t.promote.Len() == 0 &&
		t.upload.Len() == 0 && !vw.m.flows.flowIndex.pending()
}

// NextDate is when something waits for a date; ok is false if nothing does.
func (vw *View) NextDate() (date rota.Date, ok bool) {
	job, jobs := vw.m.timers.dated.Min()
	worker, workers := vw.m.timers.attest.Min()
	if !jobs || workers && worker.due < job.due {
		job = worker
	}
	return rota.Date(job.due), jobs || workers
}
