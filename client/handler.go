package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/joblog"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// Handler does one attempt of a job. nil completes it, with the result; an
// error made by Decline returns the lease uncounted, one made by RetryAfter, Snooze,
// NoRetry or Cancel does as it says, any other fails the attempt. A panic fails the attempt
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
	// Children are nodes that a workflow's node adds to it, nil for none: see rota.Growth. All
	// of them join, or the attempt fails. Whoever repeats the attempt names the same children,
	// or others.
	Children *rota.Growth
}

// Job is one attempt as its handler sees it.
type Job struct {
	assignment *rota.Assignment // never changed: the worker shares it
	progress   func(j *Job, percent int, note string)
	parents    func(ctx context.Context, job rota.JobID) ([]rota.ParentOutput, error)
	lease      *lease // nil outside of a worker
	log        io.Writer
}

// NewJobOption changes a Job that NewJob makes.
type NewJobOption func(*Job)

// WithParents sets the outputs of the job's parents.
func WithParents(outputs ...rota.ParentOutput) NewJobOption {
	return func(j *Job) {
		j.parents = func(context.Context, rota.JobID) ([]rota.ParentOutput, error) { return outputs, nil }
	}
}

// WithLog sets where the job's Log goes.
func WithLog(w io.Writer) NewJobOption { return func(j *Job) { j.log = w } }

// NewJob makes a Job outside of a worker, for tests of handlers. progress may
// be nil.
func NewJob(a rota.Assignment, progress func(percent int, note string), opts ...NewJobOption) *Job {
	j := &Job{assignment: &a, progress: func(_ *Job, percent int, note string) {
		if progress != nil {
			progress(percent, note)
		}
	}}
	WithParents()(j)
	WithLog(io.Discard)(j)
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

// Headers are those that the job was submitted with, trace context for example. They must not be
// changed.
func (j *Job) Headers() map[string]string { return j.assignment.Spec.Headers }

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

// Log is the attempt's log, which is kept with it (SPEC §22.1): `rota job logs` and Logs show it.
// What is written is lines; of one longer than 4 KiB the beginning is kept, of all lines the
// first 16 KiB and the last 48 KiB. It takes writes of many goroutines, and never fails. Log
// returns a log/slog logger of it.
func (j *Job) Log() io.Writer {
	if j.lease == nil {
		return j.log
	}
	if w := j.lease.log.Load(); w != nil {
		return w
	}
	j.lease.log.CompareAndSwap(nil, new(joblog.Writer))
	return j.lease.log.Load()
}

type declineError struct{ error }

func (e declineError) Unwrap() error { return e.error }

// failError says what becomes of the job of a handler that returns it.
type failError struct {
	error
	kind  peer.FailKind
	after time.Duration
}

func (e failError) Unwrap() error { return e.error }

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
func NoRetry(err error) error { return failing(err, "failed for good", peer.FailNoRetry, 0) }

// RetryAfter fails the attempt, which counts, and has the next one wait for d instead of the
// queue's backoff: 1 ms to 30 days, what is less or more is cut. It is for a service that
// answers when to come again.
func RetryAfter(d time.Duration, err error) error {
	return failing(err, "to be tried again later", peer.FailRetryAfter, d)
}

// Snooze puts the attempt off for d, 1 ms to 30 days, what is less or more is cut: the job is
// DELAYED, and the same attempt is made again. It counts for nothing and costs the worker
// nothing, 1,000 times an attempt; the next is a failure. It is for a handler that finds that
// something has to come first. fmt.Errorf with %w says why.
func Snooze(d time.Duration) error { return failing(nil, "put off", peer.FailSnooze, d) }

// Cancel makes the job CANCELLED: there is nothing left to do. It costs the worker nothing.
func Cancel(err error) error { return failing(err, "cancelled by its handler", peer.FailCancel, 0) }

// Failed reports whether an attempt whose handler returns err has failed: not where err is nil, or
// made by Decline, Snooze or Cancel.
func Failed(err error) bool {
	if _, declined := errors.AsType[declineError](err); err == nil || declined {
		return false
	}
	asked, ok := errors.AsType[failError](err)
	return !ok || asked.kind != peer.FailSnooze && asked.kind != peer.FailCancel
}

func failing(err error, text string, kind peer.FailKind, after time.Duration) error {
	if err == nil {
		err = errors.New(text)
	}
	if kind.Waits() {
		after = max(time.Millisecond, min(after, limits.MaxFailWait))
	}
	return failError{err, kind, after}
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
