package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rotasched/rota"
)

// Handler does one attempt of a job. nil completes it, with the result; an
// error made by Decline returns the lease uncounted, one made by NoRetry
// makes the job DEAD, any other fails the attempt. A panic fails the attempt
// with its stack. The context ends when the lease is lost: its cause then is a
// *LostError; the handler should return soon, what it returns is not reported. A
// max_runtime ends it so too, a second early by the worker's clock: the attempt
// counts as failed with TIMED_OUT, and the handler's error is its text.
type Handler func(ctx context.Context, job *Job) (Result, error)

// Result is what a completed attempt leaves behind.
type Result struct {
	// Output is kept with the job, at most rota.MaxPayloadBytes.
	Output []byte
	// Digest is 32 bytes; the SHA-256 of Output if none is given (SPEC §9.5).
	Digest []byte
	// Meta is shown with the job beside its output: at most rota.MaxLabels pairs, keys of
	// printable ASCII and values of UTF-8, at most rota.MaxLabelBytes each.
	Meta map[string]string
}

// Job is one attempt as its handler sees it.
type Job struct {
	assignment *rota.Assignment // never changed: the worker shares it
	progress   func(j *Job, percent int, note string)
	parents    func(ctx context.Context, job rota.JobID) ([]rota.ParentOutput, error)
	lease      *lease // nil outside of a worker
}

// JobOption changes a Job that NewJob makes.
type JobOption func(*Job)

// WithParents sets the outputs of the job's parents.
func WithParents(outputs ...rota.ParentOutput) JobOption {
	return func(j *Job) {
		j.parents = func(context.Context, rota.JobID) ([]rota.ParentOutput, error) { return outputs, nil }
	}
}

// NewJob makes a Job outside of a worker, for tests of handlers. progress may
// be nil.
func NewJob(a rota.Assignment, progress func(percent int, note string), opts ...JobOption) *Job {
	j := &Job{assignment: &a, progress: func(_ *Job, percent int, note string) {
		if progress != nil {
			progress(percent, note)
		}
	}}
	WithParents()(j)
	for _, o := range opts {
		o(j)
	}
	return j
}

// ID is the job's id.
func (j *Job) ID() rota.JobID { return j.assignment.Spec.ID }

// Type is the type that the job was submitted with.
func (j *Job) Type() rota.JobType { return j.assignment.Spec.Type }

// Payload is what was submitted. It must not be changed.
func (j *Job) Payload() []byte { return j.assignment.Spec.Payload }

// Spec is all that was submitted.
func (j *Job) Spec() rota.JobSpec { return j.assignment.Spec }

// Attempt is the attempt's number, from 0.
func (j *Job) Attempt() int32 { return j.assignment.Lease.Attempt }

// Token fences this attempt: it is greater than that of any lease before it.
// A system that keeps the last one seen can refuse an older (SPEC §8.6).
func (j *Job) Token() rota.Token { return j.assignment.Lease.Token }

// Lease is the id of the lease that the attempt runs under.
func (j *Job) Lease() rota.LeaseID { return j.assignment.Lease.ID }

// Assignment is the lease as it was first received, with the decision that
// chose this worker.
func (j *Job) Assignment() rota.Assignment { return *j.assignment }

// Workflow is the workflow that the job belongs to and its node there; ok is false
// for a job that was submitted by itself.
func (j *Job) Workflow() (workflow rota.WorkflowID, node string, ok bool) {
	return rota.SplitNodeJobID(j.ID())
}

// Parents returns what the parents of the job's node put out, in the order of their
// numbers (SPEC §11.2); none for a job of no workflow. Each call asks the cluster: a
// handler that needs none costs none.
func (j *Job) Parents(ctx context.Context) ([]rota.ParentOutput, error) {
	if _, _, ok := j.Workflow(); !ok {
		return nil, nil
	}
	return j.parents(ctx, j.ID())
}

// Progress reports 0…100 with a note. It never waits: the last report of each
// second is sent (SPEC §8.7).
func (j *Job) Progress(percent int, note string) { j.progress(j, percent, note) }

// Typed makes a handler of a function on decoded values: the payload is JSON
// (an empty one leaves In zero), the output too. A payload that does not decode
// is not retried.
func Typed[In, Out any](h func(ctx context.Context, job *Job, in In) (Out, error)) Handler {
	return func(ctx context.Context, job *Job) (Result, error) {
		var in In
		if len(job.Payload()) > 0 {
			if err := json.Unmarshal(job.Payload(), &in); err != nil {
				return Result{}, NoRetry(fmt.Errorf("decode payload: %w", err))
			}
		}
		out, err := h(ctx, job, in)
		if err != nil {
			return Result{}, err
		}
		output, err := json.Marshal(out)
		if err != nil {
			return Result{}, NoRetry(fmt.Errorf("encode output: %w", err))
		}
		return Result{Output: output}, nil
	}
}

type declineError struct{ error }

func (e declineError) Unwrap() error { return e.error }

type noRetryError struct{ error }

func (e noRetryError) Unwrap() error { return e.error }

// Decline returns the lease: the job is queued again after a moment, uncounted, up to
// 20 times an attempt (SPEC §8.4). It costs the worker nothing, unless the queue has
// decline_cools (SPEC §16.1).
func Decline(err error) error {
	if err == nil {
		err = errors.New("declined")
	}
	return declineError{err}
}

// NoRetry fails the attempt and makes the job DEAD: trying again would not help.
func NoRetry(err error) error {
	if err == nil {
		err = errors.New("failed for good")
	}
	return noRetryError{err}
}

// ErrLeaseLost is what every LostError is.
var ErrLeaseLost = errors.New("lease lost")

// ErrDrainTimeout is why handlers' contexts end when the worker shuts down and
// its time for that is over, or a hard stop was asked for.
var ErrDrainTimeout = errors.New("the worker stops")

// LostError is why a handler's context ended: context.Cause returns it.
type LostError struct {
	Job   rota.JobID
	Lease rota.LeaseID
	// Reason is the cluster's; none where the worker's own view of
	// time ended the handler, but rota.ReasonTimedOut where that was at max_runtime.
	Reason rota.Reason
	// Revoked reports that the lease is not over before the worker confirms
	// (SPEC §8.5), which it does once the handler has returned.
	Revoked bool
	// Text is for people.
	Text string
}

// Error implements error.
func (e *LostError) Error() string {
	s := fmt.Sprintf("lease of job %s lost: %s", e.Job, e.Text)
	if e.Reason != rota.ReasonNone {
		s += " (" + e.Reason.String() + ")"
	}
	return s
}

// Is makes errors.Is(err, ErrLeaseLost) true, and errors.Is(err, context.DeadlineExceeded)
// where max_runtime was over.
func (e *LostError) Is(target error) bool {
	return target == ErrLeaseLost || target == context.DeadlineExceeded && e.Reason == rota.ReasonTimedOut
}
