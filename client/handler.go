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

// Handler runs one attempt of a job. Its error decides the outcome:
//
//   - nil completes the job with the result;
//   - an error made by Decline returns the lease, and the attempt does not count;
//   - an error made by RetryAfter, Snooze, NoRetry or Cancel has the effect that the function documents;
//   - any other error fails the attempt.
//
// A panic fails the attempt with its stack.
//
// The context ends when the lease is lost, with a *LostError as its cause. The handler should then return soon; its
// result is not reported. The context also ends one second before max_runtime by the worker's clock. The attempt then
// fails with TIMED_OUT and the text of the handler's error.
type Handler func(ctx context.Context, job *Job) (Result, error)

// Result is what a completed attempt stores with its job.
type Result struct {
	// Output is kept with the job, at most rota.MaxPayloadBytes.
	Output []byte
	// Digest has 32 bytes; nil means the SHA-256 of Output (SPEC §9.5).
	Digest []byte
	// Meta is shown next to the job's output. It has at most rota.MaxLabels pairs. Keys are printable ASCII and values
	// are UTF-8, at most rota.MaxLabelBytes each.
	Meta map[string]string
	// Children are nodes to add to the workflow that the job belongs to; nil adds none: see rota.Growth. If one cannot
	// be added, none is, and the attempt fails. A repeated attempt may add the same children or others.
	Children *rota.Growth
}

// Job gives a handler access to its attempt of a job.
type Job struct {
	assignment *rota.Assignment // never changed: shared with the worker
	progress   func(j *Job, percent int, note string)
	spent      spending
	parents    func(ctx context.Context, job rota.JobID) ([]rota.ParentOutput, error)
	lease      *lease // nil for a Job of NewJob
	log        io.Writer
}

// NewJobOption configures a Job made by NewJob.
type NewJobOption func(*Job)

// WithParents sets the outputs of the job's parents.
func WithParents(outputs ...rota.ParentOutput) NewJobOption {
	return func(j *Job) {
		j.parents = func(context.Context, rota.JobID) ([]rota.ParentOutput, error) { return outputs, nil }
	}
}

// WithLog sets where the job's Log is written.
func WithLog(w io.Writer) NewJobOption { return func(j *Job) { j.log = w } }

// NewJob returns a Job without a worker, for tests of handlers. progress may be nil.
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

// ID returns the job's id.
func (j *Job) ID() rota.JobID { return j.assignment.Spec.ID }

// Type returns the type that the job was submitted with.
func (j *Job) Type() rota.JobType { return j.assignment.Spec.Type }

// Payload returns the submitted payload. It must not be changed.
func (j *Job) Payload() []byte { return j.assignment.Spec.Payload }

// Headers returns the headers that the job was submitted with, for example trace context. They must not be changed.
func (j *Job) Headers() map[string]string { return j.assignment.Spec.Headers }

// Spec returns the job as it was submitted.
func (j *Job) Spec() rota.JobSpec { return j.assignment.Spec }

// Attempt returns the attempt's number, from 0.
func (j *Job) Attempt() int32 { return j.assignment.Lease.Attempt }

// Token returns the attempt's fencing token. It is greater than the token of any earlier lease. A system that stores
// the last token it received can reject an older one (SPEC §8.6).
func (j *Job) Token() rota.Token { return j.assignment.Lease.Token }

// Lease returns the id of the lease that the attempt runs under.
func (j *Job) Lease() rota.LeaseID { return j.assignment.Lease.ID }

// Assignment returns the lease as it was first received, with the decision that chose this worker.
func (j *Job) Assignment() rota.Assignment { return *j.assignment }

// Workflow returns the workflow that the job belongs to and its node there; ok is false for a job outside of workflows.
func (j *Job) Workflow() (workflow rota.WorkflowID, node string, ok bool) {
	return rota.SplitNodeJobID(j.ID())
}

// Parents returns the outputs of the parents of the job's node, in the order of their numbers (SPEC §11.2). It returns
// none for a job outside of workflows. Each call reads from the cluster.
func (j *Job) Parents(ctx context.Context) ([]rota.ParentOutput, error) {
	if _, _, ok := j.Workflow(); !ok {
		return nil, nil
	}
	return j.parents(ctx, j.ID())
}

// Progress reports 0…100 percent with a note. It never blocks: the last report of each second is sent (SPEC §8.7).
func (j *Job) Progress(percent int, note string) { j.progress(j, percent, note) }

