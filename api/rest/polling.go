package rest

import "github.com/rotasched/rota"

// Acquire requests leases for a worker that has no stream.
type Acquire struct {
	// Worker is the registration of the worker; its id is that in the path. Slots defaults to 1.
	Worker rota.WorkerSpec `json:"worker"`
	// Max is the maximum number of new leases, 1 by default, at most the free slots and 100.
	Max int32 `json:"max"`
	// WaitMs is how long the call waits for a lease: 5,000 by default, at most 8,000. With 0 it only returns the leases
	// that the worker has.
	WaitMs int64 `json:"wait_ms"`
	// Holding are the leases that the worker has; its other open leases are returned.
	Holding []string `json:"holding,omitempty"`
	// Takeover takes the id over from another process, which requires the right to stop workers.
	Takeover bool `json:"takeover,omitempty"`
}

// Acquired is the answer to a worker that requested leases.
type Acquired struct {
	// Status is the worker's status: a worker that is not ACTIVE gets no new leases.
	Status rota.WorkerStatus `json:"status"`
	// Leases are the open leases that were not in holding.
	Leases []GivenLease `json:"leases"`
	// More reports that there are more leases: call again, with these in holding.
	More bool `json:"more,omitempty"`
	// Revoked are leases to stop, then decline.
	Revoked []RevokedLease `json:"revoked"`
	// Ended are the leases in holding that have ended; report nothing for them.
	Ended []string `json:"ended"`
}

// GivenLease is a lease with its job.
type GivenLease struct {
	Lease rota.LeaseID `json:"lease"`
	// Token is the fencing token, which grows from attempt to attempt. Calls on the lease pass it. A system that stores
	// the last token can reject older ones.
	Token rota.Token `json:"token"`
	// ValidMs is how long the worker may work on the job, from when the call was sent. A beat extends it.
	ValidMs int64 `json:"valid_ms"`
	// Attempt is the number of the attempt, from 0.
	Attempt int32 `json:"attempt"`
	// MaxRuntimeMs is the attempt's timeout from the start of the lease; 0 means none.
	MaxRuntimeMs int64        `json:"max_runtime_ms,omitempty"`
	Job          rota.JobSpec `json:"job"`
}

// RevokedLease is a lease that must be returned.
type RevokedLease struct {
	Lease  rota.LeaseID `json:"lease"`
	Token  rota.Token   `json:"token"`
	Job    rota.JobID   `json:"job"`
	Reason rota.Reason  `json:"reason"`
}

// WorkerBeat is a worker's heartbeat, with the leases on which it works.
type WorkerBeat struct {
	// Holding are the leases to continue: those that are due are renewed.
	Holding []string `json:"holding"`
}

// WorkerBeaten is the answer to a heartbeat.
type WorkerBeaten struct {
	Status rota.WorkerStatus `json:"status"`
	// Leases are the open leases in holding, with the time left to work on them.
	Leases []HeldLease `json:"leases"`
	// Revoked are leases to stop, then decline.
	Revoked []RevokedLease `json:"revoked"`
	// Ended are the leases in holding that have ended: stop their jobs and report nothing.
	Ended []string `json:"ended"`
}

// HeldLease is a lease that a worker continues to hold.
type HeldLease struct {
	Lease rota.LeaseID `json:"lease"`
	// ValidMs is how long the worker may work on the job, from when the call was sent.
	ValidMs  int64 `json:"valid_ms"`
	Renewals int32 `json:"renewals"`
}

// LeaseClaim names a lease's token and job, as acquire returned them.
type LeaseClaim struct {
	Token rota.Token `json:"token"`
	Job   rota.JobID `json:"job"`
}

// LeaseCompletion completes a job.
type LeaseCompletion struct {
	LeaseClaim
	Output rota.Blob `json:"output,omitempty"`
	// OutputDigest is the SHA-256 of an output that is stored elsewhere; the default is that of output.
	OutputDigest rota.Hex `json:"output_digest,omitempty"`
	// Meta is kept with the job, within the bounds of labels.
	Meta map[string]string `json:"meta,omitempty"`
	// Children are nodes that a workflow's node adds to the workflow; Detached means that no node waits for them.
	Children []rota.NodeSpec `json:"children,omitempty"`
	Detached bool            `json:"detached,omitempty"`
	// Log are the lines that the attempt logged: the first 16 KiB and the last 48 KiB are kept.
	Log string `json:"log,omitempty"`
	// Costs are the totals that the attempt has used so far, by name. They only grow.
	Costs rota.Costs `json:"costs,omitempty"`
}

// LeaseFailure reports a failed attempt. Without retry_after_ms, snooze_ms, no_retry or cancel it counts, and the job
// is tried again as its retry policy says.
type LeaseFailure struct {
	LeaseClaim
	Error string `json:"error,omitempty"`
	// RetryAfterMs is how long the next attempt waits; the attempt counts.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
	// SnoozeMs is how long the attempt waits to be made again, uncounted.
	SnoozeMs int64 `json:"snooze_ms,omitempty"`
	// PauseKey, with snooze_ms, is a key of the job to pause for as long, for all workers.
	PauseKey string `json:"pause_key,omitempty"`
	// NoRetry makes the job DEAD.
	NoRetry bool `json:"no_retry,omitempty"`
	// Cancel makes the job CANCELLED.
	Cancel bool `json:"cancel,omitempty"`
	// TimedOut reports that max_runtime ended the attempt.
	TimedOut bool   `json:"timed_out,omitempty"`
	Log      string `json:"log,omitempty"`
	// Costs are the totals that the attempt has used so far, by name. They only grow.
	Costs rota.Costs `json:"costs,omitempty"`
}

// LeaseDecline returns a lease; the attempt does not count.
type LeaseDecline struct {
	LeaseClaim
	Reason string `json:"reason,omitempty"`
	Log    string `json:"log,omitempty"`
	// Costs are the totals that the attempt has used, by name.
	Costs rota.Costs `json:"costs,omitempty"`
}

// LeaseProgress reports the progress of a job.
type LeaseProgress struct {
	LeaseClaim
	// Progress is 0 to 100.
	Progress int32  `json:"progress"`
	Note     string `json:"note,omitempty"`
	// Final reports that this is the last report before the outcome: it is stored even if it follows another closely.
	Final bool `json:"final,omitempty"`
	// Costs are the totals that the attempt has used so far, by name. They only grow.
	Costs rota.Costs `json:"costs,omitempty"`
}

// WorkerLeft is the answer to a worker that leaves.
type WorkerLeft struct {
	Worker rota.WorkerID `json:"worker"`
}
