package rest

import "github.com/rotasched/rota"

// JobSubmission is a batch of jobs to submit.
type JobSubmission struct {
	// Jobs are 1 to 1,000. One without an id needs the header Idempotency-Key.
	Jobs []rota.JobSpec `json:"jobs"`
}

// JobSubmitted is the outcome for one submitted job.
type JobSubmitted struct {
	rota.Submitted
	// Error is why the job was refused; none where it was taken.
	Error *Problem `json:"error,omitempty"`
}

// JobsSubmitted are the outcomes of a batch, each at its job's place.
type JobsSubmitted struct {
	Jobs []JobSubmitted `json:"jobs"`
	// Refused is how many of them were refused.
	Refused int `json:"refused"`
}

// JobOutcome is what came of a change of one job.
type JobOutcome struct {
	ID    rota.JobID    `json:"id"`
	State rota.JobState `json:"state"`
	// Index is that of the entry that decided it.
	Index rota.Index `json:"index"`
}

// JobRetry asks for another life of a job.
type JobRetry struct {
	// Life is the life that ended and is to be followed by another one, so that a repetition
	// of the call is known; without it the life that the job is found in.
	Life *int32 `json:"life,omitempty"`
}

// JobInterruption ends the attempt that a job is in.
type JobInterruption struct {
	// Counted has the attempt count as used up.
	Counted bool `json:"counted,omitempty"`
}

// JobChange changes a job that waits. What is not given stays as it is.
type JobChange struct {
	Priority *int32 `json:"priority,omitempty"`
	Fee      *int64 `json:"fee,omitempty"`
	// Labels are added to the labels of the job; an empty value removes a label.
	Labels map[string]string `json:"labels,omitempty"`
	// TTLMs counts from the submission or the last retry; 0 takes the queue's.
	TTLMs *int64 `json:"ttl_ms,omitempty"`
	// StartByMs counts as TTLMs does; 0 is no bound.
	StartByMs *int64     `json:"start_by_ms,omitempty"`
	Payload   *rota.Blob `json:"payload,omitempty"`
	// Life and Changes are what the change follows, both or none: a job beyond them is STALE.
	Life    *int32 `json:"life,omitempty"`
	Changes *int32 `json:"changes,omitempty"`
}
