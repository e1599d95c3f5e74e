package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/rotasched/rota"
)

// Handle is a submitted job, with the type of its output.
type Handle[Out any] struct {
	client    *Client
	codec     Codec
	id        rota.JobID
	typ       rota.JobType
	submitted rota.Submitted
}

// ID returns the id of the job. If the submission was merged into another job, it is the id of the job that holds the
// key (SPEC §18).
func (h *Handle[Out]) ID() rota.JobID { return h.id }

// Type returns the job type of the definition that made the handle.
func (h *Handle[Out]) Type() rota.JobType { return h.typ }

// Submitted returns the outcome of the submission; only its id is set if Of made the handle.
func (h *Handle[Out]) Submitted() rota.Submitted { return h.submitted }

// Job reads the job.
func (h *Handle[Out]) Job(ctx context.Context, opts ...ReadOption) (rota.Job, error) {
	return h.client.Job(ctx, h.id, opts...)
}

// Cancel cancels the job. It returns Conflict if the job has ended.
func (h *Handle[Out]) Cancel(ctx context.Context) error {
	outcomes, err := h.client.Cancel(ctx, h.id)
	if err != nil {
		return err
	}
	return outcomes[0].Err
}

// Wait waits until the job has ended and returns its output. The error is
//
//   - a *JobError if the job ended in a state other than COMPLETED;
//   - of kind Timeout or Unavailable if ctx ended first, as with Client.Wait;
//   - of kind OutOfRange if the output is no longer kept;
//   - of kind Denied if this client may not read it.
func (h *Handle[Out]) Wait(ctx context.Context) (out Out, err error) {
	for job, err := range h.client.Wait(ctx, h.id) {
		if err != nil {
			return out, err
		}
		return h.output(&job)
	}
	return out, rota.Refusef(rota.KindInternal, "id", "waiting for job %s ended without it", h.id)
}

// output decodes the output of a job that has ended.
func (h *Handle[Out]) output(job *rota.Job) (out Out, err error) {
	nothing := sha256.Sum256(nil)
	switch {
	case job.State != rota.JobCompleted:
		return out, &JobError{Job: *job}
	case len(job.Output) > 0:
		if err := h.codec.Unmarshal(job.Output, &out); err != nil {
			return out, rota.Refusef(rota.KindInvalid, "output", "the output of job %s does not decode as %T: %v",
				job.ID, out, err)
		}
		return out, nil
	case job.RecordDropped:
		return out, rota.Refusef(rota.KindOutOfRange, "output",
			"job %s is COMPLETED, but its output was removed: archive_retention "+
				"of its queue sets how long outputs are kept", job.ID)
	case !bytes.Equal(job.OutputDigest, nothing[:]):
		return out, rota.Refusef(rota.KindDenied, "output",
			"job %s is COMPLETED, but reading its output needs the right data",
			job.ID)
	}
	return out, nil // it has no output
}

// JobError reports why an awaited job has no output.
type JobError struct {
	// Job is the job as it ended: see its State, Reason, Error and Attempts.
	Job rota.Job
}

// Error implements error.
func (e *JobError) Error() string {
	text := fmt.Sprintf("job %s is %s", e.Job.ID, e.Job.State)
	if reason := e.Job.Reason.String(); e.Job.Reason != rota.ReasonNone && reason != e.Job.State.String() {
		text += " (" + reason + ")"
	}
	if e.Job.Error != "" {
		text += ": " + e.Job.Error
	}
	return text
}
