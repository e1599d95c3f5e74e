package peer

import (
	"time"

	"github.com/rotasched/rota"
)

// Beat is a worker's sign of life on its way to the leader (SPEC §3.9).
type Beat struct {
	Worker  rota.WorkerID
	Session rota.Session
	// Broken reports not life but the end of a connection: the number of the connection whose stream ended at the node,
	// 0 for a sign of life (SPEC §16.7).
	Broken uint64
	// Next is how long after this beat the next one comes; 0 is limits.BeatEvery (SPEC §3.9).
	Next time.Duration
}

// Beaten answers one beat.
type Beaten struct {
	// Clock is that after the first entry stamped after the beat reached the leader.
	Clock rota.Clock
	// Every is the time between two beats while the worker holds no lease; with one it beats twice as often. 0 is limits.BeatEvery.
	Every time.Duration
}

// BeatAnswer reports the clock after the first entry stamped after the beats
// reached the leader. Refused lists, by position, sessions no longer live.
type BeatAnswer struct {
	Beaten
	Refused []int32
}

// WorkerLink describes a worker's connection to a node (SPEC §16.7).
type WorkerLink struct {
	// Connection numbers it, larger than those before; 0 if the worker numbers none.
	Connection uint64
	// Grace means that the worker believes in a lease no longer than its grace after a confirmed beat.
	Grace bool
	// Polls means that the worker has no stream and accepts leases only when it offers to (SPEC §13.17).
	Polls bool
	// OldSecret, with a takeover, is that of the process that holds the id; nil for none.
	OldSecret []byte
}

// LeaseCommand is one verb on one lease by its worker. Every one is idempotent
// (SPEC §2.7): ack, complete, fail and decline by lease id, renew by ordinal.
type LeaseCommand struct {
	Verb  rota.LeaseVerb
	Lease rota.LeaseID
	// Job is the lease's job: a command that arrives late for an ended lease is answered by it.
	Job     rota.JobID
	Worker  rota.WorkerID
	Session rota.Session
	// Ordinal of a renewal, from 1; FinalReport of the last report of progress before a verb that ends the lease.
	Ordinal int32
	// Output and OutputDigest (32 bytes, SHA-256 of the output unless the
	// handler gives another) of a completion.
	Output       []byte
	OutputDigest []byte
	// Meta is additional data of a completion, within the bounds of labels.
	Meta map[string]string
	// Children is the encoding of a completion's Growth on a worker's stream.
	Children []byte
	// Growth is added to the workflow by a completion; nil for nothing.
	Growth *rota.Growth
	// Error of a failure, note of a progress report.
	Text string
	// Progress 0…100.
	Progress int32
	// Fail is the effect of a failure on the job (SPEC §20.3).
	Fail FailKind
	// After is how long the job waits after FailRetryAfter and FailSnooze.
	After time.Duration
	// PauseKey is a key of the job that FailSnooze pauses for as long (SPEC §30.3); "" for none.
	PauseKey string
	// Costs are the totals that the attempt has used so far, with a report of progress and with a verb that ends the
	// lease (SPEC §30); nil reports none.
	Costs rota.Costs
	// Log is the handler's log, with a verb that ends the lease: as package joblog encodes it on a worker's stream, and
	// packed from its node on (SPEC §22.2).
	Log []byte
}

// FinalReport is the ordinal of a report of progress that is the last one of its attempt.
const FinalReport = 1

// FailKind is the request of a failure (SPEC §20.3). Its numbers are those of the wire.
type FailKind uint8

const (
	// FailRetry counts the attempt and tries again according to the job's retry policy.
	FailRetry FailKind = iota
	// FailRetryAfter counts the attempt and tries again after a time that the handler sets.
	FailRetryAfter
	// FailSnooze repeats the same attempt after a time that the handler sets, uncounted up to limits.MaxSnoozes times.
	FailSnooze
	// FailNoRetry makes the job DEAD.
	FailNoRetry
	// FailCancel makes the job CANCELLED.
	FailCancel
	// FailTimedOut means that max_runtime ended the attempt (SPEC §20.2).
	FailTimedOut
	// FailLast is the largest valid value in a command.
	FailLast = FailTimedOut
)

// Waits reports whether a failure carries the time that the job waits.
func (k FailKind) Waits() bool { return k == FailRetryAfter || k == FailSnooze }

// LeaseAnswer is the outcome of a LeaseCommand.
type LeaseAnswer struct {
	// Err is nil, or Stale when the lease is not (or no longer) the caller's.
	Err *rota.Error
	// Deadline, on the cluster clock alone, and Renewals after a renewal or an ack.
	Deadline rota.Clock
	Renewals int32
	// JobState after the command.
	JobState rota.JobState
	// Index of the entry that decided it.
	Index rota.Index
}

// Notice is a message of a node to a connected worker. Exactly one field is set.
type Notice struct {
	// Assigned is a new lease, or one given back on reconnecting.
	Assigned *rota.Assignment
	// Ended means that a lease is over for a reason that the worker did not cause.
	Ended *LeaseEnd
	// Revoked asks the worker to stop and confirm by declining (SPEC §8.5).
	Revoked *LeaseEnd
	// Draining means that an operator drains the worker.
	Draining bool
}

// LeaseEnd names a lease that is over, or must end, and why.
type LeaseEnd struct {
	Lease  rota.LeaseID
	Job    rota.JobID
	Reason rota.Reason
}
