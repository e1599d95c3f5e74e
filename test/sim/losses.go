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
			other := a.jobs[l.job]
			if l.worker.id == e.Worker && (j.alone || l.alone || !l.outlives && other != nil && other.alone) {
				a.failf("job %s was leased to worker %s beside lease %s of job %s, one of which runs alone", e.Job, e.Worker, id, l.job)
			}
		}
	}
}
