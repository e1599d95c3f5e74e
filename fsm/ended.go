package fsm

import "github.com/rotasched/rota"

// ended holds the jobs that have ended: a tombstone of each that is remembered, and in
// full those that the archive does not have yet.
type ended struct {
	m     *Machine
	tombs tombs
	// staged are terminal jobs in full, no part of the digest.
	staged staging
	// deleted are ranges of numbers of ended jobs that no archive shows any more.
	deleted table[string, deletedRow, *deletedRow]
}

// Mark is what a history tells of a terminal job without reading its record.
type Mark struct {
	ID     rota.JobID
	Seq    uint64
	Queue  rota.QueueName
	Tenant rota.TenantID
	Type   rota.JobType
	State  rota.JobState
}

func deadJob(t *tombRow, r *record) rota.Job {
	job := rota.Job{State: t.state, Attempt: t.attempt, Submitted: t.submitted, Finished: t.finished,
		Life: t.life, Retried: t.retried, Reason: t.reason, RecordDropped: r == nil}
	if t.outputDigest != "" {
		job.OutputDigest = []byte(t.outputDigest)
	}
	if r == nil {
		job.ID, job.Queue, job.Type, job.Tenant = t.id, t.queue, t.typ, t.tenant
		return job
	}
	job.JobSpec = r.spec.words()
	job.Enqueued, job.FirstLease, job.Error = r.enqueued, r.firstLease, r.err
	job.Attempts, job.Progress, job.ProgressNote, job.Output = r.attempts, r.progress, r.note, r.output
	job.Meta = r.meta
	return job
}
