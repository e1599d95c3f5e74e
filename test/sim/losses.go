package sim

import "github.com/rotasched/rota"

// runsAlone checks that a job that runs alone shares its worker with no other lease, until its own has ended (SPEC §9.7).
func (j *auditJob) runsAlone(a *auditor, e *rota.Event) {
	switch e.Kind {
	case rota.EventJobIsolated:
		j.alone = true
	case rota.EventJobCleared, rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired, rota.EventJobCancelled:
		j.alone = false
	case rota.EventJobAssigned:
		for id, l := range a.leases {
			if l.worker.id == e.Worker && (j.alone || isAlone(a, l)) {
				a.failf("job %s was leased to worker %s next to lease %s of job %s, one of which runs alone", e.Job,
					e.Worker, id, l.job)
			}
		}
	}
}

// isAlone reports whether a lease's job runs alone, or did when it ended without its lease.
func isAlone(a *auditor, l *auditLease) bool {
	return l.alone || !l.outlives && a.jobs[l.job] != nil && a.jobs[l.job].alone
}
