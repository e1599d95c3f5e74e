package fsm

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// The naive model of lost workers (SPEC §9.7).

// dueOrder returns the open leases in the order in which a sweep ends them.
func (m *model) dueOrder() []rota.LeaseID {
	return slices.SortedFunc(maps.Keys(m.leases), func(a, b rota.LeaseID) int {
		return cmp.Or(cmp.Compare(m.dueNow(m.leases[a]), m.dueNow(m.leases[b])), bytes.Compare(a[:], b[:]))
	})
}

// isLost reports whether a lease that ends by timer ends with its worker.
func (m *model) isLost(l *modelLease) bool {
	w := m.workers[l.worker]
	return m.policy.WorkerLossesMax > 0 && (l.lostSince != 0 || l.session == w.session &&
		(w.status() == rota.WorkerUnreachable || w.broken != 0))
}

// alone reports whether a worker runs a job that runs alone.
func (m *model) alone(id rota.WorkerID) bool {
	for _, l := range m.leases {
		if l.worker == id && (l.alone || !l.over && len(m.jobs[l.job].losses) >= 2) {
			return true
		}
	}
	return false
}

// expireLost applies the effects of a lost worker on it and its job.
func (m *model) expireLost(l *modelLease) {
	if m.policy.WorkerLossesMax == 0 {
		m.expireLease(l)
		return
	}
	m.change(&m.workers[l.worker].modelReputation, -150)
	if m.policy.DenyMs > 0 {
		m.workers[l.worker].denied[m.jobs[l.job].typ] = m.now + rota.Clock(m.policy.DenyMs)
	}
	m.lose(l)
}

// lose ends a lease uncounted, and counts its worker against the job.
func (m *model) lose(l *modelLease) {
	j := m.jobs[l.job]
	m.drop(j)
	j.losses = append(j.losses, l.session)
	if int64(len(j.losses)) < m.policy.WorkerLossesMax {
		j.state, j.due = rota.JobDelayed, m.now+rota.Clock(sched.BackoffMs(l.job, int32(len(j.losses)-1),
			j.retry.Over(&m.policy)))
		return
	}
	if len(j.losses) > 2 {
		for _, other := range m.jobs {
			if other != j {
				other.losses = slices.DeleteFunc(slices.Clone(other.losses),
					func(s rota.Session) bool { return slices.Contains(j.losses, s) })
			}
		}
	}
	j.losses = nil
	m.end(j, rota.JobDead)
}