// Spend reports how much of a cost, such as money or tokens of a model, the attempt has used so far: the total, rounded
// to millionths. It replaces the job's estimate (rota.JobSpec.Costs) and is kept with the job. Spend never blocks: the
// last totals of each second are sent, and the final ones with the attempt's outcome. It returns an error, and changes
// nothing, if the total is invalid or less than an earlier one, or if it belongs to a ninth cost.
func (j *Job) Spend(name string, units float64) error {
	err := j.spent.add(name, units)
	if err == nil && j.lease != nil {
		j.lease.table.spend(j.lease)
	}
	return err
}

// Spent returns the totals that the attempt has reported.
func (j *Job) Spent() rota.Costs { return j.spent.totals() }

// Log returns the attempt's log, which is kept with the attempt (SPEC §22.1): `rota job logs` and Logs show it. It
// keeps the first 4 KiB of each line. Of the whole log it keeps the first 16 KiB and the last 48 KiB. It is safe for
// concurrent use and never fails. Pass it to log/slog for a logger.
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

// failError is a handler's error that decides what happens to the job.
type failError struct {
	error
	kind  peer.FailKind
	after time.Duration
	// pause is the key that a snooze pauses.
	pause string
}

func (e failError) Unwrap() error { return e.error }

// Decline returns the lease: the job is queued again after a moment, and the attempt does not count, up to 20 times an
// attempt (SPEC §8.4). It costs the worker nothing, unless the queue has decline_cools (SPEC §16.1).
func Decline(err error) error {
	if err == nil {
		err = errors.New("declined")
	}
	return declineError{err}
}

// NoRetry fails the attempt and makes the job DEAD. Use it if another attempt cannot succeed.
func NoRetry(err error) error { return failing(err, "failed for good", peer.FailNoRetry, 0) }

// RetryAfter fails the attempt, which counts, and delays the next one by d instead of the queue's backoff. d is clamped
// to the range of 1 ms to 30 days. Use it if a service returns when to try again.
func RetryAfter(d time.Duration, err error) error {
	return failing(err, "to be tried again later", peer.FailRetryAfter, d)
}

// Snooze delays the attempt by d: the job is DELAYED, then the same attempt is made again. d is clamped to the range of
// 1 ms to 30 days. A snooze does not count as an attempt and costs the worker nothing, up to 1,000 times an attempt;
// the next one is a failure. Use it when something else must happen first. Wrap the error with fmt.Errorf and %w to
// give a reason.
func Snooze(d time.Duration) error { return failing(nil, "put off", peer.FailSnooze, d) }

// RetryAfterKey is Snooze that also pauses a key of the job for every worker. Use it if a service that all jobs with
// the key use returns when to try again. If the key is paused already, the later end applies. A key without a rule is
// not paused.
func RetryAfterKey(key string, d time.Duration, err error) error {
	asked := failing(err, "put off with its key", peer.FailSnooze, d).(failError)
	asked.pause = key
	return asked
}

// Cancel makes the job CANCELLED. Use it if nothing is left to do. It costs the worker nothing.
func Cancel(err error) error { return failing(err, "cancelled by its handler", peer.FailCancel, 0) }

// Failed reports whether an attempt whose handler returns err has failed. It is false if err is nil, or was made by
// Decline, Snooze or Cancel.
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
	return failError{error: err, kind: kind, after: after}
}

// ErrLeaseLost matches every LostError.
var ErrLeaseLost = errors.New("lease lost")

// ErrDrainTimeout is the cause of handlers' contexts that end because the drain timeout passed or a hard stop was
// requested.
var ErrDrainTimeout = errors.New("the worker stops")

// LostError is why a handler's context ended: context.Cause returns it.
type LostError struct {
	Job   rota.JobID
	Lease rota.LeaseID
	// Reason is the reason that the cluster gave. If the worker's own clock ended the handler, it is empty, or
	// rota.ReasonTimedOut at max_runtime.
	Reason rota.Reason
	// Revoked reports that the lease lasts until the worker confirms its end (SPEC §8.5). The worker confirms once the
	// handler has returned.
	Revoked bool
	// Text explains the reason in words.
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

// Is makes errors.Is(err, ErrLeaseLost) true. After max_runtime, errors.Is(err, context.DeadlineExceeded) is true too.
func (e *LostError) Is(target error) bool {
	return target == ErrLeaseLost || target == context.DeadlineExceeded && e.Reason == rota.ReasonTimedOut
}
