package rest

import "github.com/rotasched/rota"

// Acquire asks for leases, for a worker that has no stream.
type Acquire struct {
	// Worker is what it registers as; its id is that of the path. Without slots it has 1.
	Worker rota.WorkerSpec `json:"worker"`
	// Max is how many new leases it takes, 1 unless it is given: its free slots at most, and 100.
	Max int32 `json:"max"`
	// WaitMs is how long the call waits for a lease, 5,000 unless it is given, 8,000 at most. With
	// 0 it takes no new lease, and returns what the worker has.
	WaitMs int64 `json:"wait_ms"`
	// Holding are the leases that the worker knows of. Whatever else it has open is returned.
	Holding []string `json:"holding,omitempty"`
	// Takeover takes the id from another process, which takes the right to stop workers.
	Takeover bool `json:"takeover,omitempty"`
}

// Acquired is what a worker has that asked for leases.
type Acquired struct {
	// Status is the worker's: one that is not ACTIVE gets no new leases.
	Status rota.WorkerStatus `json:"status"`
	// Leases are those that are open and were not in holding.
	Leases []GivenLease `json:"leases"`
	// More says that there are more than fit an answer: ask again, holding these.
	More bool `json:"more,omitempty"`
	// Revoked are to be stopped, then declined.
	Revoked []RevokedLease `json:"revoked"`
	// Ended are those in holding that are over: nothing is to be reported of them.
	Ended []string `json:"ended"`
}

// GivenLease is a lease with its job.
type GivenLease struct {
	Lease rota.LeaseID `json:"lease"`
	// Token only grows, from attempt to attempt. The calls on the lease name it, and a system that
	// keeps the last one which it saw can refuse an older.
	Token rota.Token `json:"token"`
	// ValidMs is how long the job may be worked at, counted from when the call was sent. A beat
	// makes it longer.
	ValidMs int64 `json:"valid_ms"`
	// Attempt is its number, from 0.
	Attempt int32 `json:"attempt"`
	// MaxRuntimeMs is the attempt's timeout, counted from the lease's begin; 0 for none.
	MaxRuntimeMs int64        `json:"max_runtime_ms,omitempty"`
	Job          rota.JobSpec `json:"job"`
}

// RevokedLease is a lease that is to be given back.
type RevokedLease struct {
	Lease  rota.LeaseID `json:"lease"`
	Token  rota.Token   `json:"token"`
	Job    rota.JobID   `json:"job"`
	Reason rota.Reason  `json:"reason"`
}

// WorkerBeat says that a worker is alive, and at which leases it works.
type WorkerBeat struct {
	// Holding are the leases to go on with: those of them that are due are renewed.
	Holding []string `json:"holding"`
}

// WorkerBeaten is what a beat brought.
type WorkerBeaten struct {
	Status rota.WorkerStatus `json:"status"`
	// Leases are those in holding that are open, and for how long they may be worked at now.
	Leases []HeldLease `json:"leases"`
	// Revoked are to be stopped, then declined.
	Revoked []RevokedLease `json:"revoked"`
	// Ended are those in holding that are over: stop them. Nothing is to be reported of them.
	Ended []string `json:"ended"`
}

// HeldLease is a lease that a worker goes on with.
type HeldLease struct {
	Lease rota.LeaseID `json:"lease"`
	// ValidMs is how long the job may be worked at, counted from when the call was sent.
	ValidMs  int64 `json:"valid_ms"`
	Renewals int32 `json:"renewals"`
}

// LeaseClaim names a lease's token and job, as acquire returned them.
type LeaseClaim struct {
	Token rota.Token `json:"token"`
	Job   rota.JobID `json:"job"`
}

// LeaseCompletion says that a job is done.
type LeaseCompletion struct {
	LeaseClaim
	Output rota.Blob `json:"output,omitempty"`
	// OutputDigest is the SHA-256 of the output where that is stored elsewhere; without it, that of output.
	OutputDigest rota.Hex `json:"output_digest,omitempty"`
	// Meta is kept with the job, within the bounds of labels.
	Meta map[string]string `json:"meta,omitempty"`
	// Children are nodes that a workflow's node adds to it; Detached lets nothing wait for them.
	Children []rota.NodeSpec `json:"children,omitempty"`
	Detached bool            `json:"detached,omitempty"`
	// Log are the lines that the attempt logged: the first 16 KiB and the last 48 KiB are kept.
	Log string `json:"log,omitempty"`
}

// LeaseFailure says that an attempt failed. Without retry_after_ms, snooze_ms, no_retry or cancel
// it counts, and the job is tried again as its retry policy says.
type LeaseFailure struct {
	LeaseClaim
	Error string `json:"error,omitempty"`
	// RetryAfterMs counts the attempt, and has the next one wait so long.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
	// SnoozeMs has the same attempt made again after so long, uncounted.
	SnoozeMs int64 `json:"snooze_ms,omitempty"`
	// NoRetry makes the job DEAD.
	NoRetry bool `json:"no_retry,omitempty"`
	// Cancel makes the job CANCELLED.
	Cancel bool `json:"cancel,omitempty"`
	// TimedOut says that max_runtime ended the attempt.
	TimedOut bool   `json:"timed_out,omitempty"`
	Log      string `json:"log,omitempty"`
}

// LeaseDecline returns a lease; the attempt does not count.
type LeaseDecline struct {
	LeaseClaim
	Reason string `json:"reason,omitempty"`
	Log    string `json:"log,omitempty"`
}

// LeaseProgress says how far a job is.
type LeaseProgress struct {
	LeaseClaim
	// Progress is 0 to 100.
	Progress int32  `json:"progress"`
	Note     string `json:"note,omitempty"`
	// Final says that it is the attempt's last report, before its outcome: it is kept however soon after the one before.
	Final bool `json:"final,omitempty"`
}

// WorkerLeft answers a worker that leaves.
type WorkerLeft struct {
	Worker rota.WorkerID `json:"worker"`
}
