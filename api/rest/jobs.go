package rest

import "github.com/rotasched/rota"

// JobSubmission is a batch of jobs to submit.
type JobSubmission struct {
	// Jobs are 1 to 1,000 jobs. A job without an id requires the header Idempotency-Key.
	Jobs []rota.JobSpec `json:"jobs"`
}

// JobSubmitted is the outcome for one submitted job.
type JobSubmitted struct {
	rota.Submitted
	// Error is why the job was refused; none if it was accepted.
	Error *Problem `json:"error,omitempty"`
}

// JobsSubmitted are the outcomes of a batch, each at the position of its job.
type JobsSubmitted struct {
	Jobs []JobSubmitted `json:"jobs"`
	// Refused is the number of refused jobs.
	Refused int `json:"refused"`
}

// JobOutcome is the outcome of a change of one job.
type JobOutcome struct {
	ID    rota.JobID    `json:"id"`
	State rota.JobState `json:"state"`
	// Index is the index of the entry that decided it.
	Index rota.Index `json:"index"`
}

// JobRetry requests another life of a job.
type JobRetry struct {
	// Life is the ended life, by which a repeated call is recognised; the default is the current one.
	Life *int32 `json:"life,omitempty"`
}

// JobInterruption ends the current attempt of a job.
type JobInterruption struct {
	// Counted makes the attempt count as used.
	Counted bool `json:"counted,omitempty"`
}

// JobChange changes a pending job. Fields that are left out stay unchanged.
type JobChange struct {
	Priority *int32 `json:"priority,omitempty"`
	Fee      *int64 `json:"fee,omitempty"`
	// Labels are added to the job's labels; an empty value removes one.
	Labels map[string]string `json:"labels,omitempty"`
	// TTLMs counts from the submission or the last retry; 0 means the queue's value.
	TTLMs *int64 `json:"ttl_ms,omitempty"`
	// StartByMs counts from the same time as TTLMs; 0 means no limit.
	StartByMs *int64     `json:"start_by_ms,omitempty"`
	Payload   *rota.Blob `json:"payload,omitempty"`
	// Life and Changes are the job's last known values, both or none: the change is refused as STALE if there are newer
	// ones.
	Life    *int32 `json:"life,omitempty"`
	Changes *int32 `json:"changes,omitempty"`
}
